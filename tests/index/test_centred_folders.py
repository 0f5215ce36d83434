"""Saved indexes of centred vectors, with and without what their codes know besides."""

import numpy as np
import pytest

from clouds import around
from memvec import Index, IndexConfig
from memvec.index._files import assembled, contents_of
from memvec.search import SHIFT_ARRAYS

DIM, PREFIX = 100, 2
CENTRES = np.random.default_rng(1).standard_normal((60, DIM)) + 0.5
ROWS, QUERIES = around(CENTRES, 0.5, 2, 2000), around(CENTRES, 0.5, 3, 40)
CONFIG = IndexConfig(assignment="kmeans", unit_size=16, center=True, reserve=100)


@pytest.fixture(scope="module")
def index():
    return Index.build(ROWS, similarity=0.7, config=CONFIG)


def test_saved_shifts_are_opened(index, tmp_path):
    index.save(tmp_path / "index.mv")
    opened = Index.open(tmp_path / "index.mv", verify=True)
    before, after = (one.range_search(QUERIES, 0.6) for one in (index, opened))
    np.testing.assert_array_equal(before.ids, after.ids)
    assert before.work == after.work


def test_folder_from_before_shifts_is_tested_by_centred_cosines(index):
    arrays, meta = contents_of(index._parts)
    older = {name: array for name, array in arrays.items() if name not in SHIFT_ARRAYS}
    cascade = assembled(older, meta).units.cascade
    assert not cascade.centring
    queries, rows = np.zeros(3, dtype=np.int64), np.arange(3)
    scores, slopes = cascade.see(QUERIES, queries, rows)
    prefix = scores[:, PREFIX] / slopes[:, PREFIX]
    mean = cascade.units.projection.mean
    left = QUERIES[0] - mean
    right = cascade.vectors[:3] - mean
    cosines = right @ left / np.linalg.norm(left) / np.linalg.norm(right, axis=1)
    # The noise of a code of 100 dimensions has a standard deviation of 0.075.
    assert np.abs(prefix - cosines).max() < 0.3


def test_folder_that_lacks_some_shifts_is_refused(index):
    arrays, meta = contents_of(index._parts)
    for name in SHIFT_ARRAYS:
        others = {one: array for one, array in arrays.items() if one != name}
        with pytest.raises(ValueError, match=name):
            assembled(others, meta)


@pytest.mark.parametrize("settings", [{"center": False}, {"center": True, "pca_dim": 64}])
def test_shifts_of_an_index_that_has_none_are_not_used(index, settings):
    """A search would read and write beyond arrays of other lengths."""
    config = IndexConfig(assignment="kmeans", unit_size=16, reserve=100, **settings)
    other = Index.build(ROWS, similarity=0.7, config=config)
    arrays, meta = contents_of(other._parts)
    forged = {name: contents_of(index._parts)[0][name] for name in SHIFT_ARRAYS}
    cascade = assembled(arrays | forged, meta).units.cascade
    assert not cascade.centring
