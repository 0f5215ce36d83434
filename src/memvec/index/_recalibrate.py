"""An index calibrated anew, on other queries."""

from __future__ import annotations

from memvec import checks
from memvec.guarantee import gather_evidence
from memvec.index._parts import IndexParts
from memvec.types import Float32Array


def recalibrated(
    parts: IndexParts, rows: Float32Array, progress: bool | None, where: str
) -> IndexParts:
    """Return the same index, calibrated on given queries, of which enough must have matches."""
    design, evidence, table, left_out = parts.design, parts.evidence, None, 0
    if len(rows):
        cascade, seed = parts.units.cascade, design.config.seed
        state = parts.evidence.state
        evidence = gather_evidence(cascade, rows, 0, design.similarity, state, seed, progress)
        table, left_out = evidence.table, evidence.left_out
    have = 0 if table is None else table.above(design.similarity).n_queries
    needed = parts.promises.queries_needed
    check_enough(have, needed, design.similarity, len(rows), left_out, where)
    return parts.with_evidence(evidence)


def share_of_queries(value: float, where: str) -> float:
    """Return a share of queries to compare with the exhaustive search."""
    return checks.real(value, "shadow", where, low=0.0, high=1.0)


def check_enough(
    have: int, needed: int, similarity: float, n_queries: int, left_out: int, where: str
) -> None:
    """Raise where too few queries have matches to calibrate on."""
    if have >= needed:
        return
    expected = (
        f"at least {needed:,} queries with matches above {similarity:g}, as the default promise "
        "requires"
    )
    got = f"{have:,} of {n_queries:,} queries ({left_out:,} copies of stored vectors left out)"
    raise checks.bad_value("queries", where, expected, got)
