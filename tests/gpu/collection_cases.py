"""A collection on a card: what must be the same as on the CPU."""

from contextlib import contextmanager
from functools import cache
from unittest import mock

import numpy as np

import memvec
import naive
from clouds import around
from gpu.source_cases import assert_same
from memvec import gpu

DIM = 96
SETTINGS = {"dim": DIM, "similarity": 0.75, "miss_rate": 0.05, "seal_at": 0}


@cache
def rows_and_queries():
    rng = np.random.default_rng(8)
    centres = naive.unit_rows(rng.standard_normal((80, DIM)))
    rows = around(centres, 0.06, 1, 780)
    rows[777] = rows[3]  # a copy that waits
    return rows, around(centres, 0.06, 2, 24)


def fill(path, device, **settings):
    """Two segments, some rows that wait, and some that were deleted."""
    rows, _ = rows_and_queries()
    kinds = [{"even": number % 2 == 0} for number in range(len(rows))]
    with memvec.open(path, device=device, **SETTINGS, **settings) as collection:
        for start, stop in ((0, 400), (400, 740)):
            collection.add(rows[start:stop], metadata=kinds[start:stop])
            collection.seal(merge=False, progress=False)
        collection.add(rows[740:], metadata=kinds[740:])
        collection.delete([5, 500, 760])


@contextmanager
def searches_on_card():
    """The sources on a card that are searched within the block."""
    searched, search = [], gpu.CardSource.search

    def noted(self, *given):
        searched.append(self)
        return search(self, *given)

    with mock.patch.object(gpu.CardSource, "search", noted):
        yield searched


def assert_same_answers(here, there):
    """Ranges, counts, membership and the nearest, of one query and of many."""
    rows, queries = rows_and_queries()
    with searches_on_card() as searched:
        here.range_search(queries)
        assert not searched
        there.range_search(queries)
        assert searched
    asked = np.concatenate([queries, rows[:5], -rows[:3]])
    for similarity in (0.6, 0.75, 0.9):
        for some in (asked, asked[:1]):
            found = here.range_search(some, similarity, shadow=0.0)
            assert_same(found, there.range_search(some, similarity, shadow=0.0))
    assert here.range_search(asked, 0.75).counts.sum() > 100
    for given in (
        {"guarantee": "exact"},
        {"guarantee": "model"},
        {"where": {"even": True}},
        {"shadow": 1.0},
    ):
        found = here.range_search(asked, 0.75, **given)
        assert_same(found, there.range_search(asked, 0.75, **given))
    for k, level in ((1, None), (12, None), (12, "exact"), (50, "exact")):
        found, other = (one.search(asked, k, guarantee=level) for one in (here, there))
        np.testing.assert_array_equal(found.ids, other.ids)
        np.testing.assert_array_equal(found.scores, other.scores)
    np.testing.assert_array_equal(here.count(asked), there.count(asked))
    np.testing.assert_array_equal(here.contains(asked, 0.75), there.contains(asked, 0.75))
    assert here.measure(queries, 0.75).n_missed == there.measure(queries, 0.75).n_missed
    [name] = there.search(queries[0], 1).ids[0]
    assert there.explain(queries[0], name).stages == here.explain(queries[0], name).stages


def pairs_of(joined):
    """The pairs by their ids, each of which is there once."""
    pairs = list(joined)
    found = {frozenset((left, right)): score for left, right, score in pairs}
    assert len(found) == len(pairs)
    return found


def assert_joins_well(here, there):
    """Exact joins are the same; others find nearly all, with the same scores."""
    exact = pairs_of(there.self_join(0.75, guarantee="exact", progress=False))
    assert exact == pairs_of(here.self_join(0.75, guarantee="exact", progress=False))
    found = pairs_of(there.self_join(0.75, progress=False))
    assert found.items() <= exact.items()
    assert len(found) > 0.85 * len(exact) > 500
    sides = [{(a > 400) + (a > 740) for a in pair} for pair in found]
    assert {frozenset(side) for side in sides} >= {frozenset(s) for s in ((0,), (1,), (0, 1))}
    groups = there.deduplicate(0.97, progress=False)
    assert any({group.kept, *group.dropped} >= {3, 777} for group in groups.groups)


def assert_answers_on_card(path, **settings):
    """A collection that a card filled is opened by both; then it is compacted on the card."""
    fill(path, "cuda", **settings)
    with (
        memvec.open(path, read_only=True) as here,
        memvec.open(path, read_only=True, device="cuda") as there,
    ):
        assert_same_answers(here, there)
        assert_joins_well(here, there)
    with memvec.open(path, device="cuda") as there:
        there.compact(progress=False)
        with memvec.open(path, read_only=True) as here:
            assert_same_answers(here, there)
