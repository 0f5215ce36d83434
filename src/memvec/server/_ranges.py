"""Ranges within bounds: few queries at a time, streams of blocks, histograms of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from memvec.client import Record, searched_record
from memvec.collection import Collection, MatchBlock, RangeStream
from memvec.metric import cosines_of, radius_of
from memvec.search import Hits
from memvec.server._answers import json_text, promised_text
from memvec.server._arrow import ArrowMatches
from memvec.server._failures import ApiError
from memvec.server._models import check_carried
from memvec.server._settings import Limits
from memvec.types import Float64Array

# Pairs of a query and an item that are looked at before the number of matches is compared with
# what an answer may hold: if all match, they take 100 MB.
_PAIRS_AT_ONCE = 4_000_000
# Scores of a histogram; of more items, those that score highest.
_HISTOGRAM_SCORES = 50_000
_LOWEST = 1e-3


def bounded_range(
    collection: Collection,
    queries: Any,
    similarity: float | None,
    limits: Limits,
    include: Sequence[Literal["metadata", "vectors"]] = (),
    **options: Any,
) -> Hits:
    """Return everything above a similarity, unless it is more than an answer may hold."""
    _check_included(collection, queries, similarity, limits, include, **options)
    at_once = max(1, _PAIRS_AT_ONCE // max(1, len(collection)))
    found = []
    for start in range(0, max(1, len(queries)), at_once):
        some = queries[start : start + at_once]
        found.append(collection.range_search(some, similarity, include=include, **options))
        _check_hits(sum(len(hits.ids) for hits in found), limits.hits)
    return found[0] if len(found) == 1 else _stacked(found)


def _check_included(
    collection: Collection,
    queries: Any,
    similarity: float | None,
    limits: Limits,
    include: Sequence[str],
    shadow: float | None = None,
    **options: Any,
) -> None:
    """Count the matches before their metadata and vectors are read, where they may be too many."""
    try:
        check_carried(len(collection) * len(queries), collection.dim, include, limits)
    except ApiError:
        n_matches = 0
        # As a stream, which no monitor counts: the queries are asked again.
        stream = collection.iter_range(queries, similarity, ordered=False, **options)
        for block in stream.blocks():
            n_matches += len(block.ids)
            check_carried(n_matches, collection.dim, include, limits)


def _check_hits(n_matches: int, most: int) -> None:
    if n_matches > most:
        text = (
            f"There are more than {most:,} matches. Ask for a stream (Accept: "
            "application/x-ndjson), for fewer queries or for a higher similarity."
        )
        raise ApiError(413, "too_many_hits", text)


def _stacked(found: list[Hits]) -> Hits:
    """Return the answers to several lots of queries as one."""
    starts = np.cumsum([0, *(len(hits.ids) for hits in found)])
    shifted = [hits.offsets[:-1] + start for hits, start in zip(found, starts, strict=False)]
    metadata, vectors = None, None
    if found[0].metadata is not None:
        metadata = [row for hits in found for row in hits.metadata or []]
    if found[0].vectors is not None:
        vectors = np.concatenate([hits.vectors for hits in found if hits.vectors is not None])
    return Hits(
        np.concatenate([*shifted, starts[-1:]]),
        np.concatenate([hits.ids for hits in found]),
        np.concatenate([hits.scores for hits in found]),
        found[-1].certificate,
        np.concatenate([hits.spent for hits in found]),
        found[-1].searched,
        metadata,
        vectors,
    )


def lines_of(stream: RangeStream, *, p_values: bool) -> Iterator[bytes]:
    """Yield a range as lines of JSON: what it is, each match, and the certificate at the end."""
    head = {"begin": "range", "searched": searched_record(stream.searched)}
    yield f"{promised_text(head, stream.certificate)}\n".encode()
    n_matches = 0
    for block in stream.blocks():
        n_matches += len(block.ids)
        yield _block_lines(block, stream, p_values)
    end = {"end": "range", "n_matches": n_matches}
    yield f"{promised_text(end, stream.certificate)}\n".encode()


def _block_lines(block: MatchBlock, stream: RangeStream, p_values: bool) -> bytes:
    records = [match._asdict() for match in block.records()]
    if p_values:
        searched = stream.searched
        chances = searched.null_law.p_values(cosines_of(searched.metric, block.scores))
        for record, chance in zip(records, chances.tolist(), strict=True):
            record["p_value"] = chance
    return "".join(f"{json_text(record)}\n" for record in records).encode()


def batches_of(stream: RangeStream) -> Iterator[bytes]:
    """Yield a range as an Arrow stream."""
    writer, n_matches = ArrowMatches(), 0
    for block in stream.blocks():
        n_matches += len(block.ids)
        yield writer.block(block)
    yield writer.end(promised_text({"n_matches": n_matches}, stream.certificate))


def histogram(collection: Collection, query: Any, where: Any, bins: int) -> Record:
    """Return how many items score what with a query, and what unrelated ones would.

    Of many items, only the highest scores are counted: `low` tells from where on.
    """
    asked = {"where": where, "guarantee": "exact", "ordered": False}
    law = collection.iter_range(query, **_above(collection, 1.0), **asked).searched
    share = min(1.0, _HISTOGRAM_SCORES / max(1, law.n_candidates))
    cosines = law.null_law.cosines
    low = _LOWEST
    if share < 1.0:
        low = float(np.clip(np.quantile(cosines, 1 - share), _LOWEST, 1.0))
    stream = collection.iter_range(query, **_above(collection, low), **asked)
    edges = np.linspace(0.0, 1.0, bins + 1)
    counts = np.zeros(bins, dtype=np.int64)
    for block in stream.blocks():
        found = np.clip(cosines_of(law.metric, block.scores), 0.0, 1.0)
        counts += np.histogram(found, edges)[0]
    chances = law.null_law.p_values(edges)
    return {
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "low": low,
        "n_items": law.n_candidates,
        "expected": _expected(chances, law.n_candidates).tolist(),
        "p_values": chances.tolist(),
        "smallest": law.null_law.smallest,
        "is_uniform": law.null_law.is_uniform,
        "dimension": law.null_law.dimension,
        "metric": law.metric,
    }


def _above(collection: Collection, cosine: float) -> Record:
    if collection.metric == "cosine":
        return {"similarity": cosine}
    return {"radius": radius_of(cosine)}


def _expected(chances: Float64Array, n_items: int) -> Float64Array:
    """Return how many unrelated items are expected between one edge and the next."""
    return np.asarray(np.maximum(0.0, -np.diff(chances)) * n_items)
