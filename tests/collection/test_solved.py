"""What was solved for a state of a collection is kept with its folder, and used for no other."""

import os
import shutil

import numpy as np
import pytest

import clouds
import memvec
import naive
import solving
from memvec.collection import repair_collection

DIM = 16
CENTRES = naive.unit_rows(np.random.default_rng(0).standard_normal((150, DIM)))
ROWS = clouds.around(CENTRES, 0.12, 1, 4400)
QUERIES = clouds.around(CENTRES, 0.12, 2, 20)
AHEAD = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Two segments, and vectors that wait; closed."""
    folder = tmp_path_factory.mktemp("solved") / "template.mv"
    with memvec.open(folder, dim=DIM, similarity=0.7, seal_at=0) as collection:
        for start in (0, 2100):
            collection.add(ROWS[start : start + 2100])
            collection.seal(progress=False)
    return folder


@pytest.fixture
def folder(template, quick_path):
    return shutil.copytree(template, quick_path / "things.mv")


def answers(folder, similarities=AHEAD, **asked):
    """Return what a reader finds, with its certificates."""
    with memvec.open(folder, read_only=True) as collection:
        hits = [collection.range_search(QUERIES, one, **asked) for one in similarities]
        return [(one.certificate, one.ids.tolist(), one.scores.tolist()) for one in hits]


def solved_anew(folder, **asked):
    """Return what a reader finds that has nothing to go by."""
    bare = shutil.copytree(
        folder, folder.with_name("bare.mv"), ignore=shutil.ignore_patterns("solved")
    )
    try:
        return answers(bare, **asked)
    finally:
        shutil.rmtree(bare)


def test_reader_solves_nothing_after_a_seal(folder, monkeypatch):
    expected = solved_anew(folder)
    solving.forbid(monkeypatch)
    assert answers(folder) == expected


def test_reader_solves_nothing_after_a_compaction(folder, monkeypatch):
    with memvec.open(folder) as collection:
        collection.delete(range(0, 4200, 3))
        collection.compact(progress=False)
    expected = solved_anew(folder)
    solving.forbid(monkeypatch)
    assert answers(folder) == expected


def test_other_similarity_is_solved_once_by_readers_too(folder, monkeypatch):
    expected = solved_anew(folder, similarities=[0.68], miss_rate=0.03)
    assert answers(folder, [0.68], miss_rate=0.03) == expected
    solving.forbid(monkeypatch)
    assert answers(folder, [0.68], miss_rate=0.03) == expected


@pytest.mark.parametrize("change", ["delete", "add", "replace"])
def test_plan_of_another_state_is_not_used(folder, change):
    before = answers(folder, [0.7])
    with memvec.open(folder) as collection:
        if change == "delete":
            collection.delete(range(0, 4200, 2))
        elif change == "add":
            collection.add(ROWS[4200:])
        else:
            collection.upsert(ROWS[4200:], ids=range(200))
    after = answers(folder, [0.7])
    assert after == solved_anew(folder, similarities=[0.7])
    assert after[0][0].n_matches != before[0][0].n_matches


def test_delete_of_what_no_evidence_holds_solves_nothing(folder, monkeypatch):
    with memvec.open(folder) as collection:
        state = collection._store.state
        rows = state.segments[0].rows
        own = rows.index.calibration_table
        tables = [solving.unseen(packed) for packed in state.calibration.values()]
        near = [one.keys[one.cosines >= 0.5] for one in tables]
        evidence = [rows.keys[rows.strangers], rows.keys[own.keys[own.cosines >= 0.5]], *near]
        others = np.setdiff1d(rows.keys, np.concatenate(evidence))
        collection.delete([int(others[-1])])
    expected = solved_anew(folder)
    solving.forbid(monkeypatch)
    assert answers(folder) == expected


def test_filters_leave_nothing_behind(folder):
    with memvec.open(folder, read_only=True) as collection:
        collection.range_search(QUERIES, 0.7)
        before = (folder / "solved" / "manifest.json").read_bytes()
        collection.range_search(QUERIES, 0.7, where={"kind": "none"})
    assert (folder / "solved" / "manifest.json").read_bytes() == before


def test_recalibration_is_of_its_process_alone(folder):
    before = (folder / "solved" / "manifest.json").read_bytes()
    with memvec.open(folder) as collection:
        certificate = collection.recalibrate(clouds.around(CENTRES, 0.12, 3, 600), progress=False)
        assert certificate.source == "queries"
        assert collection.range_search(QUERIES).certificate.source == "queries"
    assert (folder / "solved" / "manifest.json").read_bytes() == before
    assert answers(folder, [0.7])[0][0].source == "reserve"


def test_folder_that_cannot_be_written_is_searched_as_well(folder, monkeypatch):
    shutil.rmtree(folder / "solved")
    expected = solved_anew(folder)

    def refuse(*_):
        raise PermissionError("refused")

    monkeypatch.setattr("memvec.storage.disk.make_folder", refuse)
    assert answers(folder) == expected
    assert not (folder / "solved").exists()


def test_check_and_repair_leave_what_was_solved(folder):
    with memvec.open(folder) as collection:
        assert collection.check().ok
    before = (folder / "solved" / "manifest.json").read_bytes()
    repair_collection(folder)
    assert (folder / "solved" / "manifest.json").read_bytes() == before


def test_file_that_was_cut_off_does_not_end_the_process_that_closes(folder):
    collection = memvec.open(folder)
    collection.add(ROWS[4200:])
    collection.seal(progress=False)
    [vectors] = (folder / "segments/000001").glob("g*/vectors.npy")
    before = (folder / "solved" / "manifest.json").read_bytes()
    os.truncate(vectors, 200)
    collection.close()
    assert (folder / "solved" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_block_that_an_exception_ends_is_left_without_solving(folder, monkeypatch, error):
    def fail():
        with memvec.open(folder) as collection:
            collection.add(ROWS[4200:])
            collection.seal(progress=False)
            raise error

    solving.forbid(monkeypatch)
    with pytest.raises(error):
        fail()
    with memvec.open(folder) as collection:  # it was closed
        assert len(collection) == 4400


def test_interpreter_that_shuts_down_closes_without_solving(folder, monkeypatch):
    def refuse(*_):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr("memvec.guarantee.Promises.solve_ahead", refuse)
    with memvec.open(folder) as collection:
        collection.add(ROWS[4200:])
        collection.seal(progress=False)
    with memvec.open(folder, read_only=True) as collection:
        assert collection.check().ok
