"""Collections as tools for assistants, through the Model Context Protocol; needs ``memvec[mcp]``.

``memvec mcp FOLDER`` runs the server on stdin and stdout. Collections are opened read-only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from memvec import checks
from memvec.collection import Collection, open_collection
from memvec.errors import IndexNotFoundError, InvalidValueError, MemvecError, MissingExtraError
from memvec.guarantee import Certificate, Guarantee
from memvec.search import Hits, TopHits
from memvec.storage import Kind, kind_of

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field
except ImportError:
    raise MissingExtraError("memvec.integrations.mcp", "mcp", "mcp") from None

Encoder = Callable[[str], Any]

# More would fill the context of an assistant; the number found is told besides.
_MOST_SHOWN = 100

Name = Annotated[
    str | None,
    Field(description="Name of the collection, from `collections`; optional if there is only one."),
]
Like = Annotated[
    int | str | None, Field(description="Query: the id of a stored item, to find others like it.")
]
Text = Annotated[str | None, Field(description="Query: a text, if the server has an encoder.")]
Vector = Annotated[
    list[float] | None, Field(description="Query: a vector of the collection's dimension.")
]
Where = Annotated[
    dict[str, Any] | None,
    Field(
        description="Filter on metadata, such as "
        '{"year": {"$gte": 2020}, "tag": {"$in": ["a", "b"]}}.'
    ),
]
Similarity = Annotated[
    float | None,
    Field(description="Cosine in (0, 1]; that of the collection by default.", gt=0, le=1),
]
Shown = Annotated[
    int, Field(description="Maximum number to list; all are counted.", ge=1, le=_MOST_SHOWN)
]

_INSTRUCTIONS = (
    "Search in collections of vectors by meaning. `range` finds everything above a similarity and "
    "says how much it may miss; `search` finds the k nearest; `explain` tells why an item is or is "
    "not found; `duplicates` finds near-duplicates. A query is one of: the id of a stored item "
    "(like), a text, a vector. Nothing is changed."
)


class Tools:
    """What the server offers; each method is a tool.

    Parameters
    ----------
    folder : Path
        A collection, or a folder of collections.
    encoder : str, optional
        ``module:function``; called with a text, it returns a vector.
    """

    def __init__(self, folder: Path, encoder: str | None = None) -> None:
        self._paths = _collections_in(folder)
        self._encoder = (
            None if encoder is None else checks.function_named(encoder, "encoder", "serve")
        )
        self._opened: dict[str, Collection] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the collections."""
        for collection in self._opened.values():
            collection.close()
        self._opened.clear()

    def collections(self) -> dict[str, Any]:
        """List the collections: name, number of items, dimension, what they are designed for."""
        with _told():
            found = [(name, self._collection(name)) for name in self._paths]
            return {"collections": [_described(name, collection) for name, collection in found]}

    def search(
        self,
        collection: Name = None,
        like: Like = None,
        text: Text = None,
        vector: Vector = None,
        k: Annotated[int, Field(description="How many.", ge=1, le=_MOST_SHOWN)] = 10,
        where: Where = None,
    ) -> dict[str, Any]:
        """Find the k items most similar to a query, with their scores and metadata."""
        with _told():
            asked = self._collection(collection)
            query = self._query(asked, like, text, vector)
            top = asked.search(query, k, where=where, include="metadata")
            return {"matches": _matches(top, k), "certificate": _certified(top.certificate)}

    def range(
        self,
        collection: Name = None,
        like: Like = None,
        text: Text = None,
        vector: Vector = None,
        similarity: Similarity = None,
        where: Where = None,
        guarantee: Annotated[
            Guarantee | None, Field(description='"exact" misses nothing, and takes longer.')
        ] = None,
        shown: Shown = 20,
    ) -> dict[str, Any]:
        """Find everything above a similarity, with a certificate: what is promised about misses."""
        with _told():
            asked = self._collection(collection)
            query = self._query(asked, like, text, vector)
            level = _level(asked, similarity)
            hits = asked.range_search(
                query, **level, where=where, guarantee=guarantee, include="metadata"
            )
            found = {"n_matches": len(hits.ids), "matches": _matches(hits, shown)}
            return {**found, "certificate": _certified(hits.certificate)}

    def explain(
        self,
        id: Annotated[int | str, Field(description="The item.")],  # noqa: A002 - as elsewhere
        collection: Name = None,
        like: Like = None,
        text: Text = None,
        vector: Vector = None,
        similarity: Similarity = None,
    ) -> dict[str, Any]:
        """Explain why an item is, or is not, found for a query: its score, and each test."""
        with _told():
            asked = self._collection(collection)
            query = self._query(asked, like, text, vector)
            told = asked.explain(query, id, **_level(asked, similarity))
            return {"returned": told.returned, "reason": told.reason, "details": str(told)}

    def duplicates(
        self,
        collection: Name = None,
        similarity: Annotated[
            float, Field(description="Cosine of duplicates, in (0, 1].", gt=0, le=1)
        ] = 0.95,
        where: Where = None,
        shown: Shown = 20,
    ) -> dict[str, Any]:
        """Find groups of near-duplicates, and which item of each to keep; nothing is deleted."""
        with _told():
            asked = self._collection(collection)
            level = _level(asked, similarity)
            found = asked.deduplicate(**level, where=where, progress=False)
            groups = [group._asdict() for group in found.groups[:shown]]
            return {
                "n_items": found.n_items,
                "n_groups": len(found.groups),
                "n_to_drop": len(found.drop),
                "groups": groups,
                "pairs_that_may_be_left": found.expected_missed,
                "certificate": _certified(found.certificate),
            }

    def _collection(self, name: str | None) -> Collection:
        """Return a collection, as it is on the disk now."""
        if name is None and len(self._paths) == 1:
            [name] = self._paths
        if name not in self._paths:
            expected = f"one of {', '.join(map(repr, self._paths))}"
            raise checks.bad_value("collection", "the tool", expected, repr(name))
        with self._lock:
            if name not in self._opened:
                self._opened[name] = open_collection(self._paths[name], read_only=True)
            self._opened[name].refresh()
            return self._opened[name]

    def _query(
        self,
        asked: Collection,
        like: int | str | None,
        text: str | None,
        vector: list[float] | None,
    ) -> Any:
        given = [one for one in (like, text, vector) if one is not None]
        if len(given) != 1:
            expected = "one of 'like', 'text' and 'vector'"
            raise InvalidValueError(f"A query is {expected}. Got {len(given)} of them instead.")
        if like is not None:
            return asked.get(like).vector
        if vector is not None:
            return np.asarray(vector, dtype=np.float64)
        if self._encoder is None:
            raise InvalidValueError(
                "This server has no encoder for texts: give 'like' or 'vector', or start it with "
                "--encoder module:function."
            )
        return np.asarray(self._encoder(str(text)))


def build_server(folder: Path, encoder: str | None = None) -> tuple[MCPServer, Tools]:
    """Return a server of a collection, or of a folder of collections, and what it holds open.

    Parameters
    ----------
    folder : Path
        A collection, or a folder of collections.
    encoder : str, optional
        ``module:function``; called with a text, it returns a vector.
    """
    tools = Tools(folder, encoder)
    server = MCPServer("memvec", instructions=_INSTRUCTIONS, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.collections, tools.search, tools.range, tools.explain, tools.duplicates):
        server.add_tool(tool, annotations=reads)
    return server, tools


def serve(folder: Path, encoder: str | None = None) -> None:
    """Serve collections on stdin and stdout until stdin ends.

    Parameters
    ----------
    folder, encoder
        As in :func:`build_server`.
    """
    server, tools = build_server(folder, encoder)
    try:
        server.run("stdio")
    finally:
        tools.close()


def _collections_in(folder: Path) -> dict[str, Path]:
    """Return the collections of a folder by name; a collection is the only one of itself."""
    if kind_of(folder) is Kind.COLLECTION:
        return {folder.resolve().name: folder}
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    found = {path.name: path for path in below if kind_of(path) is Kind.COLLECTION}
    if not found:
        raise IndexNotFoundError(f"{folder} is not a collection, and contains none.")
    return found


@contextmanager
def _told() -> Iterator[None]:
    """Tell an assistant what memvec refuses, in its words."""
    try:
        yield
    except MemvecError as error:
        raise ToolError(str(error)) from None


def _described(name: str, collection: Collection) -> dict[str, Any]:
    settings = collection.settings
    return {
        "name": name,
        "n_items": len(collection),
        "dim": settings.dim,
        "similarity": settings.similarity,
        "miss_rate": settings.miss_rate,
    }


def _level(asked: Collection, similarity: float | None) -> dict[str, Any]:
    """Return a similarity as the collection takes it: those of distances take a radius."""
    if similarity is None or asked.metric == "cosine":
        return {"similarity": similarity}
    return {"radius": (2 - 2 * similarity) ** 0.5}


def _matches(found: Hits | TopHits, most: int) -> list[dict[str, Any]]:
    metadata = found.metadata or []
    rows = metadata[0] if metadata and isinstance(metadata[0], list) else metadata
    flat = zip(found.ids.ravel().tolist(), found.scores.ravel().tolist(), rows, strict=True)
    listed = [{"id": name, "score": score, "metadata": row} for name, score, row in flat]
    return [match for match in listed if match["id"] is not None][:most]


def _certified(certificate: Certificate) -> dict[str, Any]:
    fields = json.loads(certificate.to_json())
    told = ("level", "similarity", "miss_rate", "bound", "n_queries", "n_matches")
    return {"text": str(certificate), **{name: fields[name] for name in told}}


__all__ = ["Tools", "build_server", "serve"]
