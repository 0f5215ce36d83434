"""The commands that make, fill, search and look after collections."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import memvec
import solving
from cli.conftest import DIM, run, run_json
from memvec.errors import IndexNotFoundError

# --- create --------------------------------------------------------------------------------------


def test_create_says_what_it_made(folder):
    output = run("create", "a.mv", "--dim", 3, "--similarity", 0.8, "--miss-rate", 0.02)
    assert output == "Created a.mv: dimension 3, everything above 0.8, at most 2 % missed.\n"
    made = run_json(
        "create", "b.mv", "--dim", 3, "--config", "unit_size=7", "--config", "codes=none"
    )
    assert (made["dim"], made["config"]["unit_size"], made["config"]["codes"]) == (3, 7, "none")


def test_create_takes_what_vectors_are_stored_in(folder):
    assert run_json("create", "a.mv", "--dim", 3)["dtype"] == "float32"
    assert run_json("create", "b.mv", "--dim", 3, "--dtype", "int8")["dtype"] == "int8"
    assert run_json("info", "b.mv")["dtype"] == "int8"
    assert "3, int8" in run("info", "b.mv")
    output = run("create", "c.mv", "--dim", 3, "--dtype", "int4", code=2)
    assert "Invalid value for '--dtype': 'int4' is not one of" in output
    output = run("create", "c.mv", "--dim", 100_000, "--dtype", "int8", code=2)
    assert "'--dtype': it must be 'float32' or 'float16' for more than 65,536 dim" in output


def test_create_refuses_what_is_there(things):
    output = run("create", things, "--dim", DIM, code=2)
    assert "Invalid value for 'COLLECTION': things.mv already is a collection." in output


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--dim", "0", "Invalid value for '--dim'"),
        ("--similarity", "2", "Invalid value for '--similarity'"),
        ("--miss-rate", "1", "Invalid value for '--miss-rate'"),
        ("--config", "unit_size", "Invalid value for '--config': 'unit_size' is not NAME=VALUE"),
        ("--config", "size=3", "with a NAME of construction,"),
        ("--config", "unit_size=0", "Invalid value for '--config': The 'unit_size' parameter"),
    ],
)
def test_create_names_the_bad_flag(folder, option, value, text):
    assert text in run("create", "a.mv", "--dim", 3, option, value, code=2)
    assert not Path("a.mv").exists()


def test_create_in_a_folder_of_other_things_is_an_error(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "letter.txt").write_text("dear")
    output = run("create", "mine", "--dim", 3, code=1)
    assert "Error: mine is not a collection: it holds 'letter.txt'" in output


# --- search and range ----------------------------------------------------------------------------


def test_search_finds_the_nearest_first(things, vectors):
    found = run_json("search", things, "--like", "t3", "-k", 2)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    best = np.argsort(-(unit @ unit[3]))[:2]
    assert [hit["id"] for hit in found["hits"]] == [f"t{row}" for row in best]
    assert found["hits"][0] == {"query": "t3", "id": "t3", "score": 1.0}
    assert found["certificate"]["level"] == "exact"
    assert found["work"]["n_queries"] == 1


def test_search_takes_queries_from_files_and_stdin(things, vectors):
    np.save("queries.npy", vectors[[4, 9]])
    hits = run_json("search", things, "queries.npy", "-k", 1)["hits"]
    assert [(hit["query"], hit["id"]) for hit in hits] == [(0, "t4"), (1, "t9")]
    line = json.dumps({"id": "mine", "vec": vectors[4].tolist()})
    found = run_json("search", things, "-", "--vectors", "vec", "-k", 1, input=line)
    assert [(hit["query"], hit["id"]) for hit in found["hits"]] == [("mine", "t4")]


def test_search_prints_a_table_with_metadata(things):
    output = run("search", things, "--like", "t3", "-k", 2, "--show", "year", "--show", "none")
    assert "The 2 nearest: 2 of 30 items" in output
    assert "2003" in output
    assert "Misses nothing." in output
    output = run("search", things, "--like", "t3", "-k", 5, "--limit", 2, "--show", "*")
    assert '{"year": 2003, "tag": "b"}' in output
    assert "… and 3 more (--limit, --json)" in output


def test_search_fuses_queries(things, vectors):
    found = run_json("search", things, "--like", "t3", "--like", "t4", "--fuse", "sum", "-k", 2)
    assert {hit["id"] for hit in found["hits"]} == {"t3", "t4"}
    assert found["queries"] == ["all"]


def test_range_filters_by_metadata(things):
    where = json.dumps({"year": {"$gte": 2010}, "tag": "a"})
    asked = ("range", things, "--like", "t12", "--similarity", 0.01, "--where", where)
    hits = run_json(*asked, "--show", "year")["hits"]
    assert hits[0]["id"] == "t12"
    assert all(hit["metadata"]["year"] >= 2010 for hit in hits)
    assert "Above 0.01" in run(*asked)


def test_range_streams_lines(things):
    asked = ("range", things, "--like", "t3", "--like", "t4", "--similarity", 0.2)
    lines = [json.loads(line) for line in run(*asked, "--lines").splitlines()]
    assert lines == run_json(*asked)["hits"]


@pytest.mark.parametrize("command", ["search", "range"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Give QUERIES or --like."),
        (["queries.npy", "--like", "t3"], "Give QUERIES or --like."),
        (["queries.txt"], "'queries.txt' does not end in one of .npy"),
        (["nowhere.npy"], "File 'nowhere.npy' does not exist"),
        (["--like", "t3", "--where", "{"], "Invalid value for '--where': '{' is not JSON"),
        (
            ["--like", "t3", "--where", "[]"],
            "for '--where': '[]' is not a JSON object",
        ),
        (
            ["--like", "t3", "--where", '{"a": {"$x": 1}}'],
            "Invalid value for '--where': it must be",
        ),
        (["--like", "t3", "--guarantee", "no"], "Invalid value for '--guarantee'"),
        (["--like", "t3", "--threads", "0"], "Invalid value for '--threads'"),
    ],
)
def test_bad_questions_name_the_flag(things, vectors, command, arguments, text):
    np.save("queries.npy", vectors)
    Path("queries.txt").write_text("")
    assert text in run(command, things, *arguments, code=2)


def test_queries_of_another_dimension_name_the_file(things):
    np.save("queries.npy", np.ones((2, 3)))
    output = run("search", things, "queries.npy", code=2)
    assert "'[QUERIES]': the vectors of queries.npy must be of dimension 8. Got dim" in output
    output = run("measure", things, "--queries", "queries.npy", code=2)
    assert "Invalid value for '--queries': the vectors of queries.npy must be of dim" in output


def test_more_items_asked_than_there_are_gives_all(things):
    for fuse in ([], ["--fuse", "sum"]):
        found = run_json("search", things, "--like", "t3", "-k", 10**11, *fuse)
        assert len(found["hits"]) == 30


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["search", "things.mv", "--like", "zebra"], "'--like': no item has the id 'zebra'."),
        (["range", "things.mv", "--like", "5"], "'--like': no item has the id '5'."),
        (["search", "things.mv", "--like", "t3", "--like", "t3"], "'--like': the id 't3' is given"),
        (["delete", "things.mv", "t1", "zebra"], "'ID': no item has the id 'zebra'."),
        (["delete", "things.mv", "--ids", "ids.txt"], "'--ids': no item has the id 'gnu'."),
    ],
)
def test_unknown_id_names_the_flag(things, arguments, text):
    Path("ids.txt").write_text("t1\ngnu\n")
    assert f"Invalid value for {text}" in run(*arguments, code=2)
    assert run_json("info", things)["n_items"] == 30


@pytest.mark.parametrize("more", [["--json"], ["--limit", 100], ["--show", "year"]])
def test_lines_stand_alone(things, more):
    output = run("range", things, "--like", "t3", "--lines", *more, code=2)
    assert f"{more[0]} cannot be combined with --lines" in output


def test_create_takes_the_level_of_promises(folder):
    asked = ("--guarantee", "high_probability", "--confidence", 0.9)
    made = run_json("create", "c.mv", "--dim", 4, *asked, "--promise-at", 0.9, "--promise-at", 0.8)
    assert made["guarantee"] == "high_probability"
    assert (made["confidence"], made["similarities"]) == (0.9, [0.8, 0.9])


def test_missing_collection_is_named(folder):
    output = run("info", "nowhere.mv", code=2)
    assert "Invalid value for 'COLLECTION': Directory 'nowhere.mv' does not exist." in output


def test_folder_that_is_no_collection_is_an_error(folder):
    (folder / "empty").mkdir()
    for command in ("info", "compact", "dedup"):
        output = run(command, "empty", code=1)
        assert output == "Error: There is no collection at empty. To create one: memvec create.\n"


def test_reader_is_not_told_to_give_what_it_gave(folder):
    with pytest.raises(IndexNotFoundError, match="the vectors' dimension, and no read_only=True"):
        memvec.open("new.mv", dim=3, read_only=True)


# --- check, measure, repair, compact, info, calibrate --------------------------------------------


def test_info_solves_nothing(things, monkeypatch):
    run("compact", things)
    expected = run_json("info", things)
    solving.forbid(monkeypatch)
    assert run_json("info", things) == expected


def test_check_reads_collections(things):
    run("compact", things)
    assert "Problems: 0." in run("check", things)
    found = run_json("check", things)
    assert (found["ok"], found["problems"], found["n_files"] > 0) == (True, [], True)


def test_check_reads_saved_indexes(folder, vectors):
    memvec.Index.build(vectors).save("index.mv")
    n_files = len([*Path("index.mv").glob("*.*"), *Path("index.mv").glob("g*/*.*")])
    assert run_json("check", "index.mv")["n_files"] == n_files
    [file] = Path("index.mv").glob("g*/vectors.npy")
    file.write_bytes(file.read_bytes()[:-1])
    output = run("check", "index.mv", code=3)
    assert "vectors.npy is damaged" in output
    assert f"Checked {n_files} files" in output
    assert "Problems: 1." in output


def test_check_of_another_folder_is_an_error(folder):
    (folder / "empty").mkdir()
    output = run("check", "empty", code=1)
    assert output == "Error: There is neither a collection nor a saved index at empty.\n"


def test_measure_compares_items_and_queries(things, vectors):
    run("compact", things)
    output = run("measure", things, "--sample", 10, "--similarity", 0.3)
    assert "of a query's matches above 0.3" in output
    assert "matches of 10 queries, " in output
    np.save("queries.npy", vectors)
    asked = ("--queries", "queries.npy", "--similarity", 0.999)
    found = run_json("measure", things, *asked)
    assert (found["queries"], found["matches"]) == (30, 30)
    assert found["profile"]["n_queries"] == 30
    found = run_json("measure", things, *asked, "--sample", 10, "--where", '{"tag": "a"}')
    assert (found["queries"], 0 < found["matches"] < 10) == (10, True)


def test_measure_heeds_the_promise_asked(things, vectors):
    np.save("queries.npy", vectors)
    for more in ([], ["--queries", "queries.npy"]):
        found = run_json("measure", things, *more, "--guarantee", "exact")
        assert (found["certificate"]["level"], found["missed"]) == ("exact", 0)


def test_measure_leaves_the_item_itself_out(things):
    found = run_json("measure", things, "--sample", 100, "--similarity", 0.9999)
    assert (found["queries"], found["matches"]) == (30, 0)


def test_measure_finds_the_copies_of_an_item(things, vectors):
    with memvec.open(things) as collection:
        collection.add(vectors[:2], ids=["copy", 7])
    found = run_json("measure", things, "--similarity", 0.9999)
    assert (found["queries"], found["matches"], found["missed"]) == (32, 4, 0)


def test_measure_says_when_more_is_missed_than_promised(things, monkeypatch):
    plain = memvec.Collection.range_search

    def forgetful(self, queries, similarity=None, *, guarantee=None, **more):
        found = plain(self, queries, similarity, guarantee="exact", **more)
        if guarantee == "exact":
            return found
        nothing = np.zeros_like(found.offsets)
        return dataclasses.replace(
            found, offsets=nothing, ids=found.ids[:0], scores=found.scores[:0]
        )

    monkeypatch.setattr(memvec.Collection, "range_search", forgetful)
    output = run("measure", things, "--similarity", 0.2, code=3)
    assert "Missed 100 % of a query's matches above 0.2" in output


@pytest.mark.parametrize(
    "command", ["info", "calibrate", "compact", "join", "dedup", "check", "measure"]
)
def test_empty_collection_has_answers(folder, command):
    run("create", "empty.mv", "--dim", 2)
    run(command, "empty.mv")
    assert run_json("measure", "empty.mv")["queries"] == 0
    assert run_json("search", "empty.mv", "-", input='{"vector": [1, 0]}')["hits"] == []


def test_damage_is_found_and_repaired(things):
    run("compact", things)
    [file] = Path(things).glob("segments/*/g*/unit_vectors.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    output = run("check", things, code=3)
    assert "unit_vectors.npy" in output
    assert "Problems: 1." in output
    assert "unit_vectors.npy" in run("search", things, "--like", "t3", code=1)
    output = run("repair", things)
    assert "The segment was rebuilt from its 30 vectors." in output
    assert "1 repairs; 0 items lost." in output
    assert "Problems: 0." in run("check", things)


def test_repair_tells_what_is_lost(things):
    run("compact", things)
    [file] = Path(things).glob("segments/*/g*/vectors.npy")
    file.write_bytes(file.read_bytes()[:-1])
    output = run("repair", things, code=3)
    assert "The segment was dropped; what is left of it is in lost." in output
    assert "30 items lost." in output
    assert run_json("repair", things) == {"actions": [], "n_lost": 0}


def test_compact_frees_what_was_deleted(things):
    assert "30 vectors in a new segment; 1 segments instead of 0" in run(
        "compact", things, "--seal"
    )
    run("delete", things, "t0", "t1")
    output = run("compact", things)
    assert "28 vectors in a new segment; 1 segments instead of 1, 2 deleted vectors gone." in output
    assert run_json("compact", things)["after"]["n_deleted"] == 0


def test_info_tells_sizes_units_and_promise(things):
    output = run("info", things)
    assert "30 of 10,000" in output
    assert "Misses nothing above 0.7." in output
    run("compact", things)
    output = run("info", things)
    assert "imbalance" in output
    assert "000001" in output
    found = run_json("info", things)
    assert (found["n_items"], found["segment_sizes"]) == (30, [30])
    assert found["units"][0]["imbalance"] >= 1
    assert found["config"]["codes"] == "auto"


def test_info_leaves_out_what_a_crash_left_behind(things):
    run("compact", things)
    (Path(things) / "segments" / "000009").mkdir()
    (Path(things) / "segments" / "000010.rows").touch()
    assert "imbalance" in run("info", things)
    assert [unit["segment"] for unit in run_json("info", things)["units"]] == ["000001"]


def test_info_says_nothing_of_units_while_segments_change(things, monkeypatch):
    def removed(path):
        raise IndexNotFoundError(f"There is no index at {path}.")

    run("compact", things)
    monkeypatch.setattr("memvec.cli._info.Index", SimpleNamespace(open=removed))
    assert "Segments of 30 vectors; they are being changed" in run("info", things)
    assert run_json("info", things)["units"] is None


def test_info_tells_all_settings(folder):
    asked = ("--guarantee", "high_probability", "--confidence", 0.9, "--seal-at", 0)
    run("create", "c.mv", "--dim", 2, *asked, "--promise-at", 0.9)
    found = run_json("info", "c.mv")
    assert (found["guarantee"], found["confidence"]) == ("high_probability", 0.9)
    assert (found["similarities"], found["seal_at"]) == ([0.9], 0)
    assert "0, until `memvec compact`" in run("info", "c.mv")
    run("create", "d.mv", "--dim", 2)
    found = run_json("info", "d.mv")
    assert (found["guarantee"], found["similarities"]) == ("expected", [0.7])


def test_calibrate_tells_the_promise_of_several_similarities(things):
    output = run("calibrate", things)
    assert "exact" in output
    assert "0.95" in output
    [record] = run_json("calibrate", things, "--similarity", 0.85, "--renew")
    assert record["similarity"] == 0.85
    asked = ("--guarantee", "high_probability", "--confidence", 0.9, "--miss-rate", 0.1)
    output = run("calibrate", things, *asked, code=2)
    assert "needs 22 calibration queries with matches. Got 0 instead" in output
    output = run("calibrate", things, "--similarity", 0.85, *asked, code=2)
    assert "Invalid value for '--similarity': it must be one of 0.7" in output
    with memvec.open(things, read_only=True) as collection:
        assert collection.stats().segment_sizes == (30,)


def test_second_writer_is_told_at_once(things):
    with memvec.open(things):
        output = run("delete", things, "t0", code=1)
    assert "Error: " in output
    assert "is open for writing elsewhere" in output


def test_interrupt_has_its_exit_code(things, monkeypatch):
    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(memvec.Collection, "compact", interrupted)
    output = run("compact", things, code=130)
    assert "Interrupted. Acknowledged changes are kept." in output


def test_refusal_of_the_disk_is_one_line(things, monkeypatch):
    def refused(*args, **more):
        raise PermissionError(13, "Permission denied", "things.mv")

    monkeypatch.setattr(memvec.Collection, "compact", refused)
    assert "Error: [Errno 13] Permission denied: 'things.mv'" in run("compact", things, code=1)


def test_closed_pipe_is_left_to_click(things, monkeypatch):
    def closed(*args, **more):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(memvec.Collection, "compact", closed)
    assert run("compact", things, code=1) == ""
