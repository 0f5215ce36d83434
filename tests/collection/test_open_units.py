"""The stream in units: fewer comparisons, the law's misses, and nothing that was deleted."""

import numpy as np
import pytest

import memvec
from memvec.errors import InvalidValueError
from memvec.evaluation import count_misses, exact_range
from memvec.matches import Matches
from naive import pinv_memory_vector, unit_rows

DIM = 128
SIMILARITY, MISS_RATE = 0.7, 0.05


def planted(rng, vectors, n_queries):
    """Return queries at a cosine of 0.7 of stored vectors."""
    chosen = unit_rows(vectors)[:n_queries].astype(np.float64)
    noise = rng.standard_normal(chosen.shape)
    noise -= (noise * chosen).sum(axis=1, keepdims=True) * chosen
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return SIMILARITY * chosen + np.sqrt(1 - SIMILARITY**2) * noise


@pytest.fixture
def stream(path):
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((1500, DIM)).astype(np.float32)
    with memvec.open(path, dim=DIM, similarity=0.68, seal_at=0, online="units") as collection:
        for start in range(0, 1500, 250):
            collection.add(vectors[start : start + 250])
        yield collection, vectors, planted(rng, vectors, 600)


def test_units_miss_what_the_law_says_and_compare_less(stream):
    collection, vectors, queries = stream
    hits = collection.range_search(queries, 0.699, miss_rate=MISS_RATE)
    assert (hits.certificate.level, hits.certificate.miss_rate) == ("model", MISS_RATE)
    truth = exact_range(vectors, queries, 0.699)
    misses = count_misses(truth, Matches.from_rows([row.ids.astype(np.int64) for row in hits]))
    assert misses.n_pairs >= 600
    assert abs(misses.miss_rate - MISS_RATE) <= 3 * np.sqrt(MISS_RATE * (1 - MISS_RATE) / 600)
    assert 0.1 < hits.work.cost_ratio < 0.9


def test_exact_search_does_not_use_the_units(stream):
    collection, vectors, queries = stream
    hits = collection.range_search(queries[:50], 0.699, guarantee="exact")
    assert hits.certificate.level == "exact"
    assert hits.ids.tolist() == exact_range(vectors, queries[:50], 0.699).ids.tolist()


def test_unit_vectors_follow_adds_and_deletes(stream):
    collection, vectors, queries = stream
    collection.range_search(queries[:1])
    collection.delete(range(0, 1500, 3))
    more = np.random.default_rng(9).standard_normal((40, DIM)).astype(np.float32)
    collection.add(more)
    hits = collection.range_search(unit_rows(vectors)[:60], 0.99, miss_rate=0.001)
    assert set(hits.ids) == {i for i in range(60) if i % 3}
    units = collection._searches._open_units
    stored = {item.id: item.vector for item in collection.items()}
    members = {}
    for key, unit in units._unit_of.items():
        members.setdefault(unit, []).append(stored[key])
    assert sum(map(len, members.values())) == 1040
    assert max(map(len, members.values())) <= 10
    for unit, rows in members.items():
        assert np.allclose(units._vectors[unit], pinv_memory_vector(np.array(rows)), atol=1e-5)


def test_explanation_shows_the_open_unit(stream):
    collection, _, queries = stream
    hits = collection.range_search(queries[:200], 0.699, miss_rate=MISS_RATE)
    missed = 0
    for query, row in enumerate(hits):
        told = collection.explain(queries[query], query, 0.699, miss_rate=MISS_RATE)
        assert told.returned == (query in row.ids)
        [stage] = told.stages
        assert stage.name == "unit"
        missed += not stage.passed
        if query < 20:
            # The members of a unit score 1 on its memory vector (pinv): so a = 1.
            unit = collection._searches._open_units._unit_of[query]
            score = collection._searches._open_units._vectors[unit] @ unit_rows(queries)[query]
            assert stage.score == pytest.approx(score, abs=1e-4)
            assert stage.threshold == pytest.approx(0.699 - 1.645 * stage.spread, abs=1e-3)
    assert missed == 200 - sum(query in row.ids for query, row in enumerate(hits))
    assert missed > 0
    assert collection.explain(queries[0], 0, 0.699, guarantee="exact").stages == ()


def test_unit_whose_members_cancel_out_is_explained(path):
    with memvec.open(path, dim=2, seal_at=0, online="units") as collection:
        collection.add(np.tile([[1.0, 0.0], [-1.0, 0.0]], (80, 1)))
        told = [collection.explain([1.0, 0.0], name) for name in range(160)]
        assert all(
            np.isfinite([one.stages[0].score, one.stages[0].threshold]).all() for one in told
        )
        found = set(collection.range_search([1.0, 0.0]).ids)
        assert {one.id for one in told if one.returned} == found


@pytest.mark.parametrize("level", ["expected", "high_probability"])
def test_level_that_units_cannot_keep_is_refused(stream, level):
    collection, _, queries = stream
    text = "'guarantee' parameter of Collection.{} must be 'model' or 'exact' .*Got '{}'"
    for name in ("range_search", "iter_range", "count", "contains", "measure"):
        with pytest.raises(InvalidValueError, match=text.format(name, level)):
            getattr(collection, name)(queries[:1], guarantee=level)
    with pytest.raises(InvalidValueError, match=text.format("explain", level)):
        collection.explain(queries[0], 0, guarantee=level)
    # These do not use the units.
    assert collection.search(queries[0], 3, guarantee=level).certificate.level == "exact"
    assert collection.deduplicate(0.9, guarantee=level).certificate.level == "exact"
    assert collection.range_search(queries[:1], guarantee="model").certificate.level == "model"


def test_units_miss_nothing_where_that_is_promised(path, vectors):
    """A few sealed vectors are all visited, and then nothing that waits may be missed either."""
    with memvec.open(path, dim=vectors.shape[1], seal_at=0, online="units") as collection:
        collection.add(vectors[:20])
        collection.seal()
        collection.add(vectors[20:])
        hits = collection.range_search(vectors, 0.7)
        assert hits.certificate.complete
        assert hits.ids.tolist() == exact_range(vectors, vectors, 0.7).ids.tolist()


def test_sealed_vectors_leave_the_units(stream):
    collection, vectors, queries = stream
    collection.range_search(queries[:1])
    collection.seal()
    collection.add(vectors[:5], ids=list("abcde"))
    hits = collection.range_search(vectors[:1], 0.9, guarantee="model")
    assert hits.ids.tolist() == [0, "a"]
    assert len(collection._searches._open_units._unit_of) == 5


def test_open_units_take_no_part_where_nothing_waits(path):
    with memvec.open(path, dim=DIM, online="units") as collection:
        assert collection.count(np.ones((2, DIM))).tolist() == [0, 0]
        assert len(collection._searches._open_units) == 0


def test_wrong_way_is_refused(path):
    with pytest.raises(InvalidValueError, match="'online' parameter of memvec.open must be one of"):
        memvec.open(path, dim=2, online="batch")
    assert not path.exists()


def test_no_queries_have_no_answers(stream):
    collection, vectors, _ = stream
    hits = collection.range_search(vectors[:0])
    assert (len(hits), hits.ids.tolist()) == (0, [])
    assert collection.count(vectors[:0]).tolist() == []
