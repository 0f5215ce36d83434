"""Faults at every step that reaches the disk: SQLite's own system calls, and those of memvec.

SQLite lets tests replace the system calls of its file layer (xSetSystemCall of sqlite3_vfs). Calls
that sync are not among them; a process that dies leaves the same files before and after a sync.
Run as a program, it forks a child for each step of an operation, which dies there at once.
"""

import _sqlite3
import ctypes
import errno
import json
import os
import shutil
import sys
from pathlib import Path
from unittest import mock

import numpy as np

import memvec
from memvec.collection import _sealing, check_collection
from memvec.storage import disk

DIM = 4
CONFIG = memvec.IndexConfig(codes="none", unit_size=4, reserve=2, assignment="random")
VECTORS = np.random.default_rng(11).standard_normal((60, DIM)).astype(np.float32)
DISK_STEPS = [
    "make_folder",
    "remove_file",
    "remove_folder",
    "replace",
    "sync",
    "sync_folder",
    "write",
]
KILLED = 77

_CALL = ctypes.CFUNCTYPE(None)
_SIZE, _INT, _LONG, _POINTER = ctypes.c_size_t, ctypes.c_int, ctypes.c_long, ctypes.c_void_p
_SIGNATURES = {
    "write": (_LONG, _INT, _POINTER, _SIZE),
    "pwrite": (_LONG, _INT, _POINTER, _SIZE, _LONG),
    "pwrite64": (_LONG, _INT, _POINTER, _SIZE, _LONG),
    "ftruncate": (_INT, _INT, _LONG),
    "unlink": (_INT, ctypes.c_char_p),
    "open": (_INT, ctypes.c_char_p, _INT, _INT),
}


class _Vfs(ctypes.Structure):
    """The head of sqlite3_vfs (sqlite3.h); methods that are not used stand as pointers."""

    _fields_ = [
        ("iVersion", _INT),
        ("szOsFile", _INT),
        ("mxPathname", _INT),
        ("pNext", _POINTER),
        ("zName", ctypes.c_char_p),
        ("pAppData", _POINTER),
        *[(f"method{number}", _POINTER) for number in range(12)],
        ("xCurrentTimeInt64", _POINTER),
        ("xSetSystemCall", ctypes.CFUNCTYPE(_INT, _POINTER, ctypes.c_char_p, _POINTER)),
        ("xGetSystemCall", ctypes.CFUNCTYPE(_POINTER, _POINTER, ctypes.c_char_p)),
    ]


def _vfs():
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    return library.sqlite3_vfs_find(None)


def can_reach_sqlite():
    """Tell whether the SQLite of this Python lets its system calls be replaced."""
    try:
        return os.name == "posix" and _vfs().contents.iVersion >= 3
    except (AttributeError, OSError, ValueError):
        return False


class Faults:
    """Counts the steps that reach the disk, and has a fault at one of them, or from there on."""

    def __init__(self, fault, at=None, moment="before", lasting=False):
        self.taken = []
        self._fault, self._at, self._moment, self._lasting = fault, at, moment, lasting
        self._undo = []

    def __enter__(self):
        for name in DISK_STEPS:
            original = getattr(disk, name)
            setattr(disk, name, self._disk_step(name, original))
            self._undo.append(lambda name=name, original=original: setattr(disk, name, original))
        vfs = _vfs()
        for name, signature in _SIGNATURES.items():
            address = vfs.contents.xGetSystemCall(vfs, name.encode())
            if address:
                kind = ctypes.CFUNCTYPE(*signature, use_errno=True)
                replaced = kind(self._system_call(name, kind(address)))
                pointer = ctypes.cast(replaced, _POINTER)
                vfs.contents.xSetSystemCall(vfs, name.encode(), pointer)
                self._undo.append(
                    # `replaced` is kept from being collected as long as SQLite may call it.
                    lambda name=name, replaced=replaced: vfs.contents.xSetSystemCall(
                        vfs, name.encode(), None
                    )
                )
        return self

    def __exit__(self, *_):
        while self._undo:
            self._undo.pop()()

    def _due(self, name):
        number = len(self.taken)
        self.taken.append(name)
        return self._at is not None and (
            number == self._at or (self._lasting and number > self._at)
        )

    def _disk_step(self, name, step):
        def faulty(*arguments):
            if not self._due(name):
                return step(*arguments)
            if self._moment == "half" and name == "write":
                step(arguments[0], arguments[1][: len(arguments[1]) // 2])
                arguments[0].flush()
            if self._moment == "after":
                step(*arguments)
            return self._fault("disk")

        return faulty

    def _system_call(self, name, call):
        def faulty(*arguments):
            creates = name != "open" or (arguments[1] & os.O_CREAT)
            if not creates or not self._due(name):
                return call(*arguments)
            if self._moment == "half" and "write" in name:
                call(arguments[0], arguments[1], arguments[2] // 2, *arguments[3:])
            if self._moment == "after":
                call(*arguments)
            return self._fault("sqlite")

        return faulty


def die(_):
    """Die as by a kill: nothing is flushed, nothing is closed."""
    os._exit(KILLED)


def disk_is_full(layer):
    """Fail as on a full disk."""
    if layer == "disk":
        raise OSError(errno.ENOSPC, "No space left on device")
    ctypes.set_errno(errno.ENOSPC)
    return -1


def make_template(folder, operation="seal"):
    """Make a collection of two segments and waiting vectors, some of each deleted.

    What waits is sealed where segments are to be merged: that is one commit, and nothing else.
    """
    with memvec.open(folder, dim=DIM, config=CONFIG, seal_at=0) as collection:
        collection.add(VECTORS[:12], ids=range(12))
        collection.seal()
        collection.add(VECTORS[12:20], ids=range(12, 20))
        collection.seal()
        collection.add(VECTORS[20:26], metadata=[{"i": i} for i in range(6)])
        if operation == "merge":
            collection.seal()
        collection.delete([3, 15, 21])


def add(collection):
    collection.add(VECTORS[30:33], ids=["x", "y", "z"], metadata=[{"n": 1}, {"n": 2}, None])


def upsert(collection):
    collection.upsert(VECTORS[33:36], ids=[5, 22, "new"], metadata=[{"n": 1}] * 3)


def delete(collection):
    collection.delete([0, 13, 20])


def seal(collection):
    collection.seal()


def merge(collection):
    """Seal where nothing waits: three segments of one size become one."""
    with mock.patch.object(_sealing, "FAN_OUT", 3):
        collection.seal()


def compact(collection):
    collection.compact()


def create(collection):
    """Do nothing: opening creates."""


OPERATIONS = {
    operation.__name__: operation
    for operation in (create, add, upsert, delete, seal, merge, compact)
}


def work(folder, operation):
    """Open, do one thing, close."""
    settings = {"dim": DIM, "config": CONFIG, "seal_at": 0} if operation == "create" else {}
    with memvec.open(folder, **settings) as collection:
        OPERATIONS[operation](collection)


def content(collection):
    """Return everything that a user can see of the items, and how they are stored."""
    items = {str(item.id): (item.vector.tolist(), item.metadata) for item in collection.items()}
    assert list(items) == [str(name) for name in collection]
    stats = collection.stats()
    return [items, list(stats.segment_sizes), stats.n_waiting, stats.n_deleted]


def survey(folder):
    """Open what a fault has left, check that it is whole and clean, and return its content."""
    with memvec.open(folder) as collection:
        found = content(collection)
        checked = collection.check()
        assert checked.ok, checked.problems
        if found[0]:
            query = VECTORS[1]
            best = collection.search(query, k=1, guarantee="exact").ids[0, 0]
            scores = {name: np.dot(vector, query) for name, (vector, _) in found[0].items()}
            assert str(best) == max(scores, key=scores.get)
        n_segments = len(collection.stats().segment_sizes)
    assert len(os.listdir(folder / "segments")) == n_segments
    assert check_collection(folder).ok
    return found


def survey_of_creation(folder):
    """Return None where nothing was created yet; in that case it can be created now."""
    try:
        return survey(folder)
    except memvec.errors.IndexNotFoundError:
        work(folder, "create")
        assert survey(folder)[0] == {}
        return None


def killed_everywhere(parent, operation, moments):
    """Yield what each kill has left: the step, the moment and "old" or "new"."""
    look = survey_of_creation if operation == "create" else survey
    template = parent / "template"
    if operation != "create":
        make_template(template, operation)
    old, new, steps = states(parent, template, operation)
    for moment in moments:
        for number, step in enumerate([*steps, None]):
            if moment == "half" and step is not None and "write" not in step:
                continue
            folder = parent / f"{moment}-{number}"
            if operation != "create":
                shutil.copytree(template, folder)
            child = os.fork()
            if child == 0:
                with Faults(die, number, moment):
                    work(folder, operation)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code in (0, KILLED), code
            found = look(folder) if folder.exists() else None
            assert found in (old, new), (moment, number, found)
            shutil.rmtree(folder, ignore_errors=True)
            assert (code == 0) == (step is None), (moment, number, step)
            assert code == KILLED or found == new
            yield moment, step, "new" if found == new else "old"


def states(parent, template, operation):
    """Return the content before and after an operation that nothing disturbs, and its steps."""
    folder, before = parent / "undisturbed", None
    if operation != "create":
        shutil.copytree(template, folder)
        before = survey(folder)
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
    with Faults(die) as faults:
        work(folder, operation)
    return before, survey(folder), faults.taken


if __name__ == "__main__":
    seen = killed_everywhere(Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","))
    json.dump(list(seen), sys.stdout)
