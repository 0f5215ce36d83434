"""One index, many threads, ever new questions: each answer is that of one thread alone."""

import threading

import numpy as np
import pytest

from clouds import around
from memvec import Index
from memvec.cache import Cache

N_THREADS = 8


@pytest.fixture(scope="module")
def built():
    centres = np.random.default_rng(0).standard_normal((200, 16))
    vectors, queries = around(centres, 0.4, 1, 2400), around(centres, 0.4, 2, 200)
    return vectors, Index.build(vectors, similarity=0.7, queries=queries, progress=False)


def questions(seed, count):
    """Matches and nearest vectors, with few and with many different rates."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rate = float(rng.choice([0.05, 0.1, rng.uniform(0.02, 0.5)]))
        level = str(rng.choice(["expected", "model", "exact"]))
        if number % 3:
            yield "range", float(rng.uniform(0.5, 0.9999)), rate, level
        else:
            yield "best", int(rng.integers(1, 20)), rate, "expected"


def answer(index, query, question):
    kind, what, rate, level = question
    if kind == "range":
        hits = index.range_search(query, what, miss_rate=rate, guarantee=level, shadow=0.0)
        return hits.ids.tolist(), hits.certificate.thresholds, hits.certificate.level
    top = index.search(query, what, miss_rate=rate, guarantee=level)
    return top.ids.tolist(), top.certificate.thresholds, top.certificate.level


@pytest.mark.filterwarnings("ignore::memvec.errors.DriftWarning")
def test_answers_do_not_depend_on_what_other_threads_ask(built, monkeypatch):
    vectors, index = built
    asked = list(questions(7, 48))
    expected = [answer(index, vectors[i], one) for i, one in enumerate(asked)]
    # So little room that threads forget what others have just solved.
    get = Cache.get
    monkeypatch.setattr(Cache, "get", lambda cache, *a: (get(cache, *a), _shrink(cache, 3))[0])
    parts = index._parts
    fresh = Index(type(parts)(parts.design, parts.units, parts.evidence))
    failures, barrier = [], threading.Barrier(N_THREADS)

    def work(seed):
        barrier.wait()
        for i in np.random.default_rng(seed).permutation(len(asked))[: len(asked) // 2].tolist():
            try:
                if answer(fresh, vectors[i], asked[i]) != expected[i]:
                    failures.append(asked[i])
            except Exception as error:
                failures.append((asked[i], error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def _shrink(cache, most):
    oldest = cache.keys[:-most]
    cache.drop(lambda key: key in oldest)
