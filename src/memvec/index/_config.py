"""What a user may choose about an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from memvec import checks
from memvec.constructions import CONSTRUCTIONS, Construction

Auto = Literal["auto"]
AssignmentName = Literal["kmeans", "random"]
CodesName = Literal["none", "sign", "estimate", "balanced"]
RotationName = Literal["random", "none"]
KmeansRule = Literal["sum", "sum+norm", "pinv", "pinv+norm"]

ASSIGNMENTS: tuple[AssignmentName, ...] = ("kmeans", "random")
CODES: tuple[CodesName, ...] = ("none", "sign", "estimate", "balanced")
ROTATIONS: tuple[RotationName, ...] = ("random", "none")


# Kernels count what codes disagree on in 32 bits; more than this tell nothing more.
_WORD, MOST_CODE_BITS = 64, 1 << 16

# Settings that are whole numbers, and the least that each may be.
_NUMBERS = {
    "unit_size": 1,
    "group_size": 1,
    "batch_size": 1,
    "iterations": 1,
    "unit_words": 1,
    "member_words": 1,
    "member_bits": 1,
    "code_bits": 2,
    "pca_dim": 1,
    "reserve": 0,
    "seed": 0,
}


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
    """How an index is built. Covers every variant of the paper.

    The design step chooses what is "auto" from the data, the similarity and the miss rate.

    Attributes
    ----------
    construction : {"auto", "pinv", "sum", "ridge"}
        How the members of a unit become its memory vector.
    ridge : float
        λ of the ridge construction, infinity for the centroid; 0 for the others.
    normalised : bool
        Scale memory vectors to norm 1.
    assignment : {"auto", "kmeans", "random"}
        Which vectors share a unit.
    kmeans_rule : {"sum+norm", "sum", "pinv", "pinv+norm"}
        The representative of a unit while k-means runs (the paper's Table 1). Without the norm,
        long representatives attract ever more vectors if the data has a common direction.
    unit_size : "auto" or int
        Mean number of vectors in a unit, n.
    levels : {"auto", 1, 2}
        1 tests all units; 2 tests groups of units first, and needs k-means and codes.
    group_size : "auto" or int
        Mean number of vectors in a group, with two levels.
    batch_size : int or None
        Run k-means in random batches of this many vectors (the paper's batch assignment).
    iterations : int
        Maximum number of k-means rounds.
    units_per_vector : {"auto", 1, 2}
        Number of units that each vector belongs to. The second unit is near the vector, but on
        another side than the first, and finds vectors that the first represents badly. It needs
        k-means and codes.
    codes : {"auto", "none", "sign", "estimate", "balanced"}
        What is tested: float32 vectors ("none"), sign codes as in the paper ("sign"), sign codes
        with a scale that makes them estimate the inner product ("estimate"), or balanced codes. A
        balanced code has a 1 for each entry above the median of its vector: half of its bits are
        set, and the count of ones that a query and a vector share decides.
    code_bits : int or None
        Bits of a balanced code, an even number; None takes the number of dimensions, rounded up to
        whole words of 64 bits.
    symmetric : bool
        Binarise the query, too, and compare codes by Hamming distance. Balanced codes are always
        compared like that.
    rotation : {"random", "none"}
        Rotate vectors at random before their signs are taken. Without a rotation, as in the paper,
        codes say little about vectors with few large entries, or with entries mostly of one sign.
    unit_words : "auto" or int
        Number of 64-bit words of a unit's code that are tested.
    member_words : "auto" or int
        Number of words of a member's code that are tested before the rest of it is read.
    member_bits : "auto" or int
        Bits per entry of the fine code, which is tested last, 1 to 8; 1 leaves it out. Fine codes
        of 2 to 4 bits take half a byte per entry, others a byte. Not available with
        ``codes="none"``.
    pca_dim : int or None
        Test vectors reduced to this many dimensions by PCA; exact scores use the vectors as given.
    center : {"auto", True, False}
        Subtract the mean of the data before testing; exact scores use the vectors as given. "auto"
        does so if a trial on a sample costs less.
    whiten : bool
        Divide by the standard deviations before testing.
    reserve : "auto" or int
        Vectors kept out of the units to calibrate on; searches test them one by one.
    seed : int
        Seed of everything random.

    Examples
    --------
    >>> IndexConfig(construction="sum", unit_size=20).unit_size
    20
    """

    construction: Construction | Auto = "auto"
    ridge: float = 0.0
    normalised: bool = False
    assignment: AssignmentName | Auto = "auto"
    kmeans_rule: KmeansRule = "sum+norm"
    unit_size: int | Auto = "auto"
    levels: Literal["auto", 1, 2] = "auto"
    group_size: int | Auto = "auto"
    batch_size: int | None = None
    iterations: int = 10
    units_per_vector: Literal["auto", 1, 2] = "auto"
    codes: CodesName | Auto = "auto"
    code_bits: int | None = None
    symmetric: bool = False
    rotation: RotationName = "random"
    unit_words: int | Auto = "auto"
    member_words: int | Auto = "auto"
    member_bits: int | Auto = "auto"
    pca_dim: int | None = None
    center: bool | Auto = "auto"
    whiten: bool = False
    reserve: int | Auto = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        where = "IndexConfig"
        checks.choice(self.construction, "construction", where, ("auto", *CONSTRUCTIONS))
        checks.choice(self.assignment, "assignment", where, ("auto", *ASSIGNMENTS))
        checks.choice(self.codes, "codes", where, ("auto", *CODES))
        checks.choice(self.rotation, "rotation", where, ROTATIONS)
        checks.choice(self.kmeans_rule, "kmeans_rule", where, tuple(KMEANS_RULES))
        self._keep("ridge", checks.real(self.ridge, "ridge", where, low=0.0))
        self._check_numbers(where)
        self._check_twos(where)
        self._check_bits(where)
        if self.center != "auto" and not isinstance(self.center, bool):
            raise checks.bad_value("center", where, "one of 'auto', True, False", repr(self.center))
        if self.ridge > 0 and self.construction != "ridge":
            raise checks.bad_value("ridge", where, f"0 for {self.construction!r}", self.ridge)

    def _keep(self, name: str, value: object) -> None:
        """Store a checked value: a NumPy number becomes a plain one, which can be saved."""
        object.__setattr__(self, name, value)

    def _check_numbers(self, where: str) -> None:
        for name, minimum in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None and value != "auto":
                self._keep(name, checks.integer(value, name, where, minimum=minimum))
        if self.member_bits != "auto" and self.member_bits > (most := self._most_bits):
            expected = f"at most {most}" if most > 1 else "1 for float32 tests"
            raise checks.bad_value("member_bits", where, expected, self.member_bits)
        for name in ("levels", "units_per_vector"):
            value = getattr(self, name)
            if value not in ("auto", 1, 2):
                expected = "one of 'auto', 1, 2"
                raise checks.bad_value(name, where, expected, repr(value))
            if value != "auto":
                self._keep(name, int(value))

    def _check_twos(self, where: str) -> None:
        """Refuse two levels, and two units for a vector, that cannot be made."""
        plain = self.codes == "none" or self.assignment == "random"
        if self.levels == 2 and (plain or self.batch_size is not None):
            expected = "1 for float32 tests, random assignment and batches"
            raise checks.bad_value("levels", where, expected, 2)
        if self.units_per_vector == 2 and plain:
            expected = "1 for float32 tests and random assignment"
            raise checks.bad_value("units_per_vector", where, expected, 2)

    def _check_bits(self, where: str) -> None:
        if self.code_bits is None:
            return
        if self.codes != "balanced":
            expected = f"None for codes {self.codes!r}"
            raise checks.bad_value("code_bits", where, expected, self.code_bits)
        if self.code_bits % 2 or self.code_bits > MOST_CODE_BITS:
            expected = f"an even number of bits, at most {MOST_CODE_BITS}"
            raise checks.bad_value("code_bits", where, expected, self.code_bits)

    def balanced_bits(self, dim: int) -> int | None:
        """Return the bits of the balanced code of a vector of a dimension; None for others."""
        if self.codes != "balanced":
            return None
        return self.code_bits or -(-dim // _WORD) * _WORD

    def n_code_words(self, dim: int) -> int:
        """Return the words of the code of a vector of a dimension."""
        return -(-(self.balanced_bits(dim) or dim) // _WORD)

    @property
    def is_symmetric(self) -> bool:
        """Whether a query is as binary as the codes that it is compared with."""
        return self.symmetric or self.codes == "balanced"

    @property
    def own_scales(self) -> bool:
        """Whether the codes of members have scales of their own."""
        return self.codes not in ("sign", "balanced")

    @property
    def _most_bits(self) -> int:
        return 1 if self.codes == "none" else 8

    @property
    def projects(self) -> bool:
        """Whether vectors are projected before they are tested."""
        return self.turns or self.center is True

    @property
    def is_centred(self) -> bool:
        """Whether codes are of vectors less their mean, and estimate inner products as given."""
        return self.codes == "estimate" and self.center is True and not self.turns

    @property
    def turns(self) -> bool:
        """Whether that projection has other axes than the vectors."""
        return self.pca_dim is not None or self.whiten


def with_present_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved configuration whose fields have the names of today."""
    return {
        "units_per_vector" if name == "homes" else name: value for name, value in config.items()
    }
