"""A vector store and a semantic cache for LangChain, both on a collection.

Needs the extra ``memvec[langchain]``.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from memvec import checks
from memvec.collection import open_collection
from memvec.errors import IndexNotFoundError, MissingExtraError
from memvec.guarantee import Certificate
from memvec.integrations.thresholds import ThresholdChoice, choose_threshold
from memvec.search import Hits, TopHits

try:
    from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.messages import messages_from_dict
    from langchain_core.outputs import ChatGeneration, Generation
    from langchain_core.runnables import run_in_executor
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError:
    raise MissingExtraError(
        "memvec.integrations.langchain", "langchain-core", "langchain"
    ) from None

PathLike = str | os.PathLike[str]
Content = Literal["metadata", "vectors"]

_DEFAULT_K = 4


class _Stored:
    """A collection that is opened with an embedding, in a folder of its own where none is named."""

    def __init__(
        self,
        embedding: Embeddings,
        path: PathLike | None,
        settings: dict[str, Any],
        designed_for: float | None = None,
    ) -> None:
        self.embedding = embedding
        self._temporary = None
        if path is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="memvec-")
            path = Path(self._temporary.name) / "collection.mv"
        self.folder = Path(path)
        try:
            self.collection = open_collection(path, **settings)
        except IndexNotFoundError:
            dim = len(embedding.embed_query("dimension"))
            new = {"dim": dim, "similarity": designed_for}
            self.collection = open_collection(path, **{**new, **settings})
        if self.collection.metric != "cosine":
            self.close()
            name = type(self).__name__
            raise checks.bad_value("path", name, "a collection of cosines", "one of distances")

    def close(self) -> None:
        """Close the collection; remove it if it is temporary."""
        self.collection.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def certificate(self, similarity: float | None = None) -> Certificate:
        """Return the promise about documents above a similarity that are missed.

        Parameters
        ----------
        similarity : float, optional
            That of the collection by default.
        """
        nothing = np.empty((0, self.collection.dim))
        return self.collection.range_search(nothing, similarity).certificate

    def _delete_everything(self) -> None:
        self.collection.delete(list(self.collection))


class MemvecVectorStore(_Stored, VectorStore):
    """Documents in a collection.

    ``similarity_score_threshold`` returns everything above the threshold, not only the best four.

    Parameters
    ----------
    embedding : Embeddings
        What turns texts into vectors.
    path : str or path, optional
        The folder of the collection, created where there is none; a temporary one by default.
    text_field : str, default "page_content"
        The field of the metadata that holds the text of a document.
    **settings
        As in :func:`memvec.open`: `similarity`, `miss_rate`, `read_only` and so on.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from memvec.integrations.langchain import MemvecVectorStore
    >>> store = MemvecVectorStore(DeterministicFakeEmbedding(size=8), similarity=0.8)
    >>> ids = store.add_texts(["a cat", "a dog"], [{"year": 2019}, {"year": 2020}])
    >>> [found.page_content for found in store.similarity_search("a cat", k=1)]
    ['a cat']
    >>> [found.metadata for found in store.similarity_search("a cat", filter={"year": 2020})]
    [{'year': 2020}]
    >>> store.close()
    """

    def __init__(
        self,
        embedding: Embeddings,
        path: PathLike | None = None,
        *,
        text_field: str = "page_content",
        **settings: Any,
    ) -> None:
        super().__init__(embedding, path, settings)
        self._text_field = text_field

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a store that holds texts.

        Parameters
        ----------
        texts, metadatas, ids
            As in :meth:`add_texts`.
        embedding, **kwargs
            As in the constructor.
        """
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> Embeddings:
        """What turns texts into vectors."""
        return self.embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, and replace those that have the same ids; on disk when it returns.

        Parameters
        ----------
        texts : iterable of str
        metadatas : list of dict, optional
            One per text, of values that JSON can hold.
        ids : sequence of str or None, optional
            By default, and where an id is None, a new one is made. If texts share an id, the last
            one is kept.
        **kwargs
            Ignored.
        """
        contents = list(texts)
        names = [name or str(uuid.uuid4()) for name in ids or [None] * len(contents)]
        fields = [*(metadatas or [{} for _ in contents])]
        for name, given in (("ids", names), ("metadatas", fields)):
            if len(given) != len(contents):
                expected = f"one for each of {checks.counted(len(contents), 'text')}"
                raise checks.bad_value(name, "MemvecVectorStore.add_texts", expected, len(given))
        last = {name: row for row, name in enumerate(names)}
        if last:
            vectors = self.embedding.embed_documents([contents[row] for row in last.values()])
            items = [self._item(contents[row], fields[row]) for row in last.values()]
            self.collection.upsert(np.asarray(vectors), list(last), items)
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents; ids that do not exist are ignored.

        Parameters
        ----------
        ids : list of str, optional
            All documents by default.
        **kwargs
            Ignored.
        """
        if ids is None:
            self._delete_everything()
        else:
            self.collection.delete([name for name in dict.fromkeys(ids) if name in self.collection])
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; ids that do not exist are ignored."""
        there = [name for name in dict.fromkeys(ids) if name in self.collection]
        return [self._document(item.id, item.metadata) for item in self.collection.get(there)]

    def similarity_search(self, query: str, k: int = _DEFAULT_K, **kwargs: Any) -> list[Document]:
        """Return the k documents most similar to a text; `filter` as `where` of a collection."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = _DEFAULT_K, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the k documents most similar to a text, with their cosines."""
        return self.similarity_search_with_score_by_vector(self._embedded(query), k, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = _DEFAULT_K, **kwargs: Any
    ) -> list[Document]:
        """Return the k documents most similar to a vector."""
        found = self.similarity_search_with_score_by_vector(embedding, k, **kwargs)
        return [document for document, _ in found]

    def similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = _DEFAULT_K,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - as LangChain calls it
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """Return the k documents most similar to a vector, with their cosines."""
        return self._scored(self._nearest(embedding, k, filter))

    def similarity_search_with_relevance_scores(
        self,
        query: str,
        k: int | None = None,
        *,
        score_threshold: float | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - as LangChain calls it
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """Return documents with relevance scores: cosines, and 0 where they are negative.

        Parameters
        ----------
        query : str
        k : int, optional
            Maximum number; by default, all above the threshold, or four without a threshold.
        score_threshold : float, optional
            Return everything that is at least this similar, apart from the misses that the miss
            rate allows; see :meth:`certificate`.
        filter : dict, optional
            As `where` in :meth:`memvec.Collection.range_search`.
        **kwargs
            Ignored.
        """
        vector = self._embedded(query)
        if score_threshold is None or score_threshold <= 0:
            wanted = _DEFAULT_K if score_threshold is None else max(1, len(self.collection))
            found = self._scored(self._nearest(vector, k or wanted, filter))
        else:
            similarity = checks.similarity(score_threshold, type(self).__name__, "score_threshold")
            hits = self.collection.range_search(
                vector, similarity, where=filter, include="metadata"
            )
            found = self._scored(hits)[:k]
        return [(document, min(max(score, 0.0), 1.0)) for document, score in found]

    async def asimilarity_search_with_relevance_scores(
        self, query: str, k: int | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return what :meth:`similarity_search_with_relevance_scores` returns."""
        found = self.similarity_search_with_relevance_scores
        scored: list[tuple[Document, float]] = await run_in_executor(
            None, found, query, k, **kwargs
        )
        return scored

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = _DEFAULT_K,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Return k documents that are similar to a text and differ from each other.

        Parameters
        ----------
        query : str
        k : int, default 4
            How many.
        fetch_k : int, default 20
            Number of most similar documents to choose from.
        lambda_mult : float, default 0.5
            1 for similarity alone, 0 for diversity alone.
        **kwargs
            `filter`, as in :meth:`similarity_search`.
        """
        return self.max_marginal_relevance_search_by_vector(
            self._embedded(query), k, fetch_k, lambda_mult, **kwargs
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = _DEFAULT_K,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - as LangChain calls it
        **kwargs: Any,
    ) -> list[Document]:
        """Return k documents that are similar to a vector and differ from each other."""
        top = self._nearest(embedding, fetch_k, filter, vectors=True)
        found = self._scored(top)
        assert top.vectors is not None
        chosen = maximal_marginal_relevance(
            np.asarray(embedding, dtype=np.float32),
            list(top.vectors[0, : len(found)]),
            lambda_mult=lambda_mult,
            k=k,
        )
        return [found[place][0] for place in chosen]

    def _select_relevance_score_fn(self) -> Any:
        return lambda score: min(max(score, 0.0), 1.0)

    def _embedded(self, query: str) -> list[float]:
        return list(self.embedding.embed_query(query))

    def _nearest(
        self, embedding: list[float], k: int, where: dict[str, Any] | None, *, vectors: bool = False
    ) -> TopHits:
        include: list[Content] = ["metadata", "vectors"] if vectors else ["metadata"]
        query = np.asarray(embedding, dtype=np.float64)
        return self.collection.search(query, k, where=where, include=include)

    def _scored(self, found: Hits | TopHits) -> list[tuple[Document, float]]:
        """Return what one query has found."""
        metadata = found.metadata or []
        rows = metadata[0] if metadata and isinstance(metadata[0], list) else metadata
        flat = zip(found.ids.ravel(), rows, found.scores.ravel().tolist(), strict=True)
        return [(self._document(name, row), score) for name, row, score in flat if row is not None]

    def _item(self, text: str, metadata: dict[str, Any]) -> dict[str, Any]:
        if self._text_field in metadata:
            expected = f"free of {self._text_field!r}, which holds the text (see 'text_field')"
            raise checks.bad_value("metadatas", type(self).__name__, expected, metadata)
        return {**metadata, self._text_field: text}

    def _document(self, name: int | str, metadata: Any) -> Document:
        fields = dict(metadata)
        text = str(fields.pop(self._text_field, ""))
        return Document(id=str(name), page_content=text, metadata=fields)


class MemvecSemanticCache(_Stored, BaseCache):
    """Answers of a language model, looked up by the meaning of the prompt.

    A prompt is answered from the cache if a stored prompt for the same model and settings reaches
    `similarity`; the most similar one is used. The certificate bounds the hits that are *missed*.
    Whether a hit is *right* depends on the threshold: :func:`choose_threshold` picks one from
    labelled pairs, with a bound on wrong hits.

    Parameters
    ----------
    embedding : Embeddings
        What turns prompts into vectors.
    path : str or path, optional
        The folder of the collection, created where there is none; a temporary one by default.
    similarity : float, default 0.95
        The lowest cosine of a hit.
    **settings
        As in :func:`memvec.open`.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_core.outputs import Generation
    >>> from memvec.integrations.langchain import MemvecSemanticCache
    >>> cache = MemvecSemanticCache(DeterministicFakeEmbedding(size=8))
    >>> cache.update("Who wrote Faust?", "a model", [Generation(text="Goethe.")])
    >>> cache.lookup("Who wrote Faust?", "a model")[0].text
    'Goethe.'
    >>> cache.close()
    """

    def __init__(
        self,
        embedding: Embeddings,
        path: PathLike | None = None,
        *,
        similarity: float = 0.95,
        **settings: Any,
    ) -> None:
        self.similarity = checks.similarity(similarity, type(self).__name__)
        super().__init__(embedding, path, settings, self.similarity)

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the answer to the most similar prompt, if it is similar enough.

        Parameters
        ----------
        prompt : str
        llm_string : str
            The model and its settings, which must be the same.
        """
        vector = np.asarray(self.embedding.embed_query(prompt), dtype=np.float64)
        same = {"llm": _digest(llm_string)}
        hits = self.collection.range_search(vector, self.similarity, where=same, include="metadata")
        if not hits.metadata:
            return None
        return [_unpacked(answer) for answer in hits.metadata[0]["answers"]]

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer; on disk when it returns.

        Parameters
        ----------
        prompt, llm_string
            As in :meth:`lookup`.
        return_val : sequence of Generation
        """
        vector = np.asarray(self.embedding.embed_query(prompt), dtype=np.float64)
        llm = _digest(llm_string)
        item = {"llm": llm, "prompt": prompt, "answers": [_packed(answer) for answer in return_val]}
        self.collection.upsert(vector, _digest(llm + prompt), item)

    def certificate(self, similarity: float | None = None) -> Certificate:
        """Return the promise about missed hits, by default at the threshold."""
        return super().certificate(self.similarity if similarity is None else similarity)

    def clear(self, **kwargs: Any) -> None:
        """Forget all answers."""
        self._delete_everything()


def _packed(answer: Generation) -> dict[str, Any]:
    """Return an answer as JSON holds it: of text, or of a message."""
    stored = answer.model_dump(mode="json", include={"text", "generation_info"})
    if isinstance(answer, ChatGeneration):
        message = answer.message
        stored["message"] = {"type": message.type, "data": message.model_dump(mode="json")}
    return dict(stored)


def _unpacked(stored: dict[str, Any]) -> Generation:
    """Return what was packed; nothing but text and messages is made of what is stored."""
    if "message" not in stored:
        return Generation(text=stored["text"], generation_info=stored["generation_info"])
    [message] = messages_from_dict([stored["message"]])
    return ChatGeneration(message=message, generation_info=stored["generation_info"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = ["MemvecSemanticCache", "MemvecVectorStore", "ThresholdChoice", "choose_threshold"]
