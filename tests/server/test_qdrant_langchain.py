"""LangChain's own suite of vector stores, for its client of Qdrant and this server.

The suite names documents "1" and "2", and expects `Document.id`. Qdrant takes integers and UUIDs
alone, and `QdrantVectorStore` gives ids as metadata: so most of the suite fails with Qdrant itself.
The store is therefore judged twice: as it comes, against the in-memory engine of `qdrant-client`
(what passes there passes here, and nothing else), and behind an adapter of names.
"""

import asyncio
import inspect
import uuid
import warnings

import pytest

pytest.importorskip("langchain_tests", reason="of the group extras: make test-extras")
pytest.importorskip("langchain_qdrant", reason="of the group extras: make test-extras")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_core.documents import Document
    from langchain_qdrant import QdrantVectorStore
    from langchain_tests.integration_tests import VectorStoreIntegrationTests
    from qdrant_client import QdrantClient, models

from memvec.server import ServerSettings
from memvec.server._qdrant import build_qdrant
from memvec.server._state import ServerState
from server.conftest import running

pytestmark = pytest.mark.slow
SUITE = [
    name
    for name in dir(VectorStoreIntegrationTests)
    if name.startswith("test_") and "OVERRIDE" not in name
]
# Of the suite, so many pass with Qdrant's engine and the store as it comes.
LEAST_PASSED = 8


@pytest.fixture(scope="module")
def qdrant(tmp_path_factory):
    server = ServerState.of(ServerSettings(tmp_path_factory.mktemp("langchain")))
    with running(None, build_qdrant(server)) as url:
        yield url
    server.close()


class Named(QdrantVectorStore):
    """The store, called with names of any kind; they come back as ids of documents."""

    def add_texts(self, texts, metadatas=None, ids=None, **options):
        texts = list(texts)
        names = [name or str(uuid.uuid4()) for name in ids or [None] * len(texts)]
        given = [{**(one or {}), "name": name} for one, name in zip(
            metadatas or [None] * len(texts), names, strict=True)]  # fmt: skip
        super().add_texts(texts, given, [point(name) for name in names], **options)
        return names

    def get_by_ids(self, ids, /):
        return super().get_by_ids([point(name) for name in ids])

    def delete(self, ids=None, **options):
        return super().delete([point(name) for name in ids or []], **options)

    @classmethod
    def _document_from_point(cls, *arguments, **options):
        found = super()._document_from_point(*arguments, **options)
        own = ("_id", "_collection_name", "name")
        told = {name: value for name, value in found.metadata.items() if name not in own}
        return Document(found.page_content, id=found.metadata["name"], metadata=told)


def point(name):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(name)))


def made(kind, client, embeddings):
    name = f"t{uuid.uuid4().hex}"
    distance = models.VectorParams(size=6, distance=models.Distance.COSINE)
    client.create_collection(name, vectors_config=distance)
    return kind(client, name, embeddings)


class TestNamed(VectorStoreIntegrationTests):
    """The whole suite, sync and async."""

    @pytest.fixture
    def vectorstore(self, qdrant):
        client = QdrantClient(url=qdrant)
        yield made(Named, client, self.get_embeddings())
        client.close()


def outcome(client, name):
    """Return whether a test of the suite passes with the store as it comes."""
    suite = VectorStoreIntegrationTests()
    store = made(QdrantVectorStore, client, suite.get_embeddings())
    test = getattr(suite, name)
    try:
        found = test(store)
        if inspect.iscoroutine(found):
            asyncio.run(found)
    except Exception:
        return False
    return True


def test_store_as_it_comes_does_what_it_does_with_qdrant(qdrant):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = QdrantClient(url=qdrant), QdrantClient(":memory:")
        passed = {name: (outcome(ours, name), outcome(theirs, name)) for name in SUITE}
        ours.close()
        theirs.close()
    assert all(here == there for here, there in passed.values()), passed
    assert sum(here for here, _ in passed.values()) >= LEAST_PASSED
