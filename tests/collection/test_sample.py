"""The calibration queries of a collection are a uniform sample of its living rows."""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import memvec
import solving
from clouds import around
from memvec import cluster
from memvec.collection import _calibration, _catalog, _sample
from memvec.collection._priority import priorities, rows_to_hold_out
from naive.sample import held_out, priority
from naive.sample import sample as naive_sample

DIM = 4
CONFIG = memvec.IndexConfig(codes="none", unit_size=4, assignment="random")


@given(st.lists(st.integers(0, 2**62), max_size=20), st.integers(0, 2**70))
def test_priorities_are_those_of_splitmix(keys, seed):
    found = priorities(np.array(keys, dtype=np.int64), seed)
    assert found.tolist() == [priority(key, seed) for key in keys]


def test_priorities_look_uniform():
    found = priorities(np.arange(100_000), 3)
    counts = np.bincount((20 * found).astype(int), minlength=20)
    assert np.all(np.abs(counts - 5000) < 5 * np.sqrt(5000))
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 5 / np.sqrt(100_000)
    other = priorities(np.arange(100_000), 4)
    assert abs(np.corrcoef(found, other)[0, 1]) < 5 / np.sqrt(100_000)


def test_rows_held_out_are_those_of_lowest_priority():
    keys = np.arange(7, 7000, 3)
    rows = rows_to_hold_out(keys, 8, memvec.IndexConfig())
    assert keys[rows].tolist() == held_out(keys.tolist(), 0.05, 2000)
    few = rows_to_hold_out(keys, 8, memvec.IndexConfig(reserve=10))
    assert few.tolist() == rows[:10].tolist()
    assert len(rows_to_hold_out(keys, 8, memvec.IndexConfig(reserve=0))) == 0
    assert len(rows_to_hold_out(keys[:4], 8, memvec.IndexConfig(reserve=10))) == 4
    many = np.arange(100_000)
    assert len(rows_to_hold_out(many, 384, memvec.IndexConfig())) == 2000
    # Ground truth of so many dimensions affords two queries.
    assert len(rows_to_hold_out(many, 40_000_000, memvec.IndexConfig())) == 2


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.just("delete"), st.integers(1, 12)),
        st.tuples(st.just("replace"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["seal", "seal", "compact"]), st.just(0)),
    ),
    min_size=3,
    max_size=14,
)


# The last delete is that of the only row of a segment.
DYING = [("add", 1), ("add", 11), ("add", 12), ("replace", 1), ("replace", 2), ("seal", 0)]
DYING += [("replace", 1), ("seal", 0), ("delete", 1)]


@settings(deadline=None, max_examples=30)
@example(DYING, "auto", 1851)
@given(operations, st.sampled_from(["auto", 0, 2]), st.integers(0, 2**32))
def test_sample_is_that_of_sorting_everything(done, reserve, seed):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sample, "_SAMPLE", 8)
        patch.setattr(_sample, "_LEAST_STEP", 2)
        patch.setattr(_calibration, "_ASKED", 3)
        patch.setattr("memvec.collection._priority.RESERVE_SHARE", 0.4)
        parent = Path(tempfile.mkdtemp(prefix="memvec-sample-", dir=_memory()))
        config = memvec.IndexConfig(codes="none", unit_size=4, assignment="random", reserve=reserve)
        try:
            with memvec.open(parent / "c.mv", dim=DIM, config=config, seal_at=0) as collection:
                for what, n in done:
                    _do(collection, what, n, rng)
                    _compare(collection)
                with memvec.open(parent / "c.mv", read_only=True) as reader:
                    assert _drawn(reader).keys.tolist() == _drawn(collection).keys.tolist()
        finally:
            shutil.rmtree(parent)


def _memory():
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _do(collection, what, n, rng):
    if what == "add":
        collection.add(rng.standard_normal((n, DIM)))
    elif what in ("delete", "replace"):
        names = [item.id for item in collection.items()]
        some = rng.permutation(len(names))[:n].tolist()
        if some and what == "delete":
            collection.delete([names[i] for i in some])
        elif some:
            collection.upsert(rng.standard_normal((len(some), DIM)), [names[i] for i in some])
    else:
        getattr(collection, what)()


def _drawn(collection):
    return collection._searches.live.promises._samples.of(collection._reading.state())


def _compare(collection):
    """Compare sample and table with what sorting and scoring everything gives."""
    state = collection._store.state
    segments, known = {}, {}
    for part in state.segments:
        strangers = part.keys[part.rows.strangers].tolist()
        segments[part.rows.number] = (strangers, part.keys[part.alive].tolist())
    for (segment, source), packed in state.calibration.items():
        table = solving.unseen(packed)
        assert table.queries.tolist() == sorted(table.queries.tolist())
        asked = np.unique(table.queries)
        known[segment, source] = [segments[source][0][place] for place in asked]
    n_waiting = _sample.represented(state).stop
    represented = state.waiting.keys[:n_waiting][state.waiting.alive[:n_waiting]].tolist()
    # Keys end on a power of two of at most a fiftieth of the items, here two.
    last = state.waiting.keys[-1] + 1 if len(state.waiting.keys) else 0
    assert state.waiting.keys[:n_waiting].tolist() == [
        key for key in state.waiting.keys if key < last // 2 * 2
    ]
    sample = _drawn(collection)
    expected = naive_sample(segments, represented, known, 8)
    assert sorted(sample.keys.tolist()) == sorted(expected)
    assert sample.population == len(represented) + sum(len(alive) for _, alive in segments.values())
    _compare_table(state, sample, collection._searches.live.promises)


def _compare_table(state, sample, promises):
    """All pairs of the sample and the rows of segments that have living ones are in the table."""
    table = promises._whole(state, sample, -np.inf).table
    found = set()
    if table is not None:
        pairs = zip(sample.keys[table.queries].tolist(), table.keys.tolist(), strict=True)
        found = set(pairs)
        assert len(found) == len(table)
        vectors = state.vectors(np.concatenate([sample.keys[table.queries], table.keys]), DIM)
        scores = np.einsum("ij,ij->i", *np.split(vectors, 2))
        assert np.allclose(scores, table.cosines, atol=1e-5)
    living, dead = set(), set()
    for part in state.segments:
        reserve = set(part.keys[part.rows.index.reserve].tolist())
        own = set(part.keys.tolist())
        pairs = living if part.n_alive else dead
        pairs |= {
            (query, key)
            for query in sample.keys.tolist()
            for key in own - {query}
            if query not in own or query in reserve
        }
    # A table that was made while a segment lived is kept; what is dead in it does not count.
    assert living <= found <= living | dead


def test_strangers_are_the_reserve_and_a_row_that_makes_the_only_unit(tmp_path):
    config = memvec.IndexConfig(codes="none", unit_size=4, reserve=3)
    with memvec.open(tmp_path / "c.mv", dim=DIM, config=config, seal_at=0) as collection:
        rows = np.random.default_rng(0).standard_normal((9, DIM))
        for start, stop in ((0, 1), (1, 4), (4, 8)):
            collection.add(rows[start:stop])
            collection.seal()
        one, three, four = collection._store.state.segments
        assert one.rows.strangers.tolist() == [0]
        assert sorted(three.rows.strangers.tolist()) == [0, 1, 2]
        assert one.rows.cutoff(one.alive) == three.rows.cutoff(three.alive) == np.inf
        # The fourth is alone in its unit, and would not be held out.
        assert len(four.rows.strangers) == 3
        assert four.rows.cutoff(four.alive) == max(priority(key, 0) for key in range(4, 8))


def test_cutoff_is_the_lowest_living_priority_inside(tmp_path):
    with memvec.open(tmp_path / "c.mv", dim=DIM, config=CONFIG, seal_at=0) as collection:
        collection.add(np.random.default_rng(0).standard_normal((3000, DIM)))
        collection.seal()
        [part] = collection._store.state.segments
        inside = sorted(set(range(3000)) - set(part.rows.strangers.tolist()))
        by_priority = sorted(inside, key=lambda row: priority(row, 0))
        alive = part.alive.copy()
        for n_dead in (0, 1, 1500, len(inside) - 1):
            alive[by_priority[:n_dead]] = False
            assert part.rows.cutoff(alive) == priority(by_priority[n_dead], 0)
        alive[inside] = False
        assert part.rows.cutoff(alive) == np.inf


def test_deleted_rows_leave_the_sample_at_once_and_the_rest_stays(tmp_path):
    with memvec.open(tmp_path / "c.mv", dim=DIM, config=CONFIG, seal_at=0) as collection:
        collection.add(np.random.default_rng(0).standard_normal((3000, DIM)))
        collection.seal()
        before = _drawn(collection).keys.tolist()
        collection.delete(before[::2])
        assert _drawn(collection).keys.tolist() == before[1::2]
        collection.compact()
        after = _drawn(collection).keys.tolist()
        assert after == before[1::2]


def test_sample_waits_for_a_share_of_new_rows(tmp_path):
    rows = around(np.random.default_rng(2).standard_normal((500, 16)), 0.3, 1, 5000)
    with memvec.open(tmp_path / "c.mv", dim=16, miss_rate=0.05, seal_at=0) as collection:
        collection.add(rows[:4000])
        collection.seal()
        samples, stale = [], []
        for start in range(4000, 4400, 10):
            collection.add(rows[start : start + 10])
            certificate = collection.range_search(rows[:1]).certificate
            samples.append(_drawn(collection))
            stale.append(certificate.stale)
            assert certificate.population == samples[-1].population
            unseen = start + 10 - certificate.population
            assert certificate.stale == pytest.approx(unseen / (start + 10))
        # Keys are divided by 64: one fiftieth of the items, or a little less.
        assert {sample.population % 64 for sample in samples} == {4000 % 64, 0}
        assert len({id(sample) for sample in samples}) <= 400 // 64 + 2
        assert 0 < max(stale) < 0.02
        collection.seal()
        certificate = collection.range_search(rows[:1]).certificate
        assert (certificate.population, certificate.stale) == (4400, 0.0)


def test_a_reader_promises_what_the_writer_does(tmp_path):
    """Whatever was searched before: the writer has drawn ten samples, a new reader one."""
    rows = around(np.random.default_rng(2).standard_normal((60, 16)), 0.5, 1, 5000)
    with memvec.open(tmp_path / "c.mv", dim=16, miss_rate=0.05, seal_at=0) as writer:
        writer.add(rows[:3000])
        writer.seal()
        for start in range(3000, 5000, 200):
            writer.add(rows[start : start + 200], metadata=[{"n": i % 3} for i in range(200)])
            writer.delete([start + 7, start // 3])
            writer.range_search(rows[:2])
        with memvec.open(tmp_path / "c.mv", read_only=True) as reader:
            for where in (None, {"n": {"$ne": 1}}):
                mine = writer.range_search(rows[:200], where=where)
                other = reader.range_search(rows[:200], where=where)
                assert mine.certificate == other.certificate
                assert mine.certificate.source == "reserve"
                assert mine.ids.tolist() == other.ids.tolist()
                mine, other = (one.search(rows[:50], 5, where=where) for one in (writer, reader))
                assert mine.certificate == other.certificate
                assert mine.ids.tolist() == other.ids.tolist()


def test_collection_of_small_segments_calibrates_on_them(tmp_path):
    rows = around(np.random.default_rng(2).standard_normal((40, 16)), 0.45, 1, 3000)
    config = memvec.IndexConfig(unit_size=8)
    path = tmp_path / "c.mv"
    with memvec.open(path, dim=16, miss_rate=0.05, seal_at=0, config=config) as collection:
        for start in range(0, 720, 90):
            collection.add(rows[start : start + 90])
            collection.seal()
        assert len(collection._store.state.segments) == 8
        certificate = collection.range_search(rows[:1], guarantee="expected").certificate
        assert (certificate.source, certificate.population) == ("reserve", 720)
        assert certificate.n_queries >= 20


def test_without_a_reserve_evidence_is_planted(tmp_path):
    rows = around(np.random.default_rng(2).standard_normal((40, 16)), 0.45, 1, 3000)
    config = memvec.IndexConfig(reserve=0)
    path = tmp_path / "c.mv"
    with memvec.open(path, dim=16, miss_rate=0.05, seal_at=0, config=config) as collection:
        collection.add(rows[:2500])
        collection.seal()
        collection.add(rows[2500:])
        certificate = collection.range_search(rows[:1]).certificate
        assert (certificate.source, certificate.population) == ("synthetic", None)


def test_a_collection_with_few_rows_left_answers(tmp_path):
    rows = around(np.random.default_rng(2).standard_normal((40, 16)), 0.45, 1, 4000)
    with memvec.open(tmp_path / "c.mv", dim=16, miss_rate=0.05, seal_at=0) as collection:
        for start in (0, 2000):
            collection.add(rows[start : start + 2000])
            collection.seal()
        collection.delete([i for i in range(4000) if i not in (5, 2005, 3000)])
        hits = collection.range_search(rows[[5, 2005, 3000]])
        assert [row.ids[0] for row in hits] == [5, 2005, 3000]
        collection.delete([5, 2005, 3000])
        assert collection.range_search(rows[:5]).counts.sum() == 0
        collection.add(rows[:30], ids=range(30))
        assert collection.range_search(rows[5])[0].ids[0] == 5


def test_sample_of_several_shards_is_twice_as_large(tmp_path):
    """Rows that match seldom need many queries to tell of them; sizes are left to chance."""
    rows = np.random.default_rng(0).standard_normal((9000, DIM))
    with (
        memvec.open(tmp_path / "one", dim=DIM, seal_at=0) as one,
        cluster.open(tmp_path / "two", shards=2, dim=DIM, seal_at=0, local=True) as two,
    ):
        for collection, expected in ((one, 2000), (two, 4000)):
            collection.add(rows)
            found = _sample.Samples(0).of(collection._reading.state())
            spread = np.sqrt(expected * (1 - expected / found.population))
            assert abs(len(found.keys) - expected) < 5 * spread  # seen: 80, 32
        shares = np.bincount(found.keys // _catalog.NUMBERS_OF_SHARD) / len(found.keys)
        assert np.all(np.abs(shares - 0.5) < 5 * 0.5 / np.sqrt(4000))  # seen: 0.0005
