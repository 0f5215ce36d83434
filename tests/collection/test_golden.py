"""A collection written by the first version of the format opens and answers as it did then.

``python tests/collection/test_golden.py FOLDER`` writes it anew, for a new version of the format;
those of old versions stay as they are.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import memvec
from memvec.collection import check_collection

GOLDEN = Path(__file__).parent / "golden"
QUERY = [1.0, 0.5, -0.5, 0.25, 0.0, 0.0, 1.0, -1.0]


def make(folder):
    """Write a collection with everything in it, and what it answers."""
    vectors = np.random.default_rng(2025).standard_normal((60, 8)).astype(np.float32)
    with memvec.open(folder, dim=8, similarity=0.6, miss_rate=0.05, seal_at=0) as collection:
        names = [f"é{i}" if i % 2 else i for i in range(60)]
        metadata = [{"year": 1990 + i, "tag": "abc"[i % 3]} for i in range(60)]
        for start in range(0, 60, 20):
            part = slice(start, start + 20)
            collection.add(vectors[part], names[part], metadata[part])
            if start < 40:
                collection.seal()
        collection.delete([0, "é21", 44])
        collection.upsert(vectors[:1], ids=[2], metadata=[{"year": 2025, "nested": {"x": [1]}}])
        answers = answer(collection)
    (folder.parent / f"{folder.stem}.json").write_text(json.dumps(answers, indent=1) + "\n")


def answer(collection):
    """Return what users see, as JSON keeps it."""
    where = {"year": {"$gte": 2010}, "tag": {"$in": ["a", "b"]}}
    hits = collection.range_search(QUERY, 0.2, guarantee="exact")
    filtered = collection.search(QUERY, k=5, where=where, guarantee="exact")
    return {
        "items": [[item.id, item.vector.tolist(), item.metadata] for item in collection.items()],
        "range": [hits.ids.tolist(), hits.scores.tolist()],
        "filtered": [filtered.ids.tolist(), filtered.scores.tolist()],
        "settings": [collection.dim, collection.settings.similarity, collection.settings.miss_rate],
        "segments": list(collection.stats().segment_sizes),
    }


@pytest.mark.parametrize("version", [1])
def test_collection_of_an_old_version_answers_as_it_did(tmp_path, version):
    expected = json.loads((GOLDEN / f"version-{version}.json").read_text())
    folder = tmp_path / "copy.mv"
    shutil.copytree(GOLDEN / f"version-{version}.mv", folder)
    assert check_collection(folder).ok
    with memvec.open(folder, read_only=True) as collection:
        assert json.loads(json.dumps(answer(collection))) == expected
    with memvec.open(folder) as collection:
        collection.add(np.ones((1, 8)), ids=["new"])
        collection.compact()
        collection.delete(["new"])
        changed = json.loads(json.dumps(answer(collection)))
    assert {**changed, "segments": expected["segments"]} == expected


if __name__ == "__main__":
    make(Path(sys.argv[1]))
