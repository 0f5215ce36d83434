"""Sources: the protocol, the units of an index as one, and the devices they can move to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np

from memvec import checks
from memvec.guarantee import Thresholds
from memvec.kernels import ALL_ALLOWED, ANYTHING
from memvec.matches import Matches
from memvec.search._bounds import BoundedSearch
from memvec.search._code_units import CodeUnits
from memvec.search._explain import StageView, stage_views
from memvec.search._float_units import FloatUnits
from memvec.search._plain_rows import scan_rows
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Where one row in so many is allowed or fewer, these are copied to be scored.
_SPARSE = 4


def are_few(n_rows: int, times: int = 1) -> bool:
    """Tell whether so few rows are allowed that all of them are scored."""
    return n_rows < times * UnitSource.few_rows


class Source(Protocol):
    """Anything that can be searched; ids are row numbers, from 0 on."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return everything above a similarity that passes the thresholds; None misses nothing.

        `allowed` tells for each id whether it may be a hit; all may where it is empty.
        """

    def compare_all(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Matches:
        """Return everything above a similarity, by comparing everything that is allowed."""

    def see(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what each stage sees of given pairs, as scores and slopes; NaN where untested."""

    def stages(
        self, query: Float32Array, row: int, thresholds: Thresholds | None
    ) -> tuple[StageView, ...]:
        """Return the tests that a row passes or fails for one query, in order."""


class TakesArrays(Protocol):
    """A source on a device that takes queries there."""

    def takes(self, queries: object) -> bool:
        """Tell whether queries lie on the device."""

    def uploads(self, queries: object) -> bool:
        """Tell whether queries that do not lie there are better checked and scaled there."""

    def taken(self, queries: Any, name: str, where: str) -> Float32Array:
        """Return them checked and scaled, as `search` takes them; items are fetched."""


def taker_of(source: Any) -> TakesArrays | None:
    """Return a source that takes queries of its device, or None.

    A runtime-checkable protocol would tell in 9 µs, a third of the time of a small search.
    """
    return source if hasattr(source, "takes") else None


@dataclass(frozen=True, eq=False)
class UnitSource:
    """The units of an index, searched by the CPU; ids are rows of the array it was built from.

    Attributes
    ----------
    cascade : CodeUnits or FloatUnits
        The units and the tests before them, one stage after the other.
    """

    cascade: CodeUnits | FloatUnits
    #: Where a filter leaves fewer rows than this, they are scored one by one: for 300 of 384
    #: dimensions that takes about as long as a search of 10,000 rows, 0.2 ms.
    few_rows: ClassVar[int] = 300

    @cached_property
    def bounds(self) -> BoundedSearch:
        """The search that misses nothing."""
        return BoundedSearch(self.cascade)

    def __len__(self) -> int:
        return len(self.cascade.units.keys)

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return everything above a similarity that passes the thresholds; None misses nothing."""
        if len(allowed):
            n_allowed = np.count_nonzero(allowed)
            if are_few(int(n_allowed)):
                return self.compare_all(queries, similarity, threads, allowed)
            if n_allowed == len(allowed):
                allowed = ALL_ALLOWED
        if thresholds is None and similarity == ANYTHING:
            return self.compare_all(queries, similarity, threads, allowed)
        if thresholds is None:
            return self.bounds.search(queries, similarity, threads, allowed)
        return self.cascade.search(queries, similarity, thresholds, threads, allowed)

    @property
    def visits_best_first(self) -> bool:
        """Whether the k nearest are found in one visit; units without codes have no order.

        Balanced codes are searched by falling ranges, as on a GPU, so that answers are the same.
        """
        return isinstance(self.cascade, CodeUnits) and not self.cascade.is_balanced

    def nearest(
        self,
        queries: Float32Array,
        cuts: Float64Array,
        thresholds: Thresholds,
        best: Float64Array,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return the nearest of each query in one visit, as `CodeUnits.nearest` does.

        Where a filter leaves few rows, these are all returned.
        """
        assert isinstance(self.cascade, CodeUnits)
        if len(allowed):
            n_allowed = int(np.count_nonzero(allowed))
            if are_few(n_allowed):
                every = self.compare_all(queries, ANYTHING, threads, allowed)
                for heap, row in zip(best, every, strict=True):
                    heap[:] = np.sort(np.concatenate([heap, row.scores]))[-len(heap) :]
                return every
            if n_allowed == len(allowed):
                allowed = ALL_ALLOWED
        return self.cascade.nearest(queries, cuts, thresholds, best, threads, allowed)

    def compare_all(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Matches:
        """Return everything above a similarity, by comparing everything that is allowed."""
        units = self.cascade.units
        n_allowed = int(np.count_nonzero(allowed)) if len(allowed) else len(self)
        if _SPARSE * n_allowed < len(self):
            chosen = np.flatnonzero(allowed)
            rows = units.vectors.some(units.places[chosen])
            return scan_rows(rows, chosen, queries, similarity, threads)
        rows, keys = units.vectors, units.keys
        return scan_rows(
            rows,
            keys,
            queries,
            similarity,
            threads,
            allowed,
            n_allowed=n_allowed,
            progress=progress,
        )

    def see(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what each stage sees of given pairs."""
        rows = self.cascade.units.places[ids].astype(np.int64)
        return self.cascade.see(queries, query_of, rows)

    def stages(
        self, query: Float32Array, row: int, thresholds: Thresholds | None
    ) -> tuple[StageView, ...]:
        """Return the tests that a row passes or fails for one query, in order."""
        if thresholds is None:
            return ()
        place = self.cascade.units.places[[row]].astype(np.int64)
        return stage_views(self.cascade, query[np.newaxis], place, thresholds)


# How units get to a device, by its kind; the room that knows a kind registers it on import.
_DEVICES: dict[str, Callable[[UnitSource, str], Source]] = {"cpu": lambda source, _: source}
# Rooms above this one, imported when a device of their kind is first asked for.
_ROOMS = {"cuda": "memvec.gpu"}


# How indexes are built on a device, by its kind.
_BUILDERS: dict[str, Callable[..., Any]] = {}
# What raises where a device of a kind is not there.
_FINDERS: dict[str, Callable[[str], object]] = {}


def register_device(
    kind: str,
    make: Callable[[UnitSource, str], Source],
    build: Callable[..., Any] | None = None,
    find: Callable[[str], object] | None = None,
) -> None:
    """Let units be searched on a kind of device.

    Parameters
    ----------
    kind : str
        What users call it: ``Index.to(kind)``, or ``Index.to("kind:1")`` for one of several.
    make : callable
        Takes a source and the name of the device, such as ``"kind:1"``; returns a source that
        answers like the one it is given.
    build : callable, optional
        Builds an index there, from what ``Index.build`` is given: returns its parts and the
        vectors. The parts are None for what it leaves to the CPU, which takes the vectors then.
    find : callable, optional
        Takes the name of a device and raises where it is not there.
    """
    _DEVICES[kind] = make
    if find is not None:
        _FINDERS[kind] = find
    if build is not None:
        _BUILDERS[kind] = build


def built_on(device: str, vectors: Any, *given: Any) -> tuple[Any, Any]:
    """Return what the builder of a device makes, or None and what the CPU builds from instead."""
    build = _BUILDERS.get(device.partition(":")[0])
    return (None, vectors) if build is None else build(device, vectors, *given)


def check_device(device: object, where: str) -> str:
    """Return the name of a device that is there."""
    kind = device.partition(":")[0] if isinstance(device, str) else ""
    if kind in _ROOMS:
        import_module(_ROOMS[kind])
    number = str(device)[len(kind) :]  # such as ":1"
    named = re.fullmatch(r"(:[0-9]+)?", number) and not (number and kind == "cpu")
    if kind not in _DEVICES or not named:
        known = " or ".join(repr(name) for name in dict.fromkeys([*_DEVICES, *_ROOMS]))
        expected = f"{known}, or with a number, such as 'cuda:1'"
        raise checks.bad_value("device", where, expected, repr(device))
    if kind in _FINDERS:
        _FINDERS[kind](str(device))
    return str(device)


def source_on(device: str, source: UnitSource, where: str) -> Source:
    """Return units as a source on a device."""
    device = check_device(device, where)
    return _DEVICES[device.partition(":")[0]](source, device)
