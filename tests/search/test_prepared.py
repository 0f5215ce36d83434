"""A question that was asked before is answered as at first, by a shorter path."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.search import PreparedRanges, _prepared

CONFIGS = {
    "plain": IndexConfig(center=False, units_per_vector=1),
    "centred": IndexConfig(center=True),
    "two homes": IndexConfig(assignment="kmeans", units_per_vector=2, center=False),
    "groups": IndexConfig(assignment="kmeans", levels=2, unit_size=8, group_size=8),
    "fine": IndexConfig(member_bits=4),
    "balanced": IndexConfig(codes="balanced", center=False),
}


def clouds(seed, count, dim=32):
    centres = np.random.default_rng(0).standard_normal((150, dim))
    rows = around(centres, 0.4, seed, count).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


VECTORS, QUERIES = clouds(1, 2400), clouds(2, 60)


def built(config=None, **more):
    asked = {"similarity": 0.7, "miss_rate": 0.05} | more
    return Index.build(VECTORS, config=config, progress=False, **asked)


@pytest.fixture(scope="module")
def index():
    return built(CONFIGS["plain"])


@pytest.fixture
def short(monkeypatch):
    """The answers that took the short path."""
    taken, hits = [], PreparedRanges.hits

    def noted(*given):
        taken.append(hits(*given))
        return taken[-1]

    monkeypatch.setattr(PreparedRanges, "hits", noted)
    return taken


def told(hits):
    arrays = hits.offsets, hits.ids, hits.scores, hits.spent
    return [(one.dtype, one.shape, one.tobytes()) for one in arrays], hits.certificate, hits.work


@pytest.mark.parametrize("name", CONFIGS)
def test_answers_are_those_of_the_path_of_batches(name, short):
    index = built(CONFIGS[name])
    index.range_search(QUERIES[:1], 0.6)
    short.clear()
    n_matches = 0
    for query in QUERIES:
        # More than one query, an equal one among them, takes the path of all others.
        both = index.range_search(np.stack([query, query]), 0.6, shadow=0.0)
        found = index.range_search(query, 0.6)
        assert short.pop() is found
        assert told(found)[0][1:3] == [
            (one.dtype, one.shape, one.tobytes()) for one in (both[1].ids, both[1].scores)
        ]
        assert found.spent.tolist() == both.spent[1:].tolist()
        assert found.offsets.tolist() == [0, len(both[1].ids)]
        assert found.certificate == both.certificate
        n_matches += len(found.ids)
    assert n_matches > 60


def test_euclidean_answers_are_those_of_the_path_of_batches(short):
    index = built(metric="euclidean", similarity=None, radius=0.8)
    for query in (VECTORS[3], *QUERIES[:20]):
        first = index.range_search(query, radius=0.8, shadow=0.0)
        found = index.range_search(query, radius=0.8)
        assert short.pop() is found
        assert told(found) == told(first)
    assert found.certificate.metric == "euclidean"
    index.range_search(QUERIES[0], radius=1.0)
    with pytest.raises(InvalidTypeError, match="radius"):
        index.range_search(QUERIES[0], radius=True)


GIVEN = {
    "a list": lambda row: row.tolist(),
    "float64": lambda row: row.astype(np.float64),
    "another norm": lambda row: np.float32(2) * row,
    "one row": lambda row: row[np.newaxis],
    "read-only": lambda row: np.frombuffer(row.tobytes(), dtype=np.float32),
    "every other entry": lambda row: np.repeat(row, 2)[::2],
    "a masked array": lambda row: np.ma.array(row),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_queries_of_any_kind_have_the_same_answer(index, kind):
    row = np.eye(32, dtype=np.float32)[5] * np.float32(0.6) + VECTORS[7] * np.float32(0.0)
    row += np.eye(32, dtype=np.float32)[6] * np.float32(0.8)
    for query in (row, VECTORS[7]):
        expected = index.range_search(query, 0.4, shadow=0.0)
        found = index.range_search(GIVEN[kind](query), 0.4)
        if kind in ("another norm", "a list", "float64") and query is not row:
            np.testing.assert_array_equal(found.ids, expected.ids)
        else:
            assert told(found) == told(expected)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"similarity": True}, InvalidTypeError, "similarity"),
        ({"similarity": [0.7]}, InvalidTypeError, "similarity"),
        ({"similarity": 1.5}, InvalidValueError, "similarity"),
        ({"threads": 0}, InvalidValueError, "threads"),
        ({"threads": True}, InvalidTypeError, "threads"),
        ({"miss_rate": True}, InvalidTypeError, "miss_rate"),
        ({"queries": np.full(32, np.nan, np.float32)}, InvalidValueError, "NaN in row 0"),
        ({"queries": np.zeros(32, np.float32)}, InvalidValueError, "only zeros in row 0"),
        ({"queries": np.ones(31, np.float32)}, InvalidValueError, "dimension 32"),
        ({"queries": np.ones((1, 1, 32), np.float32)}, InvalidValueError, "two-dimensional"),
    ],
)
def test_wrong_arguments_are_refused_after_right_ones(index, given, error, text):
    for similarity in (None, 0.7, 1.0):
        index.range_search(QUERIES[0], similarity)
    with pytest.raises(error, match=text):
        index.range_search(**{"queries": QUERIES[0], **given})


def test_more_matches_than_there_is_room_for_are_all_returned(index, short, monkeypatch):
    few = SimpleNamespace(for_hits=(np.empty(3, np.int64), np.empty(3)))
    monkeypatch.setattr(_prepared, "_OWN", few)
    expected = index.range_search(QUERIES[:1], 0.3, shadow=0.0)
    assert len(expected.ids) > 3
    for _ in range(2):
        assert told(index.range_search(QUERIES[0], 0.3)) == told(expected)
    assert short[-1] is None


@pytest.mark.parametrize("similarity", [np.array(0.7), np.float32(0.7), np.float64(0.7)])
def test_similarities_of_numpy_are_taken_as_before(index, similarity):
    expected = index.range_search(QUERIES[0], float(similarity))
    for _ in range(2):
        assert told(index.range_search(QUERIES[0], similarity)) == told(expected)


def test_no_answer_changes_when_another_is_given(index):
    first = [index.range_search(query, 0.5) for query in QUERIES[:10]]
    kept = [told(hits) for hits in first]
    for query in QUERIES[10:]:
        index.range_search(query, 0.5)
    assert [told(hits) for hits in first] == kept


def test_questions_beyond_those_kept_are_answered(index, short, monkeypatch):
    monkeypatch.setattr(_prepared, "_MOST_QUESTIONS", 0)
    similarity = 0.6123
    answers = [told(index.range_search(QUERIES[0], similarity)) for _ in range(3)]
    assert answers[0] == answers[2]
    assert short == [None] * 3


def test_live_queries_are_counted_and_compared(short):
    index = built(CONFIGS["plain"])
    index.shadow = 0.5
    for query in QUERIES:
        index.range_search(query, 0.6)
    assert sum(hits is not None for hits in short) == len(QUERIES) - 1
    health = index.health
    assert health.n_queries == len(QUERIES)
    assert health.shadow.n_queries == len(QUERIES) // 2


def test_new_calibration_is_used_at_once(short):
    index = built(CONFIGS["plain"])
    index.range_search(QUERIES[0])
    index.range_search(QUERIES[0])
    index.recalibrate(clouds(3, 500), progress=False)
    assert index.range_search(QUERIES[0]).certificate.source == "queries"
    assert index.range_search(QUERIES[0]).certificate.source == "queries"
    assert short[-1] is not None


def test_threads_do_not_share_what_they_find(index):
    expected = [told(index.range_search(query, 0.5)) for query in QUERIES]
    wrong, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait()
        for _ in range(30):
            for query, one in zip(QUERIES, expected, strict=True):
                if told(index.range_search(query, 0.5)) != one:
                    wrong.append(query)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
