"""``memvec check``, ``repair`` and ``compact``: looking after what is on the disk."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

import memvec
from memvec import cluster
from memvec.cli._options import collection_argument, json_option
from memvec.cli._output import echo, echo_json
from memvec.collection import check_collection, repair_collection
from memvec.errors import IndexNotFoundError
from memvec.storage import CheckReport, Kind, check_saved, kind_of

# What a command returns that ran, and found that something is not as it should be.
FOUND_WRONG = 3


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False), metavar="COLLECTION|INDEX")
@json_option
def check(folder: str, as_json: bool) -> None:
    """Compare the checksums of all files of a collection or an index.

    Nothing is changed. Readers and a writer may use the folder at the same time. Exit code 3 means
    that something is damaged.

    \b
    Example:
      memvec check synsets.mv
    """  # noqa: D301 - click wants the character itself, not its name
    found = _checked(folder)
    if as_json:
        echo_json({"ok": found.ok, **asdict(found)})
    else:
        echo(str(found))
    if not found.ok:
        sys.exit(FOUND_WRONG)


def _checked(folder: str) -> CheckReport:
    kind = kind_of(Path(folder))
    if kind is Kind.LIBRARY:
        raise click.UsageError(
            f"{folder} is a library of photographs: check its folders 'collection' and "
            "'descriptor' one after the other."
        )
    if kind is Kind.SHARDS:
        with cluster.open(folder, local=True, read_only=True, partial=True) as shards:
            return shards.check()
    for check_one in (check_saved, check_collection):
        with suppress(IndexNotFoundError):
            return check_one(folder)
    raise IndexNotFoundError(f"There is neither a collection nor a saved index at {folder}.")


@click.command()
@collection_argument
@json_option
def repair(collection: str, as_json: bool) -> None:
    """Repair a damaged collection and print what was done.

    Segments whose vectors are intact are rebuilt. Other damaged segments are dropped together with
    their items, and their files are moved to the folder `lost` in the collection. Copy the folder
    first if it matters. Exit code 3 means that items were lost.

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
@click.option("--seal", is_flag=True, help="Only make a segment of the waiting vectors.")
@json_option
def compact(collection: str, seal: bool, as_json: bool) -> None:
    """Merge everything into one segment, without deleted items.

    Vectors are assigned to new units, and searches are calibrated again. Readers are not
    interrupted.

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


__all__ = ["FOUND_WRONG", "check", "compact", "repair"]
