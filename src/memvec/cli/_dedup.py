"""``memvec dedup`` and ``memvec join``: a set of vectors compared with itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import click

import memvec
from memvec import Collection
from memvec.cli._options import (
    COSINE,
    STDIN,
    Id,
    as_typed,
    blocks_of,
    collection_argument,
    field_options,
    file_path,
    json_option,
    limit_option,
    named_rows,
    option,
    promise_options,
    similarity_option,
    threads_option,
    unit_rows,
    where_option,
)
from memvec.cli._output import certificate_record, echo, echo_json, print_table, writing
from memvec.collection import Duplicates
from memvec.files import BLOCK_SUFFIXES
from memvec.metric import checked_level, limit_text

# Rows that go to the temporary folder at a time.
_BATCH = 8192
# Few large segments are joined faster than many small ones; so many vectors are in memory.
_SEAL_AT = 100_000


def _source(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != STDIN and not Path(value).is_dir():
        file_path.convert(value, parameter, context)
        if Path(value).suffix.lower() not in BLOCK_SUFFIXES:
            known = ", ".join(BLOCK_SUFFIXES)
            raise click.BadParameter(f"{value!r} is no collection, and does not end in {known}.")
    return value


@click.command()
@click.argument("source", callback=_source, metavar="FILE")
@option("--similarity", COSINE, "Cosine above which two vectors are duplicates.", 0.9)
@option(
    "--keep",
    click.Choice(["first", "last", "longest"]),
    "Keep the first or the last of a group, or that with the longest metadata.",
    "first",
)
@option(
    "--groups",
    click.Choice(["components", "star"]),
    "Group what chains of duplicates connect, or only what is near to the one kept.",
    "components",
)
@click.option("--dropped", is_flag=True, help="Print the ids to drop instead of those to keep.")
@option("--out", click.Path(dir_okay=False), "Write the list of ids here instead of stdout.")
@field_options
@promise_options(", 0.01 of a file", " (of a file, expected)", ", 0.95 of a file")
@threads_option
@json_option
def dedup(
    source: str,
    similarity: float,
    keep: Literal["first", "last", "longest"],
    groups: Literal["components", "star"],
    dropped: bool,
    out: str | None,
    field: str | None,
    ids: str | None,
    metadata: tuple[str, ...],
    as_json: bool,
    **asked: Any,
) -> None:
    """Print the ids of FILE that remain without near-duplicates.

    One id a line. A text that is empty, begins with a quote, holds digits alone or control
    characters such as the end of a line is printed in quotes, as JSON has it; `memvec delete --ids`
    reads it so.

    FILE is a vector file as `memvec add` takes it; rows without ids are numbered from 0. - is
    standard input, as JSON Lines. It may also be a collection. Nothing is deleted. A file is
    indexed in the folder for temporary files (TMPDIR), which must have room for its vectors as
    float32.

    \b
    Example:
      memvec dedup vectors.npy --similarity 0.95 > kept.txt
      memvec dedup texts.parquet --ids name --metadata text --keep longest --json
    """  # noqa: D301 - click wants the character itself, not its name
    with _opened(source, similarity, field, ids, metadata) as opened:
        found = opened.deduplicate(similarity, keep=keep, groups=groups, **asked)
        drop = set(found.drop)
        chosen = found.drop if dropped else [name for name in opened if name not in drop]
    n_left = found.expected_missed
    left = f"Pairs that may be left: about {n_left:,}. " if n_left else ""
    promise = str(found.certificate).splitlines()[0]  # JSON has all of it
    echo(
        f"{found.n_items:,} vectors, {len(found.groups):,} groups above {similarity:g}: "
        f"{found.n_items - len(drop):,} to keep, {len(drop):,} to drop. {left}{promise}",
        err=True,
    )
    _write(found, chosen, "dropped" if dropped else "kept", out, as_json=as_json)


def _write(
    found: Duplicates[Id], chosen: list[Id], name: str, out: str | None, *, as_json: bool
) -> None:
    if as_json:
        echo_json(
            {
                "items": found.n_items,
                "expected_missed": found.expected_missed,
                name: chosen,
                "groups": [group._asdict() for group in found.groups],
                "certificate": certificate_record(found.certificate),
            }
        )
    lines = "".join(f"{as_typed(name)}\n" for name in chosen)
    if out is None:
        echo("" if as_json else lines, nl=False)
        return
    with writing(out):
        Path(out).write_text(lines, encoding="utf-8", newline="\n")


@contextmanager
def _opened(
    source: str, similarity: float, field: str | None, ids: str | None, metadata: tuple[str, ...]
) -> Iterator[Collection]:
    """Open a collection, or make one of a file, for a while."""
    if source != STDIN and Path(source).is_dir():
        with memvec.open(source, read_only=True) as collection:
            yield collection
        return
    blocks = blocks_of(source, field, ids, metadata, _BATCH)
    first = next(blocks, None)
    if first is None:
        raise click.UsageError("Standard input holds no lines.")
    with (
        tempfile.TemporaryDirectory(prefix="memvec-dedup-") as folder,
        memvec.open(
            Path(folder) / "rows.mv",
            dim=first.vectors.shape[1],
            similarity=similarity,
            seal_at=_SEAL_AT,
            background=False,
        ) as collection,
    ):
        for block in chain([first], blocks):
            numbers = range(block.first_row, block.first_row + len(block))
            rows = unit_rows(block, source, collection)
            with named_rows(block, source):
                collection.add(rows, block.ids or list(numbers), block.metadata)
        collection.seal()
        yield collection


@click.command()
@collection_argument
@similarity_option
@where_option
@click.option("--collapse-copies", is_flag=True, help="Pair equal vectors with the first of them.")
@limit_option(20)
@promise_options()
@threads_option
@json_option
def join(
    collection: str,
    similarity: float | None,
    radius: float | None,
    where: dict[str, Any] | None,
    collapse_copies: bool,
    limit: int,
    as_json: bool,
    **asked: Any,
) -> None:
    """Find all pairs of items above a similarity, each once.

    With --json, one line of JSON a pair, as they are found; a table shows the first ones and counts
    the others.

    \b
    Example:
      memvec join synsets.mv --similarity 0.95
      memvec join synsets.mv --similarity 0.8 --json | wc -l
    """  # noqa: D301 - click wants the character itself, not its name
    with memvec.open(collection, read_only=True) as opened:
        pairs = opened.self_join(
            similarity, radius=radius, where=where, collapse_copies=collapse_copies, **asked
        )
        if as_json:
            for pair in pairs:
                echo_json({**pair._asdict(), "score": round(pair.score, 6)})
            return
        shown = [[str(pair.left), str(pair.right), pair.score] for pair in islice(pairs, limit)]
        n_left = sum(1 for _ in pairs)
        level = checked_level(
            opened.metric, similarity, radius, opened.settings.similarity, "memvec join"
        )
        limits = limit_text(opened.metric, level)
    print_table(f"{len(shown) + n_left:,} pairs {limits}", ["left", "right", "score"], shown)
    if n_left:
        echo(f"… and {n_left:,} more (--limit, --json)")
