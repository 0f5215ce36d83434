"""Where misses fall: on which queries, and at which similarities."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from memvec.display import new_figure
from memvec.guarantee._cells import EDGES, strata
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# The queries that are told apart as the worst.
_WORST_SHARE = 0.1


class MissBand(NamedTuple):
    """The matches between two similarities.

    Attributes
    ----------
    low, high : float
        Cosines from `low` up to `high`.
    n_matches : float
        How many there are; a whole number unless some stand for several.
    missed : float
        The share of them that is missed.
    """

    low: float
    high: float
    n_matches: float
    missed: float


@dataclass(frozen=True)
class MissProfile:
    """The misses behind a mean miss rate.

    Attributes
    ----------
    n_queries : int
        Number of queries with matches. missed_all : float The share of them that miss all their
        matches.
    worst_tenth : float
        The mean share missed by the tenth of the queries that miss most.
    bands : tuple of MissBand
        The share missed at each similarity, in ascending order; bands without matches are left out.

    Examples
    --------
    >>> queries, cosines = np.array([0, 0, 1, 2]), np.array([0.91, 0.82, 0.81, 0.95])
    >>> seen = MissProfile.of_pairs(queries, cosines, np.array([False, True, True, False]))
    >>> seen.missed_all, seen.worst_tenth, [band.missed for band in seen.bands]
    (0.3333333333333333, 1.0, [1.0, 1.0, 0.0, 0.0])
    """

    n_queries: int
    missed_all: float
    worst_tenth: float
    bands: tuple[MissBand, ...]

    @classmethod
    def of_pairs(
        cls,
        queries: IntArray,
        cosines: Float32Array | Float64Array,
        missed: BoolArray,
        copies: Float32Array | None = None,
    ) -> MissProfile:
        """Return the profile of pairs that match.

        Parameters
        ----------
        queries, cosines : ndarray of shape (n_pairs,)
            The query and the cosine of each pair.
        missed : ndarray of shape (n_pairs,)
            Whether it is missed.
        copies : ndarray of shape (n_pairs,), optional
            How many pairs it stands for; one by default.
        """
        counts = np.ones(len(queries)) if copies is None else copies.astype(np.float64)
        if not len(queries):
            return cls(0, 0.0, 0.0, ())
        _, query = np.unique(queries, return_inverse=True)
        shares = np.bincount(query, counts * missed) / np.bincount(query, counts)
        n_worst = int(np.ceil(_WORST_SHARE * len(shares)))
        worst = np.sort(shares)[-n_worst:]
        # Sums of fractions: a query that misses everything may be a rounding away from 1.
        missed_all = float(np.mean(shares > 1 - 1e-9))
        return cls(len(shares), missed_all, float(worst.mean()), _bands(cosines, missed, counts))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> MissProfile:
        """Return the profile that `to_dict` gave."""
        bands = tuple(MissBand(*map(float, band)) for band in fields["bands"])
        return cls(**{**fields, "bands": bands})

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{100 * self.missed_all:.2f} % of the queries miss all their matches; "
            f"the worst tenth misses {100 * self.worst_tenth:.2f} % on average."
        ]
        most = max((band.missed for band in self.bands), default=0.0)
        for band in self.bands:
            bar = "█" * round(24 * band.missed / most) if most > 0 else ""
            lines.append(
                f"  {band.low:<9.7g}{band.n_matches:>12,.0f} matches "
                f"{100 * band.missed:>7.2f} % {bar}"
            )
        return "\n".join(lines)

    def plot(self) -> Any:
        """Return a matplotlib figure of the share missed against the similarity."""
        figure = new_figure("MissProfile.plot()")
        self.draw(figure.subplots())
        return figure

    def draw(self, axes: Any) -> None:
        """Draw the share missed against the similarity."""
        edges = [band.low for band in self.bands] + [band.high for band in self.bands[-1:]]
        axes.stairs([100 * band.missed for band in self.bands], edges, fill=True, color="0.7")
        axes.set(xlabel="similarity of the match", ylabel="missed, %")


def _bands(
    cosines: Float32Array | Float64Array, missed: BoolArray, counts: Float64Array
) -> tuple[MissBand, ...]:
    cells = np.maximum(strata(cosines), 0)
    n_matches = np.bincount(cells, counts, minlength=len(EDGES))
    n_missed = np.bincount(cells, counts * missed, minlength=len(EDGES))
    ends = np.append(EDGES[1:], 1.0)
    return tuple(
        MissBand(float(EDGES[i]), float(ends[i]), float(n_matches[i]), float(n_missed[i] / n))
        for i, n in enumerate(n_matches)
        if n > 0
    )
