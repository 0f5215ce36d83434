"""The commands ``memvec dedup`` and ``memvec join``."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import memvec
from cli.conftest import DIM, run, run_json
from memvec.cli import main
from memvec.cli._options import as_typed, typed_id


@pytest.fixture
def copies(folder, vectors):
    """Thirty vectors and near-copies of the first three."""
    noise = np.random.default_rng(6).standard_normal((3, DIM)) * 0.01
    rows = np.concatenate([vectors, vectors[:3] + noise.astype(np.float32)])
    np.save("v.npy", rows)
    return rows


def test_dedup_prints_the_ids_to_keep(copies):
    output = run("dedup", "v.npy", "--similarity", 0.99)
    assert output.split() == [str(row) for row in range(30)]
    assert run("dedup", "v.npy", "--similarity", 0.99, "--dropped").split() == ["30", "31", "32"]


def test_dedup_writes_a_list(copies):
    assert run("dedup", "v.npy", "--similarity", 0.99, "--keep-list", "kept.txt") == ""
    assert Path("kept.txt").read_text().split() == [str(row) for row in range(30)]
    assert "no/kept.txt" in run("dedup", "v.npy", "--keep-list", "no/kept.txt", code=1)


def test_dedup_json_has_groups_and_certificate(copies):
    found = run_json("dedup", "v.npy", "--similarity", 0.99, "--groups", "star")
    assert (found["items"], found["expected_missed"]) == (33, 0)
    assert found["kept"] == list(range(30))
    assert found["groups"] == [{"kept": row, "dropped": [row + 30]} for row in range(3)]
    assert found["certificate"]["level"] == "exact"
    assert run_json("dedup", "v.npy", "--keep-list", "kept.txt")["kept"]
    assert Path("kept.txt").exists()


def test_dedup_keeps_the_longest(copies):
    texts = ["short"] * 30 + ["much longer"] * 3
    names = [f"n{row}" for row in range(33)]
    table = pa.table({"v": pa.array(copies.tolist()), "name": names, "text": texts})
    pq.write_table(table, "v.parquet")
    asked = ("--ids", "name", "--metadata", "text", "--keep", "longest", "--dropped")
    output = run("dedup", "v.parquet", "--similarity", 0.99, *asked)
    assert output.split() == ["n0", "n1", "n2"]


def test_dedup_keeps_the_best(copies):
    table = pa.table({"v": pa.array(copies.tolist()), "score": [*range(30), 9, 0, 0]})
    pq.write_table(table, "v.parquet")
    asked = ("--column", "v", "--keep", "best", "--scores", "score", "--dropped")
    assert run("dedup", "v.parquet", "--similarity", 0.99, *asked).split() == ["0", "31", "32"]


def test_dedup_of_a_file_with_many_rows_is_by_an_index(copies, monkeypatch):
    """The rule is that of memvec.deduplicate; without its limit, 33 rows are many."""
    few = run_json("dedup", "v.npy", "--similarity", 0.99)
    monkeypatch.setattr("memvec.cli._dedup.compares_everything", lambda guarantee, n_others: False)
    many = run_json("dedup", "v.npy", "--similarity", 0.99)
    # Of three near-copies found, by a promise of 1 %, one may be left: it is rounded up.
    assert (few["expected_missed"], many["expected_missed"]) == (0, 1)
    assert few["groups"] == many["groups"]


def test_dedup_reads_stdin_and_collections(copies):
    lines = "\n".join(json.dumps({"id": n, "vector": v}) for n, v in enumerate(copies.tolist()))
    assert len(run("dedup", "-", "--similarity", 0.99, input=lines).split()) == 30
    run("create", "c.mv", "--dim", DIM)
    run("add", "c.mv", "-", input=lines)
    dropped = run("dedup", "c.mv", "--similarity", 0.99, "--dropped")
    assert run("delete", "c.mv", "--ids", "-", input=dropped) == "Deleted 3 items; c.mv holds 30.\n"


ODD = ["a\nb", "a\rb", "a\r", "", '"', '"a"', "7", "\u2028", "é\t", "-", " x "]


def test_dropped_ids_of_any_kind_are_those_that_are_deleted(copies):
    """The parts of an id that holds a newline are ids, too."""
    run("create", "c.mv", "--dim", DIM)
    with memvec.open("c.mv") as collection:
        collection.add(copies[:7], ids=["a", "b", 7, "a\r\n", "-7", "x", "é"])
        collection.add([copies[0]] * len(ODD), ids=ODD)
    dropped = run("dedup", "c.mv", "--similarity", 0.9999, "--dropped")
    assert len(dropped.split("\n")) == len(ODD) + 1
    run("dedup", "c.mv", "--similarity", 0.9999, "--dropped", "--keep-list", "dropped.txt")
    assert Path("dropped.txt").read_bytes().decode() == dropped
    assert run_json("delete", "c.mv", "--ids", "-", "--dry-run", input=dropped)["chosen"] == len(
        ODD
    )
    assert run_json("delete", "c.mv", "--ids", "dropped.txt")["deleted"] == len(ODD)
    with memvec.open("c.mv", read_only=True) as collection:
        assert list(collection) == ["a", "b", 7, "a\r\n", "-7", "x", "é"]


@given(st.text() | st.integers(-(2**63), 2**63 - 1))
def test_id_comes_back_from_the_line_it_is_printed_as(name):
    line = as_typed(name)
    assert "\n" not in line
    assert not line.endswith("\r")
    assert typed_id({name}, line, "--ids") == name


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("v.txt", "'v.txt' is not a collection, and does not end in .npy"),
        ("nowhere.npy", "File 'nowhere.npy' does not exist"),
        ("-", "Standard input holds no lines."),
    ],
)
def test_dedup_names_a_bad_source(copies, source, text):
    Path("v.txt").write_text("")
    assert text in run("dedup", source, code=2, input="")


def test_dedup_leaves_nothing_behind(copies, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run("dedup", "v.npy")
    copies[20] = 0
    np.save("v.npy", copies)
    assert "only zeros in row 20" in run("dedup", "v.npy", code=2)
    assert list(tmp_path.iterdir()) == []


def test_join_finds_pairs(copies):
    run("create", "c.mv", "--dim", DIM)
    run("add", "c.mv", "v.npy", "--first-id", 0)
    lines = run("join", "c.mv", "--similarity", 0.99, "--json").splitlines()
    pairs = [json.loads(line) for line in lines]
    assert [(pair["left"], pair["right"]) for pair in pairs] == [(0, 30), (1, 31), (2, 32)]
    assert all(pair["score"] > 0.99 for pair in pairs)
    output = run("join", "c.mv", "--similarity", 0.99, "--limit", 2, "--collapse-copies")
    assert "3 pairs above 0.99" in output
    assert "… and 1 more (--limit, --json)" in output


@pytest.fixture
def parts(copies):
    """The same rows in two Parquet files, with texts for ids."""
    for number, rows in enumerate(np.split(np.arange(33), [20])):
        names = [f"n{row}" for row in rows]
        table = pa.table({"embedding": pa.array(list(copies[rows])), "name": names, "s": rows})
        pq.write_table(table, f"part-{number}.parquet")
    return ("part-*.parquet", "--column", "embedding", "--id", "name", "--similarity", 0.99)


def test_dedup_by_blocks_writes_pairs_and_the_list(parts):
    asked = ("--out", "pairs/", "--keep-list", "kept.parquet", "--memory", "2GB")
    result = CliRunner().invoke(main, ["dedup", *map(str, parts), *asked])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "33 vectors, 3 groups above 0.99: 30 to keep, 3 to drop. Misses nothing" in result.stderr
    assert "3 pairs and 0 copies in pairs/, found in 1 block with a limit of 2 GB" in result.stderr
    pairs = pq.read_table("pairs").to_pydict()
    assert (pairs["id_a"], pairs["id_b"]) == (["n0", "n1", "n2"], ["n30", "n31", "n32"])
    kept = pq.read_table("kept.parquet").to_pydict()
    assert [name for name, keep in zip(kept["id"], kept["keep"], strict=True) if not keep] == [
        "n30",
        "n31",
        "n32",
    ]


def test_dedup_by_blocks_prints_json(parts):
    asked = ("--out", "pairs", "--keep", "best", "--scores", "s", "--groups", "star")
    found = run_json("dedup", *parts, *asked)
    expected = {"items": 33, "pairs": 3, "copies": 0, "groups": 3, "dropped": 3, "kept": 30}
    assert found.items() >= expected.items()
    assert (found["expected_missed"], found["certificate"]["level"]) == (0, "exact")


def test_dedup_by_blocks_tells_what_differs_and_how_to_go_on(parts, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # First: it is looked up in the other when it is first asked for.
        patch.setattr(memvec, "deduplicate_files", stop)
        patch.setattr(memvec.collection, "deduplicate_files", stop)
        output = run("dedup", *parts, "--out", "pairs", code=130)
    assert "Interrupted. pairs keeps what is done: run the same command to resume." in output
    run("dedup", *parts, "--out", "pairs")
    output = run("dedup", *parts[:-1], 0.98, "--out", "pairs", code=1)
    assert "pairs holds another deduplication: similarity was 0.99 and is 0.98." in output


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("part-0.parquet", "part-1.parquet"), "Several files, or a pattern, need --out FOLDER."),
        (("part-*.parquet",), "Several files, or a pattern, need --out FOLDER."),
        (("v.npy", "--keep-list", "k.parquet"), "A list that ends in .parquet needs --out FOLDER."),
        (("v.npy", "--keep-list", "./v.npy"), "'--keep-list': './v.npy' is the file to read."),
        (("v.npy", "--out", "pairs", "--keep", "best"), "--keep best needs --scores NAME"),
        (("part-0.parquet", "--memory", "4GB"), "--memory needs --out FOLDER."),
        (("part-0.parquet", "--keep", "best"), "--keep best needs --scores NAME"),
        (("part-0.parquet", "--keep-work"), "--keep-work needs --out FOLDER."),
        (("part-0.parquet", "--scores", "s"), "--scores needs --keep best."),
        (("-", "--out", "pairs"), "Standard input does not go with --out."),
        ((".", "--out", "pairs"), "A collection does not go with --out."),
        (("v.npy", "--out", "pairs", "--dropped"), "--dropped does not go with --out."),
        (("v.npy", "--out", "pairs", "--keep", "longest"), "--keep longest does not go with --out"),
        (("v.npy", "--out", "pairs", "--metadata", "s"), "--metadata does not go with --out."),
        (("v.npy", "--out", "pairs", "--memory", "x"), "Invalid value for '--memory': it must be"),
        (("no-*.npy", "--out", "pairs"), "paths of files, or patterns that some files match. Got"),
        (("no.npy", "--out", "pairs"), "File 'no.npy' does not exist."),
    ],
)
def test_dedup_refuses_what_does_not_go_together(parts, asked, text):
    assert text in run("dedup", *asked, code=2)
    assert not Path("pairs").exists()
