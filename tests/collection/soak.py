"""A writer that is killed at random: forked, let run for a while, and killed by the system.

The writer notes each operation before it begins and after it returned. What it does follows from
the number of the operation: whoever finds the notes can do the same to a dictionary.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import memvec

DIM = 8
LONGEST_LIFE = 0.15


def operation(number):
    """Return what the operation of a number does: a name, ids and a seed of vectors."""
    rng = random.Random(number)
    kind = rng.choices(["put", "delete", "seal", "compact"], [12, 5, 2, 1])[0]
    return kind, sorted(rng.sample(range(60), rng.randint(1, 12))), number


def vectors(seed, n_rows):
    return np.random.default_rng(seed).standard_normal((n_rows, DIM)).astype(np.float32)


def apply(items, number):
    """Do an operation to a dictionary of ids and vectors."""
    kind, ids, seed = operation(number)
    if kind == "put":
        rows = memvec.checks.unit_rows(vectors(seed, len(ids)), "vectors", "here")
        items |= {name: (row.tolist(), seed) for name, row in zip(ids, rows, strict=True)}
    elif kind == "delete":
        for name in ids:
            items.pop(name, None)


def write(folder, notes, first):
    """Go on with operations until killed."""
    with memvec.open(folder) as collection:
        for number in range(first, sys.maxsize):
            note(notes, "begin", number)
            kind, ids, seed = operation(number)
            if kind == "put":
                rows = vectors(seed, len(ids))
                collection.upsert(rows, ids, metadata=[{"seed": seed}] * len(ids))
            elif kind == "delete":
                collection.delete([name for name in ids if name in collection])
            else:
                getattr(collection, kind)()
            note(notes, "done", number)


def note(notes, what, number):
    with notes.open("a") as file:
        file.write(f"{what} {number}\n")


def check(folder, notes):
    """Compare what is found with the notes; return the number of the next operation."""
    lines = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    done = [int(number) for what, number in lines if what == "done"]
    expected = {}
    for number in range(len(done)):
        assert done[number] == number
        apply(expected, number)
    begun = expected.copy()
    if lines and lines[-1][0] == "begin":
        apply(begun, len(done))
    with memvec.open(folder) as collection:
        checked = collection.check()
        assert checked.ok, checked.problems
        found = {
            item.id: (item.vector.tolist(), item.metadata["seed"]) for item in collection.items()
        }
    assert found in (expected, begun), (found, expected)
    if found != expected:  # it was done, and killed before it could say so
        note(notes, "done", len(done))
    elif lines and lines[-1][0] == "begin":
        text = notes.read_text()
        notes.write_text(text[: text.rstrip("\n").rfind("\n") + 1])
    return len(done) + (found != expected)


def soak(parent, kills, seed):
    """Kill a writer so many times; return the number of operations that it did."""
    folder, notes = parent / "soaked.mv", parent / "notes"
    config = memvec.IndexConfig(codes="none", unit_size=4, reserve=2, assignment="random")
    memvec.open(folder, dim=DIM, config=config, seal_at=25).close()
    memvec.Index.build(vectors(0, 30), config=config)  # compiles what children will run
    rng = random.Random(seed)
    for _ in range(kills):
        first = check(folder, notes)
        size = notes.stat().st_size if notes.exists() else 0
        child = os.fork()
        if child == 0:
            write(folder, notes, first)
        while not (notes.exists() and notes.stat().st_size > size):  # it has begun
            time.sleep(0.001)
        time.sleep(rng.random() * LONGEST_LIFE)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return check(folder, notes)


if __name__ == "__main__":
    json.dump(soak(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), sys.stdout)
