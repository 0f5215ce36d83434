"""The files of a segment: each is written once, never read back, and mapped once."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

import memvec

DIM = 8
_recording: list[tuple[str, bool]] | None = None


def _note(event, arguments):
    """Note what is opened, and whether to write; a hook of this kind cannot be taken away again."""
    if _recording is not None and event == "open" and isinstance(arguments[0], str | Path):
        path, mode, flags = arguments
        if mode is not None:  # a bare os.open is the inner half of another one, or of a folder
            _recording.append((str(path), bool(flags & (os.O_WRONLY | os.O_RDWR))))


sys.addaudithook(_note)


@pytest.fixture
def opened(monkeypatch):
    """Return a list of the files opened in this test: their paths, and whether to write."""
    events = []
    monkeypatch.setattr(f"{__name__}._recording", events)
    return events


def counts(events, path, *, written):
    """Return how often each file of the segments was opened."""
    where = f"{path / 'segments'}{os.sep}"
    names = [name.removesuffix(".tmp") for name, to_write in events if to_write == written]
    return Counter(name for name in names if name.startswith(where) and ".rows" not in name)


def files_of(path):
    return [str(file) for file in (path / "segments").rglob("*.*")]


def test_sealing_opens_each_file_once_to_write_and_once_to_map(path, collection, vectors, opened):
    collection.add(vectors)
    opened.clear()
    collection.seal()
    once = dict.fromkeys(files_of(path), 1)
    assert len(once) > 20
    assert counts(opened, path, written=True) == once
    assert counts(opened, path, written=False) == once
    assert collection.check().ok


def test_writing_a_segment_opens_nothing_to_read(path, collection, vectors, opened, monkeypatch):
    def stop(*_):
        raise RuntimeError("written")

    collection.add(vectors)
    monkeypatch.setattr("memvec.collection._sealing.Segment.open", stop)
    opened.clear()
    with pytest.raises(RuntimeError, match="written"):
        collection.seal()
    assert len(counts(opened, path, written=True)) > 20
    assert not counts(opened, path, written=False)


def test_opening_a_segment_opens_and_maps_each_file_once(path, collection, vectors, opened):
    collection.add(vectors)
    collection.seal()
    collection.close()
    opened.clear()
    with memvec.open(path, read_only=True):
        assert counts(opened, path, written=False) == dict.fromkeys(files_of(path), 1)
        if os.path.exists("/proc/self/maps"):
            lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
            mapped = Counter(line.split()[-1] for line in lines if f"{path}/segments/" in line)
            arrays = [file for file in files_of(path) if file.endswith(".npy")]
            assert mapped == dict.fromkeys(arrays, 1)
