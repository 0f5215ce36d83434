"""A collection takes few descriptors, and lets go of what was compacted away."""

import os
import subprocess
import sys

import numpy as np
import pytest

import memvec
from memvec.storage import disk, map_file

DIM = 8
CONFIG = memvec.IndexConfig(codes="none", unit_size=4, assignment="random")

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="the system does not list descriptors"
)


def n_descriptors():
    return len(os.listdir("/proc/self/fd"))


def mapped(path):
    with disk.open_file(path) as file:
        return map_file(file)


def mapped_segments(path):
    """Return the segments of a collection whose files are mapped."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        lines = [line.split(f"{path}/segments/") for line in file]
    return {line[1][:6] for line in lines if len(line) == 2}


def test_segments_take_no_descriptors(collection, vectors):
    before = n_descriptors()
    for start in range(0, 90, 10):
        collection.add(vectors[start : start + 10])
        collection.seal()
        collection.range_search(vectors[0])
    assert len(collection.stats().segment_sizes) == 9
    assert n_descriptors() == before


def test_what_was_compacted_away_is_let_go(path, collection, vectors):
    for start in range(0, 90, 30):
        collection.add(vectors[start : start + 30])
        collection.seal()
        collection.range_search(vectors[0])
        collection.search(vectors[0], k=3)
        collection.range_search(vectors[0], where={"year": 3})
    collection.add(vectors[90:])  # which wait, and are asked of the segments
    collection.range_search(vectors[0])
    assert collection._searches.live.promises._asked._kept.keys() == {1, 2, 3}
    assert mapped_segments(path) == {"000001", "000002", "000003"}
    collection.compact()
    assert not collection._searches.live.promises._asked._kept
    assert mapped_segments(path) == {"000004"}  # before anyone searches
    collection.range_search(vectors[0])
    assert mapped_segments(path) == {"000004"}
    assert {key[0] for key in collection._searches.live.promises._kept.keys} == {(4,)}


def test_state_that_is_still_searched_keeps_its_segments(path, collection, vectors):
    collection.add(vectors[:30])
    collection.seal()
    with memvec.open(path, read_only=True) as reader:
        before = reader.range_search(vectors[0], 0.3).ids.tolist()
        collection.compact()
        assert reader.range_search(vectors[0], 0.3).ids.tolist() == before
        assert mapped_segments(path) == {"000001", "000002"}
        reader.refresh()
        assert mapped_segments(path) == {"000002"}


PROGRAM = """
import resource, sys
import memvec
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with memvec.open(sys.argv[1]) as collection:
    assert len(collection.stats().segment_sizes) == 100
    assert len(list(collection.items())) == 100
    assert collection.search([1.0] + [0.0] * 7, k=3).ids.shape == (1, 3)
    assert collection.check().ok
    collection.compact()
"""


def test_hundred_segments_open_with_few_descriptors(path, monkeypatch):
    monkeypatch.setattr("memvec.collection._sealing.FAN_OUT", 1000)
    rows = np.random.default_rng(3).standard_normal((100, DIM))
    with memvec.open(path, dim=DIM, config=CONFIG, seal_at=1, background=False) as collection:
        for row in rows:
            collection.add([row])
    subprocess.run([sys.executable, "-c", PROGRAM, path], check=True)


def test_mapped_bytes_outlive_the_name_and_stay_private(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"abcd" * 5000)
    before, content = n_descriptors(), mapped(file)
    assert n_descriptors() == before
    content[0] = ord("x")
    assert file.read_bytes()[:4] == b"abcd"
    file.unlink()
    assert content[10_000:].tobytes() == b"abcd" * 2500
    file.touch()
    assert len(mapped(file)) == 0
    del content
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert str(file) not in maps.read()


def test_what_cannot_be_mapped_is_the_error_of_the_system(monkeypatch, tmp_path):
    monkeypatch.setattr("mmap.MAP_PRIVATE", 0)
    (tmp_path / "file").write_bytes(b"abc")
    with pytest.raises(OSError, match=r"Invalid argument.*file"):
        mapped(tmp_path / "file")
