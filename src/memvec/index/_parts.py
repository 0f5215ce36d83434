"""Everything that an index is made of."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from memvec.guarantee import (
    Calibration,
    Evidence,
    KeptRanges,
    NeededSlack,
    Plan,
    Promises,
    Request,
    SolvedPlans,
)
from memvec.index._design import IndexDesign
from memvec.kernels import StoredRows
from memvec.search import Scope, Searched, Source, UnitSource
from memvec.types import Float32Array, Float64Array, IntArray


@dataclass(frozen=True, eq=False)
class IndexParts:
    """An index as one source, and as what a question is asked of.

    Attributes
    ----------
    design : IndexDesign
        What was chosen for the data.
    units : UnitSource
        The units, in the memory of this machine.
    evidence : Evidence
        What promises rest on.
    moved : Source or None
        The units on the device where they are searched; None for this machine.
    folder : tuple of (SolvedPlans, str) or None
        What was solved for the folder that holds the index, and what tells its content from any
        other; None for one in memory.
    """

    design: IndexDesign
    units: UnitSource
    evidence: Evidence
    moved: Source | None = None
    folder: tuple[SolvedPlans, str] | None = None
    filtered: ClassVar[bool] = False

    @property
    def source(self) -> Source:
        """The units, where they are searched."""
        return self.units if self.moved is None else self.moved

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """All of the one source."""
        return (Scope(self.source),)

    @cached_property
    def searched(self) -> Searched:
        """How many vectors there are, and what unrelated ones score."""
        made = self.design
        return Searched(made.n_vectors, made.n_vectors, self.evidence.null_law, made.metric)

    @cached_property
    def promises(self) -> Promises:
        """What searches may ask for."""
        made = self.design
        calibration = Calibration(
            (self.units.cascade,),
            self.evidence,
            made.similarity,
            made.similarities,
            made.config.seed,
        )
        default = Request(made.miss_rate, made.guarantee, made.confidence, explicit=False)
        kept = None
        if self.folder is not None:
            solved, content = self.folder
            kept = KeptRanges(solved, calibration, content)
        return Promises(calibration, default, kept)

    def vectors(self, rows: IntArray) -> Float32Array:
        """Return the vectors of rows of the array that the index was built from, as unit rows."""
        return np.ascontiguousarray(self.stored(rows)[:])

    def stored(self, rows: IntArray) -> StoredRows:
        """Return the same, as they are stored."""
        units = self.units.cascade.units
        return units.vectors.some(units.places[rows])

    def range_plan(self, similarity: float, request: Request, where: str) -> Plan:
        """Return how to find everything above a similarity."""
        return self.promises.for_range(similarity, request, where)

    def nearest_plan(self, k: int, request: Request, where: str) -> Plan:
        """Return how to find the k nearest."""
        return self.promises.for_best(k, request, where)

    def watched(self, similarity: float, request: Request) -> WatchedRange:
        """Return a range as the watch for drift sees it."""
        return WatchedRange(self, similarity, request)

    def with_evidence(self, evidence: Evidence) -> IndexParts:
        """Return the same index, calibrated on something else."""
        return dataclasses.replace(self, evidence=evidence, folder=None)


@dataclass(frozen=True)
class WatchedRange:
    """A range that an index is asked for, as the watch for drift sees it."""

    parts: IndexParts
    similarity: float
    request: Request
    #: An index does not change: only a new calibration starts the watch again.
    version: None = None

    @property
    def place(self) -> tuple[float, Request]:
        """What is asked for."""
        return self.similarity, self.request

    def begin(self) -> tuple[NeededSlack, Float64Array] | None:
        """Return how scores are found, and those of the calibration queries."""
        return self.parts.promises.needed_slack(self.similarity, self.request)

    def seen(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs."""
        return self.parts.units.see(queries, query_of, ids)
