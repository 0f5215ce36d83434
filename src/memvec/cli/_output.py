"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memvec.guarantee import Certificate
from memvec.progress import printable

# Piped output has no width of its own, and a table cut at 80 columns would lose digits.
_PIPED_WIDTH = 140
# As shells have it for a process that SIGINT ended.
INTERRUPTED = 130


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, numbers to the right; without a head where the header is empty."""
    cells = [list(row) for row in rows]
    table = Table(show_header=bool(header))
    for column, name in enumerate(header or [""] * len(cells[0])):
        is_number = bool(cells) and all(_is_number(row[column]) for row in cells)
        table.add_column(Text(_line(name)), justify="right" if is_number else "left")
    for row in cells:
        # As Text: square brackets in an id are no markup.
        table.add_row(*(Text(_line(_cell(value))) for value in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    # As the table's own title, it would be wrapped.
    console.print(Text(_line(title), style="italic"))
    console.print(table)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text; what a terminal would obey instead of showing it is escaped.

    Ids, metadata and names of files may hold anything, so commands print by this alone.
    """
    click.echo(printable(text), err=err, nl=nl)


def echo_json(value: object) -> None:
    """Print a value as one line of JSON, in UTF-8 whatever the terminal's encoding."""
    click.echo(json_text(value).encode())


def json_text(value: object) -> str:
    r"""Return a value as one line of JSON, which a terminal shows as it is.

    Examples
    --------
    >>> json_text({"naïve": "\x1b[2J", "\x9b2J": 1})
    '{"naïve": "\\u001b[2J", "\\u009b2J": 1}'
    """
    text = json.dumps(value, ensure_ascii=False)
    if printable(text) == text:
        return text
    # What is left to escape stands within strings, where JSON has escapes of its own.
    return "".join(one if printable(one) == one else f"\\u{ord(one):04x}" for one in text)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Let errors of a file that is written name it and what the system says."""
    try:
        yield
    except OSError as error:
        raise click.FileError(path, hint=str(error.strerror)) from None


def _line(text: str) -> str:
    """Return a text that stays within its line and its column."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON has it."""
    record: dict[str, Any] = json.loads(certificate.to_json())
    return record


def size_text(n_bytes: float) -> str:
    """Return a size as people read it.

    Examples
    --------
    >>> size_text(999), size_text(15_400_000), size_text(2_000_000_000)
    ('999 B', '15.4 MB', '2 GB')
    """
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3g} GB"


def share_text(share: float | None) -> str:
    """Return a share in percent, or nothing.

    Examples
    --------
    >>> share_text(0.00983), share_text(1.0), share_text(None)
    ('0.98 %', '100 %', '')
    """
    if share is None:
        return ""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
