"""Results in the form of other tools, and what their pickles hold."""

import pickle
import sys
from types import ModuleType

import numpy as np
import pytest

import memvec
from memvec import Index
from memvec.errors import InvalidTypeError, MissingExtraError

ROWS = np.random.default_rng(8).standard_normal((300, 6)).astype(np.float32)
QUERIES = ROWS[:5] + 0.1
KINDS = {"pandas": "to_pandas", "polars": "to_polars", "pyarrow": "to_arrow"}


@pytest.fixture(scope="module")
def index():
    return Index.build(ROWS, progress=False)


@pytest.fixture(scope="module", params=["integers", "text", "both"])
def collection(request, tmp_path_factory):
    names = {
        "integers": list(range(300)),
        "text": [f"v{row}" for row in range(300)],
        "both": [row if row % 2 else f"v{row}" for row in range(300)],
    }
    folder = tmp_path_factory.mktemp("hits") / "rows.mv"
    with memvec.open(folder, dim=6, seal_at=0) as made:
        made.add(ROWS, ids=names[request.param])
        yield made


def answers(owner):
    return [owner.range_search(QUERIES, 0.8), owner.search(QUERIES, 3)]


def rows_of(hits):
    """Return query, id and score of each match, one by one."""
    if isinstance(hits, memvec.TopHits):
        pairs = [zip(*row, strict=True) for row in zip(hits.ids, hits.scores, strict=True)]
    else:
        pairs = [zip(*row, strict=True) for row in hits]
    return [(query, name, score) for query, row in enumerate(pairs) for name, score in row]


@pytest.fixture(params=["pandas", "polars"])
def stand_in(request, monkeypatch):
    """A package whose frames are what they are made of."""
    module = ModuleType(request.param)
    module.DataFrame = dict
    monkeypatch.setitem(sys.modules, request.param, module)
    return KINDS[request.param]


def test_frames_of_an_index_have_the_matches_in_order(index, stand_in):
    for hits in answers(index):
        frame = getattr(hits, stand_in)()
        assert list(frame) == ["query", "id", "score"]
        assert list(zip(*(frame[name].tolist() for name in frame), strict=True)) == rows_of(hits)


def test_frames_of_a_collection_have_its_ids(collection, stand_in):
    for hits in answers(collection):
        ids = list(getattr(hits, stand_in)()["id"])
        wanted = [name for _, name, _ in rows_of(hits)]
        mixed = len({type(name) for name in wanted}) > 1
        assert ids == (
            [str(name) for name in wanted] if mixed and stand_in == "to_polars" else wanted
        )


def test_real_frames_hold_the_matches(index):
    for package in ("pandas", "polars"):
        pytest.importorskip(package)
        for hits in answers(index):
            frame = getattr(hits, KINDS[package])()
            assert frame["id"].to_list() == [name for _, name, _ in rows_of(hits)]


def test_tables_of_arrow_have_types(index, collection):
    pyarrow = pytest.importorskip("pyarrow")
    text = any(isinstance(name, str) for name in collection)
    for owner, kind in ((index, "int64"), (collection, "string" if text else "int64")):
        for hits in answers(owner):
            table = hits.to_arrow()
            assert isinstance(table, pyarrow.Table)
            assert [str(one) for one in table.schema.types] == ["int64", kind, "float"]
            wanted = [name for _, name, _ in rows_of(hits)]
            assert table["id"].to_pylist() == (
                [str(name) for name in wanted] if text and owner is collection else wanted
            )
            assert table["query"].to_pylist() == [query for query, _, _ in rows_of(hits)]


def test_rows_without_an_item_are_in_no_frame(tmp_path, stand_in):
    with memvec.open(tmp_path / "two.mv", dim=6) as two:
        two.add(ROWS[:2])
        best = two.search(QUERIES, 5)
        nothing = two.range_search(QUERIES[2:], 1.0)
    assert len(getattr(best, stand_in)()["id"]) == 10
    assert [len(column) for column in getattr(nothing, stand_in)().values()] == [0, 0, 0]
    assert best.as_faiss()[1].tolist() == [[*row[:2], -1, -1, -1] for row in best.ids.tolist()]
    assert [array.shape for array in nothing.as_faiss()] == [(4,), (0,), (0,)]


@pytest.mark.parametrize(
    ("package", "extra"), [*zip(KINDS, ("pandas", "polars", "files"), strict=True)]
)
def test_missing_packages_have_their_pip_line(index, monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    for hits in answers(index):
        wanted = rf"\(\) needs the package '{package}'.*pip install 'memvec\[{extra}\]'"
        with pytest.raises(MissingExtraError, match=KINDS[package] + wanted):
            getattr(hits, KINDS[package])()


def test_arrays_of_faiss_have_its_types(index):
    hits, best = answers(index)
    lims, scores, ids = hits.as_faiss()
    assert (lims.dtype, scores.dtype, ids.dtype) == (np.uint64, np.float32, np.int64)
    for query, row in enumerate(hits):
        assert ids[lims[query] : lims[query + 1]].tolist() == row.ids.tolist()
    scores, ids = best.as_faiss()
    assert (scores.dtype, ids.dtype, ids.shape) == (np.float32, np.int64, (5, 3))
    np.testing.assert_array_equal(ids, best.ids)


def test_arrays_of_faiss_have_no_text(collection):
    for hits in answers(collection):
        if all(isinstance(name, int) for name in hits.ids.flat):
            assert hits.as_faiss()[-1].tolist() == hits.ids.tolist()
        else:
            with pytest.raises(InvalidTypeError, match=r"as_faiss\(\) returns integer ids.*Got 'v"):
                hits.as_faiss()


def test_pickles_are_small_and_keep_p_values(index, collection):
    for owner in (index, collection):
        hits, best = answers(owner)
        law = hits.null_law
        for answer in (hits, best):
            assert len(pickle.dumps(answer)) < 6000 + 60 * answer.ids.size
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(hits))))
        for name in ("offsets", "ids", "scores", "spent", "p_values", "e_values"):
            np.testing.assert_array_equal(getattr(again, name), getattr(hits, name))
        assert (again.certificate, again.work, repr(again)) == (
            hits.certificate,
            hits.work,
            repr(hits),
        )
        assert hits.null_law is law
        with pytest.raises(AttributeError, match="have p_values, but no null law"):
            again.null_law  # noqa: B018
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            again.searched.other  # noqa: B018
