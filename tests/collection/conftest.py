"""Fixtures of the collection's tests."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import memvec
from collection.faults import make_template

DIM = 8


@pytest.fixture
def quick_path():
    """A folder in memory where there is one: syncing takes no time, and dying is the same."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="memvec-test-", dir=parent))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def path(quick_path):
    return quick_path / "things.mv"


@pytest.fixture
def collection(path):
    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        yield collection


@pytest.fixture
def vectors():
    return np.random.default_rng(5).standard_normal((300, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A collection with segments, waiting vectors and deleted ones."""
    folder = tmp_path_factory.mktemp("template") / "template.mv"
    make_template(folder)
    return folder


@pytest.fixture
def folder(template, quick_path):
    """A copy of it to damage."""
    copy = quick_path / "damaged.mv"
    shutil.copytree(template, copy)
    return copy
