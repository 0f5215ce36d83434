"""Searches over segments and waiting vectors together, against brute force."""

import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memvec
from memvec.collection import _searches
from memvec.collection._reading import Reading
from memvec.errors import CorruptIndexError, InvalidTypeError, InvalidValueError
from memvec.evaluation import miss_rate
from memvec.matches import Matches
from memvec.search import UnitSource
from naive import DictCollection

DIM = 8


def rows_of(hits):
    return [list(zip(row.ids, row.scores.tolist(), strict=True)) for row in hits]


def top_of(hits):
    pairs = zip(hits.ids, hits.scores, strict=True)
    return [list(zip(ids, scores.tolist(), strict=True)) for ids, scores in pairs]


@pytest.fixture(autouse=True)
def _small_segments_are_searched(monkeypatch):
    """As large ones are, rather than scored one by one."""
    monkeypatch.setattr(UnitSource, "few_rows", 5)


@pytest.fixture
def three_ways(path, vectors):
    """The same items three times: waiting, in several parts, and in one segment."""
    names = [f"n{i}" if i % 3 else i for i in range(len(vectors))]
    tags = [{"tag": "abc"[i % 3], "i": i} for i in range(len(vectors))]
    twin, copies = DictCollection(), vectors.copy()
    copies[100:120] = copies[0]  # ties
    twin.put(copies, names, tags)
    twin.delete(names[7:20])
    made = []
    for number, layout in enumerate(["waiting", "parts", "segment"]):
        made.append(memvec.open(path.with_name(f"{number}.mv"), dim=DIM, seal_at=0))
        for start in range(0, len(vectors), 100):
            part = slice(start, start + 100)
            made[-1].add(copies[part], names[part], tags[part])
            if layout == "parts" and start < 200:
                made[-1].seal()
        made[-1].delete(names[7:20])
        if layout == "segment":
            made[-1].compact()
    yield twin, made
    for collection in made:
        collection.close()


def test_hand_computed_answers(path):
    with memvec.open(path, dim=2, similarity=0.6, seal_at=0) as collection:
        collection.add([[1, 0], [0.8, 0.6]], ids=["east", "between"])
        collection.seal()
        collection.add([[0, 1]], ids=["north"])
        hits = collection.range_search([[1, 0], [0, 1], [-1, 0]], guarantee="exact")
        assert rows_of(hits) == [
            [("east", 1.0), ("between", np.float32(0.8))],
            [("north", 1.0), ("between", np.float32(0.6))],
            [],
        ]
        assert hits.offsets.tolist() == [0, 2, 4, 4]
        assert hits.counts.tolist() == [2, 2, 0]
        assert hits[1].ids.tolist() == ["north", "between"]
        assert hits.certificate.level == "exact"
        assert repr(hits) == "Hits(3 queries, 4 matches, cost ratio 1.000)"
        top = collection.search([0, 2], k=4, guarantee="exact")
        assert top.ids.tolist() == [["north", "between", "east", None]]
        assert top.scores.tolist() == [[1.0, np.float32(0.6), 0.0, -np.inf]]
        assert (len(top), repr(top)) == (1, "TopHits(1 query, best 4, cost ratio 1.000)")
        assert collection.count([[1, 0], [-1, 0]], 0.9, guarantee="exact").tolist() == [1, 0]
        assert collection.contains([[1, 0], [-1, 0]], guarantee="exact").tolist() == [True, False]
        streamed = collection.iter_range([[1, 0], [0, 1]], guarantee="exact")
        assert [(match.query, match.id) for match in streamed] == [
            (0, "east"),
            (0, "between"),
            (1, "north"),
            (1, "between"),
        ]


@pytest.mark.parametrize("where", [None, {"tag": "b"}, {"i": {"$lt": 50}}, {"i": -1}])
def test_answers_equal_brute_force_whatever_the_segments(three_ways, where):
    twin, made = three_ways
    queries = np.random.default_rng(1).standard_normal((5, DIM)).astype(np.float32)
    queries[0] = twin.items[0][0]
    for collection in made:
        for similarity in (0.3, 0.8, 1.0):
            hits = collection.range_search(queries, similarity, guarantee="exact", where=where)
            assert rows_of(hits) == [twin.range(query, similarity, where) for query in queries]
        for k in (1, 5, 15, 400):
            top = collection.search(queries, k, guarantee="exact", where=where)
            assert top_of(top) == [twin.best(query, k, where) for query in queries]


def test_streamed_matches_are_those_of_range_search(three_ways, monkeypatch):
    monkeypatch.setattr(_searches, "_IDS_AT_ONCE", 3)
    twin, made = three_ways
    queries = np.array([vector for vector, _ in twin.items.values()])[:40]
    for collection in made:
        hits = collection.range_search(queries, 0.2, guarantee="exact")
        streamed = list(collection.iter_range(queries, 0.2, guarantee="exact"))
        assert [match.id for match in streamed] == hits.ids.tolist()
        assert [match.score for match in streamed] == hits.scores.tolist()
        counts = np.bincount([match.query for match in streamed], minlength=len(queries))
        assert np.array_equal(counts, hits.counts)
        assert np.array_equal(collection.count(queries, 0.2, guarantee="exact"), hits.counts)


@pytest.mark.parametrize("where", [None, {"tag": "b"}])
@pytest.mark.parametrize("at_once", [1 << 20, 5000, 64])
def test_unordered_stream_gives_the_same_matches_in_small_blocks(
    three_ways, monkeypatch, where, at_once
):
    monkeypatch.setattr(_searches, "_PAIRS_AT_ONCE", at_once)
    twin, made = three_ways
    queries = np.array([vector for vector, _ in twin.items.values()])[:20]
    for collection in made:
        asked = {"guarantee": "exact", "where": where}
        stream = collection.iter_range(queries, 0.2, ordered=False, **asked)
        blocks = list(stream.blocks())
        found = [record for block in blocks for record in block.records()]
        ordered = list(collection.iter_range(queries, 0.2, **asked))
        assert sorted(found, key=repr) == sorted(ordered, key=repr)
        assert stream.certificate == collection.range_search(queries, 0.2, **asked).certificate
        if at_once == 64 and where is None:
            assert len(blocks) > 20


def test_stream_is_read_by_match_or_by_block(three_ways):
    _, [collection, *_] = three_ways
    query = np.ones(DIM)
    stream = collection.iter_range(query, 0.1)
    first = next(stream)
    assert first == next(collection.iter_range(query, 0.1))
    assert list(stream) == list(collection.iter_range(query, 0.1))[1:]
    pairs = collection.self_join(0.5)
    assert pairs.certificate.similarity == 0.5
    assert list(pairs) == [
        pair for block in collection.self_join(0.5).blocks() for pair in block.records()
    ]


def test_answers_do_not_depend_on_threads_or_company(three_ways):
    _, [_, collection, _] = three_ways
    queries = np.random.default_rng(2).standard_normal((30, DIM))
    together = rows_of(collection.range_search(queries, 0.4, guarantee="exact"))
    assert rows_of(collection.range_search(queries, 0.4, guarantee="exact", threads=1)) == together
    alone = [collection.range_search(query, 0.4, guarantee="exact") for query in queries]
    assert [rows_of(hits)[0] for hits in alone] == together


def test_deleted_and_replaced_vectors_never_answer(collection, vectors):
    collection.add(vectors[:50])
    collection.seal()
    collection.add(vectors[50:60])
    collection.delete([3, 55])
    collection.upsert(-vectors[[4, 56]], ids=[4, 56])
    for _ in range(2):
        found = [
            collection.search(vectors[i], k=1, guarantee="exact").ids[0, 0] for i in (3, 55, 4, 56)
        ]
        assert not {3, 55, 4, 56} & set(found)
        assert collection.search(-vectors[4], k=1).ids[0, 0] == 4
        collection.compact()


def test_many_copies_are_ordered_by_id(collection):
    names = [f"{i:03d}" for i in range(150)]
    order = np.random.default_rng(0).permutation(150)
    for number, some in enumerate(np.split(order, 3)):
        collection.add(np.ones((50, DIM)), ids=[names[i] for i in some])
        if number < 2:
            collection.seal()
    assert collection.search(np.ones(DIM), k=7, guarantee="exact").ids[0].tolist() == names[:7]
    assert collection.range_search(np.ones(DIM), 1.0, guarantee="exact").ids.tolist() == names


def test_empty_collection_has_no_answers(collection):
    hits = collection.range_search(np.ones((2, DIM)))
    assert (hits.counts.tolist(), hits.certificate.level) == ([0, 0], "exact")
    assert collection.search(np.ones(DIM), k=2).ids.tolist() == [[None, None]]
    assert list(collection.iter_range(np.ones(DIM))) == []
    assert len(collection.range_search(np.empty((0, DIM)))) == 0
    assert collection.search(np.empty((0, DIM)), k=3).ids.shape == (0, 3)


def test_no_queries_have_no_answers(collection, vectors):
    collection.add(vectors)
    collection.seal()
    assert len(collection.range_search(np.empty((0, DIM)), guarantee="exact")) == 0
    assert collection.search(np.empty((0, DIM)), k=3, guarantee="exact").ids.shape == (0, 3)


def test_work_is_summed_over_the_parts(collection, vectors):
    collection.add(vectors[:100])
    collection.add(vectors[100:130], ids=range(100, 130))
    work = collection.range_search(vectors[:2], 0.5).work
    assert (work.n_queries, work.n_vectors, work.exact_products) == (2, 130, 260)
    collection.seal()
    collection.add(vectors[130:150])
    work = collection.range_search(vectors[:2], 0.5, guarantee="exact").work
    assert work.n_vectors == 150
    assert 2 * 20 < work.exact_products <= 300  # those that wait, and what bounds do not exclude


def test_what_waits_is_exact_and_few_vectors_are_visited(collection, vectors):
    collection.add(vectors)
    assert collection.range_search(vectors[:1]).certificate.level == "exact"
    collection.seal()
    assert collection.range_search(vectors[:1], guarantee="exact").certificate.level == "exact"
    by_law = collection.range_search(vectors[:1], guarantee="model", miss_rate=0.2).certificate
    assert (by_law.level, by_law.miss_rate) == ("model", 0.2)
    top = collection.search(vectors[:1], k=3)
    assert (top.certificate.level, top.ids[0, 0]) == ("exact", 0)


def test_promises_of_segments_do_not_add_up():
    """Queries 0 and 1 have a match in segment A, 1 and 2 in segment B; 0 and 2 lose theirs."""
    truth_a, found_a = Matches.from_rows([[7], [8], []]), Matches.from_rows([[], [8], []])
    truth_b, found_b = Matches.from_rows([[], [9], [10]]), Matches.from_rows([[], [9], []])
    assert miss_rate(truth_a, found_a) == miss_rate(truth_b, found_b) == 0.5
    whole, found = Matches.from_rows([[7], [8, 9], [10]]), Matches.from_rows([[], [8, 9], []])
    assert miss_rate(whole, found) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda c: c.search(np.ones(DIM), k=0), InvalidValueError, "'k' parameter of Collection.s"),
        (lambda c: c.range_search(np.ones(3)), InvalidValueError, "of dimension 8"),
        (lambda c: c.range_search(np.ones(DIM), 2), InvalidValueError, "'similarity' parameter of"),
        (
            lambda c: c.count(np.ones(DIM), miss_rate=1),
            InvalidValueError,
            "'miss_rate' parameter of Collection.count",
        ),
        (
            lambda c: c.iter_range(np.ones(DIM), guarantee="sure"),
            InvalidValueError,
            "'guarantee' parameter of Collection.iter_range must be one of",
        ),
        (
            lambda c: c.contains(np.ones(DIM), threads=0),
            InvalidValueError,
            "'threads' parameter of Collection.contains must be an integer >= 1. Got 0",
        ),
        (
            lambda c: c.search(np.ones(DIM), 1, threads="a"),
            InvalidTypeError,
            "'threads' parameter of Collection.search must be",
        ),
        (
            lambda c: c.iter_range(np.ones(DIM), threads=1.5),
            InvalidTypeError,
            "'threads' parameter of Collection.iter_range must be",
        ),
        (
            lambda c: c.items(where=5),
            InvalidTypeError,
            "'where' parameter of Collection.items must be a mapping",
        ),
    ],
)
def test_wrong_arguments_are_refused(collection, call, error, text):
    with pytest.raises(error, match=text):
        call(collection)


def test_k_beyond_all_items_takes_no_room(collection, vectors):
    collection.add(vectors)
    for level in (None, "exact"):
        few = collection.search(vectors[:2], 310, guarantee=level)
        many = collection.search(vectors[:2], 10**11, guarantee=level)
        assert (few.ids.shape, many.ids.shape) == ((2, 310), (2, 1000))
        assert many.ids[:, :310].tolist() == few.ids.tolist()
        assert set(many.ids[0, 300:]) == {None}
        assert np.isneginf(many.scores[:, 300:]).all()
    collection.add(np.tile(vectors, (4, 1)))
    assert collection.search(vectors[0], 10**30).ids.shape == (1, 1500)


def test_complete_certificates_are_alike(collection, vectors):
    collection.add(vectors[:20])
    collection.seal()
    for search in (collection.range_search, lambda q, **level: collection.search(q, 3, **level)):
        for level in ({}, {"guarantee": "exact"}):
            certificate = search(vectors[0], **level).certificate
            assert certificate.complete
            assert (certificate.level, certificate.miss_rate, certificate.bound) == ("exact", 0, 0)


def test_vector_without_an_item_is_damage(collection, vectors):
    collection.add(vectors[:5])
    collection._store.catalog.execute("DELETE FROM items WHERE key = 2")
    with pytest.raises(CorruptIndexError, match="a vector belongs to no item"):
        collection.search(vectors[0], k=5)
    assert len(list(collection.iter_range(vectors[2], 0.999))) == 0


def test_each_answer_is_that_of_a_committed_state(path, vectors):
    """Batches of ten copies come and go; every search sees whole batches."""
    done, errors = threading.Event(), []

    def read(collection):
        try:
            while not done.is_set():
                hits = collection.range_search(vectors[0], 0.999, guarantee="exact")
                assert len(hits.ids) % 10 == 0
                assert len({name // 10 for name in hits.ids}) * 10 == len(hits.ids)
                if collection.read_only:
                    collection.refresh()
        except BaseException as error:
            errors.append(error)

    with (
        memvec.open(path, dim=DIM, seal_at=40) as writer,
        memvec.open(path, read_only=True) as reader,
    ):
        threads = [threading.Thread(target=read, args=(one,)) for one in (writer, reader)]
        for thread in threads:
            thread.start()
        for batch in range(30):
            writer.add(np.repeat(vectors[:1], 10, axis=0), ids=range(10 * batch, 10 * batch + 10))
            if batch % 3 == 2:
                writer.delete(range(10 * batch - 10, 10 * batch))
            if batch % 10 == 9:
                writer.compact()
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_explanation_is_of_a_state_that_has_the_item(collection, vectors, monkeypatch):
    """The item is replaced between the look at its key and that at the state."""
    collection.add(vectors[:10])
    keys = Reading.keys
    thread = threading.Thread(target=collection.upsert, args=(vectors[20:21], [3]))

    def upsert_then(*arguments):
        thread.start()
        thread.join(0.2)  # it waits for the lock
        return keys(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Reading, "keys", upsert_then)
        told = collection.explain(vectors[3], 3, 0.99)
    thread.join()
    assert told.reason == "Returned."
    assert collection.explain(vectors[20], 3, 0.99).reason == "Returned."


@settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.floats(0.05, 1.0))
def test_random_layouts_equal_brute_force(quick_path, seed, n, k, similarity):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (n, 3)).astype(np.float32) + 0.25  # many ties
    twin = DictCollection()
    folder = Path(tempfile.mkdtemp(dir=quick_path)) / "c.mv"
    with memvec.open(folder, dim=3, seal_at=0) as collection:
        for start in range(0, n, 7):
            part = slice(start, start + 7)
            names = [str(i) if i % 2 else i for i in range(start, min(start + 7, n))]
            collection.add(rows[part], names)
            twin.put(rows[part], names, [{}] * len(names))
            if rng.random() < 0.5:
                collection.seal()
        gone = [name for name in twin.items if rng.random() < 0.3]
        collection.delete(gone)
        twin.delete(gone)
        queries = rng.standard_normal((3, 3))
        hits = collection.range_search(queries, similarity, guarantee="exact")
        assert rows_of(hits) == [twin.range(query, similarity) for query in queries]
        top = collection.search(queries, k, guarantee="exact")
        assert top_of(top) == [twin.best(query, k) for query in queries]


def test_what_questions_found_out_is_told_again_and_goes_with_the_state(path, vectors):
    """A second answer has the certificate of the first; a change makes another one."""
    with memvec.open(path, dim=DIM, seal_at=0, miss_rate=0.05) as made:
        made.add(vectors, ids=list(range(len(vectors))))
        made.seal()
        known = made._searches.live.promises._known

        def asked():
            first = made.range_search(vectors[0], 0.5), made.search(vectors[0], 3)
            again = made.range_search(vectors[0], 0.5), made.search(vectors[0], 3)
            for one, other in zip(first, again, strict=True):
                assert one.certificate == other.certificate
                assert one.ids.tolist() == other.ids.tolist()
            filtered = made.range_search(vectors[0], 0.5, where={"no": 1}).certificate
            assert filtered != first[0].certificate
            assert len(known) == 1
            return first[0].certificate

        whole = asked()
        made.delete(1)
        deleted = asked()
        assert (whole.deleted, deleted.deleted) == (0.0, 1 / len(vectors))
        made.add(vectors[:1], ids=["new"])
        assert asked().deleted == 1 / (len(vectors) + 1)
        for step in range(600):
            made.range_search(vectors[0], 0.4 + step / 1000)
        [kept] = known.values()
        assert 0 < len(kept.plans) <= 256
        made.compact()
        assert asked().deleted == 0.0
