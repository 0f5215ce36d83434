"""Indexes on a card of NumPy answer like the CPU: the same ids and scores, bit for bit."""

import pytest

from gpu import numpy_card, source_cases
from gpu.source_cases import CONFIGS, index_of


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


@pytest.mark.parametrize("name", CONFIGS)
def test_answers_are_those_of_the_cpu(card, name):
    index = index_of(name)
    moved = index.to("cuda")
    source_cases.assert_same_answers(index, moved)
    source_cases.assert_same_filters(index, moved)


@pytest.mark.parametrize("kind", source_cases.KINDS)
def test_answers_of_every_kind_of_data_are_those_of_the_cpu(card, kind):
    source_cases.assert_same_of_kind(kind, 100, "int8" if kind == "pixels" else "float32")


@pytest.mark.parametrize("dim", [256, 384, 768, 1536, 2048])
def test_answers_of_every_length_are_those_of_the_cpu(card, dim):
    source_cases.assert_same_of_kind("uniform", dim, "int8")


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_answers_of_stored_rows_are_those_of_the_cpu(card, dtype):
    index = index_of("whole codes", dtype)
    source_cases.assert_same_answers(index, index.to("cuda"))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nearest_are_those_of_the_cpu(card, dtype):
    source_cases.assert_same_nearest(dtype)


@pytest.mark.parametrize("name", CONFIGS)
def test_joins_find_the_pairs(card, name):
    index = index_of(name, "int8" if name == "whole codes" else "float32")
    source_cases.assert_joins_well(index, index.to("cuda"))


@pytest.mark.parametrize(
    ("name", "dtype"), [("whole codes", "float32"), ("whole codes", "int8"), ("pca", "float32")]
)
def test_queries_may_lie_on_the_card(card, name, dtype):
    index = index_of(name, dtype)
    source_cases.assert_takes_arrays(index, index.to("cuda"), numpy_card.on_card)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_batches_of_numpy_are_scaled_on_the_card(card, dtype):
    source_cases.assert_uploads_batches(dtype)


@pytest.mark.parametrize("work", source_cases.WORKS)
def test_interrupts_leave_an_index_as_it_was(card, monkeypatch, work):
    source_cases.assert_survives_interrupts(work, type(card), monkeypatch)
