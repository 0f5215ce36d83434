"""The asynchronous twin of the client: the same calls, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, cast

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
from memvec.client._records import Record, certificate_of, duplicates_of, item_of, settings_of
from memvec.collection import (
    Duplicates,
    Item,
    Match,
    MatchBlock,
    PairBlock,
    Settings,
    Stats,
)
from memvec.errors import ServerError
from memvec.guarantee import Certificate, Health, Measurement
from memvec.search import Explanation, Hits, SimilarPair, TopHits
from memvec.storage import CheckReport
from memvec.types import ArrayLike, BoolArray, IntArray

_Result = TypeVar("_Result")
_Match = TypeVar("_Match")
_SECONDS = 120.0
_POLL_SECONDS = 0.05, 2.0


class AsyncClient:
    """An asynchronous client of a memvec server, with the methods of :class:`Client`."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = _SECONDS) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.url = checked_url(url, "AsyncClient")
        self._httpx = httpx_or_refuse()
        self._http = self._httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout)

    async def collections(self) -> list[str]:
        """Return the names of all collections."""
        record = await self.send(json_call("GET", "/v1/collections", dict))
        return [one["name"] for one in record["collections"]]

    async def collection(self, name: str) -> AsyncRemoteCollection:
        """Return a collection of the server; raise IndexNotFoundError if there is none."""
        found = AsyncRemoteCollection(self, name)
        await found.refresh()
        return found

    async def create(self, name: str, *, dim: int, **settings: Any) -> AsyncRemoteCollection:
        """Create a collection; parameters are those of :meth:`Client.create`."""
        asked = {"name": name, "dim": dim, **settings}
        await self.send(json_call("POST", "/v1/collections", lambda record: None, asked))
        return await self.collection(name)

    async def drop(self, name: str) -> None:
        """Delete a collection with everything in it."""
        await self.send(json_call("DELETE", Calls(name).path, lambda record: None))

    async def send(self, call: Call[_Result]) -> _Result:
        """Send a call and return its result."""
        try:
            answer = await self._http.request(
                call.method, call.path, params=call.params, headers=call.headers, content=call.body
            )
        except self._httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        if answer.status_code >= 400:
            raise error_of(answer.status_code, answer.content)
        return call.read(answer.json())

    async def stream(self, call: Call[Any]) -> AsyncIterator[list[Record]]:
        """Yield the records of a streamed answer in lists, without the closing record."""
        lines, headers = Lines(), {**call.headers, "Accept": NDJSON}
        request = self._http.build_request(
            call.method, call.path, params=call.params, headers=headers, content=call.body
        )
        try:
            answer = await self._http.send(request, stream=True)
        except self._httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        try:
            if answer.status_code >= 400:
                raise error_of(answer.status_code, await answer.aread())
            async for piece in answer.aiter_raw():
                found = lines.feed(piece)
                if found:
                    yield found
        except self._httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        finally:
            await answer.aclose()
        if lines.end is None:
            raise cut_off("stream")

    async def finished(self, job: str) -> Record:
        """Wait for a job to end and return its state; a caller that stops waiting cancels it."""
        pause, longest = _POLL_SECONDS
        try:
            while True:
                seen = await self.send(job_call(job))
                if seen["state"] == "done":
                    return seen
                if seen["state"] in ("failed", "cancelled"):
                    raise ServerError(f"The job {job} {seen['state']}: {seen['message']}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
        except BaseException:
            await self.cancel(job)
            raise

    async def cancel(self, job: str) -> None:
        """Ask a job to stop; a job that has ended is left as it is."""
        await self.send(job_call(job, "/cancel", "POST"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"


class AsyncStream(Generic[_Match]):
    """A stream of matches or pairs, with its certificate.

    ``async for`` reads it; ``await stream.certificate()`` works before, during and after.
    """

    def __init__(
        self,
        found: AsyncIterator[list[Record]],
        block: Callable[[list[Record]], MatchBlock | PairBlock],
    ) -> None:
        self._found, self._block = found, block
        self._head: Record | None = None
        self._first: list[Record] = []

    async def certificate(self) -> Certificate:
        """Return the promise about missed matches."""
        return certificate_of(await self._begun())

    async def __aiter__(self) -> AsyncIterator[_Match]:
        await self._begun()
        for record in self._taken(self._first):
            yield record
        self._first = []
        async for found in self._found:
            for record in self._taken(found):
                yield record

    async def _begun(self) -> Record:
        """Return the first record, read once."""
        if self._head is None:
            self._head, *self._first = await anext(self._found)
        return self._head

    def _taken(self, found: list[Record]) -> Iterator[_Match]:
        yield from cast(Iterator[_Match], self._block(found).records())


class AsyncRemoteCollection:
    """A collection on a server, awaited: the methods of :class:`RemoteCollection`.

    Its properties are methods here: ``await collection.health()``. Streams are asynchronous
    iterators.
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client, self._calls = client, Calls(name)
        self.name = name

    async def add(
        self,
        vectors: ArrayLike,
        ids: Id | Iterable[Id] | None = None,
        metadata: Mapping[str, Any] | Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[Id]:
        """Add new items, all or none of them, and return their ids."""
        return await self._client.send(self._calls.add(vectors, ids, metadata, replace=False))

    async def upsert(
        self,
        vectors: ArrayLike,
        ids: Id | Iterable[Id],
        metadata: Mapping[str, Any] | Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[Id]:
        """Add items and replace those that have the same ids; all or none of them."""
        return await self._client.send(self._calls.add(vectors, ids, metadata, replace=True))

    async def delete(self, ids: Id | Sequence[Id]) -> int:
        """Delete items, all or none of them, and return how many."""
        names = [ids] if isinstance(ids, int | str) else list(ids)
        return await self._client.send(self._calls.delete(names))

    async def seal(self, *, merge: bool = True) -> int:
        """Make a segment of all waiting vectors; return how many it holds."""
        return await self._client.send(self._calls.seal(merge=merge))

    async def compact(self) -> int:
        """Merge everything into one segment, without deleted items; return how many it holds."""
        return await self._client.send(self._calls.compact())

    async def range_search(
        self, queries: ArrayLike, similarity: float | None = None, **options: Unpack[RangeOptions]
    ) -> Hits:
        """Find everything above a similarity."""
        return await self._client.send(self._calls.range_search(queries, similarity, options))

    def iter_range(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        ordered: bool = True,
        **options: Unpack[Promise],
    ) -> AsyncStream[Match]:
        """Yield everything above a similarity, as a stream; what is not read is not sent."""
        call = self._calls.iter_range(queries, similarity, ordered, options)
        return AsyncStream(self._client.stream(call), match_block)

    async def count(
        self, queries: ArrayLike, similarity: float | None = None, **options: Unpack[Promise]
    ) -> IntArray:
        """Count everything above a similarity, for each query."""
        return await self._client.send(self._calls.count(queries, similarity, options))

    async def contains(
        self, queries: ArrayLike, similarity: float | None = None, **options: Unpack[Promise]
    ) -> BoolArray:
        """Return for each query whether any item is above a similarity."""
        return await self._client.send(self._calls.contains(queries, similarity, options))

    async def search(self, queries: ArrayLike, k: int, **options: Unpack[SearchOptions]) -> TopHits:
        """Find the k most similar items; ties are ordered by id."""
        return await self._client.send(self._calls.search(queries, k, options))

    async def search_set(
        self,
        vectors: ArrayLike,
        k: int,
        *,
        construction: str = "pinv",
        **options: Unpack[SearchOptions],
    ) -> TopHits:
        """Find the k items most similar to several vectors together: more like these."""
        return await self._client.send(self._calls.search_set(vectors, k, construction, options))

    def self_join(
        self, similarity: float | None = None, **options: Unpack[JoinOptions]
    ) -> AsyncStream[SimilarPair[Id]]:
        """Yield all pairs of items above a similarity, each once. Runs as a job on the server."""
        call = self._calls.start("self_join", similarity, options)
        return AsyncStream(self._joined(call), pair_block)

    async def _joined(self, call: Call[str]) -> AsyncIterator[list[Record]]:
        job = await self._client.send(call)
        await self._client.finished(job)
        async for found in self._client.stream(job_call(job, "/result")):
            yield found

    async def deduplicate(
        self, similarity: float | None = None, **options: Unpack[GroupOptions]
    ) -> Duplicates[Id]:
        """Find groups of near-duplicates and the one of each to keep, as a job on the server."""
        job = await self._client.send(self._calls.start("deduplicate", similarity, options))
        await self._client.finished(job)
        return duplicates_of(await self._client.send(job_call(job, "/result")))

    async def explain(
        self,
        query: ArrayLike,
        id: Id,  # noqa: A002 - what hits call it
        similarity: float | None = None,
        **options: Unpack[Promise],
    ) -> Explanation:
        """Explain why an item is, or is not, returned for a query."""
        return await self._client.send(self._calls.explain(query, id, similarity, options))

    async def measure(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        sample: int | None = None,
        **options: Unpack[Promise],
    ) -> Measurement:
        """Measure the miss rate: compare answers with the exhaustive search."""
        return await self._client.send(self._calls.measure(queries, similarity, sample, options))

    async def recalibrate(self, queries: ArrayLike | None = None) -> Certificate:
        """Calibrate on recent queries, or on queries given, and return the new certificate."""
        return await self._client.send(self._calls.recalibrate(queries))

    async def shadow(self, share: float | None = None) -> float:
        """Return the share of queries that are compared; set it first if one is given."""
        if share is not None:
            await self._client.send(self._calls.set_shadow(share))
        return float((await self._asked())["shadow"])

    async def health(self) -> Health:
        """Return how well the promise holds."""
        return _calls.health_of(await self._asked())

    async def settings(self) -> Settings:
        """Return the settings that the collection was created with."""
        return settings_of((await self._asked())["settings"])

    async def read_only(self) -> bool:
        """Return whether changes are refused."""
        return not (await self._asked())["writable"]

    async def stats(self) -> Stats:
        """Return the numbers of items and segments, and their sizes on disk."""
        return _calls.stats_of(await self._asked())

    async def get(self, ids: Id | Sequence[Id]) -> Item | list[Item]:
        """Return the items with several ids, in their order, or the item with one id."""
        one = isinstance(ids, int | str)
        found = await self._client.send(self._calls.get([ids] if one else list(ids)))  # type: ignore[list-item,arg-type]
        return found[0] if one else found

    async def items(
        self, where: Mapping[str, Any] | None = None, *, first: Id | None = None
    ) -> AsyncIterator[Item]:
        """Yield all items in the order they were added, from `first` on, read on demand."""
        async for found in self._client.stream(self._calls.scroll(where, first)):
            for record in found:
                if "begin" not in record:
                    yield item_of(record)

    async def check(self) -> CheckReport:
        """Read every file of the collection and compare checksums."""
        return await self._client.send(self._calls.check())

    async def refresh(self) -> None:
        """Ask the server for the settings; raise an error if the collection is gone."""
        await self._asked()

    def __repr__(self) -> str:
        return f"AsyncRemoteCollection({self.name!r} of {self._client.url})"

    async def _asked(self) -> Record:
        return await self._client.send(self._calls.info())
