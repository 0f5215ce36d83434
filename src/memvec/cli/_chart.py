"""A small line chart for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Points = Sequence[tuple[float, float]]


def draw_chart(series: Mapping[str, Points], *, width: int = 72, height: int = 18) -> str:
    """Draw series of positive points on logarithmic axes, each with the first letter of its name.

    Examples
    --------
    >>> print(draw_chart({"sum": [(1, 1.0), (10, 0.1)]}, width=12, height=3))
          1 |s
            |
        0.1 |           s
            +------------
             1         10
    """
    points = [point for line in series.values() for point in line]
    left, right = _ends([x for x, _ in points])
    bottom, top = _ends([y for _, y in points])
    canvas = [[" "] * width for _ in range(height)]
    for name, line in series.items():
        for x, y in line:
            column = round(_share(x, left, right) * (width - 1))
            row = round((1 - _share(y, bottom, top)) * (height - 1))
            canvas[row][column] = name[0] if canvas[row][column] in (" ", name[0]) else "*"
    return "\n".join([*_rows(canvas, bottom, top), *_foot(width, left, right)])


def _rows(canvas: list[list[str]], bottom: float, top: float) -> list[str]:
    labels = {0: f"{top:.3g}", len(canvas) - 1: f"{bottom:.3g}"}
    return [
        f"{labels.get(row, ''):>7} |{''.join(line)}".rstrip() for row, line in enumerate(canvas)
    ]


def _foot(width: int, left: float, right: float) -> list[str]:
    first, last = f"{left:.3g}", f"{right:.3g}"
    return [f"{'':7} +{'-' * width}", f"{'':9}{first}{last:>{width - len(first)}}"]


def _ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low) if high > low else 0.0
