"""Progress on stderr, shown to people and never to programs."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]
Listener = Callable[[str, int, int], None]
_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")

# What a terminal obeys instead of showing it: control characters, those that turn the direction of
# writing, line separators, and halves of characters, which cannot be written at all.
_UNPRINTABLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)

_SHOWN: Progress | None = None
# Calls under way with progress=False, in whichever thread: kernels may be compiled in another one.
_SILENT = 0
_COUNTING = threading.Lock()
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def printable(text: str) -> str:
    r"""Return a text with everything escaped that a terminal would obey, but tabs and line ends.

    Examples
    --------
    >>> print(printable("\x1b[2J\u202egpj.exe"), printable("naïve 🐋"))
    \x1b[2J\u202egpj.exe naïve 🐋
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def on_terminal() -> bool:
    """Tell whether stderr is a terminal; services may have closed it, or have none."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def in_notebook() -> bool:
    """Tell whether the program runs in a notebook, whose page shows what goes to stderr."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def is_silent() -> bool:
    """Tell whether a call is under way that was asked to show nothing."""
    return _SILENT > 0


def heeds_progress(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Show nothing at all while a function runs with ``progress=False``."""

    @wraps(function)
    def run(*args: _Args.args, **named: _Args.kwargs) -> _Result:
        if named.get("progress") is not False:
            return function(*args, **named)
        _count(1)
        try:
            return function(*args, **named)
        finally:
            _count(-1)

    return run


def _count(change: int) -> None:
    global _SILENT
    with _COUNTING:
        _SILENT += change


def _is_shown(show: bool | None) -> bool:
    if show is not None or is_silent():
        return bool(show)
    # rich draws in notebooks by ipywidgets, and warns where they are missing.
    return on_terminal() or (in_notebook() and find_spec("ipywidgets") is not None)


@contextmanager
def _bars() -> Iterator[Progress]:
    """Yield the bars on show, else new ones: two at once would write over each other."""
    global _SHOWN
    if _SHOWN is not None:
        yield _SHOWN
        return
    # rich takes some 25 ms to import, so only those who watch pay for it.
    from rich.console import Console
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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        _SHOWN = bars
        try:
            yield bars
        finally:
            _SHOWN = None


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
        True or False to force it; None shows it when stderr is a terminal, and in notebooks that
        have ipywidgets.
    """
    listener = _LISTENER.get()
    if listener is not None:
        yield _told(listener, description, total)
        return
    if not _is_shown(show):
        yield lambda steps: None
        return
    from rich.markup import escape

    with _bars() as bars:
        task = bars.add_task(escape(printable(description)), total=total)
        try:
            yield lambda steps: bars.advance(task, steps)
        finally:
            bars.remove_task(task)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell a function of the bars of this thread while the block runs, instead of showing them.

    Parameters
    ----------
    listener : callable
        Called with the description of a bar, the steps done and their number, as they are done.
        What it raises ends the work.

    Examples
    --------
    >>> with listening(print), progress_bar("joining", 2) as advance:
    ...     advance(1)
    joining 0 2
    joining 1 2
    """
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def _told(listener: Listener, description: str, total: int) -> Advance:
    done = 0
    listener(description, done, total)

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        listener(description, done, total)

    return advance


@contextmanager
def waiting_for(what: str, show: bool | None = None) -> Iterator[None]:
    """Tell what is waited for while the block runs: a person by a line, a program by its log.

    Parameters
    ----------
    what : str
        A sentence.
    show : bool, optional
        True or False to force the line; None shows it where bars are shown. Elsewhere the sentence
        goes to the logger "memvec", at the level INFO.
    """
    if not _is_shown(show):
        logging.getLogger("memvec").info(what)
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield


__all__ = [
    "Advance",
    "Listener",
    "heeds_progress",
    "in_notebook",
    "is_silent",
    "listening",
    "on_terminal",
    "printable",
    "progress_bar",
    "waiting_for",
]
