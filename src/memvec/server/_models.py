"""What requests hold, as JSON; OpenAPI describes it from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StrictBool, StrictInt, StrictStr

from memvec.collection import Collection
from memvec.guarantee import Guarantee
from memvec.server._failures import ApiError
from memvec.server._settings import Limits
from memvec.types import Float32Array, RowType

Id = Annotated[StrictInt | StrictStr, Field(description="An integer of 64 bits, or a text.")]
Vector = Annotated[list[float], Field(min_length=1)]
# One number says that it is no list of vectors: collecting that of each takes longer than a search.
Vectors = Annotated[list[Vector], Field(fail_fast=True)]
Where = Annotated[
    dict[str, Any] | None,
    Field(description='A filter, such as {"year": {"$gte": 2020}}.'),
]
Include = Annotated[
    list[Literal["metadata", "vectors"]],
    Field(description="What to return with each item, besides its id."),
]


class Ask(BaseModel):
    """What every request has in common: no field that nobody knows."""

    model_config = ConfigDict(extra="forbid")

    def options(self, *left_out: str) -> dict[str, Any]:
        """Return the fields that were given, as arguments of the library."""
        given = self.model_dump(exclude_unset=True, exclude=set(left_out))
        return {name: value for name, value in given.items() if value is not None}


class Promised(Ask):
    """What an answer is to promise, and about which items."""

    similarity: float | None = Field(None, description="α₀ in (0, 1]; that of the collection.")
    radius: float | None = Field(None, description="In place of it, for distances.")
    miss_rate: float | None = Field(None, description="ε in (0, 1); that of the collection.")
    guarantee: Guarantee | None = Field(None, description="Level of the promise; kept or refused.")
    confidence: float | None = Field(None, description="1 − δ, of high_probability.")
    where: Where = None


class Queries(Ask):
    """Queries: vectors, or items that are stored. Other bodies than JSON hold the vectors."""

    queries: Vectors | Vector | None = Field(None, description="One vector or several.")
    items: list[Id] | None = Field(None, description="Stored items, in place of vectors.")
    dim: int | None = Field(None, ge=1, description="Of raw vectors; checked where it is given.")
    _rows: Float32Array | None = PrivateAttr(None)

    def carry(self, rows: Float32Array) -> None:
        """Take vectors that came in another form than JSON."""
        self._rows = rows

    def vectors(self, collection: Collection, most: int) -> Any:
        """Return the queries, a few at most."""
        given = [self._rows is not None, self.queries is not None, self.items is not None]
        if sum(given) != 1:
            text = "Give either queries or items, or a body of vectors."
            raise ApiError(422, "invalid_value", text)
        if self.items is not None:
            check_number(len(self.items), most, "items")
            return np.array([item.vector for item in collection.get(self.items)])
        if self._rows is not None:
            rows = rows_of(self._rows, collection.dim, self.dim)
            check_number(len(rows), most, "queries")
            return rows
        assert self.queries is not None
        several = bool(self.queries) and isinstance(self.queries[0], list)
        given_rows = self.queries if several else [self.queries]
        check_number(len(given_rows), most, "queries")
        return given_rows


class RangeAsk(Promised, Queries):
    """Everything above a similarity."""

    include: Include = []
    p_values: StrictBool = Field(False, description="Add the p-value of each match.")
    ordered: StrictBool = Field(
        True,
        description="For a stream: the best matches first, which takes 16 bytes per match; "
        "false takes one block of memory.",
    )
    shadow: float | None = Field(None, description="Share compared with the exhaustive search.")


class CountAsk(Promised, Queries):
    """How many, or whether any, are above a similarity."""


class SearchAsk(Queries):
    """The k most similar items."""

    k: int = Field(..., ge=1, description="How many.")
    miss_rate: float | None = None
    target_recall: float | None = None
    guarantee: Guarantee | None = None
    confidence: float | None = None
    where: Where = None
    include: Include = []


class SetAsk(SearchAsk):
    """The k items most similar to several vectors together."""

    construction: Literal["pinv", "sum"] = "pinv"


class ExplainAsk(Promised, Queries):
    """Why an item is, or is not, returned for one query."""

    id: Id
    unit_scores: StrictBool = Field(False, description="Add the scores of all units.")


class MeasureAsk(Promised, Queries):
    """A comparison with the exhaustive search."""

    sample: int | None = Field(None, ge=1, description="Number of queries to compare.")


class RecalibrateAsk(Queries):
    """New thresholds; solved on recent queries where none are given."""

    @property
    def is_given(self) -> bool:
        """Whether there are queries."""
        return not (self._rows is None and self.queries is None and self.items is None)


class HistogramAsk(Queries):
    """The scores of one query with all items, counted."""

    where: Where = None
    bins: int = Field(80, ge=10, le=400)


class ItemsAsk(Ask):
    """Items to add."""

    vectors: list[Vector] | None = None
    ids: list[Id] | None = None
    metadata: list[dict[str, Any] | None] | None = None
    _rows: Float32Array | None = PrivateAttr(None)

    def carry(self, rows: Float32Array) -> None:
        """Take vectors that came in another form than JSON."""
        self._rows = rows

    def matrix(self, collection: Collection, most: int) -> Any:
        """Return the vectors, a few at most."""
        if (self._rows is None) == (self.vectors is None):
            raise ApiError(422, "invalid_value", "Give vectors, as JSON or as the body.")
        rows = self.vectors if self._rows is None else rows_of(self._rows, collection.dim)
        assert rows is not None
        check_number(len(rows), most, "vectors")
        return rows


class GetAsk(Ask):
    """Items by id."""

    ids: list[Id]
    include: Include = ["metadata", "vectors"]
    missing: Literal["refuse", "skip"] = Field(
        "refuse", description="What happens if an id does not exist."
    )


class DeleteAsk(Ask):
    """Items to delete: by id, or all that pass a filter."""

    ids: list[Id] | None = None
    where: Where = None


class ScrollAsk(Ask):
    """Items in the order they came."""

    where: Where = None
    include: Include = ["metadata"]
    first: Id | None = Field(None, description="The item to begin with: `next` of the page before.")
    limit: int = Field(100, ge=1)


class CreateAsk(Ask):
    """A new collection."""

    name: StrictStr
    dim: int = Field(..., ge=1)
    similarity: float | None = None
    radius: float | None = None
    metric: Literal["cosine", "euclidean"] | None = None
    dtype: RowType | None = None
    miss_rate: float | None = None
    guarantee: Guarantee | None = None
    confidence: float | None = None
    similarities: list[float] | None = None
    seal_at: int | None = Field(None, ge=0)


class SealAsk(Ask):
    """Making a segment of what waits."""

    merge: StrictBool = True


class NothingAsk(Ask):
    """Nothing."""


class ShadowAsk(Ask):
    """The share of queries that are compared with the exhaustive search."""

    share: float


class JobAsk(Promised):
    """A join, or a deduplication."""

    kind: Literal["self_join", "deduplicate"]
    collapse_copies: StrictBool = Field(False, description="For a join: equal vectors as one.")
    keep: Literal["first", "last", "longest"] = Field("first", description="For a deduplication.")
    groups: Literal["components", "star"] = Field("components", description="For a deduplication.")


class EncodeAsk(Ask):
    """A text to make a vector of."""

    text: StrictStr = Field(..., max_length=100_000)


def check_number(given: int, most: int, what: str) -> None:
    """Refuse more than one request may hold."""
    if given > most:
        text = f"A request may hold at most {most:,} {what}. Got {given:,} instead."
        raise ApiError(413, "too_many", text)


def check_carried(n_items: int, dim: int, include: Sequence[str], limits: Limits) -> None:
    """Refuse more metadata and vectors than one answer may hold."""
    if "metadata" in include and n_items > limits.full_hits:
        text = f"An answer may hold the metadata of at most {limits.full_hits:,} items."
        raise ApiError(413, "too_many", text)
    if "vectors" in include and n_items * dim > limits.numbers:
        most = limits.numbers // dim
        text = f"An answer may hold at most {most:,} vectors of {dim:,} numbers."
        raise ApiError(413, "too_many", text)


def rows_of(flat: Float32Array, dim: int, sent: int | None = None) -> Float32Array:
    """Return vectors that came one after the other as rows, of the dimension that was sent."""
    if flat.ndim == 2:
        return flat
    if sent is not None and sent != dim:
        # Numbers of another dimension may make up whole vectors of this one.
        text = f"The vectors must be of dimension {dim}. Got dimension {sent} instead."
        raise ApiError(422, "invalid_value", text)
    if sent is not None and not len(flat):
        return flat.reshape(0, dim)
    if not len(flat) or len(flat) % dim:
        text = f"A raw body must hold vectors of {dim} float32 numbers. Got {len(flat)} numbers."
        raise ApiError(422, "invalid_value", text)
    return flat.reshape(-1, dim)
