"""The trials themselves: a crash, a hang and a touched file are told from a typed error."""

import os

import pytest

import fuzz


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_trials_tell_every_outcome(tmp_path):
    outcomes = fuzz.run("fuzz.known", tmp_path, seed=0, count=2)
    assert [one.result for one in outcomes] == [one.name for one in outcomes]
    assert len(outcomes) == 12
    accepted = {one.result for one in outcomes if one.accepted}
    assert accepted == {fuzz.RIGHT, fuzz.REFUSED}
    details = {one.result: one.detail for one in outcomes}
    assert details[fuzz.CRASHED] == "SIGSEGV"
    assert details[fuzz.UNTYPED] == "IndexError: a plain one"
    assert details[fuzz.TOUCHED] == "['notes.txt'] "
    assert "| known | 12 | 2 | 2 | 2 | 2 | 2 | 2 |" in fuzz.table(outcomes)
