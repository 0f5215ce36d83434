"""The one result: rows in flat form, joined, merged, renamed and cut, against lists of pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.matches import N_COUNTS, Matches, MatchRow

# Many are equal, and some are so only as float32.
SCORES = st.sampled_from([1.0, 0.9, 0.9 - 1e-9, 0.9 + 1e-9, 0.5, 0.5 + 1e-7, -0.25])
ROWS = st.dictionaries(st.integers(0, 30), SCORES, max_size=8).map(
    lambda found: sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
)
TABLES = st.lists(ROWS, max_size=6)


def matches_of(rows, first=0):
    """Return rows of pairs as a result; every query has spent something else."""
    spent = first + np.arange(len(rows) * N_COUNTS).reshape(len(rows), N_COUNTS)
    pairs = [MatchRow(ids_of(row), np.array([score for _, score in row])) for row in rows]
    return Matches.of_rows(pairs, spent)


def ids_of(row):
    return np.array([name for name, _ in row], dtype=np.int64)


def rows_of(found):
    return [list(zip(row.ids.tolist(), row.scores.tolist(), strict=True)) for row in found]


@given(TABLES)
def test_rows_come_back_as_they_were(rows):
    found = matches_of(rows)
    assert rows_of(found) == rows
    assert len(found) == len(rows)
    assert found.counts.tolist() == [len(row) for row in rows]
    assert found.queries.tolist() == [i for i, row in enumerate(rows) for _ in row]
    assert [row.ids.tolist() for row in map(found.__getitem__, range(len(rows)))] == [
        ids_of(row).tolist() for row in rows
    ]
    assert repr(found) == f"Matches(n_queries={len(rows)}, n_matches={sum(map(len, rows))})"


@given(TABLES)
def test_given_ids_and_scores_come_back(rows):
    ids, scores = [ids_of(row) for row in rows], [[score for _, score in row] for row in rows]
    found = Matches.from_rows(ids, scores)
    assert rows_of(found) == rows
    assert found.spent.shape == (len(rows), N_COUNTS)
    assert not found.spent.any()
    assert not Matches.from_rows(ids).scores.any()
    as_sets = [row.ids.tolist() for row in Matches.from_rows([set(row.tolist()) for row in ids])]
    assert as_sets == [sorted(row.tolist()) for row in ids]


def test_scores_must_be_as_many_as_ids():
    with pytest.raises(InvalidValueError, match=r"'scores'.*\[2\].*lengths \[1\]"):
        Matches.from_rows([[4, 1]], [[0.5]])


@pytest.mark.parametrize("row", [[0.5], [[1, 2]], [[1], [2, 3]], "a"])
def test_ids_must_be_rows_of_integers(row):
    with pytest.raises(InvalidTypeError, match="'ids'.*a sequence of integer ids for each query"):
        Matches.from_rows([row])


@given(TABLES)
def test_pairs_in_the_order_of_queries_are_their_rows(rows):
    found = matches_of(rows)
    again = Matches.of_pairs(found.queries, found.ids, found.scores, found.spent)
    assert rows_of(again) == rows
    assert again.spent is found.spent


@given(st.lists(TABLES, min_size=1, max_size=4))
def test_stacked_blocks_are_their_queries_one_after_the_other(tables):
    blocks = [matches_of(rows, 100 * i) for i, rows in enumerate(tables)]
    found = Matches.stacked(blocks)
    assert rows_of(found) == [row for rows in tables for row in rows]
    np.testing.assert_array_equal(found.spent, np.concatenate([one.spent for one in blocks]))


@given(st.integers(0, 5), st.integers(0, 3), st.data())
def test_merged_sources_are_in_order_of_float32_scores_then_ids(n_queries, n_sources, data):
    size = st.lists(ROWS, min_size=n_queries, max_size=n_queries)
    # A key belongs to one source.
    tables = [
        [[(name * n_sources + source, score) for name, score in row] for row in data.draw(size)]
        for source in range(n_sources)
    ]
    sources = [matches_of(rows, 100 * i) for i, rows in enumerate(tables)]
    found = Matches.merged(sources, n_queries)
    assert rows_of(found) == naive.merged(tables, n_queries)
    assert found.scores.dtype == np.float32
    assert found.spent.shape == (n_queries, N_COUNTS)
    np.testing.assert_array_equal(found.spent, sum((one.spent for one in sources), 0 * found.spent))


@given(TABLES, st.randoms(use_true_random=False))
def test_other_names_change_nothing_else(rows, random):
    names = list(range(100, 131))
    random.shuffle(names)
    found = matches_of(rows)
    named = found.named(np.array(names))
    assert rows_of(named) == [[(names[name], score) for name, score in row] for row in rows]
    assert named.spent is found.spent


@given(TABLES, st.data())
def test_kept_are_those_chosen(rows, data):
    n = sum(map(len, rows))
    chosen = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    flags = iter(chosen)
    expected = [[pair for pair in row if next(flags)] for row in rows]
    found = matches_of(rows).kept(np.array(chosen, dtype=bool))
    assert rows_of(found) == expected
    np.testing.assert_array_equal(found.spent, matches_of(rows).spent)


@given(st.lists(ROWS, min_size=1, max_size=6), st.data())
def test_queries_are_chosen_in_the_order_given(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    found = matches_of(rows).of_queries(np.array(chosen, dtype=np.int64))
    assert rows_of(found) == [rows[query] for query in chosen]
    np.testing.assert_array_equal(found.spent, matches_of(rows).spent[chosen])


@given(TABLES, st.integers(1, 9))
def test_best_are_k_and_what_is_as_good_as_the_last(rows, k):
    found = matches_of(rows).best(k)
    expected = [naive.best(row, k) for row in rows]
    assert rows_of(found) == expected
    assert all(len(row) >= min(k, len(whole)) for row, whole in zip(expected, rows, strict=True))
