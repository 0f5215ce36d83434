"""``memvec verify``, ``repair`` and ``compact``: looking after a collection."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

import click
import numpy as np

import memvec
from memvec import Collection
from memvec.cli._options import (
    blocks_of,
    collection_argument,
    gather,
    json_option,
    similarity_option,
)
from memvec.cli._output import certificate_record, echo, echo_json, share_text
from memvec.collection import check_collection, repair_collection
from memvec.evaluation import count_misses
from memvec.guarantee import Certificate, Measurement
from memvec.matches import Matches
from memvec.search import Hits
from memvec.types import Float32Array

# What a command returns that ran, and found that something is not as it should be.
FOUND_WRONG = 3
# Queries compared with the exhaustive search at a time.
_QUERIES_AT_ONCE = 256


@dataclass(frozen=True)
class _Measured:
    """What a comparison with the exhaustive search found."""

    found: Measurement
    certificate: Certificate
    similarity: float

    @property
    def broken(self) -> bool:
        """Whether more is missed than is promised, beyond what chance explains."""
        promised = self.certificate.miss_rate
        return promised is not None and self.found.interval[0] > promised

    def record(self) -> dict[str, Any]:
        return {
            "similarity": self.similarity,
            "queries": self.found.n_queries,
            "queries_with_matches": self.found.n_with_matches,
            "matches": self.found.n_matches,
            "missed": self.found.n_missed,
            "miss_rate": self.found.miss_rate,
            "interval": list(self.found.interval),
            "pair_miss": self.found.pair_miss,
            "certificate": certificate_record(self.certificate),
            "broken": self.broken,
        }

    def __str__(self) -> str:
        low, high = self.found.interval
        return (
            f"Missed {share_text(self.found.miss_rate)} of a query's matches above "
            f"{self.similarity:g} (95 % interval {share_text(low)} to {share_text(high)}), "
            f"{self.found.n_missed:,} of {self.found.n_matches:,} pairs, over "
            f"{self.found.n_with_matches:,} queries with matches.\n{self.certificate}"
        )


@click.command()
@collection_argument
@click.option(
    "--recall",
    type=click.IntRange(1),
    metavar="N",
    help="Also compare N searches with exhaustive ones, and tell the measured miss rate.",
)
@click.option(
    "--queries",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Draw the N queries from this vector file; from the items themselves without it.",
)
@similarity_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draw.")
@json_option
def verify(
    collection: str,
    recall: int | None,
    queries: str | None,
    similarity: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Read everything again, compare checksums, and measure misses if asked.

    Stored items are kinder queries than new ones, since units were made with them; --queries gives
    the number that counts. An item does not count as its own match.

    Exit code 3 says that something is damaged, or that more is missed than is promised.

    \b
    Example:
      memvec verify synsets.mv
      memvec verify synsets.mv --recall 500 --queries new.npy
    """  # noqa: D301 - click wants the character itself, not its name
    if recall is None and (queries or similarity):
        raise click.UsageError("--queries and --similarity belong to --recall.")
    found = check_collection(collection)
    measured = None
    if found.ok and recall is not None:
        with memvec.open(collection, read_only=True) as opened:
            measured = _measured(opened, recall, queries, similarity, seed)
    if as_json:
        record = {"ok": found.ok, **asdict(found)}
        echo_json(record if measured is None else {**record, "recall": measured.record()})
    else:
        for problem in found.problems:
            echo(problem)
        echo(
            f"{len(found.problems):,} problems in {found.n_files:,} files of segments, "
            f"{found.n_bytes:,} bytes, and the catalog."
        )
        if measured is not None:
            echo(str(measured))
    if not found.ok or (measured is not None and measured.broken):
        sys.exit(FOUND_WRONG)


def _measured(
    collection: Collection, n_queries: int, path: str | None, similarity: float | None, seed: int
) -> _Measured:
    """Compare as `Collection.measure` does, but for each query's own item."""
    rows, own = _drawn(collection, n_queries, path, seed)
    certificate = collection.range_search(rows[:0], similarity).certificate
    found = []
    for start in range(0, max(len(rows), 1), _QUERIES_AT_ONCE):
        some = slice(start, start + _QUERIES_AT_ONCE)
        truth = collection.range_search(rows[some], similarity, guarantee="exact")
        answer = collection.range_search(rows[some], similarity)
        misses = count_misses(*_numbered(truth, answer, own[some]))
        found.append(Measurement.of(misses, certificate.miss_rate or 0.0))
    level = collection.settings.similarity if similarity is None else similarity
    return _Measured(reduce(Measurement.with_more, found), certificate, level)


def _drawn(
    collection: Collection, n_queries: int, path: str | None, seed: int
) -> tuple[Float32Array, Sequence[Any]]:
    """Return queries, and of each the item that it is."""
    rng = np.random.default_rng(seed)
    if path is not None:
        rows, _ = gather(blocks_of(path, None, None, ()), path, collection.dim)
        chosen = np.sort(rng.choice(len(rows), min(n_queries, len(rows)), replace=False))
        return rows[chosen], [None] * len(chosen)
    ids = list(collection)
    chosen = np.sort(rng.choice(len(ids), min(n_queries, len(ids)), replace=False))
    items = collection.get([ids[row] for row in chosen])
    vectors = [np.empty((0, collection.dim), np.float32), *(item.vector[None] for item in items)]
    return np.concatenate(vectors), [item.id for item in items]


def _numbered(truth: Hits, answer: Hits, own: Sequence[Any]) -> tuple[Matches, Matches]:
    """Return both answers with numbers for ids, each query's own item left out."""
    number_of: dict[Any, int] = {}

    def rows(hits: Hits) -> Matches:
        return Matches.from_rows(
            [
                [number_of.setdefault(i, len(number_of)) for i in row.ids if i != name]
                for row, name in zip(hits, own, strict=True)
            ]
        )

    return rows(truth), rows(answer)


@click.command()
@collection_argument
@json_option
def repair(collection: str, as_json: bool) -> None:
    """Make a damaged collection usable again, and say what was done.

    Segments are rebuilt from their vectors where those are whole; what is damaged beyond that is
    dropped together with its items, and its files go to the folder `lost` in the collection. Copy
    the folder first if it matters.

    Exit code 3 says that items were lost.

    \b
    Example:
      memvec repair synsets.mv
    """  # noqa: D301 - click wants the character itself, not its name
    done = repair_collection(collection)
    if as_json:
        echo_json(asdict(done))
    else:
        for action in done.actions:
            echo(action)
        echo(f"{len(done.actions):,} repairs; {done.n_lost:,} items lost.")
    if done.n_lost:
        sys.exit(FOUND_WRONG)


@click.command()
@collection_argument
@click.option("--seal", is_flag=True, help="Only make a segment of the vectors that wait.")
@json_option
def compact(collection: str, seal: bool, as_json: bool) -> None:
    """Make one segment of everything, without what was deleted.

    Vectors are assigned to units anew, and the promise is calibrated anew. Readers go on
    meanwhile.

    \b
    Example:
      memvec compact synsets.mv
    """  # noqa: D301 - click wants the character itself, not its name
    with memvec.open(collection, background=False) as opened:
        before = opened.stats()
        n_rows = opened.seal() if seal else opened.compact()
        after = opened.stats()
    if as_json:
        echo_json({"rows": n_rows, "before": asdict(before), "after": asdict(after)})
        return
    echo(
        f"{n_rows:,} vectors in a new segment; {len(after.segment_sizes):,} segments instead of "
        f"{len(before.segment_sizes):,}, {before.n_deleted - after.n_deleted:,} deleted vectors "
        "gone."
    )


__all__ = ["compact", "repair", "verify"]
