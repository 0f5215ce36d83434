"""The command ``memvec add``: every format, and each row once however often it is run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memvec
from cli.conftest import DIM, run, run_json


@pytest.fixture
def empty(folder):
    run("create", "c.mv", "--dim", DIM)
    return "c.mv"


def contents(path):
    with memvec.open(path, read_only=True) as collection:
        return {item.id: (item.vector, item.metadata) for item in collection.items()}


def write_vecs(path, rows, kind):
    with open(path, "wb") as file:
        for row in rows:
            file.write(np.int32(len(row)).tobytes() + row.astype(kind).tobytes())


def write_file(path, vectors):
    match Path(path).suffix:
        case ".npy":
            np.save(path, vectors)
        case ".npz":
            np.savez(path, vectors=vectors)
        case ".fvecs":
            write_vecs(path, vectors, np.float32)
        case ".bvecs":
            write_vecs(path, vectors, np.uint8)
        case ".h5":
            with h5py.File(path, "w") as file:
                file["train"] = vectors
        case ".parquet":
            pq.write_table(pa.table({"v": pa.array(vectors.tolist())}), path)
        case ".jsonl":
            lines = [json.dumps({"vector": row}) for row in vectors.tolist()]
            Path(path).write_text("\n".join(lines))


@pytest.mark.parametrize("suffix", ["npy", "npz", "fvecs", "bvecs", "h5", "parquet", "jsonl"])
def test_every_format_is_added_under_names_of_file_and_row(empty, vectors, suffix):
    rows = np.clip(vectors * 100, 1, 255).round() if suffix == "bvecs" else vectors
    write_file(f"v.{suffix}", rows)
    assert run("add", empty, f"v.{suffix}", "--batch", 7) == "Added 30 items; c.mv holds 30.\n"
    found = contents(empty)
    assert list(found) == [f"v.{suffix}:{row}" for row in range(30)]
    unit = rows[3] / np.linalg.norm(rows[3])
    np.testing.assert_allclose(found[f"v.{suffix}:3"][0], unit, atol=1e-6)


def test_ids_and_metadata_come_by_name(empty, vectors):
    columns = {"v": pa.array(vectors.tolist()), "name": [f"n{row}" for row in range(30)]}
    pq.write_table(pa.table({**columns, "year": range(30), "tag": ["x"] * 30}), "v.parquet")
    run("add", empty, "v.parquet", "--ids", "name", "--metadata", "year", "--metadata", "tag")
    assert contents(empty)["n4"][1] == {"year": 4, "tag": "x"}


def test_same_command_again_adds_nothing(things):
    again = ("add", things, "things.jsonl", "--metadata", "*")
    found = run_json(*again)
    assert (found["added"], found["unchanged"], found["items"]) == (0, 30, 30)
    assert run(*again) == "Added 0 items, 30 were there already; things.mv holds 30.\n"


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_rounded_vectors_are_there_already(folder, vectors, dtype):
    np.save("v.npy", vectors)
    run("create", "small.mv", "--dim", vectors.shape[1], "--dtype", dtype)
    assert run_json("add", "small.mv", "v.npy")["added"] == len(vectors)
    again = run_json("add", "small.mv", "v.npy")
    assert (again["added"], again["unchanged"]) == (0, len(vectors))


def test_half_of_a_file_that_is_there_is_not_doubled(empty, vectors):
    np.save("v.npy", vectors)
    with memvec.open(empty) as collection:
        collection.add(vectors[:11], ids=[f"v.npy:{row}" for row in range(11)])
    found = run_json("add", empty, "v.npy", "--batch", 4)
    assert (found["added"], found["unchanged"], found["items"]) == (19, 11, 30)


def test_other_item_under_the_same_id_is_an_error_or_replaced(things, vectors):
    line = json.dumps({"id": "t3", "vector": vectors[4].tolist()})
    output = run("add", things, "-", input=line, code=2)
    assert "-: the id 't3' belongs to another item; --replace would replace it." in output
    found = run_json("add", things, "-", "--replace", input=line)
    assert (found["added"], found["replaced"], found["items"]) == (0, 1, 30)
    assert contents(things)["t3"][1] == {}
    assert "Added 0 items, 1 were there" in run("add", things, "-", "--replace", input=line)
    line = json.dumps({"id": "t3", "vector": vectors[5].tolist()})
    assert "Added 0 items, 1 replaced" in run("add", things, "-", "--replace", input=line)


def test_rows_can_be_numbered(empty, vectors):
    np.save("v.npy", vectors)
    run("add", empty, "v.npy", "--first-id", 100, "--batch", 8)
    assert list(contents(empty)) == list(range(100, 130))


def test_several_files_follow_each_other(empty, vectors):
    np.save("a.npy", vectors[:10])
    np.save("b.npy", vectors[10:])
    assert run_json("add", empty, "a.npy", "b.npy")["added"] == 30


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["a.npy", "b.npy", "--first-id", "3"], "--first-id numbers the rows of one FILE"),
        (["a.npy", "--first-id", "3", "--ids", "x"], "Give --ids or --first-id, not both."),
        (["a.txt"], "'a.txt' does not end in one of .npy"),
        (["-"], "Lines of standard input need an 'id', or give --first-id."),
        (["a.npy", "--ids", "name"], "Invalid value for '--ids' / '--id': it must be None"),
        (
            ["a.npy", "--vectors", "x"],
            "Invalid value for '--vectors' / '--column': it must be None",
        ),
        (["a.npy", "--metadata", "x"], "Invalid value for '--metadata': it must be None for a"),
        (["a.npy", "--batch", "0"], "Invalid value for '--batch'"),
    ],
)
def test_bad_flags_are_named(empty, vectors, arguments, text):
    np.save("a.npy", vectors)
    np.save("b.npy", vectors)
    Path("a.txt").write_text("")
    assert text in run("add", empty, *arguments, code=2, input='{"vector": [1]}')


def test_bad_row_is_named_by_its_number_in_the_file(empty, vectors):
    vectors[17] = 0
    np.save("v.npy", vectors)
    output = " ".join(run("add", empty, "v.npy", "--batch", 10, code=2).split())
    assert "Invalid value for 'FILE...': the vectors of v.npy must be free of zero, NaN" in output
    assert "Got only zeros in row 17 instead." in output
    line = json.dumps({"id": 1, "vector": [float("nan")] * DIM})
    output = " ".join(run("add", empty, "-", code=2, input=line).split())
    assert "Invalid value for 'FILE...': the vectors of standard input must be free of" in output


@pytest.mark.parametrize("command", [["add", "c.mv"], ["dedup"]])
def test_bad_metadata_is_named_by_its_row_in_the_file(empty, vectors, command):
    texts = ["x"] * 17 + ["\0x"] + ["x"] * 12
    pq.write_table(pa.table({"v": pa.array(vectors.tolist()), "text": texts}), "v.parquet")
    batch = ["--batch", 10] if command[0] == "add" else []
    output = run(*command, "v.parquet", "--metadata", "text", *batch, code=2)
    assert ": the metadata of v.parquet must be mappings that come back equal" in output
    assert "in row 17 instead." in output


def test_id_that_is_twice_in_a_file_is_an_error(empty, vectors):
    np.savez("v.npz", vectors=vectors, id=["x"] * 30)
    assert "Invalid value for '--ids' / '--id': it must be free of repeated ids" in run(
        "add", empty, "v.npz", code=2
    )


def test_killed_half_way_and_run_again_holds_each_row_once(empty):
    rows = np.random.default_rng(1).standard_normal((400, DIM)).astype(np.float32)
    lines = [
        json.dumps({"id": n, "vector": row.tolist(), "n": n}) + "\n" for n, row in enumerate(rows)
    ]
    code = "from memvec.cli import main; main()"
    arguments = ["add", empty, "-", "--metadata", "n", "--batch", "20"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, env=os.environ
    )
    process.stdin.write("".join(lines[:210]).encode())
    process.stdin.flush()
    while len(contents(empty)) < 200:  # what is acknowledged while more is awaited
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    assert 200 <= len(contents(empty)) < 400
    found = run_json(*arguments, input="".join(lines))
    assert found["items"] == 400
    assert found["unchanged"] >= 200
    assert [metadata["n"] for _, metadata in contents(empty).values()] == list(range(400))


def test_files_of_one_name_do_not_share_ids(empty, vectors):
    for name in ("one", "two"):
        Path(name).mkdir()
    np.save("one/part.npy", vectors[:10])
    np.save("two/part.npy", vectors[:10])
    output = " ".join(run("add", empty, "one/part.npy", "two/part.npy", code=2).split())
    assert "Invalid value for 'FILE...': one/part.npy and two/part.npy have the same name" in output
    assert run_json("add", empty, "one/part.npy", "./one/part.npy")["unchanged"] == 20
    assert run_json("add", empty, "two/part.npy", "--first-id", 0)["added"] == 10
    lines = [json.dumps({"id": i, "vector": row}) for i, row in enumerate(vectors.tolist(), 50)]
    for name, half in (("one", lines[:10]), ("two", lines[10:20])):
        Path(name, "part.jsonl").write_text("\n".join(half))
    assert run_json("add", empty, "one/part.jsonl", "two/part.jsonl")["added"] == 20
