"""The command ``memvec delete``, and how ids are typed."""

from pathlib import Path

import pytest

import memvec
from cli.conftest import run, run_json


def test_delete_by_id_file_and_filter(things):
    assert run("delete", things, "t0", "t1") == "Deleted 2 items; things.mv holds 28.\n"
    assert run_json("delete", things, "--ids", "-", input="t2\nt3\n\n")["deleted"] == 2
    asked = ("delete", things, "--where", '{"year": {"$gte": 2028}}')
    assert run(*asked, "--dry-run") == "Would delete 2 items; things.mv holds 26.\n"
    assert run_json(*asked) == {"deleted": 2, "chosen": 2, "items": 24}


def test_delete_of_a_missing_id_deletes_nothing(things):
    assert "no item has the id 't99'" in run("delete", things, "t0", "t99", code=2)
    assert run_json("delete", things, "t0", "t99", "--missing-ok")["items"] == 29


def test_delete_needs_to_be_told_what(things):
    assert "Give an ID, --ids or --where." in run("delete", things, code=2)


def test_typed_digits_are_integers_if_there_are_such(folder):
    run("create", "n.mv", "--dim", 2)
    lines = (
        '{"id": 7, "vector": [1, 0]}\n{"id": "7", "vector": [0, 1]}\n{"id": "8", "vector": [1, 1]}'
    )
    run("add", "n.mv", "-", input=lines)
    run("delete", "n.mv", "7", "8")
    with memvec.open("n.mv", read_only=True) as collection:
        assert list(collection) == ["7"]
    run("delete", "n.mv", '"7"')


def test_delete_takes_lines_of_other_systems(things):
    assert run_json("delete", things, "--ids", "-", input="t2\r\nt3\r\n")["deleted"] == 2


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "9" * 19])
def test_number_beyond_64_bits_is_a_text(things, text):
    assert f"'ID': no item has the id '{text}'." in run("delete", things, "--", text, code=2)


@pytest.mark.parametrize("more", [["--missing-ok"], []])
def test_quoted_id_that_is_no_json_is_refused(things, more):
    output = run("delete", things, '"t1" "t2"', *more, code=2)
    assert """'ID': "t1" "t2" is in quotes, but is not a JSON string""" in output


def test_ids_that_are_no_text_name_the_flag(things):
    Path("ids.txt").write_bytes(b"t1\n\xff")
    output = run("delete", things, "--ids", "ids.txt", code=2)
    assert "Invalid value for '--ids': it is not UTF-8 text" in output
