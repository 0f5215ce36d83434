"""How many bits the codes of members have: the law that decides it, against what codes do."""

import numpy as np
import pytest

from memvec import Index, IndexConfig
from memvec.index import MachineCosts
from memvec.index._member_bits import _MemberLaw, choose_member_bits
from memvec.kernels import StoredRows

CODE = 3
SIMILARITY = 0.6


def crowd(n=3000, dim=128, mean=0.5, seed=0):
    """Rows with a common direction that is as long as `mean`, and a few near neighbours each."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n // 10, dim)).repeat(10, axis=0)
    rows += 0.7 * rng.standard_normal((n, dim))
    rows *= np.sqrt(1 - mean**2) / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:, 0] += mean
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def law_of(rows, dtype="float32", center=False):
    config = IndexConfig(codes="estimate", center=center)
    return _MemberLaw.of(StoredRows.of(rows, dtype), np.arange(len(rows)), SIMILARITY, config)


@pytest.mark.parametrize(("center", "mean"), [(False, 0.2), (True, 0.7)])
def test_as_many_members_pass_as_the_law_says(center, mean):
    rows = crowd(mean=mean)
    config = IndexConfig(
        center=center, unit_size=16, member_bits=1, assignment="kmeans", units_per_vector=1
    )
    index = Index.build(rows, similarity=SIMILARITY, config=config, progress=False)
    law = law_of(rows, center=center)
    left, right = np.random.default_rng(1).integers(len(rows), size=(2, 200_000))
    scores, slopes = index.units.see(rows, left, right)
    estimates = scores[:, CODE] / slopes[:, CODE]
    noise = 0.755 / np.sqrt(128) * (1 - law.common)
    passed = len(rows) * np.mean(estimates[left != right] >= SIMILARITY - 1.7 * noise)
    # Seen: 1.05 and 0.99 times as many.
    assert law.n_passed(128, 1) == pytest.approx(passed, rel=0.15)


def test_centred_sign_codes_tell_more_and_fine_codes_stay():
    rows = crowd(mean=0.7)
    plain, centred = (law_of(rows, center=center) for center in (False, True))
    assert centred.common == pytest.approx(0.49, abs=0.03)
    assert centred.n_passed(128, 1) < 0.7 * plain.n_passed(128, 1)
    assert centred.n_passed(128, 4) == plain.n_passed(128, 4)


def test_rows_of_fewer_bytes_are_charged_for_fewer():
    costs = MachineCosts()
    laws = [law_of(crowd(), dtype) for dtype in ("float32", "float16", "int8")]
    assert [law.row_bytes for law in laws] == [512, 256, 128]
    times = [law.time(1, 1, costs) for law in laws]
    assert times[0] > times[1] > times[2]


def test_what_is_calibrated_on_is_not_drawn():
    rows = crowd(2000)
    rows[:500] = rows[0]
    outside = np.arange(500, 2000)
    config = IndexConfig(codes="estimate", center=False)
    law = _MemberLaw.of(StoredRows.of(rows), outside, 0.99, config)
    assert law.n_matches == 0
    assert law_of(rows).n_matches > 100


def test_papers_codes_and_single_rows_have_one_bit():
    rows = StoredRows.of(crowd())
    costs, every = MachineCosts(), np.arange(3000)
    sign = IndexConfig(codes="sign", member_words=2)
    assert choose_member_bits(rows, every, SIMILARITY, sign, costs) == 1
    estimate = IndexConfig(codes="estimate", member_words=2, center=False)
    assert choose_member_bits(rows, every[:1], SIMILARITY, estimate, costs) == 1
