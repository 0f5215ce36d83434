"""Fixtures of the command line's tests."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from memvec.cli import main

DIM = 8


@pytest.fixture
def folder(monkeypatch):
    """The current folder: in memory where there is one, so that syncing takes no time."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="memvec-test-", dir=parent))
    monkeypatch.chdir(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def vectors():
    return np.random.default_rng(5).standard_normal((30, DIM)).astype(np.float32)


@pytest.fixture
def things(folder, vectors):
    """A file of 30 things, and a collection that holds them."""
    records = [
        {"id": f"t{row}", "vector": vector, "year": 2000 + row, "tag": "ab"[row % 2]}
        for row, vector in enumerate(vectors.tolist())
    ]
    Path("things.jsonl").write_text("\n".join(map(json.dumps, records)))
    run("create", "things.mv", "--dim", DIM)
    run("add", "things.mv", "things.jsonl", "--metadata", "*")
    return "things.mv"


def run(*arguments, code=0, **more):
    """Run a command; return what it prints on stdout, or everything if it fails."""
    result = CliRunner().invoke(main, list(map(str, arguments)), **more)
    assert result.exit_code == code, result.output
    return result.output if code else result.stdout


def run_json(*arguments, **more):
    return json.loads(run(*arguments, "--json", **more))
