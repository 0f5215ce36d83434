import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.assignment._nearest import NearestUnits
from strategies import seeds


def ignore(steps):
    """No progress to show."""


def check_against_twin(nearest, vectors, unit_vectors):
    best, winners = naive.best_units(vectors, unit_vectors)
    np.testing.assert_allclose(nearest.best, best, atol=1e-5)
    assert winners[np.arange(len(vectors)), nearest.labels].all()


@settings(deadline=None, max_examples=40)
@given(
    seed=seeds,
    n_vectors=st.integers(1, 60),
    n_units=st.integers(1, 30),
    shares=st.lists(st.floats(0, 1), max_size=6),
)
def test_update_finds_what_trying_everything_finds(seed, n_vectors, n_units, shares):
    rng = np.random.default_rng(seed)
    vectors = naive.unit_rows(rng.standard_normal((n_vectors, 6)))
    unit_vectors = rng.standard_normal((n_units, 6)).astype(np.float32)
    nearest = NearestUnits(vectors)
    nearest.see(unit_vectors, np.arange(n_units), ignore)
    check_against_twin(nearest, vectors, unit_vectors)
    for share in shares:
        changed = np.flatnonzero(rng.random(n_units) < share)
        unit_vectors[changed] *= rng.choice([-1, 0.5, 1.5])
        unit_vectors[changed] += 0.1 * rng.standard_normal((len(changed), 6))
        nearest.update(unit_vectors, changed, ignore)
        check_against_twin(nearest, vectors, unit_vectors)


def test_blocks_beyond_one_are_searched():
    rng = np.random.default_rng(1)
    vectors = naive.unit_rows(rng.standard_normal((5000, 4)))
    unit_vectors = naive.unit_rows(rng.standard_normal((1500, 4)))
    nearest = NearestUnits(vectors)
    nearest.see(unit_vectors, np.arange(1500), ignore)
    check_against_twin(nearest, vectors, unit_vectors)


def test_equal_scores_keep_the_earlier_unit():
    nearest = NearestUnits(np.array([[1.0, 0.0]], dtype=np.float32))
    for first in (0, 2):
        nearest.see(
            np.array([[1, 0], [1, 0]], dtype=np.float32), np.arange(first, first + 2), ignore
        )
    assert nearest.labels.tolist() == [0]
