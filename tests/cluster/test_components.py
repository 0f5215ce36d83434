"""Components by rounds: those of a union of all edges, whatever the parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memvec.cluster import components
from memvec.errors import InvalidTypeError, InvalidValueError


def in_turn(function, calls):
    return [function(*arguments) for arguments in calls]


def found(tmp_path, n_nodes, files, n_parts, run=in_turn):
    """Write edges to files, and return the label of each node."""
    paths = []
    for number, edges in enumerate(files):
        paths.append(str(tmp_path / f"edges-{number}"))
        np.asarray(edges, dtype=np.int64).reshape(-1, 2).tofile(paths[-1])
    parts = components(n_nodes, paths, str(tmp_path / "work"), n_parts, run)
    assert len(parts) == n_parts
    left = {path.name for path in (tmp_path / "work").iterdir()}
    assert left == {f"labels-{part:05d}.i64" for part in range(n_parts)}
    return np.concatenate([np.fromfile(part, dtype=np.int64) for part in parts]).tolist()


def naive(n_nodes, edges):
    labels = list(range(n_nodes))
    for _ in range(n_nodes):
        for a, b in edges:
            labels[a] = labels[b] = min(labels[a], labels[b])
    return labels


@given(
    n_nodes=st.integers(1, 30),
    data=st.data(),
    n_parts=st.integers(1, 7),
    n_files=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_components_are_those_of_all_edges(tmp_path_factory, n_nodes, data, n_parts, n_files):
    node = st.integers(0, n_nodes - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=40))
    files = [edges[number::n_files] for number in range(n_files)]
    folder = tmp_path_factory.mktemp("edges")
    assert found(folder, n_nodes, files, n_parts) == naive(n_nodes, edges)


@pytest.mark.parametrize("order", ["rising", "shuffled"])
def test_one_long_chain_takes_few_rounds(tmp_path, monkeypatch, order):
    """Blocks of 64 edges are contracted at a time: the rest is left to the rounds."""
    monkeypatch.setattr("memvec.cluster._components._EDGES_AT_ONCE", 64)
    n_nodes, calls = 3000, []
    nodes = np.arange(n_nodes)
    if order == "shuffled":
        nodes = np.random.default_rng(0).permutation(n_nodes)
    chain = np.stack([nodes[:-1], nodes[1:]], axis=1)

    def counting(function, some):
        calls.append(function.__name__)
        return in_turn(function, some)

    assert set(found(tmp_path, n_nodes, [chain], 5, counting)) == {0}
    assert calls.count("_star") <= 24  # seen: 8 and 14


def test_a_call_that_is_made_again_changes_nothing(tmp_path):
    """Ray repeats a call whose worker died after it wrote its files."""

    def twice(function, calls):
        in_turn(function, calls)
        return in_turn(function, calls)

    rng = np.random.default_rng(1)
    edges = rng.integers(0, 200, (150, 2))
    expected = naive(200, edges.tolist())
    assert found(tmp_path, 200, [edges[:70], edges[70:]], 4, twice) == expected


def test_failed_call_leaves_no_file_that_others_read(tmp_path, monkeypatch):
    def fail(own, other):
        raise OSError("no room")

    monkeypatch.setattr("memvec.cluster._components._distinct", fail)
    with pytest.raises(OSError, match="no room"):
        found(tmp_path, 10, [[[1, 2]]], 2)
    assert not list((tmp_path / "work").glob("*.i64"))


def test_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "labels-00000.i64").write_bytes(b"of a call before")
    assert found(tmp_path, 2, [[[0, 1]]], 1) == [0, 0]
    (tmp_path / "work" / "thesis.tex").write_text("mine")
    with pytest.raises(InvalidValueError, match=r"'folder' .*which holds 'thesis\.tex'"):
        found(tmp_path, 2, [[[0, 1]]], 1)
    assert (tmp_path / "work" / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize(
    ("numbers", "error"), [((-1, 1), InvalidValueError), ((3, 0), InvalidValueError)]
)
def test_numbers_that_cannot_be_are_refused(tmp_path, numbers, error):
    with pytest.raises(error, match="parameter of memvec.cluster.components must be an integer >="):
        components(numbers[0], [], str(tmp_path / "work"), numbers[1], in_turn)
    with pytest.raises(InvalidTypeError, match="Got '3' instead"):
        components("3", [], str(tmp_path / "work"), 1, in_turn)
    assert not (tmp_path / "work").exists()
