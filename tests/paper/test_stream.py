"""The stream of figure 17: made up or read, gone through batch by batch."""

import numpy as np
import pytest

from paper import DataFolders, Run
from paper.fig17_100m import FIG17
from paper.fig17_stream import MadeUpStream, made_up_source, read_source
from paper.table import Table

SETTINGS = {
    "vectors": 900,
    "together": 600,
    "batch": 300,
    "dim": 32,
    "queries": 30,
    "rounds": 2,
}


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_families_come_together_in_a_batch_or_are_scattered():
    def matches(together):
        """Count pairs of a family in the first batch of three and with the second."""
        stream = MadeUpStream(3000, 256, 0, together)
        first, second = (stream.batch(number, 1000) for number in (0, 1))
        within = np.count_nonzero(np.triu(first @ first.T > 0.5, 1))
        return within, np.count_nonzero(first @ second.T > 0.5)

    within, across = matches(together=True)
    assert within > 20 * across
    within, across = matches(together=False)
    assert across > within > 0


def test_queries_of_a_made_up_stream_match_families_of_every_batch():
    source = made_up_source("s", MadeUpStream(3000, 256, 0, together=True), 1000, 300)
    assert source.n_batches == 3
    seen = [np.count_nonzero(source.queries @ batch.T > 0.5) for batch in source.batches(0)]
    assert min(seen) > 100


def test_stream_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    def run(folder):
        return FIG17.compute(Run(SETTINGS, "smoke", 0, DataFolders(), folder))

    whole = run(tmp_path / "whole")
    made = MadeUpStream.batch

    def fails_at_the_third(stream, number, size):
        if number == 2:
            raise KeyboardInterrupt
        return made(stream, number, size)

    monkeypatch.setattr("paper.fig17_100m._sources", lambda run: sources)
    scattered = MadeUpStream(900, 32, 0)
    sources = [made_up_source("families scattered", scattered, 300, 30)]
    monkeypatch.setattr(MadeUpStream, "batch", fails_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts")
    asked = []
    monkeypatch.setattr(
        MadeUpStream, "batch", lambda *given: (asked.append(given[1]), made(*given))[1]
    )
    resumed = run(tmp_path / "parts")
    assert asked == [2]
    expected = whole.where(stream="families scattered")
    for name in ("ratio", "found", "matches", "vectors"):
        np.testing.assert_array_equal(resumed.column(name), expected.column(name))


@pytest.fixture
def yahoo(tmp_path):
    """1,200 vectors in two files: 100 pairs at cosine 0.8, the others far from each other."""
    rng = np.random.default_rng(3)
    rows = unit(rng.standard_normal((1200, 256)))
    rows[1100:] = unit(0.8 * rows[:100] + 0.6 * unit(rng.standard_normal((100, 256))))
    folder = tmp_path / "yahoo100m"
    folder.mkdir()
    rows = rows[rng.permutation(len(rows))]
    np.save(folder / "a.npy", rows[:500])
    np.save(folder / "b.npy", rows[500:])
    return rows


@pytest.mark.parametrize(("wanted", "there"), [(10**8, 1200), (700, 700)])
def test_queries_are_chosen_at_random_and_do_not_match_themselves(tmp_path, yahoo, wanted, there):
    settings = SETTINGS | {"vectors": wanted, "queries": 300}
    table = FIG17.compute(Run(settings, "small", 0, DataFolders((tmp_path,))))
    source = read_source("s", tmp_path / "yahoo100m", wanted, 300, 300, seed=0)
    assert source.n_batches == -(-there // 300)
    np.testing.assert_allclose(source.queries, yahoo[source.own], atol=1e-6)
    assert len(np.unique(source.own)) == 300
    assert source.own.max() > there // 2
    alike = yahoo[source.own] @ yahoo[:there].T > 0.5
    alike[np.arange(300), source.own] = False
    matched = alike.sum(axis=1)
    assert 0 < np.count_nonzero(matched) < 100
    first = table.to_records()[0]
    assert first["queries"] == np.count_nonzero(matched)
    assert first["matches"] == matched[matched > 0].mean()
    assert (first["vectors"], first["batches"]) == (there, source.n_batches)
    # Everything is found at the largest threshold's ratio or below it.
    assert table.where(variant="random pinv").column("found")[-1] > 0.9


def test_bar_counts_the_batches_there_are(tmp_path, yahoo, monkeypatch):
    totals, steps = [], []

    class Bar:
        def __enter__(self):
            return steps.append

        def __exit__(self, *given):
            return None

    monkeypatch.setattr(Run, "bar", lambda run, name, total: (totals.append(total), Bar())[1])
    settings = SETTINGS | {"vectors": 700}
    FIG17.compute(Run(settings, "small", 0, DataFolders((tmp_path,))))
    assert totals == [3]
    assert sum(steps) == 3


def test_checkpoint_of_other_files_is_not_used(tmp_path, yahoo):
    run = Run(SETTINGS, "small", 0, DataFolders((tmp_path,)), tmp_path / "kept")
    first = FIG17.compute(run)
    np.save(tmp_path / "yahoo100m" / "b.npy", unit(np.random.default_rng(4).random((600, 256))))
    assert FIG17.compute(run).column("matches")[0] != first.column("matches")[0]


def test_nothing_is_said_where_no_query_has_a_match(tmp_path):
    folder = tmp_path / "yahoo100m"
    folder.mkdir()
    np.save(folder / "a.npy", unit(np.random.default_rng(0).standard_normal((400, 512))))
    table = FIG17.compute(Run(SETTINGS, "small", 0, DataFolders((tmp_path,))))
    verdict = FIG17.check(table)
    assert verdict.outcome == "not-run"
    assert "No query has 1 to 1000 matches" in verdict.note
    assert "0 of 30 queries" in verdict.note


def curves(stream, **reached):
    """A table in which each variant finds 98 % at 0.1 and everything from a ratio on."""
    rows = []
    for variant, ratio in reached.items():
        known = (100, 500, 12.0, 10**6, 512, 100, 0.01, 1.5)
        name = variant.replace("_", " ").replace("kmeans", "k-means")
        for point, found in ((0.1, 0.98), (ratio, 1.0)):
            rows.append((stream, name, point, found, *known))
    columns = FIG17.compute(Run(SETTINGS, "smoke")).columns
    return Table("t", columns, tuple(rows))


def test_made_up_streams_illustrate_and_reproduce_nothing():
    # 99 % lies half way between 0.1 and the ratios.
    reached = {"random_pinv": 0.14, "kmeans_pinv": 0.12, "kmeans_sum": 0.3}
    verdict = FIG17.check(curves("families scattered", **reached))
    assert [finding.holds for finding in verdict.findings] == [True, True]
    assert verdict.outcome == "illustrated"
    assert "random pinv 0.120, k-means pinv 0.110, k-means sum 0.200" in verdict.findings[0].numbers
    assert "1,000,000 vectors of 512 dimensions in 100 batches, 1.5 s" in verdict.note
    assert FIG17.check(curves("Yahoo100M", **reached)).outcome == "reproduced"
