"""``memvec delete``."""

from __future__ import annotations

from typing import IO, Any

import click

import memvec
from memvec import Collection
from memvec.cli._options import (
    Id,
    collection_argument,
    json_option,
    known_ids,
    option,
    typed_id,
    where_option,
)
from memvec.cli._output import echo, echo_json


@click.command()
@collection_argument
@click.argument("names", nargs=-1, metavar="[ID]...")
@option(
    "--ids",
    click.File("rb"),
    "Delete the ids of a text file, one per line, as `memvec dedup` prints them; - is standard "
    "input.",
    name="id_file",
    metavar="FILE",
)
@where_option
@click.option("--missing-ok", is_flag=True, help="Ignore ids that do not exist.")
@click.option("--dry-run", is_flag=True, help="Only print how many items would be deleted.")
@json_option
def delete(
    collection: str,
    names: tuple[str, ...],
    id_file: IO[bytes] | None,
    where: dict[str, Any] | None,
    missing_ok: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete items by ID or by filter, all or none of them.

    When the command returns, searches no longer find them; `memvec compact` frees their space. An
    ID of digits is an integer if such an item exists, and a text otherwise. In double quotes it is
    always a text, written as in JSON: "7", "two\\nlines", or "" for the empty one.

    \b
    Example:
      memvec delete synsets.mv whale dolphin
      memvec delete synsets.mv --where '{"year": {"$lt": 2000}}' --dry-run
      memvec dedup synsets.mv --dropped | memvec delete synsets.mv --ids -
    """  # noqa: D301 - click wants the character itself, not its name
    if not names and id_file is None and where is None:
        raise click.UsageError("Give an ID, --ids or --where.")
    with memvec.open(collection) as opened:
        ids = _chosen(opened, names, id_file, where, missing_ok=missing_ok)
        if not dry_run:
            opened.delete(ids)
        n_items = len(opened)
    if as_json:
        echo_json({"deleted": 0 if dry_run else len(ids), "chosen": len(ids), "items": n_items})
        return
    done = "Would delete" if dry_run else "Deleted"
    echo(f"{done} {len(ids):,} items; {collection} holds {n_items:,}.")


def _chosen(
    collection: Collection,
    names: tuple[str, ...],
    id_file: IO[bytes] | None,
    where: dict[str, Any] | None,
    *,
    missing_ok: bool,
) -> list[Id]:
    ids = list[Id]()
    for texts, flag in ((names, "ID"), (_lines(id_file), "--ids")):
        if missing_ok:
            typed = [typed_id(collection, text, flag) for text in texts]
            ids += [name for name in typed if name in collection]
        else:
            ids += known_ids(collection, texts, flag)
    if where is not None:
        ids += [item.id for item in collection.items(where)]
    return list(dict.fromkeys(ids))


def _lines(file: IO[bytes] | None) -> list[str]:
    """Return the lines that are not empty; an id that holds the end of a line is in quotes."""
    try:
        lines = [] if file is None else file.read().decode().split("\n")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"it is not UTF-8 text: {error}.", param_hint="'--ids'") from None
    return [line for line in (line.removesuffix("\r") for line in lines) if line]
