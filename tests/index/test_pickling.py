"""An index goes through a pickle: by its folder, or with everything in it."""

import pickle
import shutil

import numpy as np
import pytest

from memvec import Index, IndexConfig
from memvec.errors import CorruptIndexError, IndexNotFoundError
from strategies import cloud

ROWS = cloud(1, n=1200, dim=24)
QUERIES = ROWS[:40] + 0.1
CONFIGS = [
    IndexConfig(),
    IndexConfig(codes="none", ridge=np.inf, construction="ridge"),
    IndexConfig(pca_dim=8, center=True),
]


def again(index):
    return pickle.loads(pickle.dumps(index))


def assert_alike(index, other):
    for level in (None, "exact"):
        one, two = (owner.range_search(QUERIES, 0.6, guarantee=level) for owner in (index, other))
        np.testing.assert_array_equal(one.ids, two.ids)
        np.testing.assert_array_equal(one.scores, two.scores)
        assert one.certificate == two.certificate
    assert other.config == index.config


@pytest.mark.parametrize("config", CONFIGS)
def test_index_in_memory_is_pickled_whole(config):
    index = Index.build(ROWS, similarity=0.6, config=config, progress=False)
    index.shadow = 0.25
    other = again(index)
    assert_alike(index, other)
    assert other.shadow == 0.25


def test_saved_index_is_pickled_by_its_path(tmp_path):
    index = Index.build(ROWS, similarity=0.6, progress=False)
    index.save(tmp_path / "rows.mv")
    for saved in (index, Index.open(tmp_path / "rows.mv"), index.to("cpu")):
        assert len(pickle.dumps(saved)) < 1000
        assert_alike(index, again(saved))
    assert again(index).check().ok


def test_index_that_is_no_longer_in_its_folder_is_pickled_whole(tmp_path):
    index = Index.build(ROWS, similarity=0.6, progress=False)
    index.save(tmp_path / "rows.mv")
    pickled = pickle.dumps(index)
    shutil.rmtree(tmp_path / "rows.mv")
    assert_alike(index, again(index))
    with pytest.raises(IndexNotFoundError):
        pickle.loads(pickled)


def test_another_index_in_the_folder_is_not_taken_for_the_pickled_one(tmp_path):
    index = Index.build(ROWS, similarity=0.6, progress=False)
    index.save(tmp_path / "rows.mv")
    pickled = pickle.dumps(index)
    Index.build(ROWS[:900], similarity=0.6, progress=False).save(tmp_path / "rows.mv")
    with pytest.raises(CorruptIndexError, match="it was replaced since"):
        pickle.loads(pickled)


def test_recalibrated_index_is_pickled_with_its_new_evidence(tmp_path):
    rows = np.repeat(cloud(3, n=100, dim=24), 12, axis=0)
    rows = rows + 0.05 * cloud(4, n=1200, dim=24)
    index = Index.build(rows, similarity=0.6, miss_rate=0.05, progress=False)
    index.save(tmp_path / "rows.mv")
    index.recalibrate(rows[::2] + 0.02, progress=False)
    for made in (index, index.to("cpu")):
        assert again(made).evidence.source == "queries"
