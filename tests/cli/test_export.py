"""The command ``memvec export``."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import memvec
from cli.conftest import DIM, run
from memvec.files import count_rows, read_blocks


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_export_comes_back_the_same(things, suffix):
    run("export", things, f"out.{suffix}")
    run("create", "copy.mv", "--dim", DIM)
    run("add", "copy.mv", f"out.{suffix}")
    with memvec.open(things, read_only=True) as old, memvec.open("copy.mv", read_only=True) as new:
        for a, b in zip(old.items(), new.items(), strict=True):
            assert (a.id, a.metadata) == (b.id, b.metadata)
            np.testing.assert_array_equal(a.vector, b.vector)


def test_export_to_npy_and_stdout(things, vectors):
    run("export", things, "out.npy", "--where", '{"tag": "a"}')
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(np.load("out.npy"), unit[::2], atol=1e-6)
    lines = run("export", things, "-").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"t{row}" for row in range(30)]


def test_export_of_both_kinds_of_ids_needs_lines(things):
    run("add", things, "-", input='{"id": 1, "vector": [1, 1, 1, 1, 1, 1, 1, 1]}')
    output = run("export", things, "out.parquet", code=2)
    assert "there are integers and texts: export to .jsonl" in output
    assert not list(Path().glob("out.*"))
    run("export", things, "out.parquet", "--where", '{"tag": "a"}')
    assert count_rows("out.parquet") == 15
    run("export", things, "none.parquet", "--where", '{"tag": "z"}')
    assert count_rows("none.parquet") == 0


def test_export_of_integer_ids_keeps_them(folder):
    run("create", "n.mv", "--dim", 2)
    run("add", "n.mv", "-", input='{"id": 7, "vector": [1, 0]}')
    run("export", "n.mv", "out.parquet")
    [block] = read_blocks("out.parquet")
    assert block.ids == [7]


def test_export_names_what_it_cannot_write(things):
    assert "does not end in one of .jsonl, .npy, .parquet" in run("export", things, "o.txt", code=2)
    assert "no/where.npy" in run("export", things, "no/where.npy", code=1)


def test_export_to_parquet_without_pyarrow_says_its_pip_line(things, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'memvec[files]'" in run("export", things, "out.parquet", code=1)
