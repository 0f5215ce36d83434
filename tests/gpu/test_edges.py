"""Edges of searches on a card of NumPy: few rows, full queues and cards, threads, interrupts."""

import sys
import threading

import numpy as np
import pytest

from gpu import numpy_card, numpy_cupy, source_cases
from gpu.source_cases import (
    assert_found_the_same,
    assert_same,
    index_of,
    rows_and_queries,
)
from memvec import Index, IndexConfig
from memvec.errors import DeviceMemoryError
from memvec.gpu import _one, _own_pairs, _products, _search
from memvec.guarantee import Thresholds
from memvec.kernels import N_STAGES


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


@pytest.mark.parametrize("name", ["whole codes", "groups", "two homes", "fine codes"])
def test_everything_and_nothing_may_match(card, name):
    index, (_, queries) = index_of(name), rows_and_queries()
    moved = index.to("cuda")
    for similarity in (0.01, 0.3, 1.0):
        for some in (queries, queries[:1], queries[:0]):
            for level in (None, "exact"):
                here, there = (
                    one.range_search(some, similarity, guarantee=level, shadow=0.0)
                    for one in (index, moved)
                )
                assert_same(here, there)
    for similarity in (-1.0, -0.3, 0.0, 1.0):
        assert_found_the_same(
            *(one.source.compare_all(queries, similarity) for one in (index, moved))
        )
        for slack in (-2.0, 0.0, 50.0, np.inf):
            thresholds = Thresholds.one(max(similarity, 0.01), np.full(N_STAGES, slack))
            for some in (queries, queries[:1]):
                given = some, similarity, thresholds, None
                assert_found_the_same(index.source.search(*given), moved.source.search(*given))


def test_no_queries_have_no_answers(card):
    moved, (_, queries) = index_of("whole codes").to("cuda"), rows_and_queries()
    none = queries[:0]
    for level in (None, "exact"):
        assert moved.search(none, 3, guarantee=level).ids.shape == (0, 3)
    assert len(moved.contains(none)) == len(moved.count(none)) == 0
    assert len(moved.range_search(numpy_card.on_card(none), 0.75)) == 0


@pytest.mark.parametrize("n", [1, 2, 5, 17, 65])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_few_rows_have_the_answers_of_the_cpu(card, n, size):
    rows = rows_and_queries()[0][:n]
    for levels in (1, 2):
        config = IndexConfig(codes="balanced", unit_size=size, levels=levels)
        index = Index.build(rows, similarity=0.75, config=config, progress=False)
        moved = index.to("cuda")
        for some in (rows, rows[:1]):
            assert_same(index.range_search(some, 0.3), moved.range_search(some, 0.3))
            np.testing.assert_array_equal(index.search(some, 2).ids, moved.search(some, 2).ids)
        assert len(index.self_join(0.1)) == len(moved.self_join(0.1))
        assert len(index.deduplicate(0.9).kept) == len(moved.deduplicate(0.9).kept)


def test_copies_all_match(card):
    rows = np.tile(rows_and_queries()[0][:1], (200, 1))
    config = IndexConfig(codes="balanced", unit_size=4)
    index = Index.build(rows, similarity=0.75, config=config, progress=False)
    moved = index.to("cuda")
    for some in (rows[:7], rows[:1], -rows[:2]):
        assert_same(index.range_search(some, 0.75), moved.range_search(some, 0.75))
    assert len(moved.self_join(0.75)) == 200 * 199 // 2


def test_queues_that_overflow_at_every_step_are_asked_again(card, monkeypatch):
    index, (_, queries) = index_of("whole codes"), rows_and_queries()
    monkeypatch.setattr(_search, "_ROOM", 3)
    monkeypatch.setattr(_one, "_ROOM", 2)
    monkeypatch.setattr(_one, "_HITS", 1)
    monkeypatch.setattr(_own_pairs, "_ROOM", 5)
    moved = index.to("cuda")
    for similarity in (0.9, 0.75, 0.3):
        for some in (queries, queries[:1]):
            assert_same(
                index.range_search(some, similarity, shadow=0.0),
                moved.range_search(some, similarity, shadow=0.0),
            )
    monkeypatch.setattr(_search, "_MOST_ROOM", 50)  # queries are shared out
    assert_same(
        index.range_search(queries, 0.6, shadow=0.0),
        index.to("cuda").range_search(queries, 0.6, shadow=0.0),
    )
    source_cases.assert_joins_well(index, moved)


def test_batches_are_shared_out_where_a_card_is_nearly_full(card, monkeypatch):
    index, (_, queries) = index_of("whole codes"), rows_and_queries()
    expected = index.range_search(queries, 0.3, shadow=0.0)
    moved = index.to("cuda")
    moved.range_search(queries, 0.3, shadow=0.0)  # how much room it takes is known
    monkeypatch.setattr(_search, "_ROOM", 100)
    monkeypatch.setattr(sys.modules["cupy"], "largest", 25_000)
    assert_same(expected, moved.range_search(queries, 0.3, shadow=0.0))
    monkeypatch.setattr(sys.modules["cupy"], "largest", 1000)
    with pytest.raises(DeviceMemoryError, match=r"A queue of what passes needs 0\.00\d GB .* free"):
        moved.range_search(queries, 0.3, shadow=0.0)


def test_joins_take_less_room_where_a_card_is_nearly_full(card, monkeypatch):
    index = index_of("whole codes")
    moved = index.to("cuda")
    assert _own_pairs.joins_itself(moved.source.moved)
    monkeypatch.setattr(_search, "_ROOM", 100)
    monkeypatch.setattr(_products, "_ROOM", 370)  # that a query matches everything
    monkeypatch.setattr(_own_pairs, "_LEAST_ROOM", 50)
    monkeypatch.setattr(_own_pairs, "_ROOM", 1 << 14)
    monkeypatch.setattr(sys.modules["cupy"], "largest", 3000)
    source_cases.assert_joins_well(index, moved)
    monkeypatch.setattr(sys.modules["cupy"], "largest", 100)
    with pytest.raises(DeviceMemoryError, match="A queue of what passes"):
        moved.self_join(0.75)


def test_memory_that_any_step_lacks_is_named(card, monkeypatch):
    moved, (_, queries) = index_of("whole codes").to("cuda"), rows_and_queries()

    def full(*given, **more):
        raise numpy_cupy.OutOfMemoryError(3_000_000_000)

    with monkeypatch.context() as patch:
        patch.setattr(_search, "launch_join", full)
        with pytest.raises(DeviceMemoryError, match=r"A search needs 3\.000 GB .* GB are free"):
            moved.range_search(queries, 0.75)
    monkeypatch.setattr(_own_pairs, "launch_join", full)
    with pytest.raises(DeviceMemoryError, match=r"A join needs 3\.000 GB"):
        moved.self_join(0.75)


def test_whoever_reads_pairs_keeps_the_card_that_is_current(monkeypatch):
    numpy_card.install(monkeypatch, number=1)
    monkeypatch.setattr(_own_pairs, "_ROWS", 60)
    blocks = index_of("whole codes").to("cuda:1").iter_self_join(0.75)
    assert [numpy_cupy.current_card() for _ in blocks] == 3 * [0]


def test_several_threads_search_one_index(card):
    index, (_, queries) = index_of("whole codes"), rows_and_queries()
    expected = [index.range_search(query, 0.75).ids.tolist() for query in queries]
    together = index.range_search(queries, 0.7).ids.tolist()
    moved, found = index.to("cuda"), {}

    def work(number):
        alone = []
        for query in queries:
            alone.append(moved.range_search(query, 0.75).ids.tolist())
            assert moved.range_search(queries, 0.7).ids.tolist() == together
        found[number] = alone

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), expected)


def test_interrupts_at_any_line_leave_an_index_as_it_was(card, monkeypatch):
    """Whatever line of the search of one query an interrupt ends, the next answer is right."""
    monkeypatch.setattr(_one, "_ROOM", 8)
    index, (_, queries) = index_of("whole codes"), rows_and_queries()
    expected = [index.range_search(queries[:1], level).ids.tolist() for level in (0.9, 0.5)]
    left, files = [0], (_one.__file__, _search.__file__)

    def trace(frame, event, _):
        if frame.f_code.co_filename not in files:
            return None
        left[0] -= event == "line"
        if left[0] == 0:
            raise KeyboardInterrupt
        return trace

    n_lines, moved = 1, index.to("cuda")
    while True:
        moved.source.__dict__["_one"] = _one.OneQuery()
        moved.range_search(queries[:1], 0.9)
        left[0] = n_lines
        sys.settrace(trace)
        try:
            moved.range_search(queries[:1], 0.5)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(None)
        for _ in range(2):
            for level, ids in zip((0.9, 0.5), expected, strict=True):
                assert moved.range_search(queries[:1], level).ids.tolist() == ids
        n_lines += 1
    assert n_lines > 100
