"""Indexes of balanced codes: half of the bits set, compared by the ones that are shared."""

import numpy as np
import pytest

import memvec
import naive
from memvec import Index, IndexConfig
from memvec.errors import CorruptIndexError, InvalidTypeError, InvalidValueError
from memvec.evaluation import count_misses, exact_range
from memvec.storage import open_folder, write_folder
from strategies import cloud

ROWS = cloud(1, n=3000, dim=100, near=0.75)
QUERIES = cloud(2, n=300, dim=100, near=0.75)
BITS = (None, 64, 100, 512)


def built(code_bits, **settings):
    config = IndexConfig(codes="balanced", code_bits=code_bits, **settings)
    return Index.build(ROWS, similarity=0.7, miss_rate=0.05, config=config, progress=False)


@pytest.mark.parametrize("code_bits", BITS)
@pytest.mark.parametrize("rotation", ["random", "none"])
def test_codes_of_units_and_members_have_half_of_their_bits_set(code_bits, rotation):
    cascade = built(code_bits, rotation=rotation)._parts.units.cascade
    n_bits = code_bits or 128
    for codes in (cascade.codes, cascade.unit_codes):
        assert codes.shape[1] == -(-n_bits // 64)
        ones = np.unpackbits(codes.view(np.uint8), axis=1).sum(axis=1)
        assert (ones == n_bits // 2).all()
    assert len(set(cascade.code_scales.tolist())) == 1


@pytest.mark.parametrize("code_bits", BITS)
def test_promises_are_kept_and_exact_answers_whole(code_bits, tmp_path):
    index = built(code_bits)
    truth = exact_range(ROWS, QUERIES, 0.7)
    misses = count_misses(truth, index.range_search(QUERIES))
    assert misses.miss_rate <= 0.05 + 4 * misses.standard_error
    exact = index.range_search(QUERIES, guarantee="exact")
    assert exact.ids.tolist() == truth.ids.tolist()
    index.save(tmp_path / "index.mv")
    opened = Index.open(tmp_path / "index.mv", verify=True)
    assert opened.design.config.code_bits == code_bits
    one, other = (each.range_search(QUERIES) for each in (index, opened))
    assert one.ids.tolist() == other.ids.tolist()
    assert one.work == other.work


def test_longer_codes_leave_less_to_compare():
    work = {bits: built(bits).range_search(QUERIES).work for bits in (64, 512)}
    # Seen: 853 and 359 a query, of 134 matches.
    assert work[512].exact_products < 0.7 * work[64].exact_products


def test_explanation_tells_how_a_match_passes():
    index = built(256)
    [row] = index.range_search(QUERIES[:1], 0.5)
    told = index.explain(QUERIES[0], int(row.ids[0]))
    assert told.returned


def test_collections_take_balanced_codes(tmp_path):
    config = IndexConfig(codes="balanced", code_bits=256)
    given = {"similarity": 0.7, "miss_rate": 0.05, "seal_at": 0, "config": config}
    with memvec.open(tmp_path / "c.mv", dim=100, **given) as collection:
        collection.add(ROWS[:2500])
        collection.seal()
        collection.add(ROWS[2500:])
        found = collection.range_search(QUERIES, guarantee="exact")
        assert len(found.ids) == len(exact_range(ROWS, QUERIES, 0.7).ids)


def test_bad_numbers_of_bits_are_refused():
    for bits in (3, 1 << 17):
        with pytest.raises(InvalidValueError, match=f"'code_bits' .* even number.* Got {bits}"):
            IndexConfig(codes="balanced", code_bits=bits)
    with pytest.raises(InvalidValueError, match="'code_bits' .* integer >= 2. Got 0"):
        IndexConfig(codes="balanced", code_bits=0)
    with pytest.raises(InvalidTypeError, match="'code_bits'"):
        IndexConfig(codes="balanced", code_bits=1.5)
    with pytest.raises(InvalidValueError, match="'code_bits' .* None for codes 'sign'. Got 64"):
        IndexConfig(codes="sign", code_bits=64)


def test_folder_that_names_another_number_of_bits_is_refused(tmp_path):
    built(512).save(tmp_path / "index.mv")
    arrays, meta = open_folder(tmp_path / "index.mv")
    for top in (1, -510):
        forged = {**meta, "codes": {**meta["codes"], "top": top}}
        write_folder(tmp_path / "forged.mv", {n: np.array(a) for n, a in arrays.items()}, forged)
        with pytest.raises(CorruptIndexError, match="'top' .* one of \\(-512,\\)"):
            Index.open(tmp_path / "forged.mv")


def test_code_of_a_row_is_its_twins():
    index = built(200)
    cascade = index._parts.units.cascade
    rotated = cascade.space.rotate(cascade.vectors[:5])
    for row in range(5):
        bits = naive.unpack(cascade.codes[row])[:200]
        np.testing.assert_array_equal(bits, naive.balanced_bits(rotated[row, :200]))
