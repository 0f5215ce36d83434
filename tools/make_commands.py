"""Write docs/commands.md, the reference of the command line, from the commands themselves.

Run it with ``python tools/make_commands.py`` after a change to a command; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from memvec.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
_WIDTH = 100

_HEAD = """# Commands

What `memvec COMMAND --help` prints, for all commands. This page is made by
`tools/make_commands.py`; edit the commands instead. [Collections](collection.md) tells what stands
behind them.

Answers go to stdout: tables for people, and with `--json` JSON for programs. Progress and remarks
go to stderr, bars only where it is a terminal.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | an error: a damaged or missing file, a collection that someone else writes |
| 2 | a flag or an argument cannot be used; the message names it |
| 3 | `check` found damage; `measure` found more missed than promised; `repair` lost items |
| 130 | interrupted; what was acknowledged before is kept |
"""


def reference() -> str:
    """Return the page."""
    parts = [_HEAD]
    for path, text in _helps(main, "memvec", None):
        parts.append(f"## {path}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _helps(
    command: click.Command, path: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    name = path.rsplit(" ", maxsplit=1)[-1]
    settings = {**command.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    lines = command.get_help(context).splitlines()
    yield path, "\n".join(line.rstrip() for line in lines)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from _helps(found, f"{path} {child}", context)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
