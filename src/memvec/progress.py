"""Progress bars on stderr, shown to people and never to programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


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
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


__all__ = ["Advance", "progress_bar"]
