import numpy as np
import pytest

from memvec.theory import MatchLaw
from naive.laws import sphere


@pytest.mark.parametrize("construction", ["sum", "pinv"])
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_law_agrees_with_simulated_matches(construction, alpha):
    rng = np.random.default_rng(1)
    dim, size, count = 120, 12, 40_000
    rows = sphere(rng, size, dim)
    gram = rows @ rows.T
    vector = rows.sum(0) if construction == "sum" else rows.T @ np.linalg.solve(gram, np.ones(size))
    member = rows[rng.integers(size, size=count)]
    noise = rng.standard_normal((count, dim))
    noise -= np.einsum("ij,ij->i", noise, member)[:, None] * member
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    scores = (alpha * member + np.sqrt(1 - alpha**2) * noise) @ vector
    own = rows @ vector
    law = MatchLaw.of_units([own.mean()], [own.var()], [vector @ vector], dim)
    [spread] = law.spread(alpha)
    # The standard error of a standard deviation of 40,000 is its share 1/√80,000.
    assert scores.std() == pytest.approx(spread, rel=4 / np.sqrt(2 * count))
    assert scores.mean() == pytest.approx(alpha * own.mean(), abs=4 * spread / np.sqrt(count))


def test_exact_copies_of_pinv_members_do_not_spread():
    assert MatchLaw.of_units([1.0], [0.0], [9.0], dim=100).spread(1.0).tolist() == [0.0]


def test_one_dimension_has_no_noise():
    assert MatchLaw.of_units([1.0], [0.0], [1.0], dim=1).spread(0.5).tolist() == [0.0]
