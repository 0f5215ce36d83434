"""Trials on collections: a typed error or the right answer, and nothing outside is touched."""

import os

import pytest

import fuzz


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 200), pytest.param(1, 3000, marks=pytest.mark.slow)]
)
def test_strange_collections_end_in_an_answer_or_a_typed_error(quick_path, seed, count):
    outcomes = fuzz.run("fuzz.collection_folder", quick_path, seed=seed, count=count)
    assert [one for one in outcomes if not one.accepted] == []
    assert len(outcomes) == count
    print(fuzz.table(outcomes))
