"""Codes of waiting vectors: made once, and only where they tell anything."""

import numpy as np
import pytest

import memvec
from memvec.collection import _waiting_codes
from memvec.collection._waiting_codes import CHUNK
from naive import unit_rows


@pytest.mark.parametrize(
    ("codes", "encoded"), [("estimate", True), ("sign", False), ("balanced", False)]
)
def test_waiting_vectors_have_codes_where_their_noise_is_bounded(
    tmp_path, monkeypatch, codes, encoded
):
    """Codes without scales of their own would pass everything, and are not made."""
    made = []
    real = _waiting_codes.scan_by_codes
    monkeypatch.setattr(
        _waiting_codes, "scan_by_codes", lambda *given: made.append(given) or real(*given)
    )
    rows = unit_rows(np.random.default_rng(8).standard_normal((2600 + CHUNK, 16)))
    config = memvec.IndexConfig(codes=codes, unit_size=8)
    options = {"dim": 16, "seal_at": 0, "config": config, "miss_rate": 0.05}
    with memvec.open(tmp_path / "c.mv", **options) as collection:
        collection.add(rows[:2600])
        collection.seal(progress=False)
        collection.add(rows[2600:])
        for _ in range(2):
            hits = collection.range_search(rows[2600:2603], 0.9)
            assert [row.ids[0] for row in hits] == [2600, 2601, 2602]
    assert len(made) == int(encoded)


def test_answer_that_misses_nothing_scores_every_waiting_vector(tmp_path):
    """With too little evidence for the rate, everything is visited, and said to be."""
    rows = unit_rows(np.random.default_rng(8).standard_normal((600 + 2 * CHUNK, 16)))
    with memvec.open(tmp_path / "c.mv", dim=16, seal_at=0) as collection:
        collection.add(rows[:600])
        collection.seal(progress=False)
        collection.add(rows[600:])
        hits = collection.range_search(rows[:3], 0.7, miss_rate=1e-4)
        assert hits.certificate.complete
        assert hits.work.exact_products == 3 * len(rows)
