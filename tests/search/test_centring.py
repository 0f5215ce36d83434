"""Codes of centred vectors: they estimate the inner product of the vectors as they were given."""

from dataclasses import replace

import numpy as np
import pytest

from memvec import Index, IndexConfig
from memvec.kernels import centre_queries
from memvec.search import Centring
from naive.codes import centred_estimate
from strategies import cloud

DIM = 100
CONFIG = IndexConfig(assignment="kmeans", unit_size=16, center=True, reserve=100, member_bits=1)
UNIT, PREFIX, CODE = 1, 2, 3


def leaning(seed, n, towards=0.7):
    """Return a cloud of unit rows with a common direction."""
    rows = cloud(seed, n=n, dim=DIM, near=2.0) + towards * np.eye(1, DIM)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


ROWS, QUERIES = leaning(1, 3000), leaning(2, 40)


@pytest.fixture(scope="module")
def index():
    return Index.build(ROWS, similarity=0.7, config=CONFIG)


@pytest.fixture(scope="module")
def cascade(index):
    return index.units.cascade


def estimates(cascade, stage, rows):
    """Return what a stage estimates the inner products of all queries with some rows to be."""
    queries, members = np.divmod(np.arange(len(QUERIES) * len(rows)), len(rows))
    scores, slopes = cascade.see_homes(QUERIES, queries, rows[members])[0]
    found = scores[:, stage].astype(np.float64) / slopes[:, stage]
    return found.reshape(len(QUERIES), len(rows))


def test_whole_codes_of_centred_rows_equal_their_twin(cascade):
    rows, mean, space = np.arange(0, 3000, 300), cascade.units.projection.mean, cascade.space
    found = estimates(cascade, CODE, rows)

    def rotate(row):
        return space.rotate(row.astype(np.float32)[np.newaxis])[0].astype(np.float64)

    for q, query in enumerate(QUERIES[:5]):
        for place, row in enumerate(rows):
            expected = centred_estimate(query, cascade.vectors[row], mean, rotate, space)
            assert found[q, place] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("stage", [UNIT, PREFIX, CODE])
def test_stages_of_centred_rows_estimate_without_a_bias(cascade, stage):
    rows = np.arange(0, 2800, 7)
    error = estimates(cascade, stage, rows) - QUERIES @ cascade.vectors[rows].T
    # Seen: −1e-5, 4e-4 and −1e-4.
    assert abs(error.mean()) < 0.005


def test_centring_leaves_codes_less_noise():
    errors, rows = [], np.arange(0, 2800, 7)
    for config in (replace(CONFIG, center=False), CONFIG):
        cascade = Index.build(ROWS, similarity=0.7, config=config).units.cascade
        errors.append((estimates(cascade, CODE, rows) - QUERIES @ cascade.vectors[rows].T).std())
    # The mean has a norm of 0.59: what is left of two rows has norms whose product is 0.65.
    # Seen: 0.685.
    assert errors[1] < 0.75 * errors[0]


def test_unit_scores_of_centred_rows_are_what_calibration_sees(index, cascade):
    rows = np.arange(0, 2800, 70)
    units = cascade.units.unit_of(rows)
    expected = index.unit_scores(QUERIES)[:, units]
    np.testing.assert_allclose(estimates(cascade, UNIT, rows), expected, atol=1e-4)


def test_centred_answers_do_not_depend_on_the_batch(index):
    together = index.range_search(QUERIES, 0.7)
    for query, row in zip(QUERIES, together, strict=True):
        alone = index.range_search(query, 0.7)
        assert alone.ids.tolist() == row.ids.tolist()


def test_query_that_is_the_mean_of_all_rows_has_a_frame():
    mean = np.full(4, 0.1, dtype=np.float32)
    tested, frames = np.empty((1, 4), dtype=np.float32), np.empty((1, 2), dtype=np.float32)
    centre_queries(mean[np.newaxis], mean, tested, frames)
    assert tested.tolist() == [[1, 0, 0, 0]]
    np.testing.assert_allclose(frames, [[0, 1e6]])


def test_nothing_is_shifted_where_vectors_are_not_centred():
    plain = Index.build(ROWS[:500], similarity=0.7, config=IndexConfig(center=False))
    assert not plain.units.cascade.centring
    assert not Centring()
