import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.assignment import (
    Assignment,
    _split,
    batch_assignment,
    kmeans_assignment,
    random_assignment,
    two_step_assignment,
)
from memvec.errors import InvalidTypeError, InvalidValueError
from strategies import seeds

RULES = [("sum", False), ("sum", True), ("pinv", False), ("pinv", True)]


def clustered(seed, n_clusters, copies, dim=16, noise=0.1):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_clusters, dim))
    return naive.unit_rows(
        np.repeat(centres, copies, 0) + noise * rng.standard_normal((n_clusters * copies, dim))
    )


def check_partition(assignment, n_vectors, n_units):
    assert assignment.n_units == n_units
    assert assignment.sizes.sum() == n_vectors
    assert assignment.sizes.min() >= 1
    for unit in range(n_units):
        members = assignment.order[assignment.offsets[unit] : assignment.offsets[unit + 1]]
        np.testing.assert_array_equal(members, np.flatnonzero(assignment.labels == unit))
    assert assignment.imbalance == pytest.approx(naive.imbalance(assignment.labels, n_units))


@given(n_vectors=st.integers(1, 200), unit_size=st.integers(1, 50), seed=seeds)
def test_random_units_differ_by_at_most_one(n_vectors, unit_size, seed):
    assignment = random_assignment(n_vectors, unit_size, seed=seed)
    check_partition(assignment, n_vectors, -(-n_vectors // unit_size))
    assert assignment.sizes.max() - assignment.sizes.min() <= 1
    assert assignment.sizes.max() <= unit_size


def test_random_assignment_follows_its_seed():
    first, again, other = (random_assignment(100, 7, seed=seed).labels for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(("construction", "normalised"), RULES)
def test_kmeans_keeps_well_separated_clusters_together(construction, normalised):
    vectors = clustered(1, n_clusters=12, copies=5)
    found = kmeans_assignment(
        vectors, 5, construction=construction, normalised=normalised, iterations=20, seed=3
    )
    check_partition(found, 60, 12)
    together = sum(len(np.unique(group)) == 1 for group in found.labels.reshape(12, 5))
    # Seen: 11, 11, 10, 10. Seeds are drawn far apart, so a cluster is rarely without one.
    assert together >= 10


@settings(deadline=None, max_examples=25)
@given(
    seed=seeds,
    n_vectors=st.integers(1, 60),
    unit_size=st.integers(1, 80),
    rule=st.sampled_from(RULES),
)
def test_kmeans_always_gives_a_partition_without_empty_units(seed, n_vectors, unit_size, rule):
    vectors = np.random.default_rng(seed).standard_normal((n_vectors, 3))
    found = kmeans_assignment(
        vectors, unit_size, construction=rule[0], normalised=rule[1], iterations=4, seed=seed
    )
    check_partition(found, n_vectors, -(-n_vectors // unit_size))


def test_converged_kmeans_is_a_fixed_point():
    vectors = clustered(2, n_clusters=20, copies=6)
    found = kmeans_assignment(vectors, 6, construction="sum", normalised=True, iterations=50)
    assert found.converged
    centroids = np.stack([vectors[found.labels == u].sum(0) for u in range(found.n_units)])
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    _, winners = naive.best_units(vectors, centroids)
    assert winners[np.arange(len(vectors)), found.labels].all()


def test_duplicates_beyond_the_number_of_units_are_shared_out():
    found = kmeans_assignment(np.ones((50, 4)), unit_size=5)
    check_partition(found, 50, 10)


@pytest.mark.parametrize("method", ["kmeans", "batch", "two_step", "scanned"])
def test_assignment_follows_its_seed_and_not_the_threads(method):
    vectors = clustered(4, n_clusters=40, copies=10, noise=0.4)
    run = {
        "kmeans": lambda **options: kmeans_assignment(vectors, 8, **options),
        "batch": lambda **options: batch_assignment(vectors, 8, 150, **options),
        "two_step": lambda **options: two_step_assignment(vectors, 8, **options),
        "scanned": lambda **options: two_step_assignment(vectors, 8, scans=(0.5,), **options),
    }[method]
    one, two, other = run(seed=5, threads=1), run(seed=5, threads=3), run(seed=6, threads=1)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert (one.labels != other.labels).any()


@settings(deadline=None, max_examples=20)
@given(
    seed=seeds, n_vectors=st.integers(1, 80), unit_size=st.integers(1, 9), batch=st.integers(1, 90)
)
def test_batches_partition_and_never_mix(seed, n_vectors, unit_size, batch):
    vectors = np.random.default_rng(seed).standard_normal((n_vectors, 4))
    found = batch_assignment(vectors, unit_size, batch, iterations=3, seed=seed)
    # The batches are the first draw, and each has its share of the units.
    drawn = np.random.default_rng(seed).permutation(n_vectors)
    batches = np.array_split(drawn, -(-n_vectors // batch))
    assert max(map(len, batches)) <= batch
    check_partition(found, n_vectors, sum(-(-len(rows) // unit_size) for rows in batches))
    units = [set(found.labels[rows].tolist()) for rows in batches]
    assert [len(own) for own in units] == [-(-len(rows) // unit_size) for rows in batches]
    assert len(set.union(*units)) == found.n_units  # none has vectors of two batches


@settings(deadline=None, max_examples=20)
@given(seed=seeds, n_vectors=st.integers(1, 80), unit_size=st.integers(1, 9))
def test_two_step_partitions_into_about_the_wanted_number(seed, n_vectors, unit_size):
    vectors = np.random.default_rng(seed).standard_normal((n_vectors, 4))
    found = two_step_assignment(vectors, unit_size, iterations=3, seed=seed)
    check_partition(found, n_vectors, len(np.unique(found.labels)))
    wanted = -(-n_vectors // unit_size)
    assert abs(found.n_units - wanted) <= round(np.sqrt(wanted))


def test_two_step_gives_the_wanted_number_where_no_cluster_is_tiny():
    vectors = np.random.default_rng(6).standard_normal((80, 4))
    found = {size: two_step_assignment(vectors, size, iterations=3).n_units for size in (1, 3, 9)}
    assert found == {1: 80, 3: 27, 9: 9}


def test_two_step_numbers_units_cluster_by_cluster():
    vectors = clustered(5, n_clusters=4, copies=20, noise=0.05)
    found = two_step_assignment(vectors, 5, n_clusters=4, iterations=20)
    for group in found.labels.reshape(4, 20):
        assert group.max() - group.min() <= 4


def test_two_step_refines_like_a_round_of_k_means():
    vectors = clustered(7, n_clusters=12, copies=20, noise=0.7)
    options = {"n_clusters": 6, "construction": "sum", "normalised": True, "iterations": 3}
    plain = two_step_assignment(vectors, 5, refinements=0, **options)
    refined = two_step_assignment(vectors, 5, refinements=1, **options)
    units = [vectors[plain.labels == unit].sum(axis=0) for unit in range(plain.n_units)]
    units = [unit / np.linalg.norm(unit) for unit in units]
    nearest = np.argmax(vectors @ np.transpose(units), axis=1)
    assert len(set(nearest)) == plain.n_units  # no unit is left empty
    np.testing.assert_array_equal(refined.labels, nearest)
    assert (refined.labels != plain.labels).any()
    np.testing.assert_array_equal(refined.group_offsets, plain.group_offsets)


def test_two_step_names_the_nearest_units():
    vectors = clustered(7, n_clusters=12, copies=20, noise=0.7)
    found = two_step_assignment(vectors, 5, n_clusters=6)
    assert found.near_units.shape == (240, 16)
    assert (found.near_units[:, 0] == found.labels).mean() > 0.9  # all but those of empty units
    assert all(len(set(row)) == 16 for row in found.near_units)
    scanned = two_step_assignment(vectors, 5, n_clusters=6, scans=(0.5,))
    assert scanned.near_units.shape == (240, 16)
    assert (scanned.near_units[:, 0] == scanned.labels).mean() > 0.9
    assert two_step_assignment(vectors, 5, refinements=0).near_units is None


def test_clusters_in_groups_are_found_nearly_as_well(monkeypatch):
    """Clusters that are too many to be compared with all of them make units as tight."""
    vectors = clustered(9, n_clusters=60, copies=20, noise=0.3)
    options = {"n_clusters": 60, "construction": "sum", "normalised": True}
    means = {}
    for most in (1000, 10):
        monkeypatch.setattr(_split, "_MOST_CLUSTERS", most)
        monkeypatch.setattr(_split, "_CLUSTERS_A_GROUP", 6)
        found = two_step_assignment(vectors, 5, **options)
        check_partition(found, len(vectors), 240)
        units = naive.unit_rows([vectors[found.labels == unit].sum(axis=0) for unit in range(240)])
        means[most] = np.einsum("ij,ij->i", vectors, units[found.labels]).mean()
    assert means[10] > means[1000] - 0.01  # Seen: equal to 0.001


def test_assignments_compare_by_identity():
    one, other = random_assignment(10, 5), random_assignment(10, 5)
    assert one != other
    assert len({one, other}) == 2


def test_repr_reads_well():
    assert repr(random_assignment(10, 5)) == "Assignment(10 vectors in 2 units, imbalance 1.00)"
    text = repr(Assignment(np.array([0, 0, 1]), 2, iterations=3, converged=False))
    assert text == "Assignment(3 vectors in 2 units, imbalance 1.11, 3 rounds, not converged)"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: random_assignment(0, 5), "'n_vectors' parameter of random_assignment .* Got 0"),
        (lambda: random_assignment(5, 0), "'unit_size' parameter of random_assignment .* Got 0"),
        (lambda: kmeans_assignment(np.empty((0, 3)), 2), r"at least one row.*Got shape \(0, 3\)"),
        (lambda: kmeans_assignment(np.ones(3), 2), r"two-dimensional.* Got shape \(3,\)"),
        (lambda: kmeans_assignment([[1, 0], [0, 0]], 2), "Got only zeros in row 1"),
        (lambda: kmeans_assignment([[1, 0]], 1, iterations=0), "'iterations' .* Got 0"),
        (lambda: kmeans_assignment([[1, 0]], 1, seed=-1), "'seed' .* Got -1"),
        (lambda: kmeans_assignment([[1, 0]], 1, construction="mean"), "Got 'mean' instead"),
        (lambda: batch_assignment([[1, 0]], 1, 0), "'batch_size' .* Got 0"),
        (lambda: batch_assignment([[1, 0]], 0, 1), "'unit_size' .* Got 0"),
        (lambda: two_step_assignment([[1, 0]], 1, n_clusters=0), "'n_clusters' .* Got 0"),
        (lambda: two_step_assignment([[1, 0]], 1, refinements=-1), "'refinements' .* Got -1"),
    ],
)
def test_bad_values_are_refused(call, text):
    with pytest.raises(InvalidValueError, match=text):
        call()


def test_bad_types_are_refused():
    with pytest.raises(InvalidTypeError, match="'unit_size' .* Got 2.5"):
        kmeans_assignment([[1, 0]], 2.5)
    with pytest.raises(InvalidTypeError, match="real numbers. Got dtype"):
        kmeans_assignment([["a", "b"]], 1)
