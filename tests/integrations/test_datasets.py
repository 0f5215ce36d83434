"""Data sets of Hugging Face: without duplicates, and free of an evaluation set."""

import numpy as np
import pytest

datasets = pytest.importorskip("datasets", reason="of the group extras: make test-extras")

import memvec
from memvec.evaluation import load_sample
from memvec.integrations.datasets import contamination, deduplicate


@pytest.fixture(scope="module", params=["fixed", "lists", "selected", "files"])
def dataset(request, tmp_path_factory):
    """Return 1,000 rows with near-duplicates, however the data set holds them."""
    vectors = load_sample().vectors[:1000]
    length = -1 if request.param == "lists" else vectors.shape[1]
    kind = datasets.List(datasets.Value("float32"), length=length)
    features = datasets.Features({"row": datasets.Value("int64"), "embedding": kind})
    made = datasets.Dataset.from_dict(
        {"row": range(1000), "embedding": list(vectors)}, features=features
    )
    if request.param == "selected":
        made = made.select(np.arange(1000)[::-1]).select(np.arange(1000)[::-1])
    if request.param == "files":
        folder = tmp_path_factory.mktemp("datasets")
        made.save_to_disk(folder / "rows", num_shards=3)
        made = datasets.load_from_disk(folder / "rows")
    return made


def test_duplicates_are_those_of_the_array(dataset):
    wanted = memvec.deduplicate(load_sample().vectors[:1000], 0.8)
    unique, found = deduplicate(dataset, column="embedding", similarity=0.8)
    assert isinstance(unique, datasets.Dataset)
    assert unique["row"][:] == wanted.kept.tolist()
    assert found.certificate.level == "exact"
    rows = zip(unique["row"], unique["duplicates"], strict=True)
    assert {row: some for row, some in rows if some} == dict(wanted.groups)
    assert unique.features["duplicates"] == datasets.List(datasets.Value("int64"))


def test_contamination_is_the_join(dataset):
    vectors = load_sample().vectors
    test = datasets.Dataset.from_dict({"embedding": vectors[900:1100]})
    wanted = memvec.join(vectors[900:1100], vectors[:1000], 0.9)
    found = contamination(dataset, test, similarity=0.9)
    assert found.pairs.left.tolist() == wanted.left.tolist()
    assert found.pairs.right.tolist() == wanted.right.tolist()
    assert set(range(900, 1000)) <= set(found.train_rows.tolist())
    assert (found.n_train, found.n_test) == (1000, 200)
    clean = dataset.select(np.setdiff1d(np.arange(1000), found.train_rows))
    assert len(contamination(clean, test, similarity=0.9).pairs) == 0


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="a datasets.Dataset, one split of it. Got DatasetDict"):
        deduplicate(datasets.DatasetDict())
    some = datasets.Dataset.from_dict({"a": [1]})
    with pytest.raises(ValueError, match="must be one of 'a'. Got 'embedding'"):
        contamination(some, some, 0.9)
