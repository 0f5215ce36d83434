"""What a user may choose about an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from memvec import checks
from memvec.constructions import CONSTRUCTIONS, Construction
from memvec.errors import InvalidValueError

AssignmentName = Literal["kmeans", "random"]
ASSIGNMENTS: tuple[AssignmentName, ...] = ("kmeans", "random")

KmeansRule = Literal["sum", "sum+norm", "pinv", "pinv+norm"]


class _Rule(NamedTuple):
    construction: Construction
    normalised: bool


# The update rules of the paper's Table 1.
KMEANS_RULES: dict[KmeansRule, _Rule] = {
    "sum": _Rule("sum", normalised=False),
    "sum+norm": _Rule("sum", normalised=True),
    "pinv": _Rule("pinv", normalised=False),
    "pinv+norm": _Rule("pinv", normalised=True),
}


@dataclass(frozen=True)
class IndexConfig:
    """How an index is built; every variant of the paper is one of these.

    Attributes
    ----------
    construction : {"pinv", "sum", "ridge"}
        How the members of a unit become its memory vector.
    ridge : float
        λ of the ridge construction; 0 for the others.
    normalised : bool
        Scale memory vectors to norm 1.
    assignment : {"kmeans", "random"}
        Which vectors share a unit.
    kmeans_rule : {"pinv+norm", "pinv", "sum+norm", "sum"}
        What represents a unit while k-means runs (the paper's Table 1). Without the norm, long
        representatives attract ever more vectors where the data has a common direction.
    unit_size : "auto" or int
        Vectors a unit on average, n; "auto" takes the size of least cost.
    batch_size : int or None
        Run k-means in random batches of this many vectors; None takes all at once.
    iterations : int
        Rounds of k-means at most.
    seed : int
        Fixes everything random.

    Examples
    --------
    >>> IndexConfig(construction="sum", unit_size=20).unit_size
    20
    """

    construction: Construction = "pinv"
    ridge: float = 0.0
    normalised: bool = False
    assignment: AssignmentName = "kmeans"
    kmeans_rule: KmeansRule = "pinv+norm"
    unit_size: int | Literal["auto"] = "auto"
    batch_size: int | None = None
    iterations: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        where = "IndexConfig"
        checks.choice(self.construction, "construction", where, CONSTRUCTIONS)
        checks.choice(self.assignment, "assignment", where, ASSIGNMENTS)
        checks.choice(self.kmeans_rule, "kmeans_rule", where, tuple(KMEANS_RULES))
        checks.real(self.ridge, "ridge", where, low=0.0)
        checks.integer(self.iterations, "iterations", where)
        checks.integer(self.seed, "seed", where, minimum=0)
        if self.unit_size != "auto":
            checks.integer(self.unit_size, "unit_size", where)
        if self.batch_size is not None:
            checks.integer(self.batch_size, "batch_size", where)
        if self.ridge > 0 and self.construction != "ridge":
            raise InvalidValueError(
                checks.message("ridge", where, f"0 for {self.construction!r}", self.ridge)
            )


__all__ = ["KMEANS_RULES", "IndexConfig"]
