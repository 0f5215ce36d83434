"""The store and the cache pass the suites of LangChain, and return everything above a threshold."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("langchain_tests", reason="of the group extras: make test-extras")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_tests.integration_tests import (
    AsyncCacheTestSuite,
    SyncCacheTestSuite,
    VectorStoreIntegrationTests,
)

import memvec
from memvec.evaluation import load_sample
from memvec.integrations.langchain import MemvecSemanticCache, MemvecVectorStore


class TestStore(VectorStoreIntegrationTests):
    """LangChain's suite, sync and async."""

    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = MemvecVectorStore(self.get_embeddings(), tmp_path / "store.mv")
        yield store
        store.close()


class TestCache(SyncCacheTestSuite):
    """LangChain's suite of caches."""

    @pytest.fixture
    def cache(self, tmp_path):
        cache = MemvecSemanticCache(DeterministicFakeEmbedding(size=6), tmp_path / "cache.mv")
        yield cache
        cache.close()


class TestAsyncCache(AsyncCacheTestSuite):
    """LangChain's suite of caches that are awaited."""

    @pytest.fixture
    async def cache(self, tmp_path):
        cache = MemvecSemanticCache(DeterministicFakeEmbedding(size=6), tmp_path / "cache.mv")
        yield cache
        cache.close()


class SampleEmbedding(Embeddings):
    """The embeddings of the sample, by text."""

    def __init__(self):
        sample = load_sample()
        self.texts = sample.texts
        self.vectors = sample.vectors
        self.row_of = {text: row for row, text in enumerate(self.texts)}

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return self.vectors[self.row_of.get(text, 0)].tolist()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    embedding = SampleEmbedding()
    path = tmp_path_factory.mktemp("langchain") / "synsets.mv"
    metadatas = [{"row": row, "even": row % 2 == 0} for row in range(3000)]
    store = MemvecVectorStore.from_texts(
        list(embedding.texts[:3000]),
        embedding,
        metadatas,
        ids=[f"synset {row}" for row in range(3000)],
        path=path,
        similarity=0.6,
    )
    store.collection.seal(progress=False)
    yield store
    store.close()


def rows_above(store, query, similarity):
    vectors = store.embedding.vectors
    cosines = vectors[:3000] @ vectors[query]
    return set(np.flatnonzero(cosines >= similarity))


def test_threshold_returns_everything_above(store):
    wanted = rows_above(store, 697, 0.5)
    assert len(wanted) > 10
    retriever = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5}
    )
    text = store.embedding.texts[697]
    found = {document.metadata["row"] for document in retriever.invoke(text)}
    assert found <= wanted
    assert len(found) >= 0.9 * len(wanted)
    awaited = asyncio.run(retriever.ainvoke(text))
    assert {document.metadata["row"] for document in awaited} == found
    assert store.certificate(0.5).level == "expected"


def test_scores_are_cosines(store):
    text, vectors = store.embedding.texts[697], store.embedding.vectors
    scored = store.similarity_search_with_relevance_scores(text, score_threshold=0.5)
    for document, score in scored:
        assert score == pytest.approx(vectors[document.metadata["row"]] @ vectors[697], abs=1e-5)
    assert scored[0][0].page_content == text
    assert store.similarity_search_with_relevance_scores(text, 3, score_threshold=0.5) == scored[:3]
    assert len(store.similarity_search_with_relevance_scores(text)) == 4
    every = store.similarity_search_with_relevance_scores(text, score_threshold=0.0)
    assert len(every) == 3000
    assert min(score for _, score in every) == 0
    by_vector = store.similarity_search_by_vector(vectors[697].tolist(), k=3)
    assert by_vector == [document for document, _ in scored[:3]]


def test_filters_are_those_of_a_collection(store):
    text = store.embedding.texts[697]
    near = store.similarity_search(text, k=5, filter={"even": True})
    assert [document.metadata["row"] % 2 for document in near] == [0] * 5
    scored = store.similarity_search_with_relevance_scores(
        text, score_threshold=0.5, filter={"row": {"$lt": 697}}
    )
    assert scored
    assert all(document.metadata["row"] < 697 for document, _ in scored)
    few = store.similarity_search(text, k=9, filter={"row": {"$in": [1, 2]}})
    assert len(few) == 2


def test_marginal_relevance_prefers_variety(store):
    text, vectors = store.embedding.texts[697], store.embedding.vectors
    near = store.max_marginal_relevance_search(text, k=5, fetch_k=40, lambda_mult=1.0)
    assert near == store.similarity_search(text, k=5)
    varied = store.max_marginal_relevance_search(text, k=5, fetch_k=40, lambda_mult=0.2)

    def alike(documents):
        some = vectors[[document.metadata["row"] for document in documents]]
        return (some @ some.T).mean()

    assert varied[0] == near[0]
    assert alike(varied) < alike(near)
    assert (
        asyncio.run(store.amax_marginal_relevance_search(text, k=5, fetch_k=40, lambda_mult=0.2))
        == varied
    )
    assert len(store.max_marginal_relevance_search(text, filter={"row": 1})) == 1


def test_store_is_found_again_on_disk(tmp_path):
    embedding = DeterministicFakeEmbedding(size=8)
    store = MemvecVectorStore(embedding, tmp_path / "docs.mv", text_field="body")
    assert store.embeddings is embedding
    [name] = store.add_texts(["a cat"], [{"tag": "x"}])
    store.close()
    with memvec.open(tmp_path / "docs.mv", read_only=True) as collection:
        assert collection.get(name).metadata == {"tag": "x", "body": "a cat"}
    again = MemvecVectorStore(embedding, tmp_path / "docs.mv", text_field="body")
    assert again.get_by_ids([name]) == [
        Document(id=name, page_content="a cat", metadata={"tag": "x"})
    ]
    again.delete()
    assert again.similarity_search("a cat") == []
    again.close()


def test_store_without_a_path_is_removed_when_it_is_closed():
    store = MemvecVectorStore.from_documents(
        [Document(page_content="a", id="1"), Document(page_content="b")],
        DeterministicFakeEmbedding(size=8),
    )
    [found] = store.similarity_search("a", k=1)
    assert found.id == "1"
    path = store.folder
    store.close()
    assert not path.exists()


def test_last_of_texts_with_one_id_counts():
    store = MemvecVectorStore(DeterministicFakeEmbedding(size=8))
    assert store.add_texts(["a", "b"], ids=["1", "1"]) == ["1", "1"]
    assert store.add_texts([]) == []
    assert [document.page_content for document in store.get_by_ids(["1", "1", "2"])] == ["b"]
    store.close()


def test_what_cannot_be_added_is_refused():
    store = MemvecVectorStore(DeterministicFakeEmbedding(size=8))
    with pytest.raises(ValueError, match="'ids' parameter .* one for each of 2 texts. Got 1"):
        store.add_texts(["a", "b"], ids=["1"])
    with pytest.raises(ValueError, match="'metadatas' parameter .* one for each of 1 text. Got 2"):
        store.add_texts(["a"], [{}, {}])
    with pytest.raises(ValueError, match="free of 'page_content', which holds the text"):
        store.add_texts(["a"], [{"page_content": "b"}])
    with pytest.raises(ValueError, match="'score_threshold' parameter of MemvecVectorStore"):
        store.similarity_search_with_relevance_scores("a", score_threshold=1.5)
    store.close()


def test_collection_of_distances_is_refused(tmp_path):
    memvec.open(tmp_path / "far.mv", dim=8, metric="euclidean").close()
    with pytest.raises(ValueError, match="a collection of cosines. Got one of distances"):
        MemvecVectorStore(DeterministicFakeEmbedding(size=8), tmp_path / "far.mv")
    memvec.open(tmp_path / "far.mv").close()  # the lock was released


class NearEmbedding(Embeddings):
    """One direction for each first word; the rest of a prompt turns it a little."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        first, _, rest = text.partition(" ")
        rng = np.random.default_rng(sum(first.encode()))
        base, turn = rng.standard_normal(32), np.random.default_rng(len(rest)).standard_normal(32)
        return (base / np.linalg.norm(base) + 0.1 * turn / np.linalg.norm(turn)).tolist()


@pytest.fixture
def cache(tmp_path):
    cache = MemvecSemanticCache(NearEmbedding(), tmp_path / "cache.mv", similarity=0.9)
    yield cache
    cache.close()


def test_threshold_of_a_stored_cache_may_change(cache):
    cache.update("faust author", "m", [Generation(text="Goethe")])
    folder = cache.folder
    cache.close()
    stricter = MemvecSemanticCache(NearEmbedding(), folder, similarity=0.9999)
    assert stricter.lookup("faust author", "m") == [Generation(text="Goethe")]
    assert stricter.lookup("faust who wrote it", "m") is None
    stricter.close()


def test_near_prompts_of_the_same_model_hit(cache):
    cache.update("faust author", "model a", [Generation(text="Goethe")])
    assert cache.lookup("faust who wrote it", "model a") == [Generation(text="Goethe")]
    assert cache.lookup("faust who wrote it", "model b") is None
    assert cache.lookup("hamlet author", "model a") is None


def test_nearest_prompt_answers_and_the_last_answer_counts(cache):
    cache.update("faust author", "m", [Generation(text="Goethe")])
    cache.update("faust author of it", "m", [Generation(text="Marlowe")])
    assert cache.lookup("faust author of it", "m")[0].text == "Marlowe"
    cache.update("faust author", "m", [Generation(text="J. W. Goethe")])
    assert cache.lookup("faust author", "m")[0].text == "J. W. Goethe"
    assert len(cache.collection) == 2


def test_messages_come_back_as_they_went(cache):
    message = AIMessage("Goethe", response_metadata={"tokens": 3})
    cache.update("faust", "m", [ChatGeneration(message=message)])
    [found] = cache.lookup("faust", "m")
    assert found.message == message


def test_stored_answers_make_nothing_but_answers(cache):
    llm, forged = _llm(cache), {"type": "Document", "data": {"page_content": "x"}}
    answers = [{"message": forged, "generation_info": None}]
    vector = np.asarray(NearEmbedding().embed_query("faust"))
    cache.collection.add(vector, "forged", {"llm": llm, "prompt": "faust", "answers": answers})
    with pytest.raises(ValueError, match="unexpected message type: Document"):
        cache.lookup("faust", "m")


def _llm(cache):
    """Return how the cache calls the model 'm'."""
    cache.update("other", "m", [Generation(text="")])
    [item] = [cache.collection.get(name) for name in cache.collection]
    return item.metadata["llm"]


def test_cache_promises_about_missed_hits(cache):
    assert cache.certificate().similarity == cache.collection.settings.similarity == 0.9
    assert cache.certificate(0.8).similarity == 0.8
    with pytest.raises(ValueError, match="'similarity' parameter of MemvecSemanticCache"):
        MemvecSemanticCache(NearEmbedding(), similarity=0)
