"""Section 4.1: with the power-law normalisation, sum and pinv perform alike.

Command: ``python -m paper power-law``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import Projection
from memvec.index import IndexConfig
from memvec.types import Float32Array, Float64Array
from paper.data_sets import closed_sets, learned_copies
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig07_retrieval import FIG07
from paper.quality_curves import mean_height, mean_table, over_runs, paper_config, quality_table
from paper.quality_curves import spread as spread_text
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table

_POWER = 0.5
# Curves whose mean heights are this near count as alike; cosines this small as nearly orthogonal.
_ALIKE, _ORTHOGONAL = 0.02, 0.05
_CONSTRUCTIONS = ("sum", "pinv")
_PLAIN, _WITH, _ROTATED = "", ", power law", ", PCA and power law"

SETTINGS = FIG07.settings


def compute(run: Run) -> Table:
    """Return curves of both constructions, plain, with the power law, and with PCA before it."""
    sets = closed_sets(run.data, run.scale)
    photographs = [data for data in sets if "CNN" not in data.name] or sets
    learned = learned_copies(run.data, run.scale)
    rows: list[tuple[Cell, ...]] = []
    for data in photographs:
        rotation = Projection.fit(data.vectors if learned is None else learned, center=True)
        turned = data.projected(rotation, data.name)
        for which, kind in (
            (data, _PLAIN),
            (with_power_law(data), _WITH),
            (with_power_law(turned), _ROTATED),
        ):
            found = quality_table(run, f"power law, {data.name}", [which], _variants(run, kind))
            cosine = _cosine(which.vectors)
            rows += [(*row, cosine) for row in found.rows]
    return Table("Quality with the power law", (*found.columns, "cosine"), tuple(rows))


def _variants(run: Run, kind: str) -> Any:
    def variants(seed: int) -> dict[str, IndexConfig]:
        size = run.settings["unit_size"]
        return {
            f"{name}{kind}": paper_config("random", name, size, seed) for name in _CONSTRUCTIONS
        }

    return variants


def _cosine(vectors: Float32Array) -> float:
    """Return the root mean square of the cosines of different vectors."""
    products = vectors @ vectors.T
    n = len(products)
    return float(
        np.sqrt((np.square(products).sum() - np.square(np.diag(products)).sum()) / n / (n - 1))
    )


def with_power_law(data: RetrievalSet) -> RetrievalSet:
    """Return the set with every entry x replaced by sign(x)·√|x|, rows of norm 1 again."""
    return dataclasses.replace(
        data, vectors=_power_law(data.vectors), queries=_power_law(data.queries)
    )


def _power_law(rows: Float32Array) -> Float32Array:
    return checks.unit_rows(np.sign(rows) * np.abs(rows) ** _POWER, "rows", "power law")


def check(table: Table) -> Verdict:
    """Test the gap between the constructions where vectors are nearly orthogonal as stated."""
    findings = []
    for data in table.values("data"):
        before, cosine = _gaps(table, data, _PLAIN), _cosine_of(table, data, _PLAIN)
        for kind in (_WITH, _ROTATED):
            findings.append(_alike(table, data, kind))
        findings.append(
            Finding(
                f"without it, pinv finds more than sum (by more than {_ALIKE})",
                bool(before.mean() > _ALIKE),
                f"pinv less sum {spread_text(before, sign='+')}; RMS cosine {cosine:.3f}",
                data=str(data),
            )
        )
    return Verdict(tuple(findings), reason="data: these descriptors are not nearly orthogonal")


def _alike(table: Table, data: Cell, kind: str) -> Finding:
    """Return whether the constructions are alike, where the premise holds."""
    after, cosine = _gaps(table, data, kind), _cosine_of(table, data, kind)
    premise = cosine <= _ORTHOGONAL
    text = f"pinv less sum {spread_text(after, sign='+')}; RMS cosine {cosine:.3f}"
    how = "PCA and the power law" if kind == _ROTATED else "the power law"
    return Finding(
        f"with {how}, sum and pinv find the same (within {_ALIKE}), vectors being nearly "
        f"orthogonal (RMS cosine at most {_ORTHOGONAL})",
        premise and bool(abs(after.mean()) <= _ALIKE),
        text if premise else f"the premise fails: {text}",
        main=True,
        tested=premise,
        data=str(data),
    )


def _cosine_of(table: Table, data: Cell, kind: str) -> float:
    return float(table.where(data=data, variant=f"pinv{kind}").column("cosine")[0])


def _gaps(table: Table, data: Cell, kind: str) -> Float64Array:
    """Return pinv less sum, the mean share of the quality, of each run."""
    total, pinv = (
        over_runs(table.where(data=data), mean_height, data, f"{name}{kind}")
        for name in _CONSTRUCTIONS
    )
    return pinv - total


def plot(table: Table) -> Any:
    """Draw one panel for each data set and kind of descriptor."""
    parts = [mean_table(table.where(data=data)) for data in table.values("data")]
    rows = []
    for data, variant, *rest in (row for part in parts for row in part.rows):
        name, _, kind = str(variant).partition(", ")
        rows.append((f"{data}, {kind or 'as they are'}", name, *rest))
    return quality_figure(Table(table.title, parts[0].columns, tuple(rows)))


POWER_LAW = Experiment(
    "power-law",
    "Section 4.1, descriptors",
    "With the power law on descriptors sum and pinv are alike, since vectors are nearly "
    "orthogonal; without it pinv is better.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["POWER_LAW", "with_power_law"]
