"""Indexes built on a card of NumPy: the CPU opens them and gives the same answers."""

import numpy as np
import pytest
from benchmarks.data import structured_vectors

from gpu import build_cases, numpy_card
from memvec import Index, IndexConfig
from memvec.constructions import memory_vectors
from memvec.errors import DeviceMemoryError, InvalidValueError
from memvec.gpu import _truth
from memvec.progress import listening


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_built_index_answers_like_its_saved_copy(card, tmp_path, dtype):
    build_cases.assert_built_well(build_cases.built("cuda", dtype), tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_index_of_kmeans_units_answers_like_its_saved_copy(card, monkeypatch, tmp_path, dtype):
    index = build_cases.clustered(dtype, monkeypatch)
    build_cases.assert_built_well(index, tmp_path)
    again = build_cases.clustered(dtype, monkeypatch)
    np.testing.assert_array_equal(index.source.moved.rows.places, again.source.moved.rows.places)


def test_kmeans_units_are_solved_like_those_of_the_cpu(card, monkeypatch):
    units = build_cases.clustered("float32", monkeypatch).units.cascade.units
    inside = units.offsets[: units.n_tested + 1]
    expected = memory_vectors(units.vectors[: inside[-1]], inside)
    np.testing.assert_allclose(units.unit_vectors, expected, atol=2e-3)
    labels = np.repeat(np.arange(units.n_tested), np.diff(units.offsets)[:-1])
    scores = (units.vectors[: len(labels)] * units.unit_vectors[labels]).sum(axis=1)
    sizes = np.bincount(labels)
    np.testing.assert_allclose(np.bincount(labels, scores) / sizes, units.means, atol=1e-4)
    spread = np.bincount(labels, (scores - units.means[labels]) ** 2) / sizes
    np.testing.assert_allclose(spread, units.variances, atol=1e-4)


def test_truth_of_like_rows_that_lie_together_needs_no_more_room(card, monkeypatch, tmp_path):
    monkeypatch.setattr(_truth, "_ROOM", 3000)
    build_cases.assert_built_well(build_cases.built("cuda"), tmp_path)


def test_build_that_does_not_fit_says_what_it_needs(card, monkeypatch):
    monkeypatch.setattr(numpy_card.Device, "mem_info", (1 << 20, 1 << 20))
    with pytest.raises(DeviceMemoryError, match=r"A build of this index needs .* GB are free"):
        build_cases.built("cuda")


def test_build_states_what_memory_it_takes_before_it_takes_it(card, monkeypatch):
    monkeypatch.setattr(numpy_card.Device, "mem_info", (6 << 30, 8 << 30))
    told = []
    with listening(lambda what, done, total: told.append((what, done))):
        build_cases.built("cuda", dtype="int8")
    stated = "building in up to 4.3 of 6.4 GB"
    assert (told[0], told[-1]) == ((stated, 0), (stated, 1))
    assert ("storing", 1500) in told


def test_units_are_random_and_small_where_data_fills_few_dimensions(card):
    rows = structured_vectors(2100, 96)
    index = Index.build(rows[:2000], similarity=0.8, device="cuda", progress=False)
    assert index.design.config.assignment == "random"
    assert index.design.unit_size <= 2
    assert index.source.moved.n_tested > 900
    found = index.range_search(rows[2000:], 0.6)
    exact = index.range_search(rows[2000:], 0.6, guarantee="exact")
    assert 0.9 * len(exact.ids) <= len(found.ids) <= len(exact.ids)
    assert len(exact.ids) > 50


def test_index_without_balanced_codes_stays_on_the_cpu(card):
    rows, _ = build_cases.rows_and_queries()
    index = Index.build(rows[:300], progress=False)
    with pytest.raises(InvalidValueError, match=r"'device' .*IndexConfig\(codes=.balanced.\)"):
        index.to("cuda")
    with pytest.raises(InvalidValueError, match="'config' .* codes 'auto' or 'balanced'"):
        build_cases.built("cuda", config=IndexConfig(codes="sign"))
