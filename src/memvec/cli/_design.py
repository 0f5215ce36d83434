"""``memvec design``: what the theory promises for a setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.table import Table

from memvec.cli._chart import Points, draw_chart
from memvec.cli._options import named, option
from memvec.cli._output import echo, writing
from memvec.display import new_figure
from memvec.theory import Design, cost_curve, optimal_design

_CONSTRUCTIONS: tuple[Literal["sum", "pinv"], ...] = ("sum", "pinv")
_PLOT_SUFFIXES = (".pdf", ".png", ".svg")
# What --plot without a file name stands for.
_TERMINAL = "-"
_CURVE_POINTS = 40
# Far beyond any data; the search for n* takes seconds there and the laws keep their digits.
_LARGEST_DIM = 1_000_000_000


def _similarity(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not 0 < value <= 1:
        raise click.BadParameter(f"{value:g} is not in (0, 1]: a similarity is a positive cosine.")
    return value


def _miss_rate(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not 0 < value < 1:
        raise click.BadParameter(f"{value:g} is not in (0, 1): it is a share of the matches.")
    return value


def _plot_target(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if value in (None, _TERMINAL) or Path(str(value)).suffix.lower() in _PLOT_SUFFIXES:
        return value
    known = ", ".join(_PLOT_SUFFIXES)
    raise click.BadParameter(f"{value!r} does not end in one of {known}.")


@click.command()
@option(
    "--dim",
    named("count", click.IntRange(2, _LARGEST_DIM)),
    "Dimension d of the vectors.",
    required=True,
)
@option(
    "--similarity",
    named("cosine", click.types.FloatParamType()),
    "Cosine α₀ above which everything should be found, in (0, 1].",
    required=True,
    callback=_similarity,
)
@option(
    "--miss-rate",
    named("share", click.types.FloatParamType()),
    "Share ε of the matches at that cosine that may be missed, in (0, 1).",
    0.01,
    callback=_miss_rate,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--plot",
    is_flag=False,
    flag_value=_TERMINAL,
    default=None,
    metavar="[FILE]",
    callback=_plot_target,
    help="Draw the cost against the unit size: in the terminal, or into FILE (.png, .svg, .pdf).",
)
def design(dim: int, similarity: float, miss_rate: float, as_json: bool, plot: str | None) -> None:
    """Print the best unit size and its cost for uniform vectors.

    One memory vector represents a unit of n vectors, uniform on the sphere. Large units mean fewer
    tests but more false positives; the unit size n* minimises the expected cost, 1/n + P_fp(n) of
    an exhaustive search. The threshold misses the stated share of the matches at the stated cosine.

    \b
    Example:
      memvec design --dim 1000 --similarity 0.7 --miss-rate 0.01
      memvec design --dim 1000 --similarity 0.7 --plot cost.png

    Real data has a lower effective dimension: give that as --dim
    (memvec.theory.effective_dimension).
    """  # noqa: D301 - click wants the character itself, not its name
    designs: dict[str, Design] = {
        name: optimal_design(name, dim=dim, similarity=similarity, miss_rate=miss_rate)
        for name in _CONSTRUCTIONS
    }
    if as_json:
        echo(json.dumps({name: _record(found) for name, found in designs.items()}))
    else:
        Console().print(_table(designs))
    if plot is not None:
        _plot(designs, plot, quiet=as_json)


def _record(found: Design) -> dict[str, int | float]:
    names = ("unit_size", "threshold", "false_positive_rate", "cost_ratio")
    return {name: getattr(found, name) for name in names}


def _table(designs: dict[str, Design]) -> Table:
    setting = next(iter(designs.values()))
    table = Table(
        title=f"d = {setting.dim:g}, similarity ≥ {setting.similarity:g}, "
        f"miss rate {setting.miss_rate:g}"
    )
    for name in ("construction", "unit size n*", "threshold τ", "false positives", "cost ratio"):
        table.add_column(name, justify="left" if name == "construction" else "right")
    for name, found in designs.items():
        table.add_row(
            name,
            str(found.unit_size),
            f"{found.threshold:.4f}",
            f"{found.false_positive_rate:.3e}",
            f"{found.cost_ratio:.4f}",
        )
    return table


def _plot(designs: dict[str, Design], target: str, *, quiet: bool) -> None:
    last = max(10, *(4 * found.unit_size for found in designs.values()))
    curves = {name: _curve(found, last) for name, found in designs.items()}
    if target != _TERMINAL:
        _plot_file(curves, designs, target)
        # With --json, standard output stays one JSON object.
        echo(f"Wrote {target}", err=quiet)
        return
    echo("\ncost ratio against unit size n (s: sum, p: pinv, *: both)", err=quiet)
    echo(draw_chart(curves), err=quiet)


def _curve(found: Design, last: int) -> Points:
    """Return cost against n, from 1 to `last` or the dimension, at equal steps of log n."""
    last = min(int(found.dim), last)
    steps = (round(last ** (step / (_CURVE_POINTS - 1))) for step in range(_CURVE_POINTS))
    sizes = sorted(set(steps) | {found.unit_size})
    curve = cost_curve(
        found.construction,
        sizes,
        dim=found.dim,
        similarity=found.similarity,
        miss_rate=found.miss_rate,
    )
    return [(point.unit_size, point.cost_ratio) for point in curve]


def _plot_file(curves: dict[str, Points], designs: dict[str, Design], target: str) -> None:
    figure = new_figure("memvec design --plot FILE")
    axes = figure.subplots()
    for name, curve in curves.items():
        found = designs[name]
        label = f"{name}: n* = {found.unit_size}, cost {found.cost_ratio:.3g}"
        (line,) = axes.plot(*zip(*curve, strict=True), label=label)
        axes.plot(found.unit_size, found.cost_ratio, "o", color=line.get_color())
    axes.set(xscale="log", yscale="log", xlabel="unit size n", ylabel="cost / exhaustive search")
    axes.set_title(f"d = {found.dim:g}, similarity {found.similarity:g}, miss {found.miss_rate:g}")
    axes.legend()
    with writing(target):
        figure.savefig(target)
