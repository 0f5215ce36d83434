"""The benchmark of structured vectors, on a card of NumPy."""

import numpy as np
import pytest
from benchmarks import gpu_structured
from benchmarks.data import structured_vectors
from benchmarks.gpu_structured import StructuredRows

from gpu import numpy_card
from memvec.gpu import _build, _clusters


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


def test_rows_of_a_card_have_the_law_of_those_of_the_cpu(card):
    data = StructuredRows(4000, 96)
    rows = np.asarray(data[slice(0, 4000)])
    np.testing.assert_array_equal(rows[1000:3000], data[slice(1000, 3000)])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    shares = []
    for made in (rows, structured_vectors(4000, 96)):
        products = np.sort((made @ made.T)[np.triu_indices(4000, 1)])
        shares.append([(products > level).mean() for level in (0.5, 0.6, 0.7)])
        assert 0.03 < products.mean() < 0.12
    np.testing.assert_allclose(*shares, rtol=0.4)


def test_benchmark_of_structured_vectors_prints_its_table(card, monkeypatch, capsys):
    monkeypatch.setattr(_build, "_LEAST_CLUSTERED", 1000)
    monkeypatch.setattr(_clusters, "_CLUSTER_ROWS", 500)
    monkeypatch.setattr(gpu_structured, "SAMPLE", 100)
    monkeypatch.setattr(gpu_structured, "BATCH", 200)
    monkeypatch.setattr(gpu_structured, "SINGLE_QUERIES", 3)
    gpu_structured.run(3000, 64, 0.8, (8,), "cuda")
    rows = [
        line.split(" | ")
        for line in capsys.readouterr().out.splitlines()
        if "| kmeans" in line or "| random" in line
    ]
    assert [row[0] for row in rows] == ["| kmeans", "| random"]
    for row in rows:
        assert int(row[4]) > 100
        assert 0.9 < float(row[5]) <= 1
