"""Indexes of every kind with balanced codes, and what must be the same on a card."""

from functools import cache

import numpy as np
import pytest

import naive
from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import InvalidValueError
from memvec.guarantee import Thresholds
from memvec.kernels import ANYTHING, N_STAGES

DIM = 96
#: Every layout that a card has to deal with.
CONFIGS = {
    "whole codes": IndexConfig(
        codes="balanced", levels=1, units_per_vector=1, unit_size=4, unit_words=2, member_words=2
    ),
    "first words": IndexConfig(codes="balanced", unit_size=6, unit_words=1, member_words=1),
    "random units": IndexConfig(
        codes="balanced", assignment="random", unit_size=3, unit_words=2, member_words=1
    ),
    "groups": IndexConfig(codes="balanced", levels=2, unit_size=4, group_size=30, unit_words=1),
    "two homes": IndexConfig(codes="balanced", units_per_vector=2, unit_size=6),
    "fine codes": IndexConfig(codes="balanced", unit_size=6, member_bits=3, member_words=2),
    "other bits": IndexConfig(codes="balanced", unit_size=5, code_bits=202),
    "fewer bits": IndexConfig(codes="balanced", unit_size=5, code_bits=70, rotation="none"),
    "pca": IndexConfig(codes="balanced", unit_size=5, pca_dim=64, center=True),
    "designed": IndexConfig(codes="balanced"),
}


@cache
def rows_and_queries():
    rng = np.random.default_rng(5)
    centres = naive.unit_rows(rng.standard_normal((60, DIM)))
    rows = around(centres, 0.06, 1, 360)
    rows[7] = rows[3]  # a copy
    return rows, around(centres, 0.06, 2, 24)


@cache
def index_of(name, dtype="float32"):
    rows, _ = rows_and_queries()
    return Index.build(
        rows, similarity=0.75, miss_rate=0.05, dtype=dtype, config=CONFIGS[name], progress=False
    )


def assert_same(here, there):
    np.testing.assert_array_equal(here.offsets, there.offsets)
    np.testing.assert_array_equal(here.ids, there.ids)
    np.testing.assert_array_equal(here.scores, there.scores)
    assert here.certificate == there.certificate


def assert_same_answers(index, moved):
    """Ranges, counts, the nearest and membership of one query and of many, at several levels."""
    rows, queries = rows_and_queries()
    asked = np.concatenate([queries, rows[:5], -rows[:3]])
    for similarity in (0.6, 0.75, 0.9, 1.0):
        for some in (asked, asked[:1], asked[-1:]):
            here = index.range_search(some, similarity, shadow=0.0)
            assert_same(here, moved.range_search(some, similarity, shadow=0.0))
    assert len(here.ids) == 0
    assert index.range_search(asked, 0.75).counts.sum() > 80
    for level in ("model", "exact"):
        here = index.range_search(asked, 0.75, guarantee=level)
        assert_same(here, moved.range_search(asked, 0.75, guarantee=level))
    for k in (1, 12, 60, 400):
        for level in (None, "exact"):
            here = index.search(asked, k, guarantee=level)
            there = moved.search(asked, k, guarantee=level)
            np.testing.assert_array_equal(here.ids, there.ids)
            np.testing.assert_array_equal(here.scores, there.scores)
    for verify in (True, False):
        here = index.contains(asked, 0.75, verify=verify)
        np.testing.assert_array_equal(here, moved.contains(asked, 0.75, verify=verify))
    np.testing.assert_array_equal(index.count(asked), moved.count(asked))
    told = moved.explain(queries[0], int(moved.range_search(queries[0]).ids[0]))
    assert told.returned
    assert moved.measure(queries, 0.75).n_missed == index.measure(queries, 0.75).n_missed


def assert_same_nearest(dtype):
    """The nearest of a calibrated index, by ranges and where these hold too few."""
    rng = np.random.default_rng(9)
    centres = naive.unit_rows(rng.standard_normal((40, DIM)))
    rows, asked, queries = (around(centres, 0.06, seed, n) for seed, n in enumerate((900, 300, 40)))
    queries = np.concatenate([queries, naive.unit_rows(rng.standard_normal((9, DIM)))])
    index = Index.build(
        rows, similarity=0.7, dtype=dtype, queries=asked, config=CONFIGS["whole codes"],
        progress=False,
    )  # fmt: skip
    moved = index.to("cuda")
    for k in (1, 10, 60):
        plan = index.search(queries[:0], k).certificate
        assert plan.source == "queries"
        assert not plan.complete
        for some in (queries, queries[:1], queries[-1:]):
            here, there = index.search(some, k), moved.search(some, k)
            np.testing.assert_array_equal(here.ids, there.ids)
            np.testing.assert_array_equal(here.scores, there.scores)


def assert_same_filters(index, moved):
    """What a filter leaves, many rows and few."""
    _, queries = rows_and_queries()
    rng = np.random.default_rng(6)
    thresholds = Thresholds.one(0.75, np.full(N_STAGES, 2.5))
    for share in (0.9, 0.6, 0.01):
        allowed = rng.random(len(index)) < share
        given = queries, 0.75, thresholds, None, allowed
        assert_found_the_same(index.source.search(*given), moved.source.search(*given))
        everything = index.source.compare_all(queries, ANYTHING, allowed=allowed)
        for k in (3, 90):
            best = moved.source.best_of_all(queries, k, allowed=allowed).best(k)
            for here, there in zip(everything.best(k), best, strict=True):
                np.testing.assert_array_equal(here.ids, there.ids)
                np.testing.assert_array_equal(here.scores, there.scores)


#: Rows of every kind.
KINDS = {
    "uniform": lambda rng, shape: rng.standard_normal(shape),
    "low rank": lambda rng, shape: (
        rng.standard_normal((shape[0], 6)) @ rng.standard_normal((6, shape[1]))
    ),
    "off centre": lambda rng, shape: 4 + rng.standard_normal(shape),
    "pixels": lambda rng, shape: np.rint(255 * rng.random(shape) ** 4),
    "sparse": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.1),
    "heavy tails": lambda rng, shape: rng.standard_t(1.5, shape),
    "equal rows": lambda rng, shape: rng.standard_normal((9, shape[1]))[
        rng.integers(0, 9, shape[0])
    ],
}


def assert_same_of_kind(kind, dim, dtype):
    """Ranges and the nearest of rows of a kind, of near copies and of others."""
    rng = np.random.default_rng(dim)
    rows = KINDS[kind](rng, (320, dim)).astype(np.float32)
    rows = rows[np.abs(rows).max(axis=1) > 0]
    half = len(rows) // 2
    spread = np.linalg.norm(rows, axis=1, keepdims=True) / np.sqrt(dim)
    rows[half:] = rows[: len(rows) - half]
    rows += 0.4 * spread * rng.standard_normal(rows.shape).astype(np.float32)
    queries = rows[::16] + 0.3 * spread[::16] * rng.standard_normal(rows[::16].shape)
    config = IndexConfig(codes="balanced", unit_size=4, levels=1, units_per_vector=1)
    index = Index.build(rows, similarity=0.8, dtype=dtype, config=config, progress=False)
    moved = index.to("cuda")
    for some in (queries, queries[:1]):
        for similarity in (0.6, 0.8, 0.95):
            here = index.range_search(some, similarity, shadow=0.0)
            assert_same(here, moved.range_search(some, similarity, shadow=0.0))
        nearest = (one.search(some, 5) for one in (index, moved))
        assert_same_arrays(*((found.ids, found.scores) for found in nearest))
    assert len(index.range_search(queries, 0.6).ids) > 20


def assert_same_arrays(here, there):
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_found_the_same(here, there):
    np.testing.assert_array_equal(here.offsets, there.offsets)
    np.testing.assert_array_equal(here.ids, there.ids)
    np.testing.assert_array_equal(here.scores, there.scores)


def assert_joins_well(index, moved):
    """Pairs are above the similarity and nearly all; groups are those of the pairs."""
    exact = moved.self_join(0.75, guarantee="exact")
    every = set(zip(exact.left.tolist(), exact.right.tolist(), strict=True))
    found = moved.self_join(0.75)
    pairs = list(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) <= every
    assert len(pairs) > 0.85 * len(every) > 200
    scores = dict(zip(zip(exact.left, exact.right, strict=True), exact.scores, strict=True))
    assert all(scores[pair] == score for pair, score in zip(pairs, found.scores, strict=True))
    groups = moved.deduplicate(0.97)
    assert any({group.kept, *group.dropped} >= {3, 7} for group in groups.groups)


def assert_takes_arrays(index, moved, on_card):
    """Queries that lie on the card have the answers of those that do not."""
    rows, queries = rows_and_queries()
    for some in (queries, queries[:1], queries[0], (3 * queries).astype(np.float64)):
        assert_same(index.range_search(some, 0.75), moved.range_search(on_card(some), 0.75))
    here, there = index.search(queries, 5), moved.search(on_card(queries), 5)
    np.testing.assert_array_equal(here.ids, there.ids)
    found = moved.range_search(on_card(queries), 0.75, shadow=1.0)
    assert_same(index.range_search(queries, 0.75), found)
    with pytest.raises(InvalidValueError, match=rf"'queries' .* \({DIM},\). Got shape \(2, 3\)"):
        moved.range_search(on_card(rows[:2, :3]))


def assert_uploads_batches(dtype):
    """Large batches of NumPy, which are scaled on the card, have the answers of the CPU."""
    index, (rows, queries) = index_of("whole codes", dtype), rows_and_queries()
    moved, batch = index.to("cuda"), np.concatenate([rows, queries])
    assert moved.source.uploads(batch)
    for some in (batch, 7 * batch.astype(np.float64), batch.astype(np.float16), batch[:, ::-1]):
        assert_same(index.range_search(some, 0.75), moved.range_search(some, 0.75, shadow=1.0))
    for other in (batch[:200], batch.astype(np.int32), batch.tolist(), np.ma.array(batch)):
        assert not moved.source.uploads(other)
    here, there = (one.range_search(batch, units=3) for one in (index, moved))
    np.testing.assert_array_equal(here.ids, there.ids)
    for wrong, problem in ((0, "only zeros"), (np.nan, "NaN"), (np.inf, "an infinite value")):
        batch[5] = wrong
        for one in (index, moved):
            with pytest.raises(InvalidValueError, match=f"'queries' .* {problem} in row 5"):
                one.range_search(batch, 0.75)
    for one in (index, moved):
        with pytest.raises(InvalidValueError, match="'queries'"):
            one.range_search(batch[:, :5], 0.75)


def one_range(index):
    _, queries = rows_and_queries()
    return index.range_search(queries[0], 0.75, shadow=0.0).ids.tolist()


def many_ranges(index):
    _, queries = rows_and_queries()
    return index.range_search(queries, 0.75, shadow=0.0).ids.tolist()


def nearest(index):
    _, queries = rows_and_queries()
    return index.search(queries, 5, guarantee="exact").ids.tolist()


def pairs(index):
    return index.self_join(0.75, progress=False).left.tolist()


#: What an interrupt may end.
WORKS = (one_range, many_ranges, nearest, pairs)


def interrupt(index, work, card_type, monkeypatch, n_kernels):
    """Interrupt some work after so many kernels."""
    launch, left = card_type.launch, [n_kernels]

    def interrupted(*given, **more):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return launch(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(card_type, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            work(index)


def assert_survives_interrupts(work, card_type, monkeypatch):
    """The next answer after an interrupt is the one of before."""
    index = index_of("whole codes")
    expected = work(index.to("cuda"))
    assert expected
    for n_kernels in range(2):
        moved = index.to("cuda")
        for _ in range(2):
            interrupt(moved, work, card_type, monkeypatch, n_kernels)
        assert work(moved) == work(moved) == expected
