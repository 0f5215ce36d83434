"""``memvec mcp``: collections as tools of assistants."""

from __future__ import annotations

from pathlib import Path

import click

from memvec.cli._options import FOLDER, option


@click.command()
@click.argument("folder", type=FOLDER, metavar="FOLDER")
@option(
    "--encoder", str, "module:function that returns a vector for a text; allows queries by text."
)
def mcp(folder: str, encoder: str | None) -> None:
    """Offer collections to assistants as tools (MCP).

    The server speaks on stdin and stdout; an assistant starts it. Its tools are collections,
    search, range, explain and duplicates. Collections are opened read-only.

    \b
    Example:
      memvec mcp synsets.mv
      memvec mcp collections/ --encoder my_model:embed
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.integrations.mcp import serve

    serve(Path(folder), encoder)
