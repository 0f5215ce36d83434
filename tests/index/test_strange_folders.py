"""Saved indexes damaged and forged at random: a typed error or the right answer, nothing else."""

import os

import pytest

import fuzz

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def failures(folder, seed, count):
    """Return the trials whose outcome is not accepted, after printing the table of all."""
    outcomes = fuzz.run("fuzz.saved_index", folder, seed=seed, count=count)
    assert len(outcomes) == count
    print(fuzz.table(outcomes))
    return [one for one in outcomes if not one.accepted]


def test_strange_index_gives_a_typed_error_or_the_right_answer(tmp_path):
    assert failures(tmp_path, seed=20, count=200) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_thousands_of_strange_indexes_give_a_typed_error_or_the_right_answer(tmp_path, seed):
    assert failures(tmp_path, seed=seed, count=2500) == []
