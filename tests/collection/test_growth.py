"""The miss rate is held while a collection grows, changes in kind, and loses rows.

Two kinds of rows: tight clusters, whose matches any units find, and loose ones, which need more
room. Calibrated on the first kind alone, searches for the second miss two to three times as much as
they may.
"""

import shutil
from dataclasses import dataclass, field

import numpy as np
import pytest

import memvec
import naive
from memvec.evaluation import count_misses, exact_range, exact_top_k
from memvec.matches import Matches

DIM, ALLOWED = 64, 0.05


@dataclass
class Kinds:
    """A collection of tight and loose clusters, and which of its rows live."""

    collection: memvec.Collection
    seed: int
    n_tight: int
    n_loose: int
    vectors: list = field(default_factory=list)
    living: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.centres = {
            "tight": self.rng.standard_normal((self.n_tight, DIM)),
            "loose": self.rng.standard_normal((self.n_loose, DIM)),
        }

    def rows(self, kind, n):
        centres, noise = self.centres[kind], {"tight": 0.2, "loose": 0.55}[kind]
        chosen = centres[self.rng.integers(len(centres), size=n)]
        return naive.unit_rows(chosen + noise * self.rng.standard_normal((n, DIM)))

    def add(self, kind, n, *, seal=True):
        """Add rows, numbered from 0 on over all calls, with a coin that vectors know nothing of."""
        first = sum(map(len, self.vectors))
        ids = list(range(first, first + n))
        self.vectors.append(self.rows(kind, n))
        metadata = [{"kind": kind, "coin": int(c)} for c in self.rng.integers(2, size=n)]
        self.collection.add(self.vectors[-1], ids, metadata)
        self.living += [(i, kind, one["coin"]) for i, one in zip(ids, metadata, strict=True)]
        if seal:
            self.collection.seal()

    def delete(self, kind, n):
        gone = {i for i, own, _ in self.living if own == kind}
        gone = set(sorted(gone)[:n])
        self.collection.delete(sorted(gone))
        self.living = [row for row in self.living if row[0] not in gone]

    def queries(self, n):
        """Return new rows of both kinds, in the proportion of what lives, in random order."""
        share = np.mean([kind == "tight" for _, kind, _ in self.living])
        n_tight = round(n * share)
        rows = [self.rows("tight", n_tight), self.rows("loose", n - n_tight)]
        return self.rng.permutation(np.concatenate(rows))

    def missed(self, n, where=None):
        """Return the misses of a range search and its certificate."""
        queries = self.queries(n)
        ids, rows = self.passing(where)
        truth = exact_range(rows, queries, 0.7)
        hits = self.collection.range_search(queries, where=where)
        found = [np.searchsorted(ids, np.sort(one.ids.astype(np.int64))) for one in hits]
        return count_misses(truth, Matches.from_rows(found)), hits.certificate

    def passing(self, where):
        (name, value), *_ = (where or {"": None}).items()
        place = {"kind": 1, "coin": 2, "": 0}[name]
        kept = np.array([row[0] for row in self.living if where is None or row[place] == value])
        return kept, np.concatenate(self.vectors)[kept]

    def not_among_the_nearest(self, n, k):
        """Return the share of the k nearest that each query misses, and the certificate."""
        queries = self.queries(n)
        ids, rows = self.passing(None)
        truth = ids[exact_top_k(rows, queries, k).ids]
        found = self.collection.search(queries, k)
        shares = [
            1 - len(set(a) & set(b)) / k for a, b in zip(truth.tolist(), found.ids, strict=True)
        ]
        return np.array(shares), found.certificate


@pytest.fixture
def kinds(quick_path):
    """Return a function that makes a collection, in place of the one before."""
    path, opened = quick_path / "c.mv", []

    def remove():
        while opened:
            opened.pop().close()
            shutil.rmtree(path)

    def make(seed, n_tight, n_loose):
        remove()
        opened.append(memvec.open(path, dim=DIM, similarity=0.7, miss_rate=ALLOWED, seal_at=0))
        return Kinds(opened[-1], seed, n_tight, n_loose)

    yield make
    remove()


def assert_held(misses, certificate, n_queries=2000):
    """Assert that no more is missed than is allowed, and two standard errors.

    Both the queries asked and those calibrated on are draws.
    """
    assert certificate.level == "expected"
    assert certificate.source == "reserve"
    assert misses.n_queries >= n_queries
    error = misses.standard_error * np.sqrt(1 + misses.n_queries / certificate.n_queries)
    assert misses.miss_rate <= ALLOWED + 2 * error


def after_deletes(make, seed, scale):
    """20 tight clusters of which few rows are left, and many loose ones."""
    made = make(seed, 20, int(3000 * scale))
    for kind, n in (("tight", 20_000), ("loose", 10_000)):
        made.add(kind, int(n * scale), seal=kind == "loose")
    made.delete("tight", int(19_000 * scale))
    return made


def after_growth(make, seed, scale):
    """Four segments of tight clusters, then five of loose ones."""
    made = make(seed, int(4000 * scale), int(15_000 * scale))
    for kind in ["tight"] * 4 + ["loose"] * 5:
        made.add(kind, int(10_000 * scale))
    return made


def after_small_seals(make, seed, scale):
    """A segment of tight clusters, then small ones of loose clusters."""
    made = make(seed, int(1900 * scale), int(5130 * scale))
    made.add("tight", int(19_000 * scale))
    for _ in range(9):
        made.add("loose", int(1900 * scale))
    return made


def while_waiting(make, seed, scale):
    """A segment of tight clusters and some loose ones, then loose ones that wait."""
    made = make(seed, int(1900 * scale), int(5130 * scale))
    made.add("tight", int(19_000 * scale), seal=False)
    made.add("loose", int(6000 * scale))
    made.add("loose", int(12_000 * scale), seal=False)
    return made


SCENARIOS = {
    "deletes": (after_deletes, 0.4),
    "growth": (after_growth, 0.1),
    "small seals": (after_small_seals, 0.15),
    "waiting": (while_waiting, 0.3),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_miss_rate_is_held_where_the_living_rows_change(kinds, name):
    scenario, scale = SCENARIOS[name]
    made = scenario(kinds, 1, scale)
    misses, certificate = made.missed(2300)
    assert_held(misses, certificate)
    assert certificate.population >= 0.98 * len(made.living)
    for where in ({"coin": 1}, {"kind": "loose"}):
        misses, certificate = made.missed(2300, where)
        assert_held(misses, certificate, n_queries=1200)
        assert certificate.filter == "calibrated on the matches that pass"
    shares, certificate = made.not_among_the_nearest(1000, 10)
    error = np.std(shares) * np.sqrt(1 / 1000 + 1 / certificate.n_queries)
    assert certificate.level == "expected"
    assert np.mean(shares) <= ALLOWED + 2 * error


def test_miss_rate_is_held_after_everything_was_replaced(kinds):
    made = kinds(1, 400, 600)
    made.add("tight", 4000)
    made.vectors = [made.rows("loose", 4000)]
    made.living = [(i, "loose", 0) for i in range(4000)]
    made.collection.upsert(made.vectors[0], list(range(4000)))
    assert made.missed(2300)[0].miss_rate <= ALLOWED
    made.collection.seal()
    assert_held(*made.missed(2300))


def test_miss_rate_is_held_after_rows_were_deleted_and_added_again(kinds):
    made = kinds(1, 400, 600)
    made.add("tight", 3000)
    made.add("loose", 3000)
    made.collection.delete(range(3000, 6000))
    made.collection.add(made.vectors[1], range(3000, 6000))
    made.collection.seal()
    assert_held(*made.missed(2300))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_mean_miss_rate_over_collections_is_held(kinds, name):
    rates = [SCENARIOS[name][0](kinds, seed, 1.0).missed(3000)[0].miss_rate for seed in range(20)]
    error = np.std(rates, ddof=1) / np.sqrt(len(rates))
    assert np.mean(rates) <= ALLOWED + 2 * error


def test_waiting_rows_of_another_kind_are_hardly_missed(kinds):
    """Sealed tight clusters say nothing of what thresholds lose among loose ones that wait.

    With noise of 0.6 instead of 0.55, 0.0 to 0.8 % were missed over three seeds, and 10 to 16 %
    with the thresholds of what is sealed.
    """
    made = kinds(1, 300, 900)
    made.add("tight", 3000)
    made.add("loose", 4096, seal=False)
    misses, certificate = made.missed(2600)
    assert certificate.source == "reserve"
    assert misses.n_queries_with_matches >= 2000
    assert misses.miss_rate <= ALLOWED


@pytest.mark.parametrize("k", [20, 54])
def test_nearest_are_found_after_a_random_half_was_deleted(quick_path, k):
    """Of 8,000 such vectors, 2.4 % of the 20 nearest were missed, and 5 to 8 % of the 54 nearest
    where gaps in the ranks were closed up.
    """
    rng = np.random.default_rng(1)
    centres = naive.unit_rows(rng.standard_normal((40, 48)))

    def draw(n):
        noise = 0.14 * rng.standard_normal((n, 48))
        return naive.unit_rows(centres[rng.integers(40, size=n)] + noise)

    vectors, queries = draw(6000), draw(1000)
    with memvec.open(
        quick_path / "c.mv", dim=48, similarity=0.9, miss_rate=ALLOWED, seal_at=0
    ) as collection:
        collection.add(vectors, list(range(6000)))
        collection.seal(progress=False)
        gone = np.sort(rng.choice(6000, 3000, replace=False))
        collection.delete(gone.tolist())
        living = np.setdiff1d(np.arange(6000), gone)
        truth = living[exact_top_k(vectors[living], queries, k).ids]
        found = collection.search(queries, k).ids
        shares = [1 - len(set(a) & set(b)) / k for a, b in zip(truth.tolist(), found, strict=True)]
    assert np.mean(shares) <= ALLOWED + 2 * np.std(shares) / np.sqrt(len(shares))
