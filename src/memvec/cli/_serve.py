"""``memvec serve`` and ``memvec keys``: collections over HTTP, and who may use them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from memvec.cli._groups import FlagGroup
from memvec.cli._options import FOLDER, PORT, json_option, option
from memvec.cli._output import echo, echo_json, print_table

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("folder", type=FOLDER, metavar="FOLDER")
@option(
    "--host",
    str,
    "Address to listen on; one that other machines can reach needs --key-file.",
    "127.0.0.1",
)
@option("--port", PORT, "Port to listen on; 0 takes a free one.", 8765)
@option("--key-file", _FILE, "File of `memvec keys create`; with it, every request needs a key.")
@click.option("--read-only", is_flag=True, help="Refuse all changes.")
@option(
    "--allow-host",
    str,
    "Host name of the server behind a proxy; repeatable.",
    name="hosts",
    multiple=True,
)
@option(
    "--cors-origin",
    str,
    "Origin of a web page elsewhere that may use the server; repeatable.",
    name="origins",
    multiple=True,
)
@option(
    "--encoder",
    str,
    "Turns typed texts or dropped photographs into vectors: images, the configuration of "
    "an ONNX model, or module:function.",
)
@option(
    "--photos",
    click.Path(exists=True, file_okay=False, path_type=Path),
    "Folder of photographs. Items name them by the metadata field path, or by their id.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    help="Another value for a limit of docs/server.md, such as seconds=120; repeatable.",
)
@option(
    "--qdrant",
    PORT,
    "Also answer clients of Qdrant on this port; 0 takes a free one.",
    name="qdrant_port",
)
def serve(folder: str, qdrant_port: int | None, limits: tuple[str, ...], **options: Any) -> None:
    """Serve all collections of a folder over HTTP.

    The page is at http://127.0.0.1:8765, the API under /v1, and its description at /docs. Each
    request is logged to stderr as a line of JSON.

    \b
    Example:
      memvec serve collections/
      memvec serve collections/ --qdrant 6333
      memvec serve collections/ --host 0.0.0.0 --key-file keys.json --allow-host example.org
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.server import Limits, ServerSettings
    from memvec.server import serve as run

    settings = ServerSettings(Path(folder), limits=Limits.named(limits), **options)
    run(settings, qdrant_port=qdrant_port)


@click.group(cls=FlagGroup)
def keys() -> None:
    """Create, list and revoke the keys of a server."""


key_file_option = option("--key-file", _FILE, "File of the keys, as scrypt hashes.", "keys.json")


@keys.command()
@key_file_option
@option(
    "--scope", click.Choice(["read", "write"]), "What the key allows; write includes read.", "read"
)
@option("--note", str, "Owner or purpose of the key.", "")
@json_option
def create(key_file: Path, scope: Any, note: str, as_json: bool) -> None:
    """Create a key. It is printed once and cannot be printed again.

    \b
    Example:
      memvec keys create --scope write --note "the importer"
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.server import KeyFile

    key = KeyFile(key_file).create(scope, note)
    if as_json:
        echo_json({"key": key, "scope": scope, "note": note})
        return
    echo(key)
    echo(f"Scope: {scope}. Copy it now: it is not stored.", err=True)


@keys.command("list")
@key_file_option
@json_option
def list_keys(key_file: Path, as_json: bool) -> None:
    """List the keys, without their secrets.

    \b
    Example:
      memvec keys list --key-file keys.json
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.server import KeyFile

    hidden = ("salt", "hash")
    found = [asdict(key) for key in KeyFile(key_file).listed()]
    records = [{name: one[name] for name in one if name not in hidden} for one in found]
    if as_json:
        echo_json(records)
        return
    rows = [
        [one["id"], one["scope"], one["created"], one["revoked"] or "", one["note"]]
        for one in records
    ]
    print_table(f"{len(rows)} keys", ["id", "scope", "created", "revoked", "note"], rows)


@keys.command()
@click.argument("name", metavar="ID")
@key_file_option
def revoke(name: str, key_file: Path) -> None:
    """Revoke a key; running servers refuse it at once.

    \b
    Example:
      memvec keys revoke 4f2a91c07be3 --key-file keys.json
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.server import KeyFile

    gone = KeyFile(key_file).revoke(name)
    echo(f"The key {gone.id} was revoked at {gone.revoked}.")
