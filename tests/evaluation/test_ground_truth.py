from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation import _ground_truth, exact_range, exact_self_range, exact_top_k
from strategies import cloud

SQUARE = [[1, 0], [3, 4], [0, 2]]


@pytest.fixture(params=[3, 4096])
def block_rows(request, monkeypatch):
    """Small blocks make every query meet several of them."""
    monkeypatch.setattr(_ground_truth, "_BLOCK_ROWS", request.param)
    return request.param


def clustered(n_rows: int, dim: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((4, dim))
    return centres[rng.integers(4, size=n_rows)] + 0.7 * rng.standard_normal((n_rows, dim))


def test_range_of_three_vectors_by_hand(block_rows):
    found = exact_range(SQUARE, [[1, 1], [-1, 0]], similarity=0.7)
    assert found.offsets.tolist() == [0, 3, 3]
    assert found.ids.tolist() == [1, 0, 2]
    np.testing.assert_allclose(found.scores, [7 / np.sqrt(50), 0.5**0.5, 0.5**0.5], rtol=1e-6)


def test_top_k_of_three_vectors_by_hand(block_rows):
    ids, scores = exact_top_k(SQUARE, [[1, 0], [0, 1]], k=2)
    assert ids.tolist() == [[0, 1], [2, 1]]
    np.testing.assert_allclose(scores, [[1, 0.6], [1, 0.8]], rtol=1e-6)


def test_dtypes_are_int64_and_float32():
    found, top = exact_range(SQUARE, SQUARE, 0.5), exact_top_k(SQUARE, SQUARE, 1)
    assert [found.offsets.dtype, found.ids.dtype, top.ids.dtype] == [np.int64] * 3
    assert [found.scores.dtype, top.scores.dtype] == [np.float32] * 2


def test_scores_of_float64_are_canonical_to_the_last_bit():
    rows = cloud(3, n=40, dim=21, near=0.3)
    found = exact_range(rows, rows[:5], 0.2, dtype="float64")
    assert found.scores.dtype == np.float64
    query_of = np.repeat(np.arange(5), np.diff(found.offsets))
    expected = [
        naive.canonical_score(rows[q], rows[i]) for q, i in zip(query_of, found.ids, strict=True)
    ]
    assert found.scores.tolist() == expected
    rounded = exact_range(rows, rows[:5], 0.2)
    np.testing.assert_array_equal(rounded.scores, found.scores.astype(np.float32))


def test_scores_of_another_dtype_are_refused():
    with pytest.raises(InvalidValueError, match="'dtype' parameter of exact_range must be one of"):
        exact_range(SQUARE, SQUARE, 0.5, dtype="float16")


def test_single_query_gives_one_row():
    assert len(exact_range(SQUARE, [1, 1], 0.7)) == 1
    assert exact_top_k(SQUARE, np.array([1, 1]), 2).ids.shape == (1, 2)


def test_no_queries_give_no_rows():
    none = np.empty((0, 2))
    assert len(exact_range(SQUARE, none, 0.7)) == 0
    assert exact_top_k(SQUARE, none, 2).scores.shape == (0, 2)


def test_self_range_leaves_the_query_out_but_not_its_copies(block_rows):
    found = exact_self_range([[1, 0], [2, 0], [0, 1], [3, 0]], similarity=1.0)
    assert [row.ids.tolist() for row in found] == [[1, 3], [0, 3], [], [0, 1]]


def test_self_range_of_some_rows_equals_those_rows_of_all(block_rows):
    vectors = clustered(40, 12, seed=0)
    everything = exact_self_range(vectors, 0.5)
    some = exact_self_range(vectors, 0.5, rows=[7, 3, 39])
    assert [row.ids.tolist() for row in some] == [everything[q].ids.tolist() for q in (7, 3, 39)]


@settings(deadline=None, max_examples=40)
@given(
    n_rows=st.integers(1, 30),
    dim=st.integers(1, 20),
    block=st.integers(1, 12),
    similarity=st.floats(0.05, 1.0),
    hide=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_range_equals_naive(n_rows, dim, block, similarity, hide, seed):
    vectors, queries = clustered(n_rows, dim, seed), clustered(5, dim, seed)
    hidden = np.random.default_rng(seed).integers(n_rows, size=5) if hide else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ground_truth, "_BLOCK_ROWS", block)
        found = exact_range(vectors, queries, similarity, exclude=hidden)
    for i, row in enumerate(found):
        expected = naive.matches(vectors, queries[i], similarity, hidden[i] if hide else None)
        assert row.ids.tolist() == [match for match, _ in expected]
        np.testing.assert_array_equal(row.scores, np.float32([score for _, score in expected]))


@settings(deadline=None, max_examples=40)
@given(
    n_rows=st.integers(2, 30),
    n_distinct=st.integers(1, 30),
    dim=st.integers(1, 20),
    block=st.integers(1, 12),
    hide=st.booleans(),
    data=st.data(),
)
def test_top_k_equals_naive(n_rows, n_distinct, dim, block, hide, data):
    # Repeated rows tie exactly, so that the order among ids is tried too.
    rows = np.arange(n_rows) % n_distinct
    vectors, queries = clustered(n_distinct, dim, n_rows)[rows], clustered(4, dim, block)
    hidden = np.arange(4) % n_rows if hide else None
    k = data.draw(st.integers(1, n_rows - hide))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ground_truth, "_BLOCK_ROWS", block)
        ids, scores = exact_top_k(vectors, queries, k, exclude=hidden)
    for i in range(4):
        expected = naive.sorted_scores(vectors, queries[i], hidden[i] if hide else None)[:k]
        assert ids[i].tolist() == [match for match, _ in expected]
        np.testing.assert_array_equal(scores[i], np.float32([score for _, score in expected]))


def test_top_k_of_rising_scores_equals_naive(block_rows):
    # Every block holds better vectors than all before: the floor found so far prunes nothing.
    angles = np.linspace(1.5, 0.01, 60)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert exact_top_k(vectors, [1, 0], 3).ids.tolist() == [[59, 58, 57]]


def test_range_decides_at_the_limit_by_the_canonical_score():
    # 2000 vectors within 3e-6 of the limit: float32 products alone err on 29 of them.
    rng = np.random.default_rng(1)
    dim = 96
    query = np.ones(dim) / np.sqrt(dim)
    side = rng.standard_normal((2000, dim))
    side -= np.outer(side @ query, query)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    cosines = 0.7 - 1e-6 + 3e-6 * rng.uniform(-1, 1, 2000)
    vectors = np.outer(cosines, query) + np.sqrt(1 - cosines**2)[:, None] * side
    expected = naive.matches(vectors, query, 0.7)
    assert 500 < len(expected) < 1500  # 991 seen
    assert exact_range(vectors, query, 0.7).ids.tolist() == [match for match, _ in expected]


def test_answers_do_not_depend_on_blocks(monkeypatch):
    vectors, queries = clustered(500, 33, seed=2), clustered(50, 33, seed=2)
    whole, top = exact_range(vectors, queries, 0.6), exact_top_k(vectors, queries, 20)
    monkeypatch.setattr(_ground_truth, "_BLOCK_ROWS", 7)
    parts, top_parts = exact_range(vectors, queries, 0.6), exact_top_k(vectors, queries, 20)
    for name in ("offsets", "ids", "scores"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    np.testing.assert_array_equal(top.ids, top_parts.ids)
    np.testing.assert_array_equal(top.scores, top_parts.scores)


def test_blocks_shrink_with_the_dimension():
    job = _ground_truth._Job.checked(np.ones((1, 1 << 20)), np.ones((1, 1 << 20)), None, "test")
    assert job.block_rows == 16


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_other_dtypes_and_layouts_are_read(dtype):
    vectors = np.asfortranarray(np.arange(1, 25).reshape(6, 4)).astype(dtype)[::2]
    found = exact_range(vectors, vectors, 0.99)
    expected = [[i for i, _ in naive.matches(vectors, row, 0.99)] for row in vectors]
    assert [row.ids.tolist() for row in found] == expected


def test_memory_mapped_vectors_are_read(tmp_path):
    vectors = clustered(30, 8, seed=3).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    assert exact_self_range(mapped, 0.5).ids.tolist() == exact_self_range(vectors, 0.5).ids.tolist()


def test_progress_bar_counts_every_pair_of_blocks(monkeypatch):
    monkeypatch.setattr(_ground_truth, "_BLOCK_ROWS", 2)
    steps, totals = [], []

    @contextmanager
    def recorded(description, total, show):
        totals.append((description, total, show))
        yield steps.append

    monkeypatch.setattr(_ground_truth, "progress_bar", recorded)
    exact_range(SQUARE, SQUARE, 0.5, progress=True)
    exact_top_k(SQUARE, SQUARE, 1)
    assert totals == [("Exact range search", 4, True), ("Exact top-k search", 4, None)]
    assert steps == [1] * 8


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ([[1, 0], [0, 0]], [[1, 0]], 0.5),
            r"'vectors' .* rows. Got only zeros in row 1 instead",
        ),
        (([[1, 0]], [[1, 0], [np.nan, 0]], 0.5), r"'queries' .* Got NaN in row 1 instead"),
        (([[1, 0]], [[1, np.inf]], 0.5), r"'queries' .* Got an infinite value in row 0 instead"),
        (
            ([1, 0], [[1, 0]], 0.5),
            r"'vectors' .* two-dimensional, .* Got shape \(2,",
        ),
        ((np.empty((0, 2)), [[1, 0]], 0.5), r"'vectors' .* at least one row"),
        (([[1, 0]], [[1, 0, 0]], 0.5), "'queries' .* of dimension 2. Got dimension 3 instead"),
        (([[1, 0]], [1, 0, 0], 0.5), "'queries' .* of dimension 2. Got dimension 3 instead"),
        (
            ([[1, 0]], [[1, 0]], 0.0),
            r"'similarity' .* in \(0, 1\]. Got 0.0",
        ),
    ],
)
def test_range_refuses(arguments, text):
    with pytest.raises(InvalidValueError, match=text):
        exact_range(*arguments)


def test_bad_row_is_counted_from_the_beginning(monkeypatch):
    monkeypatch.setattr(_ground_truth, "_BLOCK_ROWS", 3)
    vectors = np.ones((8, 2))
    vectors[7] = 0
    with pytest.raises(InvalidValueError, match=r"row 7 instead"):
        exact_top_k(vectors, vectors[:1], 1)


def test_self_range_names_its_own_parameters():
    vectors = [[1, 0], [0, 0], [0, 1]]
    with pytest.raises(InvalidValueError, match=r"'vectors' .* exact_self_range .* row 1"):
        exact_self_range(vectors, 0.5)
    with pytest.raises(InvalidValueError, match=r"'rows' parameter of exact_self_range .* row 0"):
        exact_self_range(vectors, 0.5, rows=[1, 2])
    with pytest.raises(InvalidValueError, match=r"'similarity' parameter of exact_self_range"):
        exact_self_range(vectors, 1.5)


def test_ragged_queries_are_refused():
    with pytest.raises(InvalidTypeError, match=r"'queries' parameter of exact_range"):
        exact_range(SQUARE, [[1, 0], [1]], 0.5)


def test_k_above_what_is_there_is_refused():
    with pytest.raises(InvalidValueError, match=r"'k' .* choose from, 3. Got 4 instead"):
        exact_top_k(SQUARE, SQUARE, 4)
    with pytest.raises(InvalidValueError, match=r"'k' .* choose from, 2. Got 3 instead"):
        exact_top_k(SQUARE, SQUARE, 3, exclude=[0, 1, 2])
    with pytest.raises(InvalidValueError, match=r"'k' .* an integer >= 1. Got 0 instead"):
        exact_top_k(SQUARE, SQUARE, 0)


def test_bad_row_numbers_are_refused():
    with pytest.raises(InvalidValueError, match=r"'exclude' .* in \[0, 3\). Got 3 instead"):
        exact_range(SQUARE, SQUARE, 0.5, exclude=[0, 3, 1])
    with pytest.raises(InvalidValueError, match=r"'exclude' .* of the 3 queries. Got 2 instead"):
        exact_range(SQUARE, SQUARE, 0.5, exclude=[0, 1])
    with pytest.raises(InvalidTypeError, match=r"'rows' parameter of exact_self_range .* float64"):
        exact_self_range(SQUARE, 0.5, rows=[0.0, 1.0])
