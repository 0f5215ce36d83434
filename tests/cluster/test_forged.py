"""Folders that were changed behind the back: a clear error, never a silently smaller answer."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import memvec
from cluster.conftest import N_SHARDS, open_local
from memvec import cluster
from memvec.cli import main
from memvec.cluster import _root
from memvec.cluster._files import _check_labels
from memvec.errors import CorruptIndexError, ShardError, UnknownVersionError

TWO = {"shards": 2, "dim": 3, "local": True}


@pytest.fixture
def small(tmp_path):
    """Two shards of a few items."""
    with cluster.open(tmp_path / "root", **TWO) as collection:
        collection.add(np.eye(3), ["a", "b", "c"])
    return tmp_path / "root"


def foreign_id(shard, n_shards=2):
    return next(name for name in map(str, range(99)) if cluster.shard_of(name, n_shards) != shard)


def forge(folder, /, **changes):
    """Change the description of a root, with the checksum that belongs to it."""
    path = folder / "cluster.json"
    content = json.loads(path.read_bytes())
    del content["crc32"]
    content |= changes
    content = {name: value for name, value in content.items() if value is not None}
    path.write_text(json.dumps({**content, "crc32": _root._sum(content)}))


@pytest.mark.parametrize("partial", [False, True])
def test_id_of_another_shard_is_an_error_that_names_it(small, partial):
    name = foreign_id(1)
    with memvec.open(small / "shard-0001") as alone:
        alone.add([[1.0, 0.0, 0.0]], [name])
    with cluster.open(small, local=True, partial=partial) as collection:
        text = f"Shard 1, in .*shard-0001, .*it holds the id '{name}', which belongs to shard 0"
        assert not collection.check().ok
        assert f"it holds the id '{name}'" in str(collection.check())
        with pytest.raises(ShardError, match=text):
            list(collection.items())
        with pytest.raises(ShardError, match=text):
            list(collection)
        if partial:
            hits = collection.range_search([1.0, 0.0, 0.0], 0.9)
            assert hits.certificate.missing_shards == (1,)
            return
        with pytest.raises(ShardError, match=text):
            collection.range_search([1.0, 0.0, 0.0], 0.9)
        with pytest.raises(ShardError, match=text):
            list(collection.self_join(0.9))


def test_same_id_in_two_shards_is_an_error(small):
    with memvec.open(small / f"shard-{1 - cluster.shard_of('a', 2):04d}") as alone:
        alone.add([[1.0, 0.0, 0.0]], ["a"])
    with cluster.open(small, local=True) as collection, pytest.raises(ShardError, match="id 'a'"):
        collection.search([1.0, 0.0, 0.0], 3)


def test_shard_of_another_root_is_refused(small, tmp_path):
    with cluster.open(tmp_path / "other", **TWO) as collection:
        collection.add(np.eye(3), ["a", "b", "c"])
    shutil.rmtree(small / "shard-0001")
    shutil.copytree(tmp_path / "other" / "shard-0001", small / "shard-0001")
    with pytest.raises(ShardError, match="it is shard 1 of another collection, where 1 belongs"):
        cluster.open(small, local=True)
    with cluster.open(small, local=True, partial=True) as collection:
        assert collection.range_search(np.eye(3), 0.9).certificate.missing_shards == (1,)


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"root": "x", "shard": 1}'])
def test_shard_that_does_not_say_whose_it_is_is_refused(small, content):
    path = small / "shard-0001" / "shard.json"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ShardError, match="Shard 1, .*(does not tell a shard|another collection)"):
        cluster.open(small, local=True)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"shards": 1}, CorruptIndexError, "it names 1 shards, and there is .*shard-0001"),
        ({"shards": 3}, ShardError, "Shard 2, .*its folder is missing"),
        ({"shards": 0}, CorruptIndexError, "it names 0 shards"),
        ({"shards": -1}, CorruptIndexError, "it names -1 shards"),
        ({"shards": True}, CorruptIndexError, "it names True shards"),
        ({"shards": "2"}, CorruptIndexError, "it names '2' shards"),
        ({"shards": 10**9}, CorruptIndexError, "it names 1000000000 shards"),
        ({"shards": None}, CorruptIndexError, "it names None shards"),
        ({"root": None}, CorruptIndexError, "it is called None"),
        ({"root": "another"}, ShardError, "Shard 0, .*of another collection"),
        ({"settings": None}, CorruptIndexError, "its settings cannot be read"),
        ({"settings": "{"}, CorruptIndexError, "its settings cannot be read"),
        ({"settings": [1]}, CorruptIndexError, "its settings cannot be read"),
        ({"format": None}, UnknownVersionError, "format None"),
        ({"placement": "crc32/1"}, UnknownVersionError, "placement 'crc32/1'"),
    ],
)
def test_forged_description_is_refused(small, changes, error, text):
    forge(small, **changes)
    with pytest.raises(error, match=text):
        cluster.open(small, local=True)


def test_root_of_an_earlier_format_is_refused_and_its_items_are_left(small):
    """It does not say which shards are its own; each of them is read by itself."""
    forge(small, format=1, root=None)
    for path in small.glob("shard-*/shard.json"):
        path.unlink()
    before = {path: path.read_bytes() for path in small.rglob("*.json")}
    for options in ({"local": True}, TWO):
        with pytest.raises(UnknownVersionError, match="format 1.*add their items to a new one"):
            cluster.open(small, **options)
    assert {path: path.read_bytes() for path in small.rglob("*.json")} == before
    found = []
    for folder in sorted(small.glob("shard-*")):
        with memvec.open(folder, read_only=True) as alone:
            found += [item.id for item in alone.items()]
    assert sorted(found) == ["a", "b", "c"]


def test_forged_settings_are_not_those_of_the_shards(small):
    content = json.loads((small / "cluster.json").read_bytes())["settings"]
    changed = json.loads(content) if isinstance(content, str) else dict(content)
    changed["dim"] = 4
    forge(small, settings=json.dumps(changed) if isinstance(content, str) else changed)
    with pytest.raises(ShardError, match="other settings than the other shards"):
        cluster.open(small, local=True)


def test_shards_whose_description_is_gone_are_not_taken_for_new_ones(small):
    (small / "cluster.json").unlink()
    with pytest.raises(
        CorruptIndexError, match="item.* of a collection whose cluster.json is gone"
    ):
        cluster.open(small, **TWO)
    with pytest.raises(CorruptIndexError, match="holds 'shard-0001'"):
        cluster.open(small, **TWO | {"shards": 1})


def test_shard_of_a_filled_root_is_not_exchanged(root, template, tmp_path):
    """Both have segments and the same settings; the shards of a copy are those of the root."""
    shutil.rmtree(root / "shard-0001")
    shutil.copytree(template / "shard-0001", root / "shard-0001")
    with open_local(root) as collection:
        assert collection.n_shards == N_SHARDS
    (root / "shard-0002").rename(tmp_path / "aside")
    shutil.copytree(template / "shard-0001", root / "shard-0002")
    with pytest.raises(ShardError, match="it is shard 1 of this collection, where 2 belongs"):
        open_local(root)


def tampered(tmp_path, change):
    """Connect a chain, and change the folder of the rounds before the third step."""
    nodes = np.arange(400)
    np.stack([nodes[:-1], nodes[1:]], axis=1).tofile(tmp_path / "edges")
    steps = []

    def run(function, calls):
        steps.append(function.__name__)
        if len(steps) == 3:
            change(sorted((tmp_path / "work").glob("edges-001-*.i64")))
        return [function(*one) for one in calls]

    return cluster.components(400, [str(tmp_path / "edges")], str(tmp_path / "work"), 3, run)


def shortened(paths):
    paths[0].write_bytes(paths[0].read_bytes()[:-16])


def cut(paths):
    paths[0].write_bytes(paths[0].read_bytes()[:-3])


def lost(paths):
    paths[0].unlink()


def planted(paths):
    name = paths[0].name[:-10] + "000099.i64"
    paths[0].with_name(name).write_bytes(np.array([[1, 0]]).tobytes())


def changed(paths):
    edges = np.fromfile(paths[0], dtype=np.int64)
    edges[1] = edges[1] - 1 if edges[1] else 1
    edges.tofile(paths[0])


def outside(paths):
    np.array([[1, 400]]).tofile(paths[0])


def elsewhere(paths):
    np.array([[399, 0]]).tofile(paths[0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (shortened, "edges of part 0 were read"),
        (cut, "ends within an edge"),
        (lost, "edges of part 0 were read"),
        (planted, "edges of part 0 were read"),
        (changed, "edges of part 0 were read"),
        (outside, "it names node 400; nodes are 0 to 399"),
        (elsewhere, "nodes that are not among 0 to 133"),
    ],
)
def test_forged_rounds_are_refused(tmp_path, change, text):
    with pytest.raises(CorruptIndexError, match=text):
        tampered(tmp_path, change)


def test_rounds_left_alone_end(tmp_path):
    found = tampered(tmp_path, lambda paths: None)
    assert not any(np.fromfile(one, dtype=np.int64).any() for one in found)


@pytest.mark.parametrize("labels", [[0, 1, 3], [0, -1], [0, 1, 2, 3, 4]])
def test_labels_that_cannot_be_are_refused(labels):
    with pytest.raises(CorruptIndexError, match="not those of its rows"):
        _check_labels(np.array(labels), 0, 4, "labels")


def test_check_command_reads_all_shards(small):
    done = CliRunner().invoke(main, ["check", str(small)])
    assert (done.exit_code, "Problems: 0." in done.output) == (0, True)
    shutil.rmtree(small / "shard-0001")
    done = CliRunner().invoke(main, ["check", str(small), "--json"])
    assert done.exit_code == 3
    assert "Shard 1" in json.loads(done.stdout)["problems"][0]
