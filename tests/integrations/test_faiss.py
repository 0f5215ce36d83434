"""An index of FAISS becomes one of memvec: the same vectors, ids and scores."""

from itertools import pairwise

import numpy as np
import pytest

faiss = pytest.importorskip("faiss", reason="of the group extras: make test-extras")

from memvec import Index
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation import load_sample


@pytest.fixture(scope="module")
def vectors():
    return load_sample().vectors[:1500]


def flat(vectors, metric):
    index = faiss.IndexFlat(vectors.shape[1], metric)
    index.add(vectors)
    return index


def ivf(vectors, metric):
    dim = vectors.shape[1]
    quantizer = faiss.IndexFlat(dim, metric)
    index = faiss.IndexIVFFlat(quantizer, dim, 8, metric)
    index.train(vectors)
    index.add(vectors)
    index.nprobe = 8
    return index


def ivf_with_map(vectors, metric):
    index = ivf(vectors, metric)
    index.make_direct_map(True)
    return index


KINDS = [flat, ivf, ivf_with_map]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_faiss(kind, vectors):
    theirs = kind(vectors, faiss.METRIC_INNER_PRODUCT)
    ours = Index.from_faiss(theirs, similarity=0.6, guarantee="exact")
    np.testing.assert_array_equal(ours.vectors(), vectors)
    assert ours.metric == "cosine"
    lims, scores, ids = ours.range_search(vectors[:50], 0.6).as_faiss()
    wanted_lims, wanted_scores, wanted_ids = theirs.range_search(vectors[:50], 0.6)
    np.testing.assert_array_equal(lims, wanted_lims)
    for start, stop in pairwise(lims):
        mine, yours = np.argsort(ids[start:stop]), np.argsort(wanted_ids[start:stop])
        np.testing.assert_array_equal(ids[start:stop][mine], wanted_ids[start:stop][yours])
        np.testing.assert_allclose(
            scores[start:stop][mine], wanted_scores[start:stop][yours], atol=1e-5
        )


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_faiss(kind, vectors):
    theirs = kind(vectors, faiss.METRIC_L2)
    ours = Index.from_faiss(theirs, radius=0.9, guarantee="exact")
    assert ours.metric == "euclidean"
    distances, _ = ours.search(vectors[:20], 5).as_faiss()
    np.testing.assert_allclose(distances, theirs.search(vectors[:20], 5)[0], atol=1e-4)


def test_index_of_faiss_is_left_as_it_was(vectors):
    theirs = ivf(vectors, faiss.METRIC_L2)
    Index.from_faiss(theirs)
    assert theirs.direct_map.no()
    kept = ivf_with_map(vectors, faiss.METRIC_L2)
    Index.from_faiss(kept)
    assert not kept.direct_map.no()


def test_read_index_is_taken(vectors, tmp_path):
    faiss.write_index(ivf(vectors, faiss.METRIC_INNER_PRODUCT), str(tmp_path / "ivf.faiss"))
    read = Index.from_faiss(faiss.read_index(str(tmp_path / "ivf.faiss")))
    np.testing.assert_array_equal(read.vectors(), vectors)


def test_other_ids_are_refused(vectors):
    theirs = ivf(vectors, faiss.METRIC_L2)
    theirs.add_with_ids(vectors[:2], np.array([10**6, 10**7]))
    with pytest.raises(InvalidValueError, match=r"numbered 0 to n − 1.* Got other ids"):
        Index.from_faiss(theirs)
    assert theirs.direct_map.no()


def test_other_indexes_are_refused(vectors):
    coarse = faiss.IndexPQ(vectors.shape[1], 8, 8)
    with pytest.raises(InvalidTypeError, match="an IndexFlat or IndexIVFFlat.* Got IndexPQ"):
        Index.from_faiss(coarse)
    with pytest.raises(InvalidValueError, match="of the inner product or of L2. Got metric"):
        Index.from_faiss(flat(vectors, faiss.METRIC_L1))
    with pytest.raises(InvalidValueError, match="at least one vector. Got none"):
        Index.from_faiss(faiss.IndexFlatIP(4))
    for metric in (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2):
        with pytest.raises(InvalidValueError, match="rows of norm 1 .* Got norm 2 in row 0"):
            Index.from_faiss(flat(2 * vectors[:5], metric))
