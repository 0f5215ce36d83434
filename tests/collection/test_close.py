"""After close: nothing is mapped, every method says that the collection was closed."""

import logging
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import memvec
from memvec import Collection
from memvec.collection import _sealer
from memvec.errors import InvalidValueError, MemvecError

DIM = 8
CONFIG = memvec.IndexConfig(codes="none", unit_size=4, assignment="random")

CALLS = {
    "add": lambda c, v: c.add(v),
    "upsert": lambda c, v: c.upsert(v, ids=range(len(v))),
    "delete": lambda c, v: c.delete([0]),
    "seal": lambda c, v: c.seal(),
    "compact": lambda c, v: c.compact(),
    "recalibrate": lambda c, v: c.recalibrate(v),
    "refresh": lambda c, v: c.refresh(),
    "get": lambda c, v: c.get([0]),
    "items": lambda c, v: list(c.items()),
    "stats": lambda c, v: c.stats(),
    "check": lambda c, v: c.check(),
    "range_search": lambda c, v: c.range_search(v),
    "iter_range": lambda c, v: list(c.iter_range(v)),
    "count": lambda c, v: c.count(v),
    "contains": lambda c, v: c.contains(v),
    "search": lambda c, v: c.search(v, k=1),
    "search_set": lambda c, v: c.search_set(v, k=1),
    "explain": lambda c, v: c.explain(v[0], 0),
    "measure": lambda c, v: c.measure(v),
    "self_join": lambda c, v: list(c.self_join(0.9)),
    "deduplicate": lambda c, v: c.deduplicate(0.9),
    "__len__": lambda c, v: len(c),
    "__iter__": lambda c, v: list(c),
    "__contains__": lambda c, v: 0 in c,
}
HARMLESS = {"health", "shadow", "close", "settings", "dim", "dtype", "metric", "read_only"}


def make(path, vectors, **options):
    collection = memvec.open(path, dim=DIM, config=CONFIG, seal_at=0, **options)
    collection.add(vectors[:40])
    collection.seal()
    collection.add(vectors[40:50])
    return collection


def test_calls_are_all_that_there_are():
    public = {name for name in dir(Collection) if not name.startswith("_")}
    assert public - HARMLESS == {name for name in CALLS if not name.startswith("_")}


@pytest.mark.parametrize("read_only", [False, True])
def test_closed_collection_refuses_everything(path, vectors, read_only):
    make(path, vectors).close()
    collection = memvec.open(path, read_only=read_only)
    collection.close()
    for name, call in CALLS.items():
        with pytest.raises(
            MemvecError, match=r"The collection in .*things.mv was closed"
        ) as caught:
            call(collection, vectors[:2])
        assert isinstance(caught.value, InvalidValueError), name
    assert collection.dim == collection.settings.dim == DIM
    assert repr(collection).endswith("50 items of dimension 8, 1 segment, 10 waiting; closed)")


def mapped(path):
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum(str(path) in line for line in file)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the system lists no mappings")
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("online", ["scan", "units"])
def test_closing_unmaps_everything(path, vectors, read_only, online):
    make(path, vectors).close()
    collection = memvec.open(path, read_only=read_only, online=online)
    where = {"year": {"$gte": 3}}
    found = collection.range_search(vectors[:5], 0.1)
    collection.range_search(vectors[:5], 0.1, where=where)
    best = collection.search(vectors[:5], k=3)
    items = list(collection.items())
    collection.deduplicate(0.9)
    if not read_only:
        collection.compact()
        collection.search(vectors[:5], k=3)
    assert mapped(path) > 5
    kept = [found.scores.copy(), best.scores.copy(), items[0].vector.copy()]
    collection.close()
    assert mapped(path) == 0
    for before, after in zip(kept, [found.scores, best.scores, items[0].vector], strict=True):
        assert np.array_equal(before, after)
    assert str(found.certificate)


def test_iterators_that_were_begun_end_with_an_error(path, vectors):
    collection = make(path, np.tile(vectors, (6, 1)))
    collection.add(np.tile(vectors, (6, 1)))
    items = collection.items()
    next(items)
    collection.close()
    with pytest.raises(InvalidValueError, match="was closed"):
        list(items)


def slow_sealing(path, vectors, monkeypatch):
    """Return a collection whose sealing takes longer than anyone is told to wait."""
    monkeypatch.setattr(_sealer, "_PATIENCE_SECONDS", 0.01)
    collection = memvec.open(path, dim=DIM, config=CONFIG, seal_at=20)
    seal = collection._writing.seal

    def slow(**options):
        time.sleep(0.3)
        return seal(**options)

    monkeypatch.setattr(collection._writing, "seal", slow)
    collection.add(vectors[:25])
    return collection


def test_closing_tells_a_program_what_it_waits_for(path, vectors, monkeypatch, caplog, capsys):
    collection = slow_sealing(path, vectors, monkeypatch)
    with caplog.at_level(logging.INFO, logger="memvec"):
        collection.close()
    text = "Sealing things.mv before the collection is closed (25 vectors wait)."
    assert caplog.messages == [text]
    assert capsys.readouterr() == ("", "")


def test_closing_tells_a_person_what_it_waits_for(path, vectors, monkeypatch, caplog, capsys):
    collection = slow_sealing(path, vectors, monkeypatch)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    collection.close()
    assert "Sealing things.mv before the collection is closed" in capsys.readouterr().err
    assert caplog.messages == []


def test_waiting_says_nothing_in_scripts(tmp_path):
    program = """
import time, memvec
from memvec.progress import waiting_for
with waiting_for("Something."):
    time.sleep(0.01)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
