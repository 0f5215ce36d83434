"""Trials on damaged folders, in forked children: a crash is an outcome and ends no run of tests.

A subject is a module with a function ``trials(workshop, seed, count)`` that prepares what is to be
damaged in the folder `workshop` and yields `Trial`s. `run` starts one process for it, which imports
and compiles everything once and forks a child for each batch of trials. What a child has finished
it notes in a file; the trial that follows the last note of a dead child is the one that killed it.

    outcomes = fuzz.run("fuzz.saved_index", tmp_path, seed=0, count=300)
    assert [one for one in outcomes if not one.accepted] == []
    print(fuzz.table(outcomes))
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# What can come of a trial. The first three may be accepted, the others never are.
RIGHT, CHANGED, REFUSED = "right", "changed", "refused"
UNTYPED, CRASHED, HUNG, TOUCHED = "untyped", "crashed", "hung", "touched"
RESULTS = (RIGHT, CHANGED, REFUSED, UNTYPED, CRASHED, HUNG, TOUCHED)
RIGHT_OR_REFUSED = frozenset({RIGHT, REFUSED})
ANY_ANSWER = frozenset({RIGHT, CHANGED, REFUSED})


@dataclass(frozen=True)
class Trial:
    """Something strange on the disk, and what is asked of it.

    `make(folder, outside)` makes a folder and damages it. `outside` is a folder of files of
    somebody else: links may lead there, and nothing in it may change from then on. `ask(folder)`
    returns whether its answer is `RIGHT` or `CHANGED`; a MemvecError of it means `REFUSED`.
    """

    kind: str
    name: str
    make: Callable[[Path, Path], None]
    ask: Callable[[Path], str]
    accepts: frozenset[str] = RIGHT_OR_REFUSED
    seconds: int = 60


@dataclass(frozen=True)
class Outcome:
    """What came of a trial; `detail` is the error, the signal or what was touched."""

    kind: str
    name: str
    result: str
    detail: str
    accepted: bool


def run(subject: str, workshop: Path, *, seed: int, count: int, timeout: float = 3000):
    """Run `count` trials of a subject, a module by name, and return their outcomes."""
    here = str(Path(__file__).parent.parent)
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", "-m", "fuzz", subject, workshop, seed, count]
    environment = {**os.environ, "PYTHONPATH": path, "MEMVEC_THREADS": "1"}
    subprocess.run([*map(str, command)], check=True, timeout=timeout, env=environment)
    return [Outcome(**fields) for fields in read_notes(workshop)]


def notes_of(workshop: Path) -> Path:
    """Return the file with a line for each finished trial."""
    return workshop / "outcomes.jsonl"


def read_notes(workshop: Path) -> list[dict[str, object]]:
    """Return what the finished trials noted."""
    notes = notes_of(workshop)
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def note(workshop: Path, trial: Trial, result: str, detail: str) -> None:
    """Append the outcome of a trial; it is on its way to the disk when this returns."""
    outcome = Outcome(trial.kind, trial.name, result, detail[:500], result in trial.accepts)
    with notes_of(workshop).open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def table(outcomes: list[Outcome]) -> str:
    """Return the numbers of outcomes, one line a kind of trial, as Markdown."""
    seen = Counter((one.kind, one.result) for one in outcomes)
    results = [name for name in RESULTS if any((kind, name) in seen for kind, _ in seen)]
    kinds = list(dict.fromkeys(one.kind for one in outcomes))
    lines = [
        f"| what was done | trials | {' | '.join(results)} |",
        f"|---|{'---:|' * (1 + len(results))}",
    ]
    for kind in [*kinds, "all"]:
        counts = [
            sum(n for (k, r), n in seen.items() if r == name and kind in (k, "all"))
            for name in results
        ]
        lines.append(f"| {kind} | {sum(counts):,} | {' | '.join(f'{n:,}' for n in counts)} |")
    return "\n".join(lines)
