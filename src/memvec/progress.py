"""Progress on stderr, shown to people and never to programs."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]

# What a terminal obeys instead of showing it: control characters, those that turn the direction of
# writing, line separators, and halves of characters, which cannot be written at all.
_UNPRINTABLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


def printable(text: str) -> str:
    r"""Return a text with everything escaped that a terminal would obey, but tabs and line ends.

    Examples
    --------
    >>> print(printable("\x1b[2J\u202egpj.exe"), printable("naïve 🐋"))
    \x1b[2J\u202egpj.exe naïve 🐋
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


@contextmanager
def progress_bar(description: str, total: int, show: bool | None = None) -> Iterator[Advance]:
    """Show a bar while the block runs; the block calls the yielded function with steps done.

    Parameters
    ----------
    description : str
        What is being done, a few words.
    total : int
        The number of steps.
    show : bool, optional
        True or False to force it; None shows it when stderr is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda steps: None
        return
    # rich takes some 25 ms to import, so only those who watch pay for it.
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(printable(description)), total=total)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def waiting_for(what: str, show: bool | None = None) -> Iterator[None]:
    """Tell what is waited for while the block runs: a person by a line, a program by its log.

    Parameters
    ----------
    what : str
        A sentence.
    show : bool, optional
        True or False to force the line; None shows it when stderr is a terminal. Elsewhere the
        sentence goes to the logger "memvec", at the level INFO.
    """
    if not (sys.stderr.isatty() if show is None else show):
        logging.getLogger("memvec").info(what)
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield


__all__ = ["Advance", "printable", "progress_bar", "waiting_for"]
