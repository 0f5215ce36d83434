"""The process that runs the trials of a subject: ``python -m fuzz SUBJECT FOLDER SEED COUNT``."""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import fuzz
from fuzz.damage import entries
from memvec.errors import MemvecError
from memvec.storage import disk

# Trials that one child makes: damage that one of them did to its memory does not reach far.
_BATCH = 25
# A forged size must end in an error, not in the machine's memory.
_MOST_MEMORY = 8 << 30


def main(subject: str, workshop: Path, seed: int, count: int) -> None:
    """Make all trials, in children. Nothing is synced: no trial cuts the power."""
    disk.sync, disk.sync_folder = lambda file: file.flush(), lambda path: None
    trials = list(importlib.import_module(subject).trials(workshop, seed, count))
    while (done := len(fuzz.read_notes(workshop))) < len(trials):
        batch = trials[done : done + _BATCH]
        child = os.fork()
        if child == 0:
            _make(batch, workshop)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        made = len(fuzz.read_notes(workshop)) - done
        if made < len(batch):
            hung = code == -signal.SIGALRM
            detail = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            fuzz.note(workshop, batch[made], fuzz.HUNG if hung else fuzz.CRASHED, detail)


def _make(batch: list[fuzz.Trial], workshop: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    place = workshop / "trial"
    for trial in batch:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        outside = _outside(place / "outside")
        trial.make(place / "folder", outside)
        before = entries(outside)
        signal.alarm(trial.seconds)
        result, detail = _result(trial, place / "folder")
        signal.alarm(0)
        if entries(outside) != before:
            changed = {name for name, _ in {*entries(outside)} ^ {*before}}
            result, detail = fuzz.TOUCHED, f"{sorted(changed)} {detail}"
        fuzz.note(workshop, trial, result, detail)


def _result(trial: fuzz.Trial, folder: Path) -> tuple[str, str]:
    try:
        return trial.ask(folder), ""
    except MemvecError as error:
        return fuzz.REFUSED, f"{type(error).__name__}: {error}"
    except BaseException as error:
        return fuzz.UNTYPED, f"{type(error).__name__}: {error}"


def _outside(folder: Path) -> Path:
    """Make somebody else's folder, with names that memvec gives as well."""
    for name in ("notes.txt", "manifest.json", "keys.npy", "000001/keys.npy", "g000001/keys.npy"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"precious {name}")
    return folder


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
