"""Nothing that a terminal would obey is printed, whatever ids, metadata and files are called."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import memvec
from memvec import progress
from memvec.cli import main
from memvec.cli._output import json_text

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj\x7f\u2028"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
DIM = 4


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A collection, and a file of vectors, whose every name is an escape sequence."""
    folder = tmp_path_factory.mktemp("evil")
    rows = np.random.default_rng(1).standard_normal((12, DIM))
    records = [
        {"id": f"{EVIL}{row}\n\t", "vector": vector, EVIL: EVIL, "text": f"{EVIL}\r\n"}
        for row, vector in enumerate(rows.tolist())
    ]
    (folder / f"{EVIL}.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    with memvec.open(folder / f"{EVIL}.mv", dim=DIM, seal_at=0) as collection:
        ids = [record["id"] for record in records]
        metadata = [{EVIL: EVIL, "text": record["text"]} for record in records]
        collection.add(rows, ids=ids, metadata=metadata)
        collection.seal()
    return folder


@pytest.fixture
def evil(template, tmp_path, monkeypatch):
    """The current folder, a copy of it."""
    monkeypatch.chdir(shutil.copytree(template, tmp_path / "copy"))


def printed(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


MV, FILE = f"{EVIL}.mv", f"{EVIL}.jsonl"
FIRST = json.dumps(f"{EVIL}0\n\t")
COMMANDS = [
    ["create", f"{EVIL}2.mv", "--dim", DIM],
    ["create", MV, "--dim", 3],
    ["add", MV, FILE, "--metadata", "*"],
    ["add", MV, FILE, "--metadata", EVIL],
    ["search", MV, FILE, "--show", "*"],
    ["search", MV, FILE, "--show", "text", "--show", EVIL],
    ["search", MV, "--like", FIRST, "--json"],
    ["search", MV, "--like", EVIL],
    ["range", MV, FILE, "--similarity", 0.1, "--show", "*"],
    ["range", MV, FILE, "--similarity", 0.1, "--lines"],
    ["join", MV, "--similarity", 0.1],
    ["dedup", MV, "--similarity", 0.5],
    ["dedup", FILE, "--similarity", 0.5, "--json"],
    ["info", MV],
    ["calibrate", MV],
    ["check", MV],
    ["measure", MV],
    ["repair", MV],
    ["compact", MV],
    ["export", MV, "-"],
    ["export", MV, f"{EVIL}.npy"],
    ["delete", MV, FIRST],
    ["delete", MV, EVIL],
    [EVIL],
    ["info", f"{EVIL}.absent"],
    ["info", MV, f"--{EVIL}"],
    ["search", MV, f"{EVIL}.absent.npy"],
    ["range", MV, FILE, "--where", EVIL],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(command[0])[:9])
def test_commands_print_no_control_characters(evil, command):
    _, output = printed(*command)
    assert CONTROLS.findall(output) == []
    assert output


@pytest.mark.parametrize("damage", ["segment", "id"])
def test_problems_print_no_control_characters(evil, damage):
    if damage == "segment":
        next(Path(MV).glob("segments/*/g*/vectors.npy")).write_bytes(b"x")
    else:
        with closing(sqlite3.connect(Path(MV) / "catalog.sqlite")) as catalog, catalog:
            catalog.execute("UPDATE items SET metadata = '{\"i\": 7}'")
    for command, text in (("check", "Problems: "), ("repair", "repairs;")):
        code, output = printed(command, MV)
        assert text in output
        assert (code, CONTROLS.findall(output)) in [(3, []), (0, [])]


def test_json_comes_back_equal(evil):
    code, output = printed("search", MV, "--like", FIRST, "-k", 3, "--show", "*", "--json")
    found = json.loads(output)
    assert code == 0
    assert found["queries"] == [f"{EVIL}0\n\t"]
    assert {hit["metadata"][EVIL] for hit in found["hits"]} == {EVIL}
    _, lines = printed("export", MV, "-")
    exported = [json.loads(line) for line in lines.split("\n") if line]
    assert exported[3]["id"] == f"{EVIL}3\n\t"


def test_json_of_any_text_comes_back_equal():
    text = "".join(map(chr, [*range(0x300), *range(0x2000, 0x2070)])) + "\ud800🐋"
    assert json.loads(json_text([text])) == [text]
    assert CONTROLS.findall(json_text([text])) == []


def test_progress_shows_no_control_characters(capsys):
    with progress.progress_bar(f"[bold]{EVIL}", 1, show=True):
        pass
    with progress.waiting_for(EVIL, show=True):
        pass
    shown = capsys.readouterr().err
    assert "\x07" not in shown
    assert "\x9b" not in shown


def test_commands_print_by_the_function_that_escapes():
    files = list((Path(memvec.__file__).parent / "cli").glob("*.py"))
    assert len(files) > 10
    for file in files:
        direct = re.findall(r"click\.s?echo\(|(?<![\w.>] )(?<![\w.])print\(", file.read_text())
        assert direct == [] or file.name in ("_output.py", "_chart.py", "_options.py"), file.name
