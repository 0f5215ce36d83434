"""Groups from pairs that come in blocks, against sets."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memvec.search._groups import Components, grouped


@settings(deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_components_do_not_depend_on_how_edges_come(n, edges):
    edges = [(a % n, b % n) for a, b in edges]
    whole, single = Components(np.arange(n)), Components(np.arange(n))
    if edges:
        whole.join(*np.array(edges).T)
    for a, b in reversed(edges):
        single.join(np.array([a]), np.array([b]))
    assert np.array_equal(whole.labels(), single.labels())
    expected = {i: {i} for i in range(n)}
    for a, b in edges:
        merged = expected[a] | expected[b]
        for node in merged:
            expected[node] = merged
    assert whole.labels().tolist() == [min(expected[i]) for i in range(n)]


def test_grouped_gives_what_is_shared():
    assert [some.tolist() for some in grouped(np.array([0, 1, 0, 3, 1, 1]))] == [[0, 2], [1, 4, 5]]
    assert list(grouped(np.empty(0, dtype=np.int64))) == []
