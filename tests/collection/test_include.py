"""Hits carry metadata and vectors of their items where they are asked to."""

import pickle

import numpy as np
import pytest

from memvec.collection import _reading
from memvec.errors import InvalidTypeError, InvalidValueError

BOTH = ("metadata", "vectors")


@pytest.fixture
def filled(collection, vectors):
    """Items in two segments and waiting, some deleted, some equal; ids fall as rows rise."""
    rows = vectors.copy()
    rows[250:260] = rows[:10]
    names = [f"v{900 - row}" if row % 2 else 900 - row for row in range(300)]
    for start in range(0, 300, 100):
        some = slice(start, start + 100)
        metadata = [{"row": row} for row in range(300)][some]
        collection.add(rows[some], ids=names[some], metadata=metadata)
        if start < 200:
            collection.seal(progress=False)
    collection.delete([names[3], names[120], names[270]])
    return collection


def check_items(collection, ids, metadata, vectors):
    items = collection.get(list(dict.fromkeys(ids)))
    known = {item.id: item for item in items}
    assert metadata == [known[name].metadata for name in ids]
    np.testing.assert_array_equal(vectors, [known[name].vector for name in ids])


@pytest.mark.parametrize("similarity", [0.3, 0.9])
def test_ranges_carry_what_get_returns(filled, vectors, similarity):
    queries = np.concatenate([vectors[:20], vectors[:5]])
    hits, plain = (filled.range_search(queries, similarity, include=some) for some in (BOTH, ()))
    assert hits.ids.tolist() == plain.ids.tolist()
    assert len(set(hits.ids)) < len(hits.ids)
    assert (plain.metadata, plain.vectors) == (None, None)
    check_items(filled, hits.ids.tolist(), hits.metadata, hits.vectors)


def test_nearest_carry_what_get_returns(filled, vectors):
    best = filled.search(vectors[:20], 7, include=BOTH)
    plain = filled.search(vectors[:20], 7)
    assert best.ids.tolist() == plain.ids.tolist()
    assert (plain.metadata, plain.vectors) == (None, None)
    for ids, metadata, rows in zip(best.ids.tolist(), best.metadata, best.vectors, strict=True):
        check_items(filled, ids, metadata, rows)


def test_rows_without_an_item_carry_nothing(collection, vectors):
    collection.add(vectors[:2], metadata=[{"row": 0}, {"row": 1}])
    best = collection.search(vectors[:1], 4, include=BOTH)
    assert best.metadata == [[{"row": 0}, {"row": 1}, None, None]]
    assert best.vectors.shape == (1, 4, 8)
    assert np.isnan(best.vectors).any(axis=2).tolist() == [[False, False, True, True]]
    together = collection.search_set(vectors[:2], 2, include="metadata")
    assert sorted(one["row"] for one in together.metadata[0]) == [0, 1]
    nothing = collection.range_search(-vectors[:1], 0.99, include=BOTH)
    assert (nothing.metadata, nothing.vectors.shape) == ([], (0, 8))


def test_one_of_both_may_be_asked_for(filled, vectors):
    for include in ("metadata", ["metadata"], {"metadata"}, iter(["metadata"])):
        hits = filled.range_search(vectors[0], 0.9, include=include)
        assert (hits.metadata[:2], hits.vectors) == ([{"row": 250}, {"row": 0}], None)
    hits = filled.range_search(vectors[0], 0.9, include=["vectors"])
    assert (hits.metadata, hits.vectors.shape) == (None, (len(hits.ids), 8))


def test_pickles_hold_what_hits_carry(filled, vectors):
    for hits in (
        filled.range_search(vectors[:3], 0.8, include=BOTH),
        filled.search(vectors[:3], 4, include=BOTH),
    ):
        again = pickle.loads(pickle.dumps(hits))
        assert again.metadata == hits.metadata
        np.testing.assert_array_equal(again.vectors, hits.vectors)


def test_items_compacted_away_meanwhile_are_not_carried(filled, vectors, monkeypatch):
    read, calls = _reading.records_of, []

    def late(catalog, keys):
        if not calls:
            calls.append(1)
            filled.delete(filled.range_search(vectors[0], 0.9).ids.tolist())
            filled.compact(progress=False)
        return read(catalog, keys)

    monkeypatch.setattr(_reading, "records_of", late)
    hits = filled.range_search(vectors[:3], 0.9, include=BOTH)
    assert hits[0].ids.tolist() == []
    check_items(filled, hits.ids.tolist(), hits.metadata, hits.vectors)


def test_wrong_names_are_refused(filled, vectors):
    text = "'include' parameter of Collection.range_search must be one of 'metadata', 'vectors'"
    for wrong in ("documents", ["metadata", "ids"]):
        with pytest.raises(InvalidValueError, match=text):
            filled.range_search(vectors[0], include=wrong)
    with pytest.raises(InvalidTypeError, match=r"'include' .* Collection.search .*Got 5 instead"):
        filled.search(vectors[0], 3, include=5)
