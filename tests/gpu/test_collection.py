"""Collections on a card of NumPy answer like the CPU; errors say what is missing."""

import numpy as np
import pytest

import memvec
from gpu import collection_cases, numpy_card, page
from gpu.collection_cases import DIM, SETTINGS
from memvec import IndexConfig
from memvec.errors import DeviceError, InvalidValueError
from memvec.gpu import _source


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_answers_are_those_of_the_cpu(card, tmp_path, dtype):
    config = IndexConfig(unit_size=4)
    collection_cases.assert_answers_on_card(tmp_path / "some.mv", dtype=dtype, config=config)


def test_new_collection_has_the_codes_of_a_card(card, tmp_path):
    path = tmp_path / "some.mv"
    with memvec.open(path, dim=DIM, device="cuda") as collection:
        made = collection.settings.config
    assert (made.codes, made.levels, made.center) == ("balanced", 1, False)
    assert made.unit_words == made.member_words == 2
    for config in (IndexConfig(), made, None):
        memvec.open(path, dim=DIM, config=config, device="cuda").close()
    with pytest.raises(InvalidValueError, match="'config' parameter of memvec.open must be"):
        memvec.open(path, config=IndexConfig(unit_size=3), device="cuda")
    with pytest.raises(InvalidValueError, match="'config' .* codes 'auto' or 'balanced' for a dev"):
        memvec.open(tmp_path / "other.mv", dim=DIM, config=IndexConfig(codes="sign"), device="cuda")


def test_collection_without_balanced_codes_is_refused_before_it_is_searched(card, tmp_path):
    memvec.open(tmp_path / "some.mv", dim=DIM).close()
    with pytest.raises(InvalidValueError, match="'device' .* without balanced codes. Got 'cuda:1'"):
        memvec.open(tmp_path / "some.mv", device="cuda:1")


def test_collection_with_balanced_codes_is_opened_on_either(card, tmp_path):
    config = IndexConfig(codes="balanced", unit_size=4, unit_words=1)
    collection_cases.fill(tmp_path / "some.mv", "cpu", config=config)
    with (
        memvec.open(tmp_path / "some.mv", read_only=True) as here,
        memvec.open(tmp_path / "some.mv", config=config, read_only=True, device="cuda") as there,
    ):
        collection_cases.assert_same_answers(here, there)


def test_segments_are_copied_by_the_first_search(card, tmp_path, monkeypatch):
    collection_cases.fill(tmp_path / "some.mv", "cuda", config=IndexConfig(unit_size=4))
    copied, copy = [], _source.units_on_card
    monkeypatch.setattr(
        _source, "units_on_card", lambda *given: copied.append(given) or copy(*given)
    )
    _, queries = collection_cases.rows_and_queries()
    with memvec.open(tmp_path / "some.mv", device="cuda") as collection:
        assert not copied
        for query in queries[:3]:
            collection.range_search(query)
        assert len(copied) == 2
        collection.add(np.eye(DIM)[:1])
        collection.range_search(queries)
        assert len(copied) == 2


def test_missing_card_is_named_before_anything_is_made(monkeypatch, tmp_path):
    def refuse(device):
        raise DeviceError(f"no {device}")

    monkeypatch.setattr(_source, "find_card", refuse)
    with pytest.raises(DeviceError, match="no cuda:1"):
        memvec.open(tmp_path / "some.mv", **SETTINGS, device="cuda:1")
    assert not (tmp_path / "some.mv").exists()
    with pytest.raises(InvalidValueError, match="'device' parameter of memvec.open must be 'cpu'"):
        memvec.open(tmp_path / "some.mv", **SETTINGS, device="gpu")


def test_blocks_of_the_page_run(card, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page.run_blocks()
