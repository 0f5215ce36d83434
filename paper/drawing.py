"""Drawing tables: one look for all figures, told apart by line and marker as well as by colour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memvec.errors import MissingExtraError
from paper.table import Cell, Table

# From black to a light grey in equal steps of luminance, so that curves differ in grey as well.
_STYLES = (
    ("#000000", "-", "o"),
    ("#08107c", "--", "s"),
    ("#8c0b14", "-.", "^"),
    ("#1b6e1b", ":", "D"),
    ("#8a44a8", (0, (5, 1)), "v"),
    ("#2b9ccc", (0, (3, 1, 1, 1)), "x"),
    ("#e8852a", (0, (1, 1)), "+"),
    ("#b0b0b0", (0, (7, 2)), "*"),
)
# What rankings of a data set are judged by, told by how its name begins; `RetrievalSet.measure`.
_MEASURES = {
    "4-recall@4": ("UKB", "copies", "made-up objects", "made-up vectors of objects"),
    "share of matches found": ("WordNet",),
    "mAP": ("Gardens Point", "Holidays", "Oxford5k", "made-up walk", "made-up vectors"),
}
# What the column "deviation" of a table is about; its other columns come without.
_DEVIATING = {"imbalance", "probability", "quality"}
_PANEL = (3.1, 2.6)
# Inches below the panels for what the curves are called.
_LEGEND = 0.5
# Histograms of one value still have a width.
_NARROWEST = 0.01
_NEAR_A_TENTH = 0.12
_SETTINGS: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "memvec",
}


def new_panels(titles: Sequence[str], per_row: int = 4) -> tuple[Any, list[Any]]:
    """Return a figure and one pair of axes for each title."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("Drawing", "matplotlib", "plot") from None
    n_rows = -(-len(titles) // per_row)
    n_columns = -(-len(titles) // n_rows)  # rows as even as can be
    with rc_context(_SETTINGS):
        size = (_PANEL[0] * max(n_columns, 2), _PANEL[1] * n_rows + _LEGEND)
        figure = Figure(figsize=size, layout="constrained")
        panels = [figure.add_subplot(n_rows, n_columns, place + 1) for place in range(len(titles))]
        for panel, title in zip(panels, titles, strict=True):
            panel.set_title(title)
            panel.grid(color="#dddddd", linewidth=0.5)
    return figure, panels


def style(place: int) -> dict[str, Any]:
    """Return colour, line and marker of the curve at a place."""
    color, line, marker = _STYLES[place % len(_STYLES)]
    return {
        "color": color,
        "linestyle": line,
        "marker": marker,
        "linewidth": 1.1,
        "markersize": 3,
    }


def draw_lines(panel: Any, table: Table, x: str, y: str, by: str, among: Sequence[Cell]) -> None:
    """Draw one curve for each value of the column `by`, with bars where there is a deviation.

    A curve looks as its place among all values has it, whichever of them the panel shows.
    """
    for value in table.values(by):
        part = table.where(**{by: value})
        look = {**style(list(among).index(value)), "label": _label(value)}
        deviation = "deviation" if y in _DEVIATING else f"{y} deviation"
        if deviation in table.columns:
            bars = {"yerr": part.column(deviation), "elinewidth": 0.6, "capsize": 1.5}
            panel.errorbar(part.column(x), part.column(y), **bars, **look)
        else:
            panel.plot(part.column(x), part.column(y), **look)


def lines_figure(
    table: Table,
    x: str,
    y: str,
    by: str,
    *,
    panel: str,
    labels: tuple[str, str],
    log: str = "",
) -> Any:
    """Draw a table as curves, one panel for each value of a column."""
    names = table.values(panel)
    figure, panels = new_panels([_label(name) for name in names])
    for axes, name in zip(panels, names, strict=True):
        draw_lines(axes, table.where(**{panel: name}), x, y, by, table.values(by))
        finish(axes, labels, log)
    share_legend(figure, panels)
    return figure


def quality_figure(table: Table, per_row: int = 4) -> Any:
    """Draw curves of quality against complexity ratio, with the exhaustive search beside them.

    The ratio is on a logarithmic axis: with M units no curve begins before M/N, a tenth in most
    figures, and most of what can be found is found soon after.
    """
    names = table.values("data")
    figure, panels = new_panels([_label(name) for name in names], per_row)
    for axes, name in zip(panels, names, strict=True):
        part = table.where(data=name)
        whole = {"color": "#999999", "linewidth": 0.8, "label": "exhaustive"}
        for baseline in np.unique(part.column("baseline")):
            axes.axhline(baseline, zorder=0, **whole)
        draw_lines(axes, part, "ratio", "quality", "variant", table.values("variant"))
        least = 0.95 * part.column("ratio").min()
        # M/N is a tenth in most figures; where a curve begins just above, the tick of 0.1 is shown.
        axes.set_xlim(min(least, 0.1) if least < _NEAR_A_TENTH else least, 1)
        finish(axes, ("complexity ratio C/N", measure(str(name))), "x")
    share_legend(figure, panels)
    return figure


def measure(data: str) -> str:
    """Return what the quality of a data set is, by its name; "quality" where that is not known.

    Examples
    --------
    >>> measure("UKB-56"), measure("Gardens Point, day")
    ('4-recall@4', 'mAP')
    """
    known = (kind for kind, names in _MEASURES.items() if data.startswith(names))
    return next(known, "quality")


def histogram_figure(table: Table, value: str, by: str, *, panel: str, label: str) -> Any:
    """Draw the distribution of a column, one outline for each value of another."""
    names = table.values(panel)
    figure, panels = new_panels([_label(name) for name in names])
    for axes, name in zip(panels, names, strict=True):
        part = table.where(**{panel: name})
        low, high = part.column(value).min(), part.column(value).max()
        edges = np.linspace(low, max(high, low + _NARROWEST), 31)
        for place, which in enumerate(part.values(by)):
            look = style(place)
            axes.hist(
                part.where(**{by: which}).column(value),
                edges,
                histtype="step",
                color=look["color"],
                linestyle=look["linestyle"],
                label=_label(which),
            )
        finish(axes, (label, "queries"))
        axes.yaxis.get_major_locator().set_params(integer=True)
    share_legend(figure, panels)
    return figure


def finish(panel: Any, labels: tuple[str, str], log: str = "") -> None:
    """Put words and plain ticks on the axes."""
    panel.set_xlabel(labels[0])
    panel.set_ylabel(labels[1])
    for name, axis in (("x", panel.xaxis), ("y", panel.yaxis)):
        if name in log:
            _set_log(panel, name, axis)
        else:
            panel.ticklabel_format(axis=name, style="plain", useOffset=False)
    low, high = panel.get_ylim()
    if "y" not in log and high - low < 1e-3 * abs(high + low):
        # A constant is a line in the middle, not the rounding of its last digits.
        panel.set_ylim(0.45 * (low + high), 0.55 * (low + high))


def _set_log(panel: Any, name: str, axis: Any) -> None:
    """Make an axis logarithmic, with numbers that do not collide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (panel.set_xscale if name == "x" else panel.set_yscale)("log")
    low, high = panel.get_xlim() if name == "x" else panel.get_ylim()
    wide = high / low > 60
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def share_legend(figure: Any, panels: Sequence[Any]) -> None:
    """Put one legend for all panels below them, off the curves."""
    named: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    # A letter takes about 0.07 inch, the line before a name half an inch.
    widest = 0.07 * max(map(len, named), default=1) + 0.6
    columns = max(1, min(len(named), int(figure.get_figwidth() / widest)))
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=columns, fontsize=7
    )


def save_figure(figure: Any, stem: Path) -> None:
    """Write a figure as SVG and as PNG; the same figure gives the same bytes."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(stem.with_suffix(".png"), dpi=120, metadata={"Software": None})


def _label(value: Cell) -> str:
    return value if isinstance(value, str) else f"{value:g}"


__all__ = [
    "draw_lines",
    "finish",
    "histogram_figure",
    "lines_figure",
    "measure",
    "new_panels",
    "quality_figure",
    "save_figure",
    "share_legend",
    "style",
]
