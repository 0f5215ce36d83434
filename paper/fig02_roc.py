"""Figure 2: ROC curves of the unit test, on uniform vectors and on real ones.

Command: ``python -m paper fig02-roc``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.evaluation import exact_range, roc_curve
from memvec.index import Index
from memvec.theory import UnitTest, sample_sphere
from memvec.types import Float32Array, Float64Array
from paper.data_sets import large_split
from paper.drawing import finish, new_panels, share_legend, style
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.quality_curves import paper_config, spread
from paper.simulated_queries import planted_queries
from paper.table import Cell, Table, plain

_DIM, _SIZE = 100, 10
_CONSTRUCTIONS = ("sum", "pinv")
_SYNTHETIC = (0.3, 0.5, 0.7, 0.9)
_REAL = (0.5, 0.6, 0.7, 0.8)
_RATES = np.concatenate([np.geomspace(1e-3, 0.1, 13), np.linspace(0.15, 1.0, 12)])

# Larger similarities than this are large, where pinv is to be ahead of sum.
_LARGE = 0.65
_LOWER = 0.01

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"units": 300, "vectors": 3000, "queries": 100, "runs": 2},
    "small": {"units": 1000, "vectors": 40_000, "queries": 500, "runs": 5},
    "paper": {"units": 30_000, "vectors": 110_000, "queries": 3000, "runs": 5},
}

_COLUMNS = ("data", "kind", "construction", "similarity", "false", "true", "area", "run")


def compute(run: Run) -> Table:
    """Return points of the curves, with the area under each in every row of it."""
    rows: list[tuple[Cell, ...]] = []
    for similarity in _SYNTHETIC:
        for construction in _CONSTRUCTIONS:
            rows += _theory("uniform", construction, _DIM, similarity)
    with run.bar("fig02-roc", run.settings["runs"]) as advance:
        for number in range(run.settings["runs"]):
            for similarity in _SYNTHETIC:
                for construction in _CONSTRUCTIONS:
                    rows += _simulated(run, construction, similarity, number)
            rows += _real(run, number)
            advance(1)
    return Table("ROC curves of the unit test", _COLUMNS, tuple(rows))


def _theory(data: str, construction: str, dim: float, similarity: float) -> list[tuple[Cell, ...]]:
    test = UnitTest(construction, _SIZE, dim, similarity)  # type: ignore[arg-type]
    area = test.auc()
    return [
        plain([data, "theory", construction, similarity, false, true, area, 0])
        for false, true in zip(_RATES, test.roc(_RATES), strict=True)
    ]


def _simulated(
    run: Run, construction: str, similarity: float, number: int
) -> list[tuple[Cell, ...]]:
    """Score unrelated queries on every unit of an index, and one planted query on each."""
    rng = np.random.default_rng([run.seed, number])
    n_units = run.settings["units"]
    vectors = sample_sphere(n_units * _SIZE, _DIM, rng).astype(np.float32)
    index = Index.build(vectors, config=paper_config("random", construction, _SIZE, 0))
    firsts = np.array([np.flatnonzero(index.labels == unit)[0] for unit in range(n_units)])
    memory = index.unit_vectors
    unrelated = sample_sphere(run.settings["queries"], _DIM, rng) @ memory.T
    related = np.sum(planted_queries(vectors[firsts], similarity, rng) * memory, axis=1)
    facts = ("uniform", "simulated", construction, similarity)
    return _points(facts, unrelated.ravel(), related, number)


def _points(
    facts: tuple[str, str, str, float],
    unrelated: Float32Array | Float64Array,
    related: Float32Array | Float64Array,
    number: int,
) -> list[tuple[Cell, ...]]:
    curve = roc_curve(unrelated, related)
    true = np.interp(_RATES, curve.false_positive_rate, curve.true_positive_rate)
    return [
        plain([*facts, rate, height, curve.area, number])
        for rate, height in zip(_RATES, true, strict=True)
    ]


def _real(run: Run, number: int) -> list[tuple[Cell, ...]]:
    """Score queries on random units of real vectors, other queries and units in each run."""
    counts = run.settings["vectors"], run.settings["queries"]
    rng = np.random.default_rng([run.seed, 2, number])
    data, vectors, queries = large_split(run.data, run.scale, *counts, rng)
    found: list[tuple[Cell, ...]] = []
    for name in _CONSTRUCTIONS:
        index = Index.build(vectors, config=paper_config("random", name, _SIZE, run.seed + number))
        seen = index.unit_scores(queries)
        for similarity in _REAL:
            truth = exact_range(vectors, queries, similarity, progress=False)
            asked = np.repeat(np.arange(len(queries)), np.diff(truth.offsets))
            positive = np.zeros(seen.shape, dtype=bool)
            positive[asked, index.labels[truth.ids]] = True
            facts = (data, "measured", name, similarity)
            found += _points(facts, seen[~positive], seen[positive], number)
            if number == 0:
                found += _theory(data, name, vectors.shape[1], similarity)
    return found


def real_name(table: Table) -> Cell:
    """Return what the real data of a table is."""
    return next(name for name in table.values("data") if name != "uniform")


def check(table: Table) -> Verdict:
    """Test the lines by simulation, and the order of the constructions."""
    uniform, real = table.where(data="uniform"), table.where(data=real_name(table))
    findings = [
        _better_when_similar(uniform, "theory", "uniform vectors"),
        _better_when_similar(real, "measured", "real vectors"),
        *(_pinv_ahead(uniform, "simulated", level, "uniform vectors") for level in _large(uniform)),
        *(_pinv_ahead(real, "measured", level, "real vectors") for level in _large(real)),
        _below_theory(real),
        _on_the_lines(uniform),
    ]
    crossings = [
        f"uniform, α = {level}: {crossing(uniform, 'theory', level)}" for level in _SYNTHETIC
    ] + [f"real, α₀ = {level}: {crossing(real, 'measured', level)}" for level in _REAL]
    note = (
        "At few false positives sum is ahead, since the score of pinv varies more under H0. Pinv "
        f"comes above sum at these rates of false positives: {'; '.join(crossings)}."
    )
    return Verdict(tuple(findings), note, "data: embeddings of texts in place of images")


def _large(table: Table) -> list[float]:
    return [float(level) for level in table.values("similarity") if float(level) > _LARGE]


def areas(table: Table, kind: str, construction: str, similarity: float) -> Float64Array:
    """Return the area under one curve in each run."""
    part = table.where(kind=kind, construction=construction, similarity=similarity)
    return np.array([part.where(run=number).column("area")[0] for number in part.values("run")])


def _better_when_similar(table: Table, kind: str, what: str) -> Finding:
    means = {
        name: [
            areas(table, kind, name, float(level)).mean() for level in table.values("similarity")
        ]
        for name in _CONSTRUCTIONS
    }
    return Finding(
        "the test does better the larger α (area under the curve)",
        all(bool(np.all(np.diff(each) > 0)) for each in means.values()),
        "; ".join(
            f"{name} " + ", ".join(f"{area:.3f}" for area in each) for name, each in means.items()
        ),
        main=True,
        data=what,
    )


def _pinv_ahead(table: Table, kind: str, level: float, what: str) -> Finding:
    total, pinv = (areas(table, kind, name, level) for name in _CONSTRUCTIONS)
    gaps = pinv - total
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    return Finding(
        f"α = {level}: pinv has a larger area than sum (2 standard errors)",
        bool(gaps.mean() > 2 * error),
        f"pinv {pinv.mean():.4f}, sum {total.mean():.4f}, pinv less sum {spread(gaps, 4, '+')}",
        main=True,
        data=what,
    )


def _below_theory(real: Table) -> Finding:
    level = _REAL[0]
    measured, predicted = (areas(real, kind, "pinv", level) for kind in ("measured", "theory"))
    return Finding(
        "the theory for the number of coordinates promises more than real vectors give (area at "
        f"α₀ = {level}, by {_LOWER})",
        bool(measured.mean() <= predicted[0] - _LOWER),
        f"{spread(measured)} measured, {predicted[0]:.3f} by the theory",
        main=True,
        data="real vectors",
    )


def _on_the_lines(table: Table) -> Finding:
    gaps = []
    for name in _CONSTRUCTIONS:
        for level in _SYNTHETIC:
            dots, [line] = (
                areas(table, "simulated", name, level),
                areas(table, "theory", name, level),
            )
            error = dots.std(ddof=1) / np.sqrt(len(dots))
            gaps.append(abs(dots.mean() - line) / (5 * error + 1e-3))
    return Finding(
        "simulated areas are those of the theory (5 standard errors and 0.001)",
        max(gaps) <= 1,
        f"largest gap {max(gaps):.2f} of that, over {len(gaps)} curves",
        of_paper=False,
        data="uniform vectors",
    )


def heights(table: Table, kind: str, construction: str, similarity: float) -> Float64Array:
    """Return the true positives of one curve, the mean of the runs."""
    runs = _of_runs(table, kind, construction, similarity)
    return np.asarray(runs.mean(axis=0), dtype=np.float64)


def _of_runs(table: Table, kind: str, construction: str, similarity: float) -> Float64Array:
    """Return the true positives of one curve, a row a run."""
    part = table.where(kind=kind, construction=construction, similarity=similarity)
    return np.array([part.where(run=number).column("true") for number in part.values("run")])


def crossing(table: Table, kind: str, similarity: float) -> str:
    """Return above which rate of false positives pinv has more true ones than sum."""
    gains = heights(table, kind, "pinv", similarity) - heights(table, kind, "sum", similarity)
    rates = np.unique(table.column("false"))
    # Where all is found there is nothing to gain.
    below = np.flatnonzero((gains < 0) & (rates < 1))
    if not len(below):
        return f"below {100 * rates[0]:.2g} %"
    last = int(below[-1])
    if last + 1 >= len(rates) - 1:
        return "none"
    return f"{100 * rates[last]:.2g} to {100 * rates[last + 1]:.2g} %"


def plot(table: Table) -> Any:
    """Draw sum dashed and pinv solid, theory as lines and measurements as points."""
    titles = "uniform vectors, d = 100, n = 10, matches at α", f"{real_name(table)}, n = 10, α₀ = α"
    figure, panels = new_panels(titles)
    for level in sorted({*_SYNTHETIC, *_REAL}):
        for construction in _CONSTRUCTIONS:  # the legend shows line and dots as one, in this order
            panels[0].plot(
                [], [], label=f"{construction}, α = {level}", **_look(construction, level)
            )
    _draw(panels[0], table.where(data="uniform"), "theory", "simulated")
    _draw(panels[1], table.where(data=real_name(table)), None, "measured")
    share_legend(figure, panels)
    return figure


def _draw(panel: Any, table: Table, line: str | None, dots: str) -> None:
    rates = np.unique(table.column("false"))
    for level in table.values("similarity"):
        for construction in _CONSTRUCTIONS:
            look = _look(construction, float(level))
            if line is not None:
                plain_line = {name: look[name] for name in ("color", "linestyle", "linewidth")}
                drawn = heights(table, line, construction, float(level))
                panel.plot(rates, drawn, **plain_line)
                look["linestyle"] = "none"
            shown = _of_runs(table, dots, construction, float(level))
            spread_of_runs = shown.std(axis=0, ddof=1) if len(shown) > 1 else None
            bars = {"yerr": spread_of_runs, "elinewidth": 0.5, "capsize": 1}
            panel.errorbar(rates, shown.mean(axis=0), **bars, **look)
    finish(panel, ("false positive rate $P_{fp}$", "true positive rate $1 - P_{fn}$"), "x")


def _look(construction: str, level: float) -> dict[str, Any]:
    """Return the look of a curve: pinv solid with full marks, sum dashed with empty ones."""
    look = style(sorted({*_SYNTHETIC, *_REAL}).index(level))
    if construction == "pinv":
        return {**look, "linestyle": "-"}
    return {**look, "linestyle": "--", "markerfacecolor": "white"}


FIG02 = Experiment(
    "fig02-roc",
    "Figure 2",
    "The unit test does better the larger α, pinv better than sum where α is large; real vectors "
    "act as if they had fewer dimensions.",
    SETTINGS,
    compute,
    check,
    plot,
)

__all__ = ["FIG02", "crossing", "real_name"]
