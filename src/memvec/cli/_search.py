"""``memvec search`` and ``memvec range``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import click
import numpy as np
from click.core import ParameterSource

import memvec
from memvec import Collection
from memvec.cli._options import (
    COUNT,
    Id,
    blocks_of,
    collection_argument,
    file_argument,
    json_option,
    known_ids,
    limit_option,
    option,
    options,
    promise_options,
    similarity_option,
    threads_option,
    where_option,
)
from memvec.cli._options import gather as gathered
from memvec.cli._output import certificate_record, echo, echo_json, print_table
from memvec.search import Hits, TopHits
from memvec.types import Float32Array

# Metadata that a table shows of a hit, in characters.
_LONGEST_CELL = 70


class _Hit(NamedTuple):
    query: Any
    id: Id
    score: float


_asking = options(
    collection_argument,
    file_argument("queries", required=False, metavar="[QUERIES]"),
    click.option(
        "--like",
        multiple=True,
        metavar="ID",
        help="Use the vector of the item with this id as a query; repeatable.",
    ),
    click.option("--vectors", "field", metavar="NAME", help="Field of QUERIES with the vectors."),
    where_option,
)
_answering = options(
    promise_options(),
    threads_option,
    click.option(
        "--show",
        multiple=True,
        metavar="NAME",
        help="Also print this metadata field; * prints all. Repeatable.",
    ),
    json_option,
)


@click.command()
@_asking
@option("-k", COUNT, "Items to find for each query.", 10)
@option(
    "--fuse",
    click.Choice(["pinv", "sum"]),
    "Combine all queries into one: more like these. pinv gives each the same weight.",
)
@limit_option(100)
@_answering
def search(
    collection: str,
    queries: str | None,
    like: tuple[str, ...],
    field: str | None,
    where: dict[str, Any] | None,
    k: int,
    fuse: Literal["pinv", "sum"] | None,
    limit: int,
    show: tuple[str, ...],
    as_json: bool,
    **promise: Any,
) -> None:
    """Find the k items most similar to each query.

    QUERIES is a vector file as `memvec add` takes it; - is standard input, as JSON Lines.

    \b
    Example:
      memvec search synsets.mv --like whale -k 5
      memvec search synsets.mv queries.npy --json
      memvec search synsets.mv --like whale --like dolphin --fuse pinv
      echo '{"vector": [1, 0]}' | memvec search two.mv - --where '{"tag": "a"}'
    """  # noqa: D301 - click wants the character itself, not its name
    with memvec.open(collection, read_only=True) as opened:
        rows, names = _queries(opened, queries, like, field)
        k = min(k, max(len(opened), 1))  # answers have room for k items, whether there are or not
        if fuse is None:
            top = opened.search(rows, k, where=where, **promise)
        else:
            top = opened.search_set(rows, k, construction=fuse, where=where, **promise)
            names = ["all"]
        hits = _hits(names, zip(top.ids, top.scores, strict=True))
        _print(opened, names, hits, top, f"The {k} nearest", limit, show, as_json=as_json)


@click.command("range")
@_asking
@similarity_option
@limit_option(100)
@click.option(
    "--lines",
    is_flag=True,
    help="Print one line of JSON per match as it is found, without table and certificate. Not "
    "with --json, --limit or --show.",
)
@_answering
def range_command(
    collection: str,
    queries: str | None,
    like: tuple[str, ...],
    field: str | None,
    where: dict[str, Any] | None,
    similarity: float | None,
    radius: float | None,
    limit: int,
    lines: bool,
    show: tuple[str, ...],
    as_json: bool,
    **promise: Any,
) -> None:
    """Find everything above a similarity to each query.

    QUERIES is a vector file as `memvec add` takes it; - is standard input, as JSON Lines. The
    certificate below the table says what is promised about matches that are missed.

    \b
    Example:
      memvec range synsets.mv --like whale --similarity 0.7 --show text
      memvec range synsets.mv queries.npy --similarity 0.8 --guarantee exact --lines
    """  # noqa: D301 - click wants the character itself, not its name
    if lines:
        _refuse_beside_lines()
    promise["radius"] = radius
    with memvec.open(collection, read_only=True) as opened:
        rows, names = _queries(opened, queries, like, field)
        if lines:
            for match in opened.iter_range(rows, similarity, where=where, **promise):
                name = names[match.query]
                echo_json({"query": name, "id": match.id, "score": round(match.score, 6)})
            return
        found = opened.range_search(rows, similarity, where=where, **promise)
        title = found.certificate.range_text.capitalize()
        _print(opened, names, _hits(names, found), found, title, limit, show, as_json=as_json)


def _refuse_beside_lines() -> None:
    """Raise where options were given that lines of JSON do not heed."""
    context = click.get_current_context()
    for name, flag in (("as_json", "--json"), ("limit", "--limit"), ("show", "--show")):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{flag} cannot be combined with --lines.")


def _queries(
    collection: Collection, path: str | None, like: tuple[str, ...], field: str | None
) -> tuple[Float32Array, list[Any]]:
    """Return the queries and their names."""
    if (path is None) == (not like):
        raise click.UsageError("Give QUERIES or --like.")
    if path is not None:
        return gathered(blocks_of(path, field, None, ()), path, collection)
    names = known_ids(collection, like, "--like")
    if len(set(names)) < len(names):
        [(twice, _)] = Counter(names).most_common(1)
        raise click.BadParameter(f"the id {twice!r} is given twice.", param_hint="'--like'")
    return np.stack([item.vector for item in collection.get(names)]), list(names)


def _hits(names: list[Any], rows: Iterable[tuple[Iterable[Any], Iterable[float]]]) -> list[_Hit]:
    """Return the hits of all queries from ids and scores of each; None is a place left empty."""
    return [
        _Hit(name, found, float(score))
        for name, (ids, scores) in zip(names, rows, strict=True)
        for found, score in zip(ids, scores, strict=True)
        if found is not None
    ]


def _print(
    collection: Collection,
    names: list[Any],
    hits: list[_Hit],
    answer: Hits | TopHits,
    title: str,
    limit: int,
    show: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    shown = hits if as_json else hits[:limit]
    metadata = _metadata(collection, shown) if show else {}
    if as_json:
        records = [_record(hit, metadata, show) for hit in shown]
        echo_json(
            {
                "queries": names,
                "hits": records,
                "certificate": certificate_record(answer.certificate),
                "work": {**asdict(answer.work), "cost_ratio": answer.work.cost_ratio},
            }
        )
        return
    header = ["query", "id", "score", *(("metadata",) if "*" in show else show)]
    rows = [[str(h.query), str(h.id), h.score, *_cells(metadata.get(h.id), show)] for h in shown]
    print_table(f"{title}: {len(hits):,} of {len(collection):,} items", header, rows)
    if len(hits) > len(shown):
        echo(f"… and {len(hits) - len(shown):,} more (--limit, --json)")
    echo(str(answer.certificate))


def _metadata(collection: Collection, hits: list[_Hit]) -> dict[Id, dict[str, Any]]:
    ids = list(dict.fromkeys(hit.id for hit in hits))
    return {item.id: item.metadata for item in collection.get(ids)}


def _record(hit: _Hit, metadata: dict[Id, dict[str, Any]], show: tuple[str, ...]) -> dict[str, Any]:
    record: dict[str, Any] = {**hit._asdict(), "score": round(hit.score, 6)}
    if show:
        values = metadata[hit.id]
        record["metadata"] = {k: v for k, v in values.items() if "*" in show or k in show}
    return record


def _cells(values: dict[str, Any] | None, show: tuple[str, ...]) -> list[str]:
    if values is None:
        return []
    if "*" in show:
        return [_short(json.dumps(values, ensure_ascii=False))]
    return [_short(str(values.get(name, ""))) for name in show]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
