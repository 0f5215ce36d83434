"""One promise for several indexes that are searched together.

Promises of single indexes do not add up to one about all of them: the miss rate is a mean over the
queries that have matches, and each index has other queries. So the thresholds of all are solved on
one table, of the same queries against everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from memvec.evaluation import FlatRows
from memvec.guarantee import CalibrationTable, Certificate, NullLaw, Source
from memvec.index._calibration import Calibration, Slack
from memvec.index._cascades import CodeCascade
from memvec.index._config import IndexConfig
from memvec.index._design import MEMBER_WORDS, IndexDesign
from memvec.index._encode import encode_units
from memvec.index._evidence import Evidence, lowest_known
from memvec.index._explain import Explanation
from memvec.index._found import ALL_ALLOWED, Found
from memvec.index._index import Index
from memvec.index._lines import Lines
from memvec.index._planting import PLANTED_BYTES
from memvec.index._promises import Promises, Request
from memvec.index._searcher import seen_of_ids
from memvec.index._top import likely_similarities
from memvec.index._units import Units
from memvec.types import BoolArray, Float32Array, IntArray


@dataclass(frozen=True, eq=False)
class JointPromise:
    """Thresholds for several indexes at once; made by :meth:`of`.

    Attributes
    ----------
    indexes : tuple of Index
        What is searched.
    promises : Promises
        Solves for thresholds, and keeps what was solved.
    """

    indexes: tuple[Index, ...]
    promises: Promises

    @classmethod
    def of(
        cls,
        indexes: Sequence[Index],
        table: CalibrationTable | None,
        *,
        similarity: float,
        similarities: tuple[float, ...],
        default: Request,
        source: Source | None = "reserve",
        calibrated: str = "",
        state: str = "",
        left_out: int = 0,
    ) -> JointPromise:
        """Return the promise that a table of calibration queries against all indexes supports.

        Parameters
        ----------
        indexes : sequence of Index
            At least one, all built with the same configuration.
        table : CalibrationTable or None
            The matches of the same queries in all of them (`CalibrationTable.merged`).
        similarity : float
            α₀ that they are designed for.
        similarities : tuple of float
            Those that "high_probability" may be asked for.
        default : Request
            What a search asks for that says nothing.
        source, calibrated, state, left_out
            For certificates.
        """
        laws = [index._parts.evidence.null_law for index in indexes]
        evidence = Evidence(
            table=table,
            source=source,
            floor=lowest_known(similarity),
            null_law=NullLaw.of_pairs(np.concatenate([law.cosines for law in laws])),
            left_out=left_out,
            calibrated=calibrated,
            state=state,
        )
        cascades = tuple(index._parts.cascade for index in indexes)
        seed = indexes[0].config.seed
        calibration = Calibration(cascades, evidence, similarity, similarities, seed)
        return cls(tuple(indexes), Promises(calibration, default))

    @property
    def n_bytes(self) -> int:
        """What the table takes, as it is and in order of the cosine, and what is planted."""
        table = self.promises.calibration.table
        return PLANTED_BYTES + (0 if table is None else 2 * table.n_bytes)

    @property
    def null_law(self) -> NullLaw:
        """What vectors that have nothing to do with each other score."""
        return self.promises.calibration.evidence.null_law

    def for_range(self, similarity: float, request: Request, where: str) -> Slack:
        """Return the lines of thresholds for everything above a similarity."""
        return self.promises.for_range(similarity, request, where)

    def for_best(self, k: int, request: Request, where: str) -> tuple[Slack, list[float]]:
        """Return the slack for the k nearest, and similarities that the k-th may reach."""
        slack = self.promises.for_best(k, request, where)
        return slack, likely_similarities(self.promises.calibration, k)


def search_lines(
    index: Index,
    rows: Float32Array,
    similarity: float,
    lines: Lines,
    threads: int | None,
    allowed: BoolArray = ALL_ALLOWED,
) -> Found:
    """Return what an index finds above a similarity with given lines of thresholds.

    `allowed` tells for each id whether it may be a hit; all may where it is empty.
    """
    return index._parts.cascade.search(rows, similarity, lines, threads, allowed)


def search_bounds(
    index: Index,
    rows: Float32Array,
    similarity: float,
    threads: int | None,
    allowed: BoolArray = ALL_ALLOWED,
) -> Found:
    """Return everything above a similarity in an index, missing nothing of what is allowed."""
    return index._parts.bounded.search(rows, similarity, threads, allowed)


def search_everything(index: Index, rows: Float32Array, similarity: float) -> FlatRows:
    """Return everything above a similarity in an index, by comparing everything."""
    return index._searcher.truth(rows, similarity)


def seen_pairs(
    index: Index, queries: Float32Array, query_of: IntArray, ids: IntArray
) -> tuple[Float32Array, Float32Array]:
    """Return what the stages of an index see of queries and some of its vectors."""
    return seen_of_ids(index._parts, queries, query_of, ids)


CodeScan: TypeAlias = CodeCascade


def scan_by_codes(vectors: Float32Array, config: IndexConfig, design: IndexDesign) -> CodeScan:
    """Return a search of vectors that are in no unit: one by one, by their codes.

    Parameters
    ----------
    vectors : ndarray of shape (n_vectors, dim)
        Unit rows.
    config : IndexConfig
        Of the indexes that they are searched with; their lines of thresholds hold for these, too.
    design : IndexDesign
        Of one of them: what `config` leaves open was decided there.
    """
    dim = vectors.shape[1]
    none = np.empty((0, dim), dtype=np.float32)
    units = Units(
        vectors,
        np.arange(len(vectors)),
        np.array([0, len(vectors)]),
        None,
        none,
        np.empty(0),
        np.empty(0),
        np.array([0]),
        none,
        np.array([0, len(vectors)]),
        np.empty(0, dtype=np.int32),
    )
    # As many first words as any of the indexes may have: more of them miss less at the same slack.
    words = MEMBER_WORDS if config.member_words == "auto" else config.member_words
    decided = replace(config, codes=design.config.codes, unit_words=1, member_words=words)
    return encode_units(units, vectors, design.similarity, decided, progress=False)


def explain_pair(
    index: Index,
    row: Float32Array,
    key: int,
    similarity: float,
    lines: Lines | None,
    certificate: Certificate,
    law: NullLaw,
) -> Explanation:
    """Tell what each stage of an index sees of a query and one of its vectors."""
    query = row[np.newaxis]
    return index._searcher.explain_with(lines, query, key, similarity, certificate, law)


__all__ = [
    "CodeScan",
    "JointPromise",
    "explain_pair",
    "scan_by_codes",
    "search_bounds",
    "search_everything",
    "search_lines",
    "seen_pairs",
]
