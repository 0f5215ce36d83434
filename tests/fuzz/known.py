"""A subject whose outcomes are known: what the trials would say if memvec did such things."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import fuzz
from memvec.errors import CorruptIndexError


def trials(workshop: Path, seed: int, count: int) -> Iterator[fuzz.Trial]:
    """Yield `count` times one trial of each outcome, named by it."""
    for _ in range(count):
        for result in (*_ASK, fuzz.TOUCHED):
            ask = _ASK.get(result, _touch)
            yield fuzz.Trial("known", result, _make, ask, seconds=1)


def _make(folder: Path, outside: Path) -> None:
    folder.symlink_to(outside)


def _crash(folder: Path) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return "not reached"


def _hang(folder: Path) -> str:
    time.sleep(100)
    return "not reached"


def _refuse(folder: Path) -> str:
    raise CorruptIndexError("damaged")


def _fail(folder: Path) -> str:
    raise IndexError("a plain one")


def _touch(folder: Path) -> str:
    (folder / "notes.txt").write_text("mine now")
    return fuzz.RIGHT


_ASK = {
    fuzz.RIGHT: lambda folder: fuzz.RIGHT,
    fuzz.CRASHED: _crash,
    fuzz.REFUSED: _refuse,
    fuzz.UNTYPED: _fail,
    fuzz.HUNG: _hang,
}
