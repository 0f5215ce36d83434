"""Run as a program: deaths at steps of a deduplication by blocks, and what going on makes of them.

A child is forked for each death, which comes at once, before a step that reaches the disk. Another
child then does the same work, and the bytes of its files are compared with those of work that was
never interrupted.
"""

import json
import os
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np

import memvec
from memvec.collection import _blocks_plan
from memvec.storage import disk

STEPS = ("make_folder", "remove_file", "replace", "sync", "sync_folder", "write")
KILLED = 77


def make_files(folder):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((90, 6)).astype(np.float32)
    rows[60:80] = rows[:20] + 0.1 * rng.standard_normal((20, 6))
    rows[80:85] = rows[:5]
    np.save(folder / "a.npy", rows[:40])
    np.save(folder / "b.npy", rows[40:])


def work(folder, to):
    _blocks_plan._FEW_ROWS = 32
    files = [folder / "a.npy", folder / "b.npy"]
    memvec.deduplicate_files(files, 0.9, out=to / "pairs", keep_list=to / "kept.parquet")


def in_child(do):
    """Return the exit code of a child that does something."""
    child = os.fork()
    if child == 0:
        try:
            do()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dying(folder, to, at, taken):
    """Work, and die before a step; the steps are counted in a file."""
    count = 0

    def faulty(step):
        def stepped(*arguments):
            nonlocal count
            if count == at:
                os._exit(KILLED)
            count += 1
            return step(*arguments)

        return stepped

    for name in STEPS:
        setattr(disk, name, faulty(getattr(disk, name)))
    work(folder, to)
    taken.write_text(str(count))


def content(to):
    """Return the checksum of every file."""
    files = sorted(path for path in to.rglob("*") if path.is_file())
    return {path.relative_to(to).as_posix(): zlib.crc32(path.read_bytes()) for path in files}


def main(parent, n_deaths):
    folder, whole, taken = parent / "files", parent / "whole", parent / "taken"
    folder.mkdir()
    whole.mkdir()
    make_files(folder)
    work(folder, whole)  # here, so that children find compiled loops loaded
    wanted = content(whole)
    shutil.rmtree(whole)
    whole.mkdir()
    assert in_child(lambda: dying(folder, whole, -1, taken)) == 0
    assert content(whole) == wanted
    n_steps = int(taken.read_text())
    differing = []
    for at in np.unique(np.linspace(0, n_steps - 1, n_deaths).astype(int)).tolist():
        to = parent / str(at)
        to.mkdir()
        assert in_child(lambda at=at, to=to: dying(folder, to, at, taken)) == KILLED
        assert in_child(lambda to=to: work(folder, to)) == 0
        if content(to) != wanted:
            differing.append(at)
        shutil.rmtree(to)
    print(json.dumps({"steps": n_steps, "files": sorted(wanted), "differing": differing}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
