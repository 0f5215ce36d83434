"""Codes of waiting vectors: kept as long as the segments have codes of the same kind."""

from types import SimpleNamespace

import numpy as np

import memvec
from memvec.collection._settings import Settings
from memvec.collection._waiting import Waiting
from memvec.collection._waiting_codes import CHUNK, CodeScans
from memvec.kernels import StoredRows
from naive import unit_rows


def state_of(codes):
    """Return as much of a state as tells what codes its first segment has."""
    design = SimpleNamespace(config=memvec.IndexConfig(codes=codes), similarity=0.7)
    index = SimpleNamespace(design=design)
    return SimpleNamespace(segments=[SimpleNamespace(rows=SimpleNamespace(index=index))])


def test_codes_are_made_anew_where_segments_have_others():
    rows = unit_rows(np.random.default_rng(1).standard_normal((CHUNK, 64))).astype(np.float32)
    waiting = Waiting.empty(64, "float32").followed_by(StoredRows.of(rows), np.arange(CHUNK))
    scans = CodeScans(Settings(64))
    first, other = (
        scans.chunk(state_of("sign"), waiting, 0),
        scans.chunk(state_of("estimate"), waiting, 0),
    )
    assert first is not other
    assert scans.chunk(state_of("sign"), waiting, 0) is first
    assert scans.chunk(state_of("estimate"), waiting, 0) is other


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
