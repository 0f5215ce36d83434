"""Builds on a card, of NumPy or real: what must be true of them."""

import numpy as np

import naive
from memvec import Index, IndexConfig
from memvec.evaluation import exact_range, exact_top_k
from memvec.gpu import _build, _clusters

DIM, SIMILARITY = 64, 0.8


def rows_and_queries(n=1500, seed=1):
    """Uniform vectors, a third of which have near copies; and near copies of others."""
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((n, DIM)))
    half = n // 3
    rows[half : 2 * half] = near(rows[:half], rng)
    return rows, near(rows[half // 2 : half // 2 + 60], rng)


def near(rows, rng):
    return naive.unit_rows(rows + 0.55 * naive.unit_rows(rng.standard_normal(rows.shape)))


def built(device, dtype="float32", **given):
    rows, _ = rows_and_queries()
    config = IndexConfig(assignment="random", unit_size=4, reserve=300)
    return Index.build(
        given.pop("vectors", rows),
        similarity=SIMILARITY,
        miss_rate=0.05,
        dtype=dtype,
        device=device,
        config=given.pop("config", config),
        progress=False,
        **given,
    )


def clustered(dtype, monkeypatch):
    """An index of k-means units, of few rows in small clusters."""
    monkeypatch.setattr(_build, "_LEAST_CLUSTERED", 1000)
    monkeypatch.setattr(_clusters, "_CLUSTER_ROWS", 200)
    monkeypatch.setattr(_clusters, "_MOST_ROWS", 250)
    config = IndexConfig(assignment="kmeans", unit_size=4, reserve=300)
    index = built("cuda", dtype, config=config)
    sizes = np.diff(index.units.cascade.units.offsets)[:-1]
    assert len(np.unique(sizes)) > 2
    assert sizes.sum() == 1200
    assert len(sizes) >= 300
    return index


def assert_built_well(index, folder):
    """Answers are those of the saved index on the CPU; the table holds the true matches."""
    rows, queries = rows_and_queries()
    index.save(folder / "saved.index")
    opened = Index.open(folder / "saved.index", verify=True)
    assert opened.check().ok
    asked = np.concatenate([queries, rows[:20]])
    for similarity in (0.7, 0.8, 0.9, 1.0):
        for some in (asked, asked[:1]):
            here, there = (
                one.range_search(some, similarity, shadow=0.0) for one in (opened, index)
            )
            np.testing.assert_array_equal(here.ids, there.ids)
            np.testing.assert_array_equal(here.offsets, there.offsets)
            np.testing.assert_array_equal(here.scores, there.scores)
            assert here.certificate == there.certificate
    np.testing.assert_array_equal(opened.search(asked, 5).ids, index.search(asked, 5).ids)
    found = index.range_search(queries, SIMILARITY)
    assert found.certificate.level == "expected"
    assert not found.certificate.n_synthetic
    truth = exact_range(opened.units.cascade.vectors, queries, SIMILARITY)
    assert truth.counts.sum() > 30
    assert len(found.ids) >= 0.85 * truth.counts.sum()
    assert_table_is_true(index, opened)
    pairs = index.self_join(SIMILARITY)
    every = opened.self_join(SIMILARITY, guarantee="exact")
    assert len(every.left) > 200
    assert 0.85 * len(every.left) <= len(pairs.left) <= len(every.left)
    told = index.explain(queries[0], int(found.ids[0]))
    assert [stage.name for stage in told.stages] == ["unit", "prefix", "code"]


def assert_table_is_true(index, opened):
    """The nearest of the reserve are those that the CPU finds, and stages see the same of them."""
    vectors, table = opened.units.cascade.vectors, index.calibration_table
    own = np.arange(len(vectors) - 300, len(vectors))
    top = exact_top_k(vectors, vectors[own], 100, exclude=own)
    nearest = table.nearest(100)
    keys = opened.units.cascade.keys[top.ids]
    np.testing.assert_array_equal(nearest.keys.reshape(300, 100), keys)
    np.testing.assert_array_equal(nearest.cosines.reshape(300, 100).astype(np.float32), top.scores)
    again = opened.units.cascade.see(vectors[own], nearest.queries, top.ids.reshape(-1))
    np.testing.assert_allclose(nearest.scores, again[0], rtol=1e-5)
    np.testing.assert_allclose(nearest.slopes, again[1], rtol=1e-5)
