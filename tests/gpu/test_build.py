"""Indexes built on a card of NumPy: the CPU opens them and gives the same answers."""

import pytest

from gpu import build_cases, numpy_card
from memvec import Index, IndexConfig
from memvec.errors import DeviceMemoryError, InvalidValueError


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_built_index_answers_like_its_saved_copy(card, tmp_path, dtype):
    build_cases.assert_built_well(build_cases.built("cuda", dtype), tmp_path)


def test_build_that_does_not_fit_says_what_it_needs(card, monkeypatch):
    monkeypatch.setattr(numpy_card.Device, "mem_info", (1 << 20, 1 << 20))
    with pytest.raises(DeviceMemoryError, match=r"A build of this index needs .* GB are free"):
        build_cases.built("cuda")


def test_index_without_balanced_codes_stays_on_the_cpu(card):
    rows, _ = build_cases.rows_and_queries()
    index = Index.build(rows[:300], progress=False)
    with pytest.raises(InvalidValueError, match=r"'device' .*IndexConfig\(codes=.balanced.\)"):
        index.to("cuda")
    with pytest.raises(InvalidValueError, match="'config' .* codes 'auto' or 'balanced'"):
        build_cases.built("cuda", config=IndexConfig(codes="sign"))
