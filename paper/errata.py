"""Evidence for the errata: the paper's value, the corrected one, and what simulation says.

Figure or table: none; every row is an expression of Sections 3 to 6 of the paper.
Data: synthetic, from the seed. Command: ``python -m paper errata``. Expected outcome: simulation
within 4 standard errors of the corrected value in every row of kind "error", and further than that
from the paper's. Known drift: none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from memvec import checks
from memvec.theory import (
    CapMoments,
    PinvNormLaw,
    ScoreLaw,
    SumCapScores,
    UnitTest,
    cap_mass,
    cap_moments,
    pinv_cap_scores,
    sample_cap,
    sample_sphere,
    sum_cap_scores,
)
from memvec.types import Float64Array
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.table import Table

_ALPHA = 0.5
_BETA = math.sqrt(1 - _ALPHA**2)


@dataclass(frozen=True)
class ErratumRow:
    """One checked expression.

    Attributes
    ----------
    name : str
        The entry of the errata page.
    setting : str
        The parameters of the check.
    kind : str
        "error": the paper's expression is wrong. "approximation": it is meant as one, or as a
        bound, and the other value is closer. "right": checked and found correct.
    paper, corrected : float
        The two formulas.
    simulated, standard_error : float
        What was measured.
    """

    name: str
    setting: str
    kind: str
    paper: float
    corrected: float
    simulated: float
    standard_error: float


def errata_rows(seed: int = 0) -> list[ErratumRow]:
    """Compute every row of the errata from a seed; takes some seconds."""
    generator = np.random.default_rng(checks.integer(seed, "seed", "errata_rows", minimum=0))
    rows: list[ErratumRow] = []
    for check in _CHECKS:
        rows.extend(check(generator))
    return rows


def errata_table(seed: int = 0) -> Table:
    """Return the rows as a table."""
    columns = ("entry", "setting", "kind", "paper", "corrected", "simulated", "standard error")
    rows = tuple(
        (
            row.name,
            row.setting,
            row.kind,
            row.paper,
            row.corrected,
            row.simulated,
            row.standard_error,
        )
        for row in errata_rows(seed)
    )
    return Table("Errata of the paper, by simulation", columns, rows)


def _mean(values: Float64Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def _variance(values: Float64Array) -> tuple[float, float]:
    return _mean((values - values.mean()) ** 2)


def _cosines(generator: np.random.Generator, count: int, dim: int) -> Float64Array:
    """Draw first coordinates of uniform unit vectors."""
    first = generator.standard_normal(count)
    cosines: Float64Array = first / np.sqrt(first**2 + generator.chisquare(dim - 1, count))
    return cosines


def _score_law(generator: np.random.Generator) -> list[ErratumRow]:
    dim = 20
    cosines = _cosines(generator, 400_000, dim)
    law = ScoreLaw(1.0, dim)
    printed = math.exp(special.betaln(0.5, (dim - 3) / 2) - special.betaln(0.5, (dim - 1) / 2))
    tail = _mean((cosines >= 0.4).astype(np.float64))
    return [
        ErratumRow("score variance", "d=20", "error", printed, 1 / dim, *_variance(cosines)),
        ErratumRow(
            "large-d tail",
            "d=20, s=0.4",
            "approximation",
            float(law.large_dim_sf(0.4)),
            float(law.sf(0.4)),
            *tail,
        ),
    ]


def _cap_density(generator: np.random.Generator) -> list[ErratumRow]:
    dim, eta, at, width = 20, 0.3, 0.45, 0.02
    law = ScoreLaw(1.0, dim)
    cosines = sample_cap(100_000, dim, eta, generator)[:, 0]
    inside = np.abs(cosines - at) < width / 2
    density = float(law.pdf(at))
    mean, error = _mean(inside / width)
    return [
        ErratumRow(
            "cap density",
            "d=20, η=0.3, s′=0.45",
            "error",
            density / float(law.sf(at)),
            density / cap_mass(eta, dim),
            mean,
            error,
        )
    ]


def _gram_inverse(generator: np.random.Generator) -> list[ErratumRow]:
    dim, size, eta, batches, units = 10, 5, 0.3, 40, 1000
    mean_squared = cap_moments(eta, dim).mean ** 2
    bound = 1 + (size - 1) * mean_squared
    sums = np.empty(batches)
    for batch in range(batches):
        rows = sample_cap(units * size, dim, eta, generator).reshape(units, size, dim)
        gram = np.mean(rows @ rows.transpose(0, 2, 1), axis=0)
        sums[batch] = np.linalg.solve(gram, np.ones(size)).sum()
    printed = size / (1 - mean_squared) * (1 + size * mean_squared / bound)
    return [
        ErratumRow(
            "inverse of the mean Gram matrix",
            "d=10, n=5, η=0.3",
            "error",
            printed,
            size / bound,
            *_mean(sums),
        )
    ]


def _pinv_vectors(rows: Float64Array) -> Float64Array:
    """Return the pinv memory vectors of units of shape (n_units, n, d)."""
    ones = np.ones((*rows.shape[:2], 1))
    weights = np.linalg.solve(rows @ rows.transpose(0, 2, 1), ones)
    vectors: Float64Array = (rows * weights).sum(axis=1)
    return vectors


def _noise(generator: np.random.Generator, rows: Float64Array) -> Float64Array:
    """Draw unit vectors orthogonal to the given unit rows, uniform otherwise."""
    noise = generator.standard_normal(rows.shape)
    noise -= np.sum(noise * rows, axis=1, keepdims=True) * rows
    unit: Float64Array = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return unit


def _pinv_norm(generator: np.random.Generator) -> list[ErratumRow]:
    dim, size, units = 20, 3, 20_000
    rows = sample_sphere(units * size, dim, generator).reshape(units, size, dim)
    squares = np.sum(_pinv_vectors(rows) ** 2, axis=1)
    law = PinvNormLaw(size, dim)
    return [
        ErratumRow(
            "squared norm of pinv",
            "d=20, n=3",
            "approximation",
            law.limit_squared_norm,
            law.mean_squared_norm,
            *_mean(squares),
        )
    ]


def _pinv_match(generator: np.random.Generator) -> list[ErratumRow]:
    found = []
    for size, dim, units in ((5, 20, 60_000), (1, 20, 1000)):
        rows = sample_sphere(units * size, dim, generator).reshape(units, size, dim)
        queries = _ALPHA * rows[:, 0] + _BETA * _noise(generator, rows[:, 0])
        scores = np.sum(queries * _pinv_vectors(rows), axis=1)
        if size == 1:
            scores = scores.round(12)  # the score is α up to rounding
        found.append(
            ErratumRow(
                "variance of a match, pinv",
                f"d={dim}, n={size}, α=0.5",
                "error",
                UnitTest("pinv", size, dim, _ALPHA, "paper").match_variance,
                UnitTest("pinv", size, dim, _ALPHA).match_variance,
                *_variance(scores),
            )
        )
    return found


def _orthogonal_match(generator: np.random.Generator) -> list[ErratumRow]:
    dim, size, count = 10, 6, 200_000
    first = np.zeros((count, dim))
    first[:, 0] = 1.0
    scores = _ALPHA + _BETA * _noise(generator, first)[:, 1:size].sum(axis=1)
    return [
        ErratumRow(
            "variance of a match, orthogonal vectors",
            "d=10, n=6, α=0.5",
            "approximation",
            UnitTest("orthogonal", size, dim, _ALPHA, "paper").match_variance,
            UnitTest("orthogonal", size, dim, _ALPHA).match_variance,
            *_variance(scores),
        )
    ]


def _cap_terms(
    generator: np.random.Generator, size: int, dim: int, eta: float, units: int
) -> Float64Array:
    """Draw the four random terms of a sum unit's score in a cap, one row a unit."""
    rows = sample_cap(units * size, dim, eta, generator).reshape(units, size, dim)
    first, rest = rows[:, 0], rows[:, 1:].sum(axis=1)
    noise = _noise(generator, first)
    return np.column_stack(
        [
            _ALPHA * first[:, 0] * rest[:, 0],
            _ALPHA * np.sum(first[:, 1:] * rest[:, 1:], axis=1),
            _BETA * noise[:, 0] * rest[:, 0],
            _BETA * np.sum(noise[:, 1:] * rest[:, 1:], axis=1),
        ]
    )


def _printed_terms(size: int, dim: int, cap: CapMoments) -> tuple[float, float, float, float]:
    """Return the four variances as the paper prints them."""
    noise = _BETA**2 * (size - 1) / (dim - 1) * (1 - cap.second)
    return (
        _ALPHA**2 * (size - 1) * (cap.second**2 - cap.mean**4),
        _ALPHA**2 * (size - 1) / (dim - 1) * (1 - cap.second) ** 2,
        noise * cap.second,
        noise * (1 + (size - 2) * cap.mean**2),
    )


def _corrected_terms(scores: SumCapScores) -> tuple[float, float, float, float]:
    return (
        scores.axis_variance,
        scores.residual_variance,
        scores.noise_axis_variance,
        scores.noise_residual_variance,
    )


def _sum_terms(generator: np.random.Generator) -> list[ErratumRow]:
    size, dim, eta = 10, 20, 0.3
    terms = _cap_terms(generator, size, dim, eta, units=20_000)
    scores = sum_cap_scores(size, dim=dim, similarity=_ALPHA, cap_cosine=eta)
    names = ("V[α Σ S₁Sᵢ]", "V[α N₁ᵀm′]", "V[β (Zᵀu) uᵀm′]", "V[β Z⊥ᵀm′]")
    kinds = ("error", "right", "error", "error")
    printed = _printed_terms(size, dim, cap_moments(eta, dim))
    setting = "d=20, n=10, α=0.5, η=0.3"
    return [
        ErratumRow(name, setting, kind, paper, corrected, *_variance(terms[:, column]))
        for column, (name, kind, paper, corrected) in enumerate(
            zip(names, kinds, printed, _corrected_terms(scores), strict=True)
        )
    ]


def _sum_totals(generator: np.random.Generator) -> list[ErratumRow]:
    found = []
    for size, dim, eta, units in (
        (10, 20, 0.3, 20_000),
        (3, 3, -1.0, 60_000),
        (10, 512, 0.0, 3000),
        (10, 512, 0.6, 3000),
    ):
        terms = _cap_terms(generator, size, dim, eta, units)
        scores = sum_cap_scores(size, dim=dim, similarity=_ALPHA, cap_cosine=eta)
        found.append(
            ErratumRow(
                "variance of a match, sum",
                f"d={dim}, n={size}, α=0.5, η={eta:g}",
                # In all but tiny dimensions the errors of the terms nearly cancel.
                "error" if dim == 3 else "approximation",
                sum(_printed_terms(size, dim, cap_moments(eta, dim))),
                scores.match_variance,
                *_variance(terms.sum(axis=1)),
            )
        )
    return found


def _pinv_cap_norm(generator: np.random.Generator) -> list[ErratumRow]:
    dim, size, eta, units = 100, 20, 0.3, 2000
    rows = sample_cap(units * size, dim, eta, generator).reshape(units, size, dim)
    squares = np.sum(_pinv_vectors(rows) ** 2, axis=1)
    scores = pinv_cap_scores(size, dim=dim, similarity=_ALPHA, cap_cosine=eta)
    return [
        ErratumRow(
            "squared norm of pinv in a cap",
            "d=100, n=20, η=0.3",
            "approximation",
            scores.squared_norm_bound,
            scores.squared_norm,
            *_mean(squares),
        )
    ]


def _cost(generator: np.random.Generator) -> list[ErratumRow]:
    dim, size, units = 10, 10, 100
    vectors = sample_sphere(units * size, dim, generator)
    memory = vectors.reshape(units, size, dim).sum(axis=1)
    queries = sample_sphere(200, dim, generator)
    visited = np.sum(queries @ memory.T >= 2 * size, axis=1)
    ratios = (units + size * visited) / len(vectors)
    single = 1 + np.mean(queries @ vectors.T >= _ALPHA, axis=1)
    alone = 1 + float(ScoreLaw(1.0, dim).sf(_ALPHA))
    return [
        ErratumRow(
            "cost ratio, threshold above all scores",
            "N=1000, M=100",
            "error",
            float(units),
            units / len(vectors),
            *_mean(ratios),
        ),
        ErratumRow(
            "cost ratio, units of one vector",
            "d=10, α₀=0.5",
            "error",
            1.0,
            alone,
            *_mean(single),
        ),
    ]


_CHECKS: tuple[Callable[[np.random.Generator], list[ErratumRow]], ...] = (
    _score_law,
    _cap_density,
    _gram_inverse,
    _pinv_norm,
    _pinv_match,
    _orthogonal_match,
    _sum_terms,
    _sum_totals,
    _pinv_cap_norm,
    _cost,
)


def _compute(run: Run) -> Table:
    return errata_table(run.seed)


def _check(table: Table) -> Verdict:
    """Test that simulation is with the corrected values and against those printed."""
    errors = table.where(kind="error")
    allowed = 4 * errors.column("standard error") + 1e-12
    with_us = np.abs(errors.column("simulated") - errors.column("corrected")) <= allowed
    against = np.abs(errors.column("simulated") - errors.column("paper")) > allowed
    agree = "simulation agrees with the corrected expressions (4 standard errors)"
    differ = "and contradicts the printed ones that are called errors"
    return Verdict(
        (
            Finding(agree, bool(with_us.all()), f"{with_us.sum()} of {len(with_us)}"),
            Finding(differ, bool(against.all()), f"{against.sum()} of {len(against)}"),
        )
    )


ERRATA = Experiment(
    "errata",
    "Sections 3 to 6",
    "The printed formulas against simulation: which are wrong, and what is right.",
    {"smoke": {}, "small": {}, "paper": {}},
    _compute,
    _check,
    show_table=False,
    reproduction=False,
)


__all__ = ["ERRATA", "ErratumRow", "errata_rows", "errata_table"]
