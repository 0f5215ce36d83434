"""``memvec dedup`` and ``memvec join``: a set of vectors compared with itself."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import has_magic
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import click

import memvec
from memvec import Collection
from memvec.checks import counted
from memvec.cli._options import (
    COSINE,
    RADIUS,
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
from memvec.cli._output import (
    INTERRUPTED,
    certificate_record,
    echo,
    echo_json,
    print_table,
    size_text,
    writing,
)
from memvec.collection import Duplicates, FileDuplicates, FileJoin, scratch_collection
from memvec.files import BLOCK_SUFFIXES
from memvec.guarantee import Guarantee
from memvec.index import compares_everything
from memvec.metric import Metric, checked_level, limit_text, radius_of

# Of two vectors that are duplicates.
_SIMILARITY = 0.9
# Rows that go to the temporary folder at a time.
_BATCH = 8192
# Few large segments are joined faster than many small ones; so many vectors are in memory.
_SEAL_AT = 100_000


def checked_files(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse what is no file of vectors; a pattern, or several files, is for work by blocks."""
    for value in values:
        is_pattern = has_magic(value) and not Path(value).exists()
        if value == STDIN or is_pattern or Path(value).is_dir():
            continue
        file_path.convert(value, parameter, context)
        if Path(value).suffix.lower() not in BLOCK_SUFFIXES:
            known = ", ".join(BLOCK_SUFFIXES)
            raise click.BadParameter(f"{value!r} is not a collection, and does not end in {known}.")
    return values


@click.command()
@click.argument("files", nargs=-1, required=True, callback=checked_files, metavar="FILE...")
@option("--similarity", COSINE, "Cosine above which two vectors are duplicates. Without it: 0.9.")
@option(
    "--radius",
    RADIUS,
    "Distance within which two vectors are duplicates, in place of --similarity: for a file of "
    "vectors of norm 1, or a collection whose metric is euclidean.",
)
@option(
    "--keep",
    click.Choice(["first", "last", "longest", "best"]),
    "Keep the first or the last of a group, the one with the longest metadata (without --out), or "
    "the one with the highest score (with --scores).",
    "first",
)
@option(
    "--groups",
    click.Choice(["components", "star"]),
    "Group rows that chains of duplicates connect, or only rows similar to the one kept.",
    "components",
)
@click.option("--dropped", is_flag=True, help="Print the ids to drop instead of those to keep.")
@option(
    "--keep-list", click.Path(dir_okay=False), "Write the list here: text, or with --out Parquet."
)
@option("--out", click.Path(file_okay=False), "Work in blocks, and write all pairs here.")
@option(
    "--memory",
    str,
    "With --out: memory to use, such as 4GB. Without it: half of the machine's.",
    metavar="SIZE",
)
@option("--scores", str, "With --keep best: column or metadata of the scores.", metavar="NAME")
@click.option("--keep-work", is_flag=True, help="With --out: keep the indexes of the blocks.")
@field_options
@promise_options(
    "that of the collection, 0.01 for a file",
    "that of the collection, expected for a file",
    "that of the collection, 0.95 for a file",
)
@threads_option
@json_option
def dedup(files: tuple[str, ...], out: str | None, as_json: bool, **asked: Any) -> None:
    """Find near-duplicates and print the ids to keep.

    FILE is a vector file as `memvec add` takes it, or a collection; - is standard input, as JSON
    Lines. Rows without ids are numbered from 0. Nothing is deleted. Up to 16,000 rows of a file,
    all pairs are compared and nothing is missed. More rows are indexed in the folder for temporary
    files (TMPDIR), which must have room for the vectors as float32.

    Ids are printed one per line. A text that is empty, begins with a quote, holds digits alone or
    control characters such as the end of a line is printed in quotes, as in JSON; `memvec delete
    --ids` reads it so.

    With --out, FILE may be several files, or a pattern in quotes, of any total size. Rows are read
    in blocks that fit into --memory. Each block is indexed once, and each pair of blocks is joined
    once. The folder gets all pairs as Parquet files (id_a, id_b, score); equal vectors are paired
    only with the first of them. The list (--keep-list) is Parquet, too: id, keep, and group, the id
    that is kept of the group. After Ctrl-C or a crash, run the same command again: it resumes, and
    writes the same bytes. Until it is done, the folder needs 1.2 times the size of the vectors as
    float32.

    \b
    Example:
      memvec dedup vectors.npy --similarity 0.95 > kept.txt
      memvec dedup texts.parquet --ids name --metadata text --keep longest --json
      memvec dedup 'part-*.parquet' --column embedding --id id --similarity 0.95 \\
          --out pairs/ --keep-list kept.parquet --memory 4GB
    """  # noqa: D301 - click wants the character itself, not its name
    if (asked["keep"] == "best") != (asked["scores"] is not None):
        raise click.UsageError("--keep best needs --scores NAME, and --scores needs --keep best.")
    if out is None:
        _dedup_one(files, as_json=as_json, **asked)
    else:
        dedup_blocks(files, out, memvec.deduplicate_files, as_json=as_json, **asked)


def _dedup_one(
    files: tuple[str, ...],
    *,
    similarity: float | None,
    radius: float | None,
    keep: Any,
    groups: Literal["components", "star"],
    dropped: bool,
    keep_list: str | None,
    field: str | None,
    ids: str | None,
    metadata: tuple[str, ...],
    as_json: bool,
    memory: str | None,
    scores: str | None,
    keep_work: bool,
    **promise: Any,
) -> None:
    """Deduplicate one file or collection, whose groups fit into memory."""
    if len(files) > 1 or has_magic(files[0]):
        raise click.UsageError("Several files, or a pattern, need --out FOLDER.")
    given = {
        "A list that ends in .parquet": Path(keep_list or "").suffix == ".parquet",
        "--memory": memory is not None,
        "--keep-work": keep_work,
    }
    _refuse(given, "needs --out FOLDER")
    if keep_list is not None and Path(keep_list).exists() and Path(keep_list).samefile(files[0]):
        raise click.BadParameter(f"{keep_list!r} is the file to read.", param_hint="'--keep-list'")
    if scores is not None and scores not in metadata:
        metadata = (*metadata, scores)
    guarantee: Guarantee = promise["guarantee"] or "expected"
    with _opened(files[0], (similarity, radius), guarantee, field, ids, metadata) as opened:
        level = _level(opened.metric, similarity, radius)
        if opened.metric == "cosine":
            promise["similarity"] = level
        else:
            promise["radius"] = radius_of(level)
        found = opened.deduplicate(keep=keep, scores=scores, groups=groups, **promise)
        drop = set(found.drop)
        chosen = found.drop if dropped else [name for name in opened if name not in drop]
    _tell(found.n_items, len(found.groups), len(drop), found)
    _write(found, chosen, "dropped" if dropped else "kept", keep_list, as_json=as_json)


def _level(metric: Metric, similarity: float | None, radius: float | None) -> float:
    """Return the cosine of duplicates."""
    return checked_level(metric, similarity, radius, _SIMILARITY, "memvec dedup")


def _refuse(given: dict[str, bool], why: str) -> None:
    for name, is_given in given.items():
        if is_given:
            raise click.UsageError(f"{name} {why}.")


def _tell(
    n_items: int,
    n_groups: int,
    n_dropped: int,
    found: Duplicates[Id] | FileDuplicates,
) -> None:
    """Print what was found, and what may be left, in one line."""
    n_left = found.expected_missed
    left = f"Pairs that may be left: about {n_left:,}. " if n_left else ""
    promise = str(found.certificate).splitlines()[0]  # JSON has all of it
    echo(
        f"{n_items:,} vectors, {counted(n_groups, 'group')} {found.certificate.range_text}: "
        f"{n_items - n_dropped:,} to keep, {n_dropped:,} to drop. {left}{promise}",
        err=True,
    )


def dedup_blocks(
    files: tuple[str, ...],
    out: str,
    run: Callable[..., FileDuplicates],
    *,
    radius: float | None,
    dropped: bool,
    metadata: tuple[str, ...],
    as_json: bool,
    keep: Any,
    **asked: Any,
) -> None:
    """Deduplicate files of any size, block by block."""
    given = {
        "A collection": any(Path(file).is_dir() for file in files),
        "Standard input": STDIN in files,
        "--radius": radius is not None,
        "--dropped": dropped,
        "--metadata": bool(metadata),
        "--keep longest": keep == "longest",
    }
    _refuse(given, "does not go with --out")
    with _resumable(out):
        found = run(files, out=out, keep=keep, **_given(asked))
    _tell(found.n_items, found.n_groups, found.n_dropped, found)
    pairs, copies = counted(found.n_pairs, "pair"), counted(found.n_copies, "copy", "copies")
    echo(
        f"{pairs} and {copies} in {out}, found in {counted(found.n_blocks, 'block')} with a limit "
        f"of {size_text(found.memory)} of memory.",
        err=True,
    )
    if as_json:
        _echo_record(found, n_kept=found.n_kept)


def join_blocks(
    files: tuple[str, str],
    out: str,
    run: Callable[..., FileJoin],
    *,
    metadata: tuple[str, ...],
    as_json: bool,
    **asked: Any,
) -> None:
    """Join two sets of files of any size, block by block."""
    given = {
        "A collection": any(Path(file).is_dir() for file in files),
        "Standard input": STDIN in files,
        "--metadata": bool(metadata),
    }
    _refuse(given, "does not go with a join of files")
    with _resumable(out):
        found = run(*files, out=out, **_given(asked))
    n_left = found.expected_missed
    left = f" Pairs that may be left: about {n_left:,}." if n_left else ""
    promise = str(found.certificate).splitlines()[0]
    echo(
        f"{counted(found.n_pairs, 'pair')} of {found.n_a:,} and {found.n_b:,} vectors "
        f"{found.certificate.range_text} in {out}, found in {counted(found.n_blocks, 'block')} "
        f"with a limit of {size_text(found.memory)} of memory.{left} {promise}",
        err=True,
    )
    if as_json:
        _echo_record(found)


def _given(asked: dict[str, Any]) -> dict[str, Any]:
    """Return options without those of the promise that were left out."""
    promise = ("similarity", "miss_rate", "guarantee", "confidence")
    return {name: one for name, one in asked.items() if one is not None or name not in promise}


@contextmanager
def _resumable(out: str) -> Iterator[None]:
    """Say how work that is interrupted goes on."""
    try:
        yield
    except KeyboardInterrupt:
        echo(f"Interrupted. {out} keeps what is done: run the same command to resume.", err=True)
        sys.exit(INTERRUPTED)


def _echo_record(found: FileDuplicates | FileJoin, **more: int) -> None:
    record = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)} | {
        **more,
        "expected_missed": found.expected_missed,
        "certificate": certificate_record(found.certificate),
    }
    echo_json({name.removeprefix("n_"): value for name, value in record.items()})


def _write(
    found: Duplicates[Id], chosen: list[Id], name: str, keep_list: str | None, *, as_json: bool
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
    if keep_list is None:
        echo("" if as_json else lines, nl=False)
        return
    with writing(keep_list):
        Path(keep_list).write_text(lines, encoding="utf-8", newline="\n")


@contextmanager
def _opened(
    source: str,
    level: tuple[float | None, float | None],
    guarantee: Guarantee,
    field: str | None,
    ids: str | None,
    metadata: tuple[str, ...],
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
    dim = first.vectors.shape[1]
    metric: Metric = "cosine" if level[1] is None else "euclidean"
    similarity = _level(metric, *level)
    with scratch_collection(
        dim=dim, similarity=similarity, metric=metric, seal_at=_SEAL_AT
    ) as collection:
        for block in chain([first], blocks):
            numbers = range(block.first_row, block.first_row + len(block))
            rows = unit_rows(block, source, collection)
            with named_rows(block, source):
                collection.add(rows, block.ids or list(numbers), block.metadata)
        # What waits is compared as a whole, and nothing is missed.
        if not compares_everything(guarantee, len(collection) / 2):
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

    With --json, pairs are printed as they are found, one line of JSON per pair. The table shows the
    first ones and counts the others.

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
    print_table(
        f"{counted(len(shown) + n_left, 'pair')} {limits}", ["left", "right", "score"], shown
    )
    if n_left:
        echo(f"… and {n_left:,} more (--limit, --json)")
