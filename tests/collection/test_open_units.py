"""The stream in units: fewer comparisons, the law's misses, and nothing that was deleted."""

import numpy as np
import pytest

import memvec
from memvec.errors import InvalidValueError
from memvec.evaluation import Ranges, count_misses, exact_range
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
    misses = count_misses(truth, Ranges(hits.offsets, hits.ids.astype(np.int64), hits.scores))
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
    units = collection._open_units
    stored = {item.id: item.vector for item in collection.items()}
    members = {}
    for key, unit in units._unit_of.items():
        members.setdefault(unit, []).append(stored[key])
    assert sum(map(len, members.values())) == 1040
    assert max(map(len, members.values())) <= 10
    for unit, rows in members.items():
        assert np.allclose(units._vectors[unit], pinv_memory_vector(np.array(rows)), atol=1e-5)


def test_sealed_vectors_leave_the_units(stream):
    collection, vectors, queries = stream
    collection.range_search(queries[:1])
    collection.seal()
    collection.add(vectors[:5], ids=list("abcde"))
    hits = collection.range_search(vectors[:1], 0.9, guarantee="model")
    assert hits.ids.tolist() == [0, "a"]
    assert len(collection._open_units._unit_of) == 5


def test_open_units_take_no_part_where_nothing_waits(path):
    with memvec.open(path, dim=DIM, online="units") as collection:
        assert collection.count(np.ones((2, DIM))).tolist() == [0, 0]
        assert len(collection._open_units) == 0


def test_wrong_way_is_refused(path):
    with pytest.raises(InvalidValueError, match="'online' parameter of memvec.open must be one of"):
        memvec.open(path, dim=2, online="batch")
    assert not path.exists()
