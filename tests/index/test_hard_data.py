"""Data on which a stated miss rate is hard to hold: crowded, nearly copied, heavy, long."""

import tracemalloc

import numpy as np
import pytest

import memvec
import naive
from memvec import Index, IndexConfig
from memvec.evaluation import count_misses, exact_range
from memvec.guarantee import CalibrationTable, Certificate
from memvec.matches import Matches

RATE = 0.05


def crowded(rng, n, n_queries, dim=256):
    """Vectors with a mean cosine of 0.75: below most thresholds, everything matches everything."""
    n_tops, n_subs = n // 135, 5
    mean, top = naive.unit_rows(rng.standard_normal((1, dim))), rng.standard_normal((n_tops, dim))
    sub = naive.unit_rows(rng.standard_normal((n_tops * n_subs, dim)))
    top = naive.unit_rows(top)

    def draw(count):
        t, s = rng.integers(n_tops, size=count), rng.integers(n_subs, size=count)
        noise = naive.unit_rows(rng.standard_normal((count, dim)))
        parts = (0.75, mean), (0.16, top[t]), (0.06, sub[t * n_subs + s]), (0.03, noise)
        return naive.unit_rows(sum(share**0.5 * part for share, part in parts)).astype(np.float32)

    return draw(n), draw(n_queries)


def nearly_copied(rng, n, n_queries, dim=64):
    """Points of a circle in many dimensions, with little noise."""
    plane = np.linalg.qr(rng.standard_normal((dim, 2)))[0].T

    def draw(count):
        points = naive.unit_rows(rng.standard_normal((count, 2))) @ plane
        noisy = points + 0.0025 * rng.standard_normal((count, dim))
        return naive.unit_rows(noisy).astype(np.float32)

    return draw(n), draw(n_queries)


def assert_kept(index, queries, similarity, rate=RATE):
    seen = index.measure(queries, similarity, miss_rate=rate, progress=False)
    assert seen.n_with_matches >= 2000
    # One standard error of a mean of shares with this mean is at most √(ε/n).
    assert seen.miss_rate <= rate + 2 * np.sqrt(rate / seen.n_with_matches)
    return seen


def test_crowded_data_keeps_the_promise():
    """Seen: 4.2 % missed.

    A plain draw of the matches does as well on so few vectors; the test of thinned matches below
    tells the two apart.
    """
    vectors, queries = crowded(np.random.default_rng(1), 8000, 2200, dim=64)
    index = Index.build(vectors, similarity=0.9, miss_rate=RATE, progress=False)
    assert_kept(index, queries, 0.88)


def test_certificate_of_crowded_data_is_true_of_its_own_queries():
    vectors, _ = crowded(np.random.default_rng(2), 6000, 1, dim=64)
    index = Index.build(vectors, similarity=0.9, miss_rate=RATE, progress=False)
    certificate = index.range_search(vectors[:1], 0.88).certificate
    queries = vectors[index.reserve]
    truth = exact_range(vectors, queries, 0.88, exclude=index.reserve, progress=False)
    assert certificate.n_matches == len(truth.ids)
    assert not certificate.estimated
    found = index.range_search(queries, 0.88)
    kept = found.ids != np.repeat(index.reserve, found.counts)
    own = np.repeat(np.arange(len(queries)), found.counts)[kept]
    answer = Matches.of_pairs(own, found.ids[kept], found.scores[kept], found.spent)
    misses = count_misses(truth, answer)
    assert certificate.observed == pytest.approx(misses.miss_rate, abs=0.004)
    assert index.range_search(vectors[:1], 0.885).certificate.estimated


@pytest.mark.parametrize("similarity", [0.99, 0.995, 0.999])
def test_near_copies_keep_the_promise_on_real_matches(similarity):
    """Seen: 4.4 % missed. Before, evidence was planted at 0.99, and 7.7 % missed from 0.995 on."""
    vectors, queries = nearly_copied(np.random.default_rng(0), 4000, 2500)
    index = Index.build(vectors, similarity=0.95, miss_rate=RATE, progress=False)
    assert index.range_search(queries[:1], similarity).certificate.source == "reserve"
    assert_kept(index, queries, similarity)


def test_long_rows_are_not_lost_to_rounding():
    """Sums of so many products lose more than 1e-5 in float32, whatever the order."""
    dim = 65_536
    row = np.full(dim, np.sqrt(0.9 * 2.0**-31))
    row[:256] = np.sqrt((1 - (row[256:] ** 2).sum()) / 256)
    vectors = np.random.default_rng(0).standard_normal((12, dim)).astype(np.float32)
    vectors[7] = row.astype(np.float32)
    for codes in ("none", "estimate"):
        index = Index.build(vectors, config=IndexConfig(codes=codes), progress=False)
        hits = index.range_search(vectors[7], 0.999995, guarantee="exact")
        assert hits.ids.tolist() == [7]


def test_memory_of_many_questions_is_bounded():
    """Many miss rates at two similarities: kept are thresholds, not rows of the table."""
    rng = np.random.default_rng(3)
    scale = rng.pareto(1.0, size=(2500, 1)) + 0.1
    common = rng.standard_normal((1, 32))
    vectors = rng.standard_normal((2500, 32)) / scale + common
    index = Index.build(vectors, similarity=0.7, progress=False)
    table = index.calibration_table
    assert len(table) > 20_000
    index.range_search(vectors[:1])
    tracemalloc.start()
    for rate in np.linspace(0.02, 0.3, 6):
        for similarity in (0.7, 0.8):
            index.range_search(vectors[:1], similarity, miss_rate=float(rate))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Each rate kept some twenty parts of the table before; the one that is kept is in order of the
    # cosine.
    assert kept < 2 * table.n_bytes


def test_unsupported_cells_above_do_not_void_what_is_supported():
    """So small a rate cannot be planted for 0.95, and yet 0.7 has evidence enough."""
    rng = np.random.default_rng(4)
    centres = rng.standard_normal((300, 16))
    vectors = np.repeat(centres, 4, axis=0) + 0.45 * rng.standard_normal((1200, 16))
    queries = centres[rng.integers(300, size=21_500)] + 0.45 * rng.standard_normal((21_500, 16))
    index = Index.build(vectors, similarity=0.7, queries=queries, progress=False)
    rate = 1 / 20_500
    hits = index.range_search(queries[:1], 0.7, miss_rate=rate, guarantee="expected")
    certificate = hits.certificate
    assert (certificate.level, certificate.source) == ("expected", "queries")
    assert certificate.n_queries >= 20_500


def test_profile_tells_what_the_mean_hides():
    vectors, queries = nearly_copied(np.random.default_rng(0), 3000, 10)
    index = Index.build(vectors, similarity=0.95, miss_rate=0.2, progress=False)
    certificate = index.range_search(queries, 0.97).certificate
    profile = certificate.profile
    assert profile.n_queries == certificate.n_queries
    assert 0 <= profile.missed_all <= certificate.observed <= profile.worst_tenth <= 1
    assert sum(band.n_matches for band in profile.bands) == pytest.approx(certificate.n_matches)
    mean = sum(band.n_matches * band.missed for band in profile.bands) / certificate.n_matches
    assert mean == pytest.approx(certificate.pair_miss)
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert profile.plot().axes
    assert "worst tenth" in str(profile)


def test_rows_above_a_similarity_share_the_memory_of_the_table():
    n = 50
    table = CalibrationTable(
        queries=np.arange(n) % 7,
        cosines=np.random.default_rng(0).random(n),
        ranks=np.zeros(n, dtype=np.int64),
        keys=np.arange(n),
        copies=np.ones(n, dtype=np.float32),
        scores=np.zeros((n, 1), dtype=np.float32),
        slopes=np.zeros((n, 1), dtype=np.float32),
    )
    above = table.above(0.5)
    assert sorted(above.keys) == sorted(table.keys[table.cosines >= 0.5 - 1e-6])
    assert np.shares_memory(above.scores, table.above(0.2).scores)


def test_measurement_tells_what_the_mean_hides():
    vectors, queries = nearly_copied(np.random.default_rng(0), 3000, 200)
    index = Index.build(vectors, similarity=0.95, miss_rate=0.3, progress=False)
    seen = index.measure(queries, 0.97, progress=False)
    truth = exact_range(vectors, queries, 0.97, progress=False)
    hits = index.range_search(queries, 0.97)
    shares = [
        np.mean(~np.isin(all_of_it.ids, found.ids))
        for all_of_it, found in zip(truth, hits, strict=True)
    ]
    worst = np.sort(shares)[-20:]
    assert seen.profile.missed_all == pytest.approx(np.mean(np.array(shares) == 1))
    assert seen.profile.worst_tenth == pytest.approx(worst.mean())
    assert sum(band.n_matches for band in seen.profile.bands) == seen.n_matches


def test_three_quarters_of_the_similarity_are_natural_yet():
    """0.75 · 0.8 is 0.6000000000000001 in binary."""
    vectors, queries = crowded(np.random.default_rng(3), 2500, 1, dim=32)
    index = Index.build(vectors, similarity=0.8, miss_rate=RATE, progress=False)
    assert index.range_search(queries, 0.6).certificate.source == "reserve"
    assert index.range_search(queries, 0.59).certificate.source == "synthetic"


# Data, similarity of the build, similarity asked.
HARD = {
    "crowded": (lambda rng: crowded(rng, 12_000, 2300, dim=128), 0.9, 0.88),
    "near copies": (lambda rng: nearly_copied(rng, 4000, 2300), 0.95, 0.999),
}


def mean_misses(name, path, n_seeds):
    """Return the miss rates of some seeds, without a filter and with one that a tenth passes."""
    make, built_for, asked = HARD[name]
    rates = {"none": [], "a random tenth": []}
    for seed in range(n_seeds):
        rng = np.random.default_rng([seed, 15])
        vectors, queries = make(rng)
        metadata = [{"tenth": int(one)} for one in rng.integers(10, size=len(vectors))]
        settings = {"dim": vectors.shape[1], "similarity": built_for, "miss_rate": RATE}
        with memvec.open(path / f"{seed}.mv", seal_at=0, **settings) as collection:
            collection.add(vectors, metadata=metadata)
            collection.seal(progress=False)
            for filtered, where in (("none", None), ("a random tenth", {"tenth": 3})):
                seen = collection.measure(queries, asked, where=where)
                rates[filtered].append(seen.miss_rate)
    return rates


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_mean_miss_rate_over_seeds_is_held(name, tmp_path):
    for rates in mean_misses(name, tmp_path, 20).values():
        error = np.std(rates, ddof=1) / np.sqrt(len(rates))
        assert np.mean(rates) <= RATE + 2 * error
