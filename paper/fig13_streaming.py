"""Figure 13: a stream put into units as it comes, for several unit sizes.

Units are filled one after the other by `memvec.constructions.OnlineUnit`. Command: ``python -m
paper fig13-streaming``. The protocol, the paper's and the one here, stands in `paper.protocols`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from memvec.constructions import OnlineUnit
from memvec.types import Float32Array
from paper.data_sets import streamed_sets
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.quality_curves import (
    RUN_COLUMNS,
    SearchedUnits,
    curve_rows,
    mean_height,
    mean_table,
    over_runs,
    quality_at,
    spread,
)
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table

_CONSTRUCTIONS: tuple[Literal["sum", "pinv"], ...] = ("sum", "pinv")
_LARGEST = 500
_CLOSE, _THIRD = 0.95, 1 / 3
_RATIOS = (0.02, 0.05, 0.11, 0.15, 0.2, 0.25, 0.3, 1 / 3, 0.4, 0.5, 0.7)

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"sizes": (10, 100), "runs": 2, "ratios": (0.12, 0.2, 1 / 3, 0.7)},
    "small": {"sizes": (10, 50, 100, _LARGEST), "runs": 5, "ratios": _RATIOS},
    "paper": {"sizes": (10, 50, 100, _LARGEST), "runs": 5, "ratios": _RATIOS},
}


def compute(run: Run) -> Table:
    """Return curves of both constructions for each size and run."""
    sets = streamed_sets(run.data, run.scale, run.seed)
    sizes = run.settings["sizes"]
    rows: list[tuple[Cell, ...]] = []
    with run.bar("fig13-streaming", len(sets) * len(sizes)) as advance:
        for data in sets:
            for size in sizes:
                for number in range(run.settings["runs"]):
                    rows += _one_run(run, data, size, number)
                advance(1)
    return Table("Streams", RUN_COLUMNS, tuple(rows))


def _one_run(run: Run, data: RetrievalSet, size: int, number: int) -> list[tuple[Cell, ...]]:
    """Return the curves of one random order of the stream."""
    order = np.random.default_rng([run.seed, 13, number]).permutation(len(data.vectors))
    ratios = [ratio for ratio in run.settings["ratios"] if ratio > 1 / size]
    rows = []
    for construction in _CONSTRUCTIONS:
        units = stream_units(data, order, size, construction)
        drawn = curve_rows(data, construction, units, ratios)
        rows += [(f"{data.name}, n = {size}", *row[1:], number) for row in drawn]
    return rows


def stream_units(
    data: RetrievalSet, order: Any, size: int, construction: Literal["sum", "pinv"]
) -> SearchedUnits:
    """Fill units with successive vectors of a stream."""
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = np.arange(len(order)) // size
    vectors = [
        _online(data.vectors[order[start : start + size]], construction)
        for start in range(0, len(order), size)
    ]
    return SearchedUnits(data.queries @ np.stack(vectors).T, labels, np.bincount(labels))


def _online(rows: Float32Array, construction: Literal["sum", "pinv"]) -> Float32Array:
    unit = OnlineUnit(rows.shape[1], construction)
    for row in rows:
        unit.add(row)
    return unit.vector


def check(table: Table) -> Verdict:
    """Test what unit sizes do, and how the constructions compare."""
    streams: dict[str, list[int]] = {}
    for panel in table.values("data"):
        name, _, size = str(panel).rpartition(", n = ")
        streams.setdefault(name, []).append(int(size))
    findings = []
    for name, sizes in streams.items():
        findings += [
            _close(table, name, sizes[0]),
            _larger_find_less(table, name, sizes),
            *(_pinv_better(table, name, size) for size in sizes),
        ]
    reason = "data: weak matches, few effective dimensions"
    return Verdict(tuple(findings), reason=reason)


def _close(table: Table, name: str, size: int) -> Finding:
    panel = f"{name}, n = {size}"
    third = over_runs(table.where(data=panel), quality_at, panel, "pinv", _THIRD)
    return Finding(
        f"n = {size}: {100 * _CLOSE:.0f} % of the quality at C/N = 1/3",
        bool(third.mean() >= _CLOSE),
        spread(third),
        main=True,
        data=name,
    )


def _larger_find_less(table: Table, name: str, sizes: list[int]) -> Finding:
    panels = [f"{name}, n = {size}" for size in sizes]
    found = [
        over_runs(table.where(data=panel), quality_at, panel, "pinv", 0.2).mean()
        for panel in panels
    ]
    return Finding(
        "larger units find less at C/N = 0.2 (pinv)",
        bool(np.all(np.diff(found) < 0)),
        ", ".join(f"n = {size}: {value:.3f}" for size, value in zip(sizes, found, strict=True)),
        main=True,
        data=name,
    )


def _pinv_better(table: Table, name: str, size: int) -> Finding:
    """Return whether pinv finds more than sum, by two standard errors of the runs."""
    panel = f"{name}, n = {size}"
    total, pinv = (
        over_runs(table.where(data=panel), mean_height, panel, which) for which in _CONSTRUCTIONS
    )
    gaps = pinv - total
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    return Finding(
        f"n = {size}: pinv ahead of sum",
        bool(gaps.mean() > 2 * error),
        f"pinv less sum {spread(gaps, sign='+')}",
        of_paper=size < _LARGEST,
        data=name,
    )


def plot(table: Table) -> Any:
    """Draw one panel a data set and size."""
    parts = [mean_table(table.where(data=data)) for data in table.values("data")]
    return quality_figure(
        Table(table.title, parts[0].columns, tuple(row for part in parts for row in part.rows))
    )


FIG13 = Experiment(
    "fig13-streaming",
    "Figure 13",
    "Random units of 10 find nearly all at a third of the cost; larger units less; pinv beats "
    "sum but for n = 500.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["FIG13", "stream_units"]
