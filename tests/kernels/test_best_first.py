"""The order of a visit, against sorting."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memvec import Index, IndexConfig
from memvec.guarantee import Thresholds
from memvec.kernels import ANYTHING
from memvec.kernels._reached import _BINS, ANY_SIMILARITY, in_order
from strategies import cloud, seeds


@settings(max_examples=30, deadline=None)
@given(seed=seeds, n=st.integers(0, 300), n_any=st.integers(0, 3), spread=st.sampled_from([0, 1]))
def test_places_are_put_in_order_up_to_the_width_of_a_bin(seed, n, n_any, spread):
    rng = np.random.default_rng(seed)
    places = rng.permutation(1000)[:n].astype(np.int32)
    reaches = (spread * rng.standard_normal(n)).astype(np.float32)
    reaches[:n_any] = ANY_SIMILARITY
    ordered, reached = np.empty(n, np.int32), np.empty(n, np.float32)
    in_order(places, reaches, ordered, reached)
    pairs = list(zip(places.tolist(), reaches.tolist(), strict=True))
    assert sorted(zip(ordered.tolist(), reached.tolist(), strict=True)) == sorted(pairs)
    finite = reached[min(n_any, n) :]
    if len(finite):
        width = float(finite.max() - finite.min()) / (_BINS - 1)
        assert (np.maximum.accumulate(finite[::-1])[::-1] - finite <= width * 1.001).all()


def test_more_nearest_than_there_is_room_for_are_all_returned(monkeypatch):
    rows = np.repeat(cloud(3, n=4, dim=70), 60, axis=0)
    config = IndexConfig(codes="estimate", unit_size=8)
    cascade = Index.build(rows, config=config, progress=False).source.cascade
    queries, slack = np.ascontiguousarray(rows[:70:10]), np.full(5, 60.0)

    def found():
        best = np.full((7, 3), -np.inf)
        lines = Thresholds.one(0.0, slack)
        hits = cascade.nearest(queries, np.array([ANYTHING]), lines, best, 1)
        return hits.ids.tolist(), hits.counts.tolist(), best.tolist()

    expected = found()
    assert expected[1] == [60] * 7
    monkeypatch.setattr("memvec.kernels._query_blocks._ROOM", 100)
    assert found() == expected
