"""The picture of ``memvec demo``: scores, the law of unrelated vectors, and the threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from memvec.guarantee import NullLaw, uniform_tail
from memvec.types import Float32Array, Float64Array

_STEP = 0.05
_BAR = 50
_LAW = "│"
# Of the file, in pixels: a bin's width, the height of the plot, and what surrounds it.
_WIDE, _HIGH, _LEFT, _ABOVE, _BELOW = 28, 240, 70, 34, 46


@dataclass(frozen=True, eq=False)
class ScorePicture:
    """The number of vectors per query in each step of the similarity, measured and by a law.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
    found, expected : ndarray of shape (n_bins,)
        Mean number of vectors per query: counted, and by the law of unrelated vectors.
    similarity : float
        The threshold.
    p_value : float
        The probability that an unrelated vector reaches the threshold.
    """

    edges: Float64Array
    found: Float64Array
    expected: Float64Array
    similarity: float
    p_value: float

    @classmethod
    def of_scores(cls, scores: Float32Array, similarity: float, law: NullLaw) -> ScorePicture:
        """Count the scores of all queries, shape (n_queries, n_vectors)."""
        first = math.floor(round(float(scores.min()) / _STEP, 6))
        edges = _STEP * np.arange(first, round(1 / _STEP) + 1, dtype=np.float64)
        # Rounding leaves the score of a copy a little above 1.
        counts, _ = np.histogram(np.minimum(scores, 1.0), edges)
        above = uniform_tail(edges, law.dimension)
        expected = scores.shape[1] * (above[:-1] - above[1:])
        p_value = float(law.p_values(similarity))
        return cls(edges, counts / len(scores), expected, similarity, p_value)

    @property
    def floor(self) -> float:
        """The count that a bar of no length stands for: bars are drawn by logarithms."""
        positive = self.found[self.found > 0]
        return float(10 ** math.floor(math.log10(positive.min())))

    @property
    def top(self) -> float:
        """The largest count."""
        return float(max(self.found.max(), self.expected.max()))

    def length(self, count: float, whole: float) -> float:
        """Return how long the bar of a count is, where the largest is as long as `whole`."""
        if count <= self.floor:
            return 0.0
        return whole * math.log(count / self.floor) / math.log(self.top / self.floor)

    def lines(self) -> list[str]:
        """Return the picture as lines of text, the lowest scores first."""
        legend = f"vectors per query (logarithmic); {_LAW} law of unrelated vectors"
        drawn = [f"{'cosine':>14}   {legend}"]
        marked = False
        bins = zip(pairwise(self.edges), self.found, self.expected, strict=True)
        for (low, high), found, expected in bins:
            if not marked and low > self.similarity - _STEP / 2:
                drawn.append(f"{'─' * 16} above {self.similarity:g} {'─' * (_BAR - 6)}")
                marked = True
            drawn.append(f"{low:6.2f} – {high:5.2f}   {self._bar(found, expected)} {_told(found)}")
        return drawn

    def _bar(self, found: float, expected: float) -> str:
        bar = "█" * round(self.length(found, _BAR))
        place = round(self.length(expected, _BAR))
        if not place:
            return bar
        padded = bar.ljust(place)
        return padded[: place - 1] + _LAW + padded[place:]

    def write_svg(self, path: Path) -> None:
        """Write the picture as an SVG file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._svg(), encoding="utf-8")

    def _svg(self) -> str:
        wide = _LEFT + _WIDE * len(self.found) + 20
        bars = [self._svg_bar(number, found) for number, found in enumerate(self.found)]
        law = " ".join(
            f"{self._x(low + _STEP / 2):.1f},{self._y(expected):.1f}"
            for low, expected in zip(self.edges[:-1], self.expected, strict=True)
            if expected > self.floor
        )
        limit = self._x(self.similarity)
        bottom = _ABOVE + _HIGH
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{bottom + _BELOW}" '
            'font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            *bars,
            f'<polyline points="{law}" fill="none" stroke="#c44" stroke-width="2"/>',
            f'<line x1="{limit}" x2="{limit}" y1="{_ABOVE}" y2="{bottom}" stroke="#222" '
            'stroke-dasharray="4 3"/>',
            f'<text x="{limit + 4}" y="{_ABOVE + 12}">above {self.similarity:g}</text>',
            f'<text x="{_LEFT}" y="20">Vectors per query at each cosine: measured (bars), '
            "and by the law of unrelated vectors (line)</text>",
            *self._svg_ticks(bottom),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _x(self, score: float) -> float:
        return _LEFT + _WIDE * (score - float(self.edges[0])) / _STEP

    def _y(self, count: float) -> float:
        return _ABOVE + _HIGH - self.length(count, _HIGH)

    def _svg_bar(self, number: int, found: float) -> str:
        y = self._y(found)
        colour = "#1b6ca8" if self.edges[number] > self.similarity - _STEP / 2 else "#b8b8b8"
        return (
            f'<rect x="{_LEFT + _WIDE * number + 1}" y="{y:.1f}" width="{_WIDE - 2}" '
            f'height="{_ABOVE + _HIGH - y:.1f}" fill="{colour}"/>'
        )

    def _svg_ticks(self, bottom: int) -> list[str]:
        marks = [
            f'<text x="{self._x(edge):.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{edge:.1f}</text>"
            for edge in self.edges
            if math.isclose(edge, round(5 * edge) / 5, abs_tol=_STEP / 2)
        ]
        middle = (self._x(float(self.edges[0])) + self._x(float(self.edges[-1]))) / 2
        marks.append(f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">cosine</text>')
        count = 10 * self.floor
        while count <= self.top:
            marks.append(
                f'<text x="{_LEFT - 6}" y="{self._y(count) + 4:.1f}" text-anchor="end">'
                f"{_told(count)}</text>"
            )
            count *= 10
        return marks


def _told(count: float) -> str:
    if not count:
        return "0"
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"
