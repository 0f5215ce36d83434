"""Ctrl-C at any instruction of a change: what is found and counted is what is on the disk."""

import dis
import inspect
import sys
import threading
from collections import Counter
from functools import cache
from itertools import count, pairwise

import numpy as np
import pytest

import memvec

DIM = 8
MOST_TRIALS = 200
CONFIG = memvec.IndexConfig(codes="none", unit_size=4, assignment="random")
ROWS = np.random.default_rng(3).standard_normal((5, DIM)).astype(np.float32)


@cache
def interruptible(code):
    """Return where Python looks for signals: after calls, at jumps back, and at the beginning.

    Where such a jump leads to does not count: others may come there who have seen no signal. The
    end of a with statement, from which a lock would not be let go, is such a place in Python 3.12.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    after = {
        following.offset
        for step, following in pairwise(steps)
        if step.opname.startswith(("CALL", "RESUME"))
    }
    back = [step for step in steps if "JUMP_BACKWARD" in step.opname]
    return after | {step.offset for step in back if "NO_INTERRUPT" not in step.opname}


class Interrupt:
    """Counts where memvec's own code may be interrupted, and interrupts it once."""

    def __init__(self, at=None):
        self.at, self.taken = at, 0

    def __enter__(self):
        # Python 3.12 traces no instructions if no frame has asked for them before.
        inspect.currentframe().f_trace_opcodes = True
        sys.settrace(self._called)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _called(self, frame, _event, _):
        name = frame.f_code.co_filename
        if "memvec" not in name and "contextlib" not in name:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame, event, _):
        if event == "opcode" and frame.f_lasti in interruptible(frame.f_code):
            self.taken += 1
            if self.taken == self.at:
                raise KeyboardInterrupt
        return self._step


def add(collection, number):
    collection.add(ROWS[:3], ids=[f"{number} {i}" for i in range(3)])


def upsert(collection, number):
    collection.upsert(
        ROWS[:3], ids=[f"upserted {i}" for i in range(3)], metadata=[{"n": number}] * 3
    )


def delete(collection, number):
    collection.delete([f"victim {number}"])


def seen(collection):
    """Return what the collection tells in every way, which must agree."""
    items = {item.id: item.metadata for item in collection.items()}
    assert len(collection) == len(items)
    assert list(collection) == list(items)
    assert all(name in collection for name in items)
    found = collection.range_search(ROWS[:1], 1e-9, guarantee="exact").ids.tolist()
    close = collection.range_search(-ROWS[:1], 1e-9, guarantee="exact").ids.tolist()
    assert len(found) == len(set(found))
    assert set(found) | set(close) == items.keys()
    return items


def check_interrupted(path, collection, act, number, at):
    """Interrupt an act; return whether it had been committed, and None where it was not reached."""
    before = seen(collection)
    try:
        with Interrupt(at):
            act(collection, number)
        return None
    except KeyboardInterrupt:
        after = seen(collection)
        in_another_thread(lambda: collection.add(ROWS[4:], ids=[f"thread {number}"]))
        collection.delete([f"thread {number}"])
    with memvec.open(path, read_only=True) as reader:
        assert seen(reader) == after == seen(collection)
    return after != before


def in_another_thread(act):
    """Act where no lock may be left behind by this thread."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(timeout=20)
    assert not thread.is_alive()


def n_steps(collection, act):
    with Interrupt() as undisturbed:
        act(collection, -1)
    return undisturbed.taken


@pytest.fixture
def filled(path):
    with memvec.open(path, dim=DIM, config=CONFIG, seal_at=0) as collection:
        collection.add(ROWS, ids=[f"first {i}" for i in range(5)])
        collection.seal()
        victims = [f"victim {number}" for number in range(-1, MOST_TRIALS)]
        collection.add(np.resize(ROWS, (len(victims), DIM)), ids=victims)
        yield collection


def interrupt_often(path, collection, act, trials):
    steps = n_steps(collection, act)
    # The end, where the commit and what follows it are, and some of the rest.
    late = np.linspace(0.6 * steps, steps, trials // 2)
    points = {int(at) for at in [*late, *np.linspace(1, steps, trials // 2)]}
    numbers = count()
    return Counter(
        check_interrupted(path, collection, act, next(numbers), at) for at in sorted(points)
    )


@pytest.mark.parametrize("act", [add, upsert, delete])
def test_interrupted_change_is_seen_as_it_is_on_disk(path, filled, act):
    outcomes = interrupt_often(path, filled, act, trials=16)
    assert min(outcomes[False], outcomes[True]) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("act", [add, upsert, delete])
def test_change_interrupted_anywhere_is_seen_as_it_is_on_disk(path, filled, act):
    outcomes = interrupt_often(path, filled, act, trials=MOST_TRIALS)
    assert min(outcomes[False], outcomes[True]) >= 20


# Files that were open at the interrupt are closed by the collector, which says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_sealing_within_an_add_may_be_interrupted(path):
    settings = {"dim": DIM, "config": CONFIG, "seal_at": 3, "background": False}
    with memvec.open(path, **settings) as collection:
        steps = n_steps(collection, add)
        for number, at in enumerate(np.linspace(0.05 * steps, 0.99 * steps, 8).astype(int)):
            check_interrupted(path, collection, add, number, at)
            collection.seal()
        checked = collection.check()
        assert checked.ok, checked.problems
