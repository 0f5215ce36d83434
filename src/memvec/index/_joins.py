"""Rows joined with themselves: pairs in order, and duplicates with the row of each to keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from memvec import checks
from memvec.guarantee import Certificate
from memvec.matches import Matches
from memvec.metric import scores_of
from memvec.search import (
    Copies,
    DuplicateGroup,
    DuplicateRows,
    Grouping,
    Hits,
    Pairs,
    SelfJoin,
    SimilarPairs,
)
from memvec.types import ArrayLike, IntArray

KeptRow = Literal["first", "last", "best"]


def ordered_blocks(join: SelfJoin) -> Iterator[SimilarPairs]:
    """Yield the pairs of a join of one scope, in order, as they are found."""
    for pairs in join.pair_blocks():
        if len(pairs.left):
            yield ordered(_as_told(pairs, join.plan.certificate), join.plan.certificate)


def all_pairs(join: SelfJoin) -> SimilarPairs:
    """Return all pairs of a join of one scope, in order."""
    nothing = np.empty(0, dtype=np.int64)
    found = [Pairs(nothing, nothing, np.empty(0, dtype=np.float32)), *join.pair_blocks()]
    joined = Pairs(*(np.concatenate(part) for part in zip(*found, strict=True)))
    return ordered(_as_told(joined, join.plan.certificate), join.plan.certificate)


def ordered(pairs: Pairs, certificate: Certificate) -> SimilarPairs:
    """Return pairs by left row, then by right row."""
    order = np.lexsort((pairs.right, pairs.left))
    left, right, scores = pairs
    return SimilarPairs(left[order], right[order], scores[order], certificate)


def pairs_of_matches(
    found: Hits | Matches, certificate: Certificate, *, swapped: bool = False
) -> SimilarPairs:
    """Return matches as pairs of a query and a row; swapped, of a row and a query."""
    queries, ids = np.repeat(np.arange(len(found)), found.counts), found.ids.astype(np.int64)
    left, right = (ids, queries) if swapped else (queries, ids)
    return ordered(Pairs(left, right, found.scores.astype(np.float32)), certificate)


def _as_told(pairs: Pairs, certificate: Certificate) -> Pairs:
    """Return pairs with scores in the unit of the certificate."""
    return pairs._replace(scores=scores_of(certificate.metric, pairs.scores))


def duplicate_rows(
    join: SelfJoin, copies: Copies, ranks: IntArray, grouping: Grouping
) -> DuplicateRows:
    """Return the groups of a join of distinct rows, and the row of each to keep."""
    found = join.groups(copies, ranks, grouping)
    groups = []
    for members in found.members:
        kept, *dropped = members.tolist()
        groups.append(DuplicateGroup(kept, dropped))
    return DuplicateRows(tuple(groups), len(copies.keys), found.n_pairs, join.plan.certificate)


def ranks_to_keep(
    n_rows: int, keep: KeptRow, scores: ArrayLike | None, grouping: Grouping, where: str
) -> IntArray:
    """Return a number for each row, the lowest for the one to keep before all others."""
    checks.choice(keep, "keep", where, get_args(KeptRow))
    checks.choice(grouping, "groups", where, get_args(Grouping))
    if keep != "best":
        if scores is not None:
            raise checks.bad_value(
                "scores", where, "left out unless keep is 'best'", f"scores with keep={keep!r}"
            )
        rows = np.arange(n_rows)
        return rows if keep == "first" else rows[::-1]
    expected = f"{n_rows} numbers, one for each row, where keep is 'best'"
    if scores is None:
        raise checks.bad_value("scores", where, expected, None)
    values = checks.numbers(scores, "scores", where)
    if values.shape != (n_rows,):
        raise checks.bad_value("scores", where, expected, f"shape {values.shape}")
    if np.isnan(values).any():
        raise checks.bad_value(
            "scores", where, "free of NaN", f"NaN in row {np.argmax(np.isnan(values))}"
        )
    ranks = np.empty(n_rows, dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(n_rows)
    return ranks
