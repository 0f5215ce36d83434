"""What was solved, kept in a folder beside the data: no process solves it again.

::

    photos.index/solved/     a folder of `memvec.storage`: a manifest with a checksum, no arrays

A plan is found again by a name that holds a digest of all that it was solved from, so that a
calibration that has changed finds none. What is damaged, cannot be a plan, or misses more of the
calibration queries' matches than it says, is solved anew. The folder is no part of the data: it may
be removed, and where it cannot be written, nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from memvec.errors import FileFormatError, MemvecError
from memvec.guarantee._calibration import Calibration
from memvec.guarantee._certificate import Certificate
from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._needed import NeededSlack
from memvec.guarantee._plan import Plan
from memvec.guarantee._thresholds import Thresholds
from memvec.kernels import MATCH_SLACK
from memvec.storage import MANIFEST, disk, kind_of, open_folder, write_folder
from memvec.types import Float64Array

SOLVED = "solved"
# Raised with every change of what is solved from the same evidence: older plans are solved anew.
_SOLVER = 5
# Plans of one calibration that are kept, of a few kilobytes each: those asked for first.
_MOST_PLANS = 64
# A plan has a line for each cell above its similarity, at most, and for each listed similarity.
_MOST_LINES = 1000
# Of a sum of shares, one a calibration query.
_ROUNDING = 1e-6
# What reading one raises that somebody forged.
_NOT_A_PLAN = AttributeError, FileFormatError, KeyError, OverflowError, TypeError, ValueError


class Asked(Hashable, Protocol):
    """What a plan is solved for."""

    @property
    def miss_rate(self) -> float:
        """What may be missed."""


class SolvedPlans:
    """Plans in a folder, by name; read when first asked for, and replaced as a whole.

    Parameters
    ----------
    folder : Path
        Where they lie: in the folder of an index or a collection.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / SOLVED
        self._lock = threading.Lock()
        self._known: dict[str, Any] | None = None

    def find(self, solved_from: str, name: str) -> dict[str, Any] | None:
        """Return what was kept by a name among what was solved from the same; None if nothing."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
            found = self._known.get(f"{solved_from} {name}")
        return found if isinstance(found, dict) else None

    def keep(self, solved_from: str, plans: Mapping[str, dict[str, Any]]) -> None:
        """Keep plans solved from the same, if the folder can be written; else in memory alone.

        Of two processes that keep some at the same time, those of one may be lost. Plans that were
        solved from something else go where there are too many.
        """
        with self._lock:
            known = self._read()
            new = {f"{solved_from} {name}": plan for name, plan in plans.items()}
            if len(known) + len(new) > _MOST_PLANS:
                own = f"{solved_from} "
                known = {name: plan for name, plan in known.items() if name.startswith(own)}
            self._known = known | new
            if len(self._known) <= _MOST_PLANS:
                with suppress(MemvecError, OSError):
                    self._write(self._known)

    def _read(self) -> dict[str, Any]:
        with suppress(MemvecError, OSError):
            if disk.is_folder(self._folder):
                plans = open_folder(self._folder)[1].get("plans")
                return plans if isinstance(plans, dict) else {}
        return {}

    def _write(self, plans: dict[str, Any]) -> None:
        if disk.kind(self._folder) not in (None, "a folder"):  # a link would lead elsewhere
            return
        if kind_of(self._folder.parent) is None:  # removed, and something else is there now
            return
        # Whoever may read the folder may hold its lock, and no search is to wait for that.
        save = partial(write_folder, self._folder, {}, {"plans": plans}, wait=False)
        # Nor for the disk: what a crash cuts off is found damaged, and solved anew.
        with disk.unsynced():
            try:
                save()
            except FileFormatError:  # its manifest is damaged: nothing in it is of use
                disk.remove_file(self._folder / MANIFEST)
                save()


class KeptRanges:
    """The plans of one calibration, for ranges.

    Parameters
    ----------
    plans : SolvedPlans
        Where they lie.
    calibration : Calibration
        What they are solved from.
    searched : str
        What tells the searched vectors, and all that was made of them, from any others.
    evidence : str
        The same of the matches of the calibration queries.
    """

    def __init__(
        self, plans: SolvedPlans, calibration: Calibration, searched: str, evidence: str = ""
    ) -> None:
        self._plans, self._calibration = plans, calibration
        self._searched, self._evidence = searched, evidence

    def find(self, similarity: float, request: Asked) -> Plan | None:
        """Return the plan of a range; None where none is kept, or one that cannot be right."""
        fields = self._plans.find(self._name, _name_of_range(similarity, request))
        plan = None if fields is None else _from_json(fields, similarity, self._n_stages)
        return plan if plan is not None and self._bears_out(plan, request) else None

    @property
    def _n_stages(self) -> int:
        return len(self._calibration.cascades[0].stage_names)

    def _bears_out(self, plan: Plan, request: Asked) -> bool:
        """Tell whether a plan keeps what its certificate says, as far as the table can tell.

        Whoever writes a plan that is none can write its checksum, too. The matches of the
        calibration queries are counted again, which takes milliseconds. Synthetic queries would
        have to be made anew: their count is believed.
        """
        told, lines = plan.certificate, plan.thresholds
        assert lines is not None
        if told.miss_rate != request.miss_rate or told.complete != (told.level == "exact"):
            return False
        if told.complete or told.source not in ("reserve", "queries"):
            return lines.pass_everything or not told.complete
        table = self._calibration.evidence.table
        if table is None or told.observed is None or told.observed > request.miss_rate:
            return False
        rows = table.rows(table.cosines >= (told.similarity or 0.0) - MATCH_SLACK)
        missed, _ = rows.missed(~lines.passes(rows.scores, rows.slopes))
        n_queries = rows.n_queries
        return told.n_queries == n_queries and missed <= told.observed * n_queries + _ROUNDING

    def keep(self, plans: Mapping[float, Plan], request: Asked) -> None:
        """Keep plans by their similarities."""
        known = {_name_of_range(one, request): _as_json(plan) for one, plan in plans.items()}
        whole = {name: plan for name, plan in known.items() if plan is not None}
        self._plans.keep(self._name, whole)

    @cached_property
    def _name(self) -> str:
        """A digest of everything that the plans are solved from."""
        made, evidence = self._calibration, self._calibration.evidence
        stated = (
            *(_SOLVER, self._searched, self._evidence),
            *(made.designed_for, made.seed, made.similarities),
            *(evidence.source, evidence.floor, evidence.left_out),
            *(evidence.calibrated, evidence.state),
        )
        return hashlib.blake2b(repr(stated).encode(), digest_size=16).hexdigest()


def _name_of_range(similarity: float, request: Asked) -> str:
    return f"{float(similarity)!r} {request!r}"


def _as_json(plan: Plan) -> dict[str, Any] | None:
    """Return a plan as JSON holds it; None for one that would not come back as it is."""
    if plan.thresholds is None or plan.first is not None:
        return None
    needed: list[Any] = []
    if plan.needed is not None:
        family = plan.needed.family
        needed = [[plan.needed.at, plan.needed.limit], family.shares, family.most, *family.knots]
    fields = {
        "at": _texts(plan.thresholds.at),
        "slack": [_texts(line) for line in plan.thresholds.slack],
        "certificate": json.loads(plan.certificate.to_json()),
        "needed": [_texts(column) for column in needed],
    }
    return fields if _certificate(fields) == plan.certificate else None


def _from_json(fields: dict[str, Any], similarity: float, n_stages: int) -> Plan | None:
    """Return the plan of a range from what `_as_json` gave; None where it cannot be one.

    Compiled loops take thresholds as they are: there must be one for each stage.
    """
    try:
        at = _numbers(fields["at"], (len(fields["at"]),))
        slack = _numbers(fields["slack"], (len(at), n_stages))
        certificate = _certificate(fields)
        needed = _needed_slack(fields["needed"], similarity, n_stages)
    except _NOT_A_PLAN:
        return None
    fits = 0 < len(at) <= _MOST_LINES and bool((np.abs(at) <= 1).all())
    fits &= bool((slack > -np.inf).all())  # else a stage would stop everything
    if not fits or certificate.similarity != similarity:
        return None
    return Plan(Thresholds(at, slack), certificate, needed=needed)


def _certificate(fields: dict[str, Any]) -> Certificate:
    return Certificate.from_json(json.dumps(fields["certificate"]))


def _needed_slack(stored: list[Any], similarity: float, n_stages: int) -> NeededSlack | None:
    if not stored:
        return None
    at, limit = _numbers(stored[0], (2,)).tolist()
    shares, most, *knots = _numbers(stored[1:], (len(stored) - 1, n_stages))
    family = ThresholdFamily(shares, np.array(knots), most)
    if not family.rises:
        raise ValueError("a family that does not rise")
    return NeededSlack(similarity, at, family, limit)


def _texts(numbers: Iterable[float]) -> list[str]:
    """Return numbers as texts, which hold every bit of them, and infinity, too."""
    return [float(one).hex() for one in numbers]


def _numbers(texts: Any, shape: tuple[int, ...]) -> Float64Array:
    """Return the numbers of texts, or of lists of texts, of a shape."""
    flat = [float.fromhex(text) for text in np.array(texts, dtype=object).ravel()]
    numbers = np.array(flat).reshape(shape)
    if np.isnan(numbers).any():
        raise ValueError("not a number")
    return numbers
