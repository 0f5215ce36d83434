"""What an answer from all parts together promises.

Segments are calibrated one by one, and their promises do not add up: the miss rate is a mean over
the queries that have matches, and each segment has other queries. Two segments that miss a half
each may miss two thirds together. So an answer that several segments had a part in promises
something only if nothing was missed, or by the law that holds for each match by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from memvec import checks
from memvec.collection._segment import Segment
from memvec.collection._state import State
from memvec.guarantee import Certificate
from memvec.index import Hits, TopHits
from memvec.types import Float32Array

Guarantee = Literal["expected", "model", "exact"]


@dataclass(frozen=True)
class Promise:
    """How segments are searched for one question, and what is promised about all of them.

    Attributes
    ----------
    guarantee : {"expected", "model", "exact"}
        What was asked for.
    miss_rate : float
        ε.
    certificate : Certificate
        What the answer promises.
    """

    guarantee: Guarantee
    miss_rate: float
    certificate: Certificate

    def range_search(
        self, segment: Segment, queries: Float32Array, similarity: float, threads: int | None
    ) -> Hits:
        """Search a segment."""
        if self.guarantee == "exact":
            return segment.index.range_search(
                queries, similarity, threshold=-np.inf, threads=threads
            )
        return segment.index.range_search(
            queries,
            similarity,
            miss_rate=self.miss_rate,
            # None for "expected": a segment with little evidence then does what it can.
            guarantee="model" if self.guarantee == "model" else None,
            threads=threads,
        )

    def search(
        self, segment: Segment, queries: Float32Array, k: int, threads: int | None
    ) -> TopHits:
        """Find the k nearest vectors of a segment."""
        if self.guarantee == "exact":
            return segment.index.search(queries, k, threshold=-np.inf, threads=threads)
        return segment.index.search(queries, k, miss_rate=self.miss_rate, threads=threads)


def promise_range(
    state: State,
    similarity: float,
    miss_rate: float,
    guarantee: Guarantee,
    where: str,
    *,
    by_units: bool,
) -> Promise:
    """Return how to find everything above a similarity, and what comes of it.

    Parameters
    ----------
    by_units : bool
        Whether waiting vectors are tested by open units, at the level of the model, instead of
        one by one.
    """
    checks.choice(guarantee, "guarantee", where, get_args(Guarantee))
    if guarantee == "exact" or not (state.segments or by_units):
        return Promise("exact", miss_rate, _exact(similarity))
    if guarantee == "model" or not state.segments:
        by_law = Certificate("model", similarity=similarity, miss_rate=miss_rate)
        return Promise("model", miss_rate, by_law)
    return Promise(guarantee, miss_rate, Certificate("none", similarity=similarity))


def promise_best(state: State, miss_rate: float, guarantee: Guarantee, where: str) -> Promise:
    """Return how to find the k nearest, for which there is no law, and what comes of it."""
    checks.choice(guarantee, "guarantee", where, get_args(Guarantee))
    if guarantee == "exact" or not state.segments:
        return Promise("exact", miss_rate, _exact(None))
    return Promise("expected", miss_rate, Certificate("none"))


def _exact(similarity: float | None) -> Certificate:
    return Certificate("exact", similarity=similarity, miss_rate=0.0, bound=0.0, complete=True)


__all__ = ["Guarantee", "Promise", "promise_best", "promise_range"]
