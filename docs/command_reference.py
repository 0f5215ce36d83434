"""The reference of the command line as Markdown, made from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from memvec.cli import main

_HELP = "-h, --help"


def reference() -> str:
    """Return one section a command, in the order of ``memvec --help``."""
    found = [(main, "memvec", None), *commands(main, "memvec")]
    return "\n\n".join(_section(*command) for command in found)


def commands(
    group: click.Group, path: str, parent: click.Context | None = None
) -> Iterator[tuple[click.Command, str, click.Context]]:
    """Yield each command below a group, its path and the context of the group."""
    context = _context(group, path, parent)
    for name, command in sorted(group.commands.items()):
        yield command, f"{path} {name}", context
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}", context)


def _context(command: click.Command, path: str, parent: click.Context | None) -> click.Context:
    name = path.rsplit(" ", maxsplit=1)[-1]
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _section(command: click.Command, path: str, parent: click.Context | None) -> str:
    context = _context(command, path, parent)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    summary, *paragraphs = _paragraphs(command.help or "")
    parts = [f"## {path}", summary, f"```text\n{usage}\n```", *paragraphs]
    if isinstance(command, click.Group):
        pairs = [(name, child.get_short_help_str(200)) for name, child in command.commands.items()]
        parts.append(_table("command", sorted(pairs)))
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    options = [record for record in records if record and record[1] and record[0] != _HELP]
    return "\n\n".join([*parts, _table("option", options)] if options else parts)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; blocks that click leaves as they are become code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        prose, _, kept = paragraph.partition("\b\n")
        title, _, lines = kept.partition("\n")
        yield f"{title}\n\n```text\n{inspect.cleandoc(lines)}\n```" if kept else _escaped(prose)


def _table(what: str, pairs: list[tuple[str, str]]) -> str:
    rows = [f"| `{name.replace('|', chr(92) + '|')}` | {_escaped(text)} |" for name, text in pairs]
    return "\n".join([f"| {what} | meaning |", "|---|---|", *rows])


def _escaped(text: str) -> str:
    """Return a text that Markdown and its tables leave as it is."""
    return re.sub(r"([|*<])", r"\\\1", " ".join(text.split()))
