"""``memvec measure``: the miss rate that searches have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

import memvec
from memvec import Collection
from memvec.cli._care import FOUND_WRONG
from memvec.cli._options import (
    COUNT,
    SEED,
    Id,
    blocks_of,
    collection_argument,
    gather,
    json_option,
    promise_options,
    similarity_option,
    where_option,
)
from memvec.cli._output import certificate_record, echo, echo_json, share_text
from memvec.guarantee import Certificate, Measurement
from memvec.matches import Matches
from memvec.metric import cosines_of
from memvec.search import Hits

# Items that are drawn where neither queries nor their number are given.
_ITEMS_DRAWN = 1000


@click.command()
@collection_argument
@click.option(
    "--queries",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Queries to search for. Without it: items of the collection.",
)
@click.option(
    "--sample",
    type=COUNT,
    metavar="N",
    help=f"Number of queries to compare, drawn at random. Without it: all of FILE, or "
    f"{_ITEMS_DRAWN:,} items.",
)
@similarity_option
@promise_options()
@where_option
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the draw.")
@json_option
def measure(
    collection: str,
    queries: str | None,
    sample: int | None,
    seed: int,
    as_json: bool,
    **asked: Any,
) -> None:
    """Measure the miss rate: compare with the exhaustive search.

    Give your own queries with --queries. Items are easier queries than new vectors, since units are
    built from them. An item is not counted as its own match. Exit code 3 means that more is missed
    than promised, beyond what chance explains.

    \b
    Example:
      memvec measure synsets.mv --queries new.npy
      memvec measure synsets.mv --sample 500 --similarity 0.8
    """  # noqa: D301 - click wants the character itself, not its name
    rng = np.random.default_rng(seed)
    with memvec.open(collection, read_only=True) as opened:
        certificate = opened.range_search(np.empty((0, opened.dim)), **asked).certificate
        if queries is None:
            found = _measured_by_items(opened, sample or _ITEMS_DRAWN, rng, asked)
        else:
            rows, _ = gather(blocks_of(queries, None, None, ()), queries, opened)
            found = opened.measure(rows[_drawn(len(rows), sample, rng)], **asked, progress=False)
    promised = certificate.miss_rate
    broken = promised is not None and found.interval[0] > promised
    if as_json:
        echo_json(_record(found, certificate, broken))
    else:
        echo(_text(found, certificate))
    if broken:
        sys.exit(FOUND_WRONG)


def _drawn(n_rows: int, sample: int | None, rng: np.random.Generator) -> list[int]:
    """Return which rows to search for, in their order."""
    wanted = n_rows if sample is None else min(sample, n_rows)
    drawn: list[int] = np.sort(rng.choice(n_rows, wanted, replace=False)).tolist()
    return drawn


def _measured_by_items(
    collection: Collection, sample: int, rng: np.random.Generator, asked: dict[str, Any]
) -> Measurement:
    """Measure as `Collection.measure` does, but for each item's match with itself."""
    ids = list(collection)
    items = collection.get([ids[row] for row in _drawn(len(ids), sample, rng)])
    rows = np.array([item.vector for item in items]).reshape(len(items), collection.dim)
    answer = collection.range_search(rows, **asked, shadow=0.0)
    truth = collection.range_search(rows, **{**asked, "guarantee": "exact"})
    own, number_of = [item.id for item in items], dict[Id, int]()
    return Measurement.of_answer(
        _numbered(truth, own, number_of),
        _numbered(answer, own, number_of),
        answer.certificate.miss_rate or 0.0,
    )


def _numbered(hits: Hits, own: Sequence[Id], number_of: dict[Id, int]) -> Matches:
    """Return hits with numbers for ids, each query's own item left out."""
    numbers = np.array([number_of.setdefault(one, len(number_of)) for one in hits.ids], np.int64)
    cosines = cosines_of(hits.searched.metric, hits.scores)
    found = Matches(hits.offsets, numbers, cosines, hits.spent)
    names = np.array([number_of.setdefault(one, len(number_of)) for one in own], np.int64)
    return found.kept(found.ids != names[found.queries])


def _record(found: Measurement, certificate: Certificate, broken: bool) -> dict[str, Any]:
    return {
        "similarity": certificate.similarity,
        "queries": found.n_queries,
        "queries_with_matches": found.n_with_matches,
        "matches": found.n_matches,
        "missed": found.n_missed,
        "miss_rate": found.miss_rate,
        "interval": list(found.interval),
        "pair_miss": found.pair_miss,
        "profile": None if found.profile is None else found.profile.to_dict(),
        "certificate": certificate_record(certificate),
        "broken": broken,
    }


def _text(found: Measurement, certificate: Certificate) -> str:
    low, high = found.interval
    # Its other lines, one a similarity, are for JSON.
    worst = str(found.profile).partition("\n")[0]
    return (
        f"Missed {share_text(found.miss_rate)} of a query's matches {certificate.range_text} "
        f"(95 % interval {share_text(low)} to {share_text(high)}): "
        f"{found.n_missed:,} of {found.n_matches:,} matches of {found.n_queries:,} queries, "
        f"{found.n_with_matches:,} of which have any.\n{worst}\n{certificate}"
    )


__all__ = ["measure"]
