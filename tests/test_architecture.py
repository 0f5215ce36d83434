"""The walks of docs/architecture.md are those that real calls take."""

import re
import shutil
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import memvec

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
PACKAGE = Path(memvec.__file__).parent
GOLDEN = Path(__file__).parent / "golden"
ADD = "Walk: a vector from `add` to a sealed segment"
OF_INDEX = "Walk: a query from `Index.range_search` to its certificate"
OF_COLLECTION = "Walk: a query from `Collection.range_search` to its certificate"
# A walk leads to each of these: the plan, the kernel, the certificate.
MOMENTS = {
    ("guarantee/_promises.py", "Promises.for_range"),
    ("kernels/_compile.py", "Kernel.__call__"),
    ("guarantee/_monitor.py", "Monitor.marked"),
}
# Some queries are looked at for drift or compared besides; every call is what these have in common.
CALLS = 30


def section(title):
    return PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def steps(title):
    """Return the steps of a walk, in order: a file and a function each."""
    lines = re.findall(r"^\d+\. `(\S+\.py)`: ((?:`[\w.]+`(?:, )?)+)", section(title), re.M)
    return [(file, name) for file, names in lines for name in re.findall(r"`([\w.]+)`", names)]


def also_passed(title):
    [paragraph] = re.findall(r"^Also passed.*?(?=\n\n|\Z)", section(title), re.M | re.S)
    return set(re.findall(r"`(\S+\.py)`", paragraph))


def place_of(frame):
    """Return file and function of a frame; None outside the package."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname


def stack_of(frame):
    while frame is not None:
        if (place := place_of(frame)) is not None:
            yield place
        frame = frame.f_back


def outside_kernels(places):
    return {file for file, _ in places if not file.startswith("kernels/")}


def traced(call):
    """Return everything that a call passes, in order, and the stacks at the moments of a walk."""
    passed, stacks = [], []

    def see(frame, event, _):
        if event == "call" and (place := place_of(frame)) is not None:
            passed.append(place)
            if place in MOMENTS:
                stacks.append(list(stack_of(frame)))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(before)
    return passed, stacks


def check_walk(title, search, most_files):
    for _ in range(3):
        search()
    runs = [traced(search) for _ in range(CALLS)]
    every_call = set.intersection(*(outside_kernels(passed) for passed, _ in runs))
    on_stacks = set.intersection(*({*chain(*stacks)} for _, stacks in runs))
    assert on_stacks >= MOMENTS
    walk = steps(title)
    assert set(walk) <= on_stacks
    assert {file for file, _ in walk} == outside_kernels(on_stacks)
    assert len(outside_kernels(on_stacks)) <= most_files
    assert also_passed(title) == every_call - outside_kernels(on_stacks)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    centres = np.repeat(rng.standard_normal((60, 16)), 75, axis=0)
    return rng.permutation(centres + 0.5 * rng.standard_normal(centres.shape))


@pytest.fixture(scope="module")
def filled(rows, tmp_path_factory):
    """A collection of two segments, and what its first vectors passed to get there."""
    folder = tmp_path_factory.mktemp("architecture") / "c.mv"
    with memvec.open(folder, dim=16, miss_rate=0.05, background=False) as collection:

        def add():
            collection.add(rows[:2250])
            collection.seal(progress=False)

        passed, _ = traced(add)
        collection.add(rows[2250:])
        collection.seal(progress=False)
        yield collection, passed


def test_walk_of_an_index_is_the_one_on_the_page(tmp_path):
    index = memvec.Index.open(shutil.copytree(GOLDEN / "codes.mv", tmp_path / "codes.mv"))
    query = np.ones(index.dim)
    check_walk(OF_INDEX, lambda: index.range_search(query), most_files=6)


def test_walk_of_a_collection_is_the_one_on_the_page(filled, rows):
    collection, _ = filled
    query = rows[7] + rows[8]
    check_walk(OF_COLLECTION, lambda: collection.range_search(query), most_files=8)


def test_vector_passes_the_steps_on_the_page_in_their_order(filled):
    _, passed = filled
    walk = steps(ADD)
    assert len(walk) > 15
    ahead = iter(passed)
    assert [step for step in walk if step not in ahead] == []
