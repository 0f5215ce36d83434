"""What is asked of a server: one call a method, the same for both kinds of client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import quote

import numpy as np

from memvec import checks
from memvec.client import _records as records
from memvec.client._records import Record
from memvec.collection import Item, Stats
from memvec.guarantee import Certificate, Guarantee, Health, Measurement
from memvec.search import Explanation, Hits, TopHits
from memvec.storage import CheckReport
from memvec.types import ArrayLike, BoolArray, IntArray

Id = int | str
Result = TypeVar("Result")

RAW = "application/octet-stream"
JSON = "application/json"
NDJSON = "application/x-ndjson"


class Promise(TypedDict, total=False):
    """What an answer is to promise, and about which items; as in :class:`memvec.Collection`."""

    radius: float | None
    miss_rate: float | None
    guarantee: Guarantee | None
    confidence: float | None
    where: Mapping[str, Any] | None


class RangeOptions(Promise, total=False):
    """Options of a range; as in :meth:`memvec.Collection.range_search`."""

    include: str | Sequence[str]
    shadow: float | None


class SearchOptions(TypedDict, total=False):
    """Options of a search for the nearest; as in :meth:`memvec.Collection.search`."""

    miss_rate: float | None
    target_recall: float | None
    guarantee: Guarantee | None
    confidence: float | None
    where: Mapping[str, Any] | None
    include: str | Sequence[str]


class JoinOptions(Promise, total=False):
    """Options of a self-join; as in :meth:`memvec.Collection.self_join`."""

    collapse_copies: bool


class GroupOptions(Promise, total=False):
    """Options of a deduplication; as in :meth:`memvec.Collection.deduplicate`."""

    keep: Literal["first", "last", "longest"]
    groups: Literal["components", "star"]


@dataclass(frozen=True)
class Call(Generic[Result]):
    """One request, and how its answer is read.

    Attributes
    ----------
    method, path : str
        As in HTTP; the path follows the address of the server.
    read : callable
        Returns the result, from what the answer holds.
    body : bytes or None
        What is sent.
    kind : str
        The media type of the body.
    asked : dict
        What is sent as the parameter ``ask``, if the body is not JSON.
    """

    method: str
    path: str
    read: Callable[[Any], Result]
    body: bytes | None = None
    kind: str = JSON
    asked: Record = field(default_factory=dict)

    @property
    def params(self) -> dict[str, str]:
        """The parameters of the address."""
        return {"ask": json.dumps(self.asked)} if self.asked else {}

    @property
    def headers(self) -> dict[str, str]:
        """The headers that go with the body."""
        return {} if self.body is None else {"Content-Type": self.kind}


def json_call(
    method: str, path: str, read: Callable[[Any], Result], asked: Mapping[str, Any] | None = None
) -> Call[Result]:
    """Return a call whose body is JSON."""
    body = None if asked is None else json.dumps(_given(asked), default=_plain).encode()
    return Call(method, path, read, body)


def _given(asked: Mapping[str, Any]) -> Record:
    return {name: value for name, value in asked.items() if value is not None}


def _plain(value: object) -> object:
    """Return NumPy's values as JSON has them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _rows(vectors: ArrayLike, name: str, where: str) -> tuple[bytes, int]:
    """Return vectors as raw float32, little-endian, row by row, and their dimension."""
    rows = np.ascontiguousarray(checks.numbers(vectors, name, where), dtype="<f4")
    if rows.ndim not in (1, 2) or not rows.shape[-1]:
        expected = "one vector, or several, one a row"
        raise checks.bad_value(name, where, expected, f"shape {rows.shape}")
    return rows.tobytes(), rows.shape[-1]


class Calls:
    """The calls of one collection."""

    def __init__(self, name: str) -> None:
        self.path = f"/v1/collections/{quote(name, safe='')}"

    def _ask(
        self,
        route: str,
        queries: ArrayLike,
        asked: Mapping[str, Any],
        read: Callable[[Any], Result],
    ) -> Call[Result]:
        """Return a call that sends queries as they are in memory."""
        body, dim = _rows(queries, "queries", f"Client.{route}")
        given = json.loads(json.dumps({**_given(asked), "dim": dim}, default=_plain))
        return Call("POST", f"{self.path}/{route}", read, body, RAW, given)

    def info(self) -> Call[Record]:
        """Ask what the collection is, and how it does."""
        return json_call("GET", self.path, lambda record: record)

    def range_search(
        self, queries: ArrayLike, similarity: float | None, options: RangeOptions
    ) -> Call[Hits]:
        """Ask for everything above a similarity."""
        asked = {"similarity": similarity, "p_values": True, **_included(options)}
        return self._ask("range", queries, asked, records.hits_of)

    def iter_range(
        self, queries: ArrayLike, similarity: float | None, ordered: bool, options: Promise
    ) -> Call[None]:
        """Ask for everything above a similarity, streamed."""
        asked = {"similarity": similarity, "ordered": ordered, **options}
        return self._ask("range", queries, asked, lambda record: None)

    def count(
        self, queries: ArrayLike, similarity: float | None, options: Promise
    ) -> Call[IntArray]:
        """Ask how many are above a similarity."""
        asked = {"similarity": similarity, **options}
        return self._ask("count", queries, asked, lambda r: np.array(r["counts"], dtype=np.int64))

    def contains(
        self, queries: ArrayLike, similarity: float | None, options: Promise
    ) -> Call[BoolArray]:
        """Ask whether some item is that similar."""
        asked = {"similarity": similarity, **options}
        return self._ask("contains", queries, asked, lambda r: np.array(r["contained"], dtype=bool))

    def search(self, queries: ArrayLike, k: int, options: SearchOptions) -> Call[TopHits]:
        """Ask for the k most similar items."""
        asked = {"k": checks.integer(k, "k", "Client.search"), **_included(options)}
        return self._ask("search", queries, asked, records.top_of)

    def search_set(
        self, vectors: ArrayLike, k: int, construction: str, options: SearchOptions
    ) -> Call[TopHits]:
        """Ask for the k items most similar to several vectors together."""
        asked = {"k": k, "construction": construction, **_included(options)}
        return self._ask("search_set", vectors, asked, records.top_of)

    def explain(
        self, query: ArrayLike, name: Id, similarity: float | None, options: Promise
    ) -> Call[Explanation]:
        """Ask why an item is, or is not, returned."""
        asked = {"id": name, "similarity": similarity, "unit_scores": True, **options}
        return self._ask("explain", query, asked, records.explanation_of)

    def measure(
        self, queries: ArrayLike, similarity: float | None, sample: int | None, options: Promise
    ) -> Call[Measurement]:
        """Ask for a comparison with the exhaustive search."""
        asked = {"similarity": similarity, "sample": sample, **options}
        return self._ask("measure", queries, asked, records.measurement_of)

    def recalibrate(self, queries: ArrayLike | None) -> Call[Certificate]:
        """Ask for new thresholds, solved on recent queries or those given."""
        if queries is None:
            return json_call("POST", f"{self.path}/recalibrate", records.certificate_of, {})
        return self._ask("recalibrate", queries, {}, records.certificate_of)

    def add(
        self,
        vectors: ArrayLike,
        ids: Id | Iterable[Id] | None,
        metadata: Mapping[str, Any] | Iterable[Mapping[str, Any] | None] | None,
        *,
        replace: bool,
    ) -> Call[list[Id]]:
        """Send items."""
        where = "Client.upsert" if replace else "Client.add"
        rows = np.atleast_2d(checks.numbers(vectors, "vectors", where))
        names = [ids] if isinstance(ids, int | str) else None if ids is None else list(ids)
        told = [metadata] if isinstance(metadata, Mapping) else metadata
        asked = {
            "vectors": rows.tolist(),
            "ids": names,
            "metadata": None if told is None else list(told),
        }
        method = "PUT" if replace else "POST"
        return json_call(method, f"{self.path}/items", lambda record: record["ids"], asked)

    def get(self, ids: Sequence[Id]) -> Call[list[Item]]:
        """Ask for items by id."""

        def read(record: Record) -> list[Item]:
            return [records.item_of(item) for item in record["items"]]

        return json_call("POST", f"{self.path}/items/get", read, {"ids": list(ids)})

    def has(self, name: Id) -> Call[bool]:
        """Ask whether there is an item of an id."""
        asked = {"ids": [name], "include": [], "missing": "skip"}
        path = f"{self.path}/items/get"
        return json_call("POST", path, lambda record: bool(record["items"]), asked)

    def delete(self, ids: Sequence[Id]) -> Call[int]:
        """Ask to delete items."""
        path = f"{self.path}/items/delete"
        return json_call("POST", path, lambda record: int(record["deleted"]), {"ids": list(ids)})

    def scroll(
        self,
        where: Mapping[str, Any] | None,
        first: Id | None = None,
        include: Sequence[str] = ("metadata", "vectors"),
    ) -> Call[None]:
        """Ask for all items, streamed."""
        asked = {"where": where, "first": first, "include": list(include)}
        return json_call("POST", f"{self.path}/items/scroll", lambda record: None, asked)

    def seal(self, *, merge: bool) -> Call[int]:
        """Ask to make a segment of what waits."""
        read = _rows_written
        return json_call("POST", f"{self.path}/seal", read, {"merge": merge})

    def compact(self) -> Call[int]:
        """Ask to make one segment of everything."""
        return json_call("POST", f"{self.path}/compact", _rows_written, {})

    def check(self) -> Call[CheckReport]:
        """Ask to compare checksums."""
        return json_call("POST", f"{self.path}/check", records.check_of, {})

    def set_shadow(self, share: float) -> Call[None]:
        """Ask to compare a share of the queries with the exhaustive search."""
        return json_call("PUT", f"{self.path}/shadow", lambda record: None, {"share": share})

    def start(self, kind: str, similarity: float | None, options: Mapping[str, Any]) -> Call[str]:
        """Ask to start a job."""
        asked = {"kind": kind, "similarity": similarity, **options}
        return json_call("POST", f"{self.path}/jobs", lambda record: str(record["id"]), asked)


def job_call(job: str, action: str = "", method: str = "GET") -> Call[Record]:
    """Return a call about a job."""
    return json_call(method, f"/v1/jobs/{quote(job, safe='')}{action}", lambda record: record)


def stats_of(info: Record) -> Stats:
    """Return numbers and sizes, from what a collection is."""
    return records.stats_of(info["stats"])


def health_of(info: Record) -> Health:
    """Return how the promise is being kept, from what a collection is."""
    return records.health_of(info["health"])


def _rows_written(record: Record) -> int:
    return int(record["rows"])


def _included(options: Mapping[str, Any]) -> Record:
    include = options.get("include", ())
    return {**options, "include": [include] if isinstance(include, str) else list(include)}
