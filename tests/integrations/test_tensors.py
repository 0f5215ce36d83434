"""Tensors of other libraries are vectors: float32, float16 and bfloat16, on the CPU or a card."""

import numpy as np
import pytest

import memvec
from memvec.evaluation import load_sample


@pytest.fixture(scope="module")
def vectors():
    return load_sample().vectors[:500]


def of_numpy(name):
    if name == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return lambda rows: rows.astype(ml_dtypes.bfloat16)
    return lambda rows: rows.astype(name)


def of_torch(name):
    torch = pytest.importorskip("torch")
    return lambda rows: torch.from_numpy(rows).to(getattr(torch, name))


def of_jax(name):
    numpy = pytest.importorskip("jax.numpy")
    return lambda rows: numpy.asarray(rows, dtype=name)


def of_cupy(name):
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available() or name == "bfloat16":
        pytest.skip("CuPy needs a card, and has no bfloat16")
    return lambda rows: cupy.asarray(rows, dtype=name)


MAKERS = [of_numpy, of_torch, of_jax, of_cupy]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("maker", MAKERS)
def test_tensors_are_searched_and_joined_as_arrays_are(maker, name, vectors):
    tensor, rounded = maker(name)(vectors.copy()), of_numpy(name)(vectors).astype(np.float32)
    index, wanted = memvec.Index.build(tensor), memvec.Index.build(rounded)
    # Rows of float32 that have norm 1 up to rounding stay as they are; others are scaled.
    np.testing.assert_allclose(index.vectors(), wanted.vectors(), atol=2e-6)
    hits, same = index.range_search(tensor[:9], 0.6), wanted.range_search(rounded[:9], 0.6)
    np.testing.assert_array_equal(hits.ids, same.ids)
    np.testing.assert_allclose(hits.scores, same.scores, atol=2e-6)
    pairs, alike = memvec.join(tensor[:50], tensor, 0.7), memvec.join(rounded[:50], rounded, 0.7)
    np.testing.assert_array_equal(pairs.right, alike.right)
