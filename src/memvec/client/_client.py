"""The client: a server's collections, used as if they were here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from memvec.client import _calls
from memvec.client._answers import (
    Lines,
    checked_url,
    cut_off,
    error_of,
    httpx_or_refuse,
    match_block,
    pair_block,
    unreachable,
)
from memvec.client._calls import (
    NDJSON,
    Call,
    Calls,
    GroupOptions,
    Id,
    JoinOptions,
    Promise,
    RangeOptions,
    SearchOptions,
    job_call,
    json_call,
)
from memvec.client._records import (
    Record,
    certificate_of,
    duplicates_of,
    item_of,
    settings_of,
)
from memvec.collection import Duplicates, Item, PairStream, RangeStream, Settings, Stats
from memvec.errors import ServerError
from memvec.guarantee import Certificate, Health, Measurement
from memvec.metric import Metric
from memvec.search import Explanation, Hits, Searched, TopHits
from memvec.storage import CheckReport
from memvec.types import ArrayLike, BoolArray, IntArray, RowType

_Result = TypeVar("_Result")
# Longer than the server takes for any request that is no job.
_SECONDS = 120.0
_POLL_SECONDS = 0.05, 2.0


class Client:
    """A client of a memvec server (``memvec serve``).

    Parameters
    ----------
    url : str
        Address of the server, such as ``http://127.0.0.1:8765``.
    key : str, optional
        A key made by ``memvec keys create``.
    timeout : float, optional
        Seconds to wait for an answer.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = _SECONDS) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.url = checked_url(url, "Client")
        self._httpx = httpx_or_refuse()
        self._http = self._httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def collections(self) -> list[str]:
        """Return the names of all collections."""
        return self.send(json_call("GET", "/v1/collections", _names))

    def collection(self, name: str) -> RemoteCollection:
        """Return a collection of the server; raise IndexNotFoundError if there is none."""
        found = RemoteCollection(self, name)
        found.refresh()
        return found

    def create(self, name: str, *, dim: int, **settings: Any) -> RemoteCollection:
        """Create a collection.

        Parameters
        ----------
        name : str
            A new name, of letters, digits, dots, dashes and underscores.
        dim : int
            Dimension of the vectors.
        **settings
            `similarity`, `radius`, `metric`, `dtype`, `miss_rate`, `guarantee`, `confidence`,
            `similarities` and `seal_at`, as in :func:`memvec.open`.
        """
        asked = {"name": name, "dim": dim, **settings}
        self.send(json_call("POST", "/v1/collections", lambda record: None, asked))
        return self.collection(name)

    def drop(self, name: str) -> None:
        """Delete a collection with everything in it."""
        self.send(json_call("DELETE", Calls(name).path, lambda record: None))

    def send(self, call: Call[_Result]) -> _Result:
        """Send a call and return its result."""
        try:
            answer = self._http.request(
                call.method, call.path, params=call.params, headers=call.headers, content=call.body
            )
        except self._httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        if answer.status_code >= 400:
            raise error_of(answer.status_code, answer.content)
        return call.read(answer.json())

    def stream(self, call: Call[Any]) -> Iterator[list[Record]]:
        """Yield the records of a streamed answer in lists, without the closing record."""
        lines, headers = Lines(), {**call.headers, "Accept": NDJSON}
        request = self._http.build_request(
            call.method, call.path, params=call.params, headers=headers, content=call.body
        )
        try:
            answer = self._http.send(request, stream=True)
        except self._httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        try:
            if answer.status_code >= 400:
                raise error_of(answer.status_code, answer.read())
            for piece in answer.iter_raw():
                found = lines.feed(piece)
                if found:
                    yield found
        except self._httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        finally:
            answer.close()
        if lines.end is None:
            raise cut_off("stream")

    def finished(self, job: str) -> Record:
        """Wait for a job to end and return its state; a caller that stops waiting cancels it."""
        pause, longest = _POLL_SECONDS
        try:
            while True:
                seen = self.send(job_call(job))
                if seen["state"] == "done":
                    return seen
                if seen["state"] in ("failed", "cancelled"):
                    raise ServerError(f"The job {job} {seen['state']}: {seen['message']}")
                time.sleep(pause)
                pause = min(2 * pause, longest)
        except BaseException:
            self.cancel(job)
            raise

    def cancel(self, job: str) -> None:
        """Ask a job to stop; a job that has ended is left as it is."""
        self.send(job_call(job, "/cancel", "POST"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


class RemoteCollection:
    """A collection on a server, with the methods and results of :class:`memvec.Collection`.

    Made by :meth:`Client.collection`. Methods take the parameters of :class:`memvec.Collection`,
    except `threads` and `progress`.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._calls = client, Calls(name)
        self.name = name
        self._info: Record = {}

    def add(
        self,
        vectors: ArrayLike,
        ids: Id | Iterable[Id] | None = None,
        metadata: Mapping[str, Any] | Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[Id]:
        """Add new items, all or none of them, and return their ids."""
        return self._client.send(self._calls.add(vectors, ids, metadata, replace=False))

    def upsert(
        self,
        vectors: ArrayLike,
        ids: Id | Iterable[Id],
        metadata: Mapping[str, Any] | Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[Id]:
        """Add items and replace those that have the same ids; all or none of them."""
        return self._client.send(self._calls.add(vectors, ids, metadata, replace=True))

    def delete(self, ids: Id | Sequence[Id]) -> int:
        """Delete items, all or none of them, and return how many."""
        return self._client.send(self._calls.delete(_listed(ids)))

    def seal(self, *, merge: bool = True) -> int:
        """Make a segment of all waiting vectors; return how many it holds."""
        return self._client.send(self._calls.seal(merge=merge))

    def compact(self) -> int:
        """Merge everything into one segment, without deleted items; return how many it holds."""
        return self._client.send(self._calls.compact())

    def range_search(
        self, queries: ArrayLike, similarity: float | None = None, **options: Unpack[RangeOptions]
    ) -> Hits:
        """Find everything above a similarity."""
        return self._client.send(self._calls.range_search(queries, similarity, options))

    def iter_range(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        ordered: bool = True,
        **options: Unpack[Promise],
    ) -> RangeStream:
        """Find everything above a similarity, as a stream; what is not read is not sent."""
        call = self._calls.iter_range(queries, similarity, ordered, options)
        head, blocks = self._streamed(call, match_block)
        return RangeStream(blocks, certificate_of(head), Searched.lawless(**head["searched"]))

    def count(
        self, queries: ArrayLike, similarity: float | None = None, **options: Unpack[Promise]
    ) -> IntArray:
        """Count everything above a similarity, for each query."""
        return self._client.send(self._calls.count(queries, similarity, options))

    def contains(
        self, queries: ArrayLike, similarity: float | None = None, **options: Unpack[Promise]
    ) -> BoolArray:
        """Return for each query whether any item is above a similarity."""
        return self._client.send(self._calls.contains(queries, similarity, options))

    def search(self, queries: ArrayLike, k: int, **options: Unpack[SearchOptions]) -> TopHits:
        """Find the k most similar items; ties are ordered by id."""
        return self._client.send(self._calls.search(queries, k, options))

    def search_set(
        self,
        vectors: ArrayLike,
        k: int,
        *,
        construction: str = "pinv",
        **options: Unpack[SearchOptions],
    ) -> TopHits:
        """Find the k items most similar to several vectors together: more like these."""
        return self._client.send(self._calls.search_set(vectors, k, construction, options))

    def self_join(
        self, similarity: float | None = None, **options: Unpack[JoinOptions]
    ) -> PairStream:
        """Find all pairs of items above a similarity, each once. Runs as a job on the server."""
        job = self._client.send(self._calls.start("self_join", similarity, options))
        self._client.finished(job)
        head, blocks = self._streamed(job_call(job, "/result"), pair_block)
        return PairStream(blocks, certificate_of(head))

    def deduplicate(
        self, similarity: float | None = None, **options: Unpack[GroupOptions]
    ) -> Duplicates[Id]:
        """Find groups of near-duplicates and the one of each to keep, as a job on the server."""
        job = self._client.send(self._calls.start("deduplicate", similarity, options))
        self._client.finished(job)
        return duplicates_of(self._client.send(job_call(job, "/result")))

    def explain(
        self,
        query: ArrayLike,
        id: Id,  # noqa: A002 - what hits call it
        similarity: float | None = None,
        **options: Unpack[Promise],
    ) -> Explanation:
        """Explain why an item is, or is not, returned for a query."""
        return self._client.send(self._calls.explain(query, id, similarity, options))

    def measure(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        sample: int | None = None,
        **options: Unpack[Promise],
    ) -> Measurement:
        """Measure the miss rate: compare answers with the exhaustive search."""
        return self._client.send(self._calls.measure(queries, similarity, sample, options))

    def recalibrate(self, queries: ArrayLike | None = None) -> Certificate:
        """Calibrate on recent queries, or on queries given, and return the new certificate."""
        return self._client.send(self._calls.recalibrate(queries))

    @property
    def shadow(self) -> float:
        """The share of range queries that are compared with the exhaustive search."""
        return float(self._asked()["shadow"])

    @shadow.setter
    def shadow(self, share: float) -> None:
        self._client.send(self._calls.set_shadow(share))

    @property
    def health(self) -> Health:
        """How well the promise holds: queries answered, misses seen by `shadow`, drift."""
        return _calls.health_of(self._asked())

    @property
    def settings(self) -> Settings:
        """The settings that the collection was created with."""
        return settings_of(self._known()["settings"])

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self.settings.dim

    @property
    def dtype(self) -> RowType:
        """The type that vectors are stored in."""
        return self.settings.dtype

    @property
    def metric(self) -> Metric:
        """What scores are: "cosine" or "euclidean"."""
        return self.settings.metric

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return not self._asked()["writable"]

    def __len__(self) -> int:
        return self.stats().n_items

    def __contains__(self, name: object) -> bool:
        return isinstance(name, int | str) and self._client.send(self._calls.has(name))

    def __iter__(self) -> Iterator[Id]:
        """Yield all ids, in the order they were added."""
        _, blocks = self._streamed(self._calls.scroll(None, include=()), list)
        yield from (record["id"] for found in blocks for record in found)

    @overload
    def get(self, ids: Id) -> Item: ...  # type: ignore[overload-overlap]  # text is a sequence

    @overload
    def get(self, ids: Sequence[Id]) -> list[Item]: ...

    def get(self, ids: Id | Sequence[Id]) -> Item | list[Item]:
        """Return the items with several ids, in their order, or the item with one id."""
        found = self._client.send(self._calls.get(_listed(ids)))
        return found[0] if isinstance(ids, int | str) else found

    def items(
        self, where: Mapping[str, Any] | None = None, *, first: Id | None = None
    ) -> Iterator[Item]:
        """Yield all items in the order they were added, from `first` on, read on demand."""
        _, blocks = self._streamed(self._calls.scroll(where, first), list)
        yield from (item_of(record) for found in blocks for record in found)

    def stats(self) -> Stats:
        """Return the numbers of items and segments, and their sizes on disk."""
        return _calls.stats_of(self._asked())

    def check(self) -> CheckReport:
        """Read every file of the collection and compare checksums."""
        return self._client.send(self._calls.check())

    def refresh(self) -> None:
        """Ask the server for the settings; raise an error if the collection is gone."""
        self._info = self._asked()

    def close(self) -> None:
        """Do nothing: connections belong to the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteCollection({self.name!r} of {self._client.url})"

    def _asked(self) -> Record:
        return self._client.send(self._calls.info())

    def _known(self) -> Record:
        """Return the settings that do not change, asked for once."""
        if not self._info:
            self.refresh()
        return self._info

    def _streamed(
        self, call: Call[Any], block: Callable[[list[Record]], _Result]
    ) -> tuple[Record, Iterator[_Result]]:
        """Return the first record of a stream, and the others as blocks."""
        found = self._client.stream(call)
        [head, *first] = next(found)

        def blocks() -> Iterator[_Result]:
            if first:
                yield block(first)
            yield from map(block, found)

        return head, blocks()


def _listed(ids: Id | Sequence[Id]) -> list[Id]:
    return [ids] if isinstance(ids, int | str) else list(ids)


def _names(record: Record) -> list[str]:
    return [one["name"] for one in record["collections"]]
