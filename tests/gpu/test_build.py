"""Indexes built on a card of NumPy: the CPU opens them and gives the same answers."""

import pytest

from gpu import build_cases, numpy_card


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_built_index_answers_like_its_saved_copy(card, tmp_path, dtype):
    build_cases.assert_built_well(build_cases.built("cuda", dtype), tmp_path)
