"""Stored folders answer as they did when they were written, to the last bit.

They are opened, never built again: what is found, what it cost and what was promised follow from
the files alone. ``python tests/test_golden_answers.py`` writes folders and answers anew, for a
change of answers that is meant.
"""

import json
import shutil
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import memvec

GOLDEN = Path(__file__).parent / "golden"
LEVELS = [None, "model", "expected", "high_probability", "exact"]
FILTERS = {"all": None, "half": {"coin": 1}, "few": {"number": {"$lt": 90}}}
SIMILARITIES = (0.7, 0.8)
OF_CERTIFICATES = (
    *("level", "similarity", "miss_rate", "bound", "confidence", "n_queries", "n_matches"),
    *("n_synthetic", "source", "observed", "pair_miss", "filter", "complete", "k", "thresholds"),
    *("population", "stale", "deleted"),
)


def rows(n, dim, seed):
    """Return clusters of rows, and rows that are in none."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(dim).standard_normal((60, dim))
    chosen = centres[rng.integers(60, size=n)] + 0.5 * rng.standard_normal((n, dim))
    alone = rng.random(n) < 0.2
    chosen[alone] = rng.standard_normal((int(alone.sum()), dim))
    return chosen.astype(np.float32)


def write_folders(folder):
    """Build an index by codes, one by floats, and a collection with everything in it."""
    promise = {"similarity": 0.7, "miss_rate": 0.05, "similarities": SIMILARITIES}
    for name, codes in (("codes", "estimate"), ("floats", "none")):
        config = memvec.IndexConfig(codes=codes)
        built = memvec.Index.build(rows(2600, 24, 1), **promise, config=config, progress=False)
        built.save(folder / f"{name}.mv")
    with memvec.open(folder / "collection.mv", dim=16, **promise, seal_at=0) as collection:
        first = 0
        for seed, n in enumerate([2200, 400, 2150]):
            numbers = range(first, first + n)
            metadata = [{"number": i, "coin": (i * i) % 7 % 2} for i in numbers]
            names = [f"é{i}" if i % 2 else i for i in numbers]
            collection.add(rows(n, 16, seed), names, metadata)
            if n != 2150:
                collection.seal(progress=False)
            first += n
        collection.delete(list(range(0, first, 10)))


def of_hits(hits):
    """Return what users see of an answer, as JSON keeps it."""
    certificate = asdict(hits.certificate)
    told = {
        "ids": hits.ids.tolist(),
        "scores": np.where(np.isfinite(hits.scores), hits.scores, -2).tolist(),
        "work": asdict(hits.work),
        "certificate": {name: certificate[name] for name in OF_CERTIFICATES},
    }
    return told | ({"offsets": hits.offsets.tolist()} if hasattr(hits, "offsets") else {})


def asked(ask):
    """Return an answer, or the error that is raised in its place."""
    try:
        return of_hits(ask())
    except memvec.MemvecError as error:
        return str(error)


def index_answers(path):
    index = memvec.Index.open(path, verify=True)
    queries = rows(8, index.dim, 99)
    found = {}
    for level in LEVELS:
        for similarity in (0.6, *SIMILARITIES, 0.95):
            found[f"range {similarity} {level}"] = asked(
                lambda a=similarity, g=level: index.range_search(queries, a, guarantee=g)
            )
        for k in (1, 10, 150):
            found[f"best {k} {level}"] = asked(
                lambda k=k, g=level: index.search(queries, k, guarantee=g)
            )
    found["threshold"] = asked(lambda: index.range_search(queries, 0.7, threshold=0.5))
    found["units"] = asked(lambda: index.search(queries, 5, units=4))
    found["explained"] = [str(index.explain(queries[0], i)) for i in (0, 17, 2599)]
    return found


def collection_answers(path):
    with memvec.open(path, read_only=True) as collection:
        queries = rows(8, collection.dim, 99)
        found = {}
        for level in LEVELS:
            for name, where in FILTERS.items():
                given = {"guarantee": level, "where": where}
                for similarity in (0.6, *SIMILARITIES):
                    found[f"range {similarity} {level} {name}"] = asked(
                        lambda a=similarity, g=given: collection.range_search(queries, a, **g)
                    )
                for k in (1, 10):
                    found[f"best {k} {level} {name}"] = asked(
                        lambda k=k, g=given: collection.search(queries, k, **g)
                    )
        names = [2, "é13", "é2201", "é2603"]
        found["explained"] = [str(collection.explain(queries[0], name)) for name in names]
        pairs = [(pair.left, pair.right, pair.score) for pair in collection.self_join(0.97)]
        found["pairs"] = sorted(pairs, key=str)
    return found


ANSWERS = {"codes": index_answers, "floats": index_answers, "collection": collection_answers}


def plain(answers):
    """Return answers as they are read from a file."""
    return json.loads(json.dumps(answers))


@pytest.mark.parametrize("name", ANSWERS)
def test_stored_folder_answers_as_it_did(tmp_path, name):
    folder = shutil.copytree(GOLDEN / f"{name}.mv", tmp_path / f"{name}.mv")
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        found = plain(ANSWERS[name](folder))
    assert found.keys() == expected.keys()
    for question, answer in expected.items():
        assert found[question] == answer, question


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir()
    write_folders(GOLDEN)
    for given, answers_of in ANSWERS.items():
        made = json.dumps(answers_of(GOLDEN / f"{given}.mv"), ensure_ascii=False)
        (GOLDEN / f"{given}.json").write_text(made + "\n", encoding="utf-8")
    sys.exit(0)
