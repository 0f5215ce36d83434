"""Figures 11 and 12: binary codes after PCA, queries binarised or not.

Units are tested by their codes and members ranked by theirs. Command: ``python -m paper
fig11-codes-symmetric fig12-codes-asymmetric``. The protocol, the paper's and the one here, stands
in `paper.protocols`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from memvec.codes import CodeSpace
from memvec.types import Float32Array
from paper.data_sets import reduced_sets
from paper.drawing import measure, quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig07_retrieval import RATIOS
from paper.quality_curves import (
    RUN_COLUMNS,
    curve_rows,
    mean_height,
    mean_table,
    over_runs,
    paper_config,
    ratio_to_reach,
    search_units,
    spread,
)
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table

# Curves count as alike whose mean heights are this near where they rise; later all are level.
_ALIKE, _RISING, _ERRORS = 0.02, (0.11, 0.2), 2
_NAMES = ("sum", "pinv")
_SHARE, _WELL = 0.99, 0.5
# What tells equal codes apart: products of it stay far below one bit of 1024, 2/1024.
_TIE = 0.01

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 64, "runs": 2, "ratios": (0.12, 0.2, 0.4, 0.7)},
    "small": {"dim": 1024, "runs": 5, "ratios": RATIOS},
    "paper": {"dim": 1024, "runs": 5, "ratios": RATIOS},
}


def _compute(symmetric: bool) -> Callable[[Run], Table]:
    def compute(run: Run) -> Table:
        """Return curves of both constructions, in k-means units tested by sign codes."""
        kind = "symmetric" if symmetric else "asymmetric"
        sets = reduced_sets(run.data, run.scale, run.settings["dim"])
        rows: list[tuple[Cell, ...]] = []
        with run.bar(f"{kind} codes", run.settings["runs"] * len(sets)) as advance:
            for data in sets:
                coded = ranked_by_codes(data, symmetric, run.seed)
                for number in range(run.settings["runs"]):
                    rows += _one_run(run, data, coded, symmetric, number)
                    advance(1)
        return Table(f"Quality with {kind} codes", RUN_COLUMNS, tuple(rows))

    return compute


def _one_run(
    run: Run, data: RetrievalSet, coded: RetrievalSet, symmetric: bool, number: int
) -> list[tuple[Cell, ...]]:
    """Return the curves of both constructions of the same units, made by k-means with pinv."""
    codes = {
        "codes": "sign",
        "rotation": "none",
        "symmetric": symmetric,
        "unit_words": -(-data.vectors.shape[1] // 64),
        "kmeans_rule": "pinv",
    }
    rows = []
    for name in _NAMES:
        units = search_units(data, paper_config("kmeans", name, 10, run.seed + number, **codes))
        drawn = curve_rows(coded, name, units, run.settings["ratios"])
        rows += [(*row, number) for row in drawn]
    return rows


def ranked_by_codes(data: RetrievalSet, symmetric: bool, seed: int) -> RetrievalSet:
    """Return the set with signs in place of vectors, and of queries where they are binarised.

    Codes of a few hundred bits are often equally far from a query: a last coordinate, too small to
    change an order, orders those by chance.
    """
    space = CodeSpace.unrotated(data.vectors.shape[1], symmetric=symmetric)
    vectors = _signs(space.rotate(data.vectors))
    queries = space.rotate(data.queries)
    if symmetric:
        queries = _signs(queries)
    by_chance = np.random.default_rng([seed, 11]).uniform(-_TIE, _TIE, (len(vectors), 1))
    return dataclasses.replace(
        data,
        vectors=np.hstack([vectors, by_chance]).astype(np.float32),
        queries=np.hstack([queries, np.full((len(queries), 1), _TIE)]).astype(np.float32),
    )


def _signs(rows: Float32Array) -> Float32Array:
    """Return the signs of each row, scaled to norm 1."""
    return np.where(rows >= 0, 1, -1).astype(np.float32) / np.float32(np.sqrt(rows.shape[1]))


def _check(symmetric: bool) -> Callable[[Table], Verdict]:
    def check(table: Table) -> Verdict:
        """Test how the constructions compare, and that codes save most of the work."""
        findings = []
        for data in table.values("data"):
            findings += [_compared(table, data, symmetric), _converges(table, data)]
        reason = "paper silent on margins: sum leads by as little in Figure 11 as in 12"
        return Verdict(tuple(findings), reason=reason)

    return check


def _compared(table: Table, data: Cell, symmetric: bool) -> Finding:
    part = table.where(data=data)
    heights = {name: over_runs(part, mean_height, data, name, _RISING) for name in _NAMES}
    gaps = heights["sum"] - heights["pinv"]  # of the same units
    gap, error = gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))
    where = f"between C/N = {_RISING[0]} and {_RISING[1]}"
    claim, holds = (
        (f"sum finds more than pinv {where} ({_ERRORS} standard errors)", gap > _ERRORS * error)
        if symmetric
        else (f"sum and pinv find the same {where} (within {_ALIKE})", abs(gap) <= _ALIKE)
    )
    text = ", ".join(f"{name} {spread(values)}" for name, values in heights.items())
    return Finding(
        claim,
        bool(holds),
        f"{text}, sum less pinv {spread(gaps, 4, '+')}",
        # Of the symmetric case the paper says so of Holidays and Oxford5k, not of UKB.
        of_paper=not symmetric or measure(str(data)) == "mAP",
        main=True,
        data=str(data),
    )


def _converges(table: Table, data: Cell) -> Finding:
    part = table.where(data=data)
    reached = {name: over_runs(part, ratio_to_reach, data, name, _SHARE) for name in _NAMES}
    return Finding(
        f"both reach {100 * _SHARE:.0f} % of the exhaustive quality of codes well below C/N = 1 "
        f"(at {_WELL})",
        max(values.mean() for values in reached.values()) < _WELL,
        ", ".join(f"{name} {spread(values, 2)}" for name, values in reached.items()),
        main=True,
        data=str(data),
    )


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    return quality_figure(mean_table(table))


FIG11 = Experiment(
    "fig11-codes-symmetric",
    "Figure 11",
    "With binary codes of queries and vectors, sum is better than pinv on Holidays and Oxford5k, "
    "and the exhaustive quality is reached well below C/N = 1.",
    SETTINGS,
    _compute(symmetric=True),
    _check(symmetric=True),
    plot,
    photographs=True,
)
FIG12 = Experiment(
    "fig12-codes-asymmetric",
    "Figure 12",
    "With binary codes of vectors alone, sum and pinv are alike, and the exhaustive quality is "
    "reached well below C/N = 1.",
    SETTINGS,
    _compute(symmetric=False),
    _check(symmetric=False),
    plot,
    photographs=True,
)

__all__ = ["FIG11", "FIG12", "ranked_by_codes"]
