"""Documents of LangChain in a collection: everything above a threshold, and cached answers.

Texts are synsets of WordNet with their sentence embeddings, taken from the sample in place of a
model. Run it with ``python examples/integrations/langchain_store.py``; needs ``memvec[langchain]``.
"""

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.outputs import Generation

from memvec.evaluation import load_sample
from memvec.integrations.langchain import MemvecSemanticCache, MemvecVectorStore, choose_threshold

STORED = 5000


class SampleEmbeddings(Embeddings):
    """The embeddings of the sample, by text."""

    def __init__(self) -> None:
        sample = load_sample()
        self.texts = list(sample.texts)
        self.vectors = sample.vectors
        self._rows = dict(zip(self.texts, range(len(self.texts)), strict=True))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the embeddings of texts of the sample."""
        return self.vectors[[self._rows[text] for text in texts]].tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the embedding of a text; of one that is not in the sample, that of the first."""
        return self.vectors[self._rows.get(text, 0)].tolist()


def main() -> None:
    embeddings = SampleEmbeddings()
    store = MemvecVectorStore(embeddings, similarity=0.6)
    store.add_texts(embeddings.texts[:STORED])
    whale = embeddings.texts[697]
    ways = {"search_type": "similarity_score_threshold", "search_kwargs": {"score_threshold": 0.6}}
    for document in store.as_retriever(**ways).invoke(whale):
        print(document.page_content[:70])
    print(store.certificate(0.6))
    store.close()

    choice = choose_threshold(labelled_lookups(embeddings), wrong_hits=0.05)
    print(choice)
    cache = MemvecSemanticCache(embeddings, similarity=choice.similarity)
    cache.update(whale, "a model", [Generation(text="A whale is a mammal.")])
    print(cache.lookup(whale, "a model"), cache.lookup(embeddings.texts[0], "a model"))
    cache.close()


def labelled_lookups(embeddings: SampleEmbeddings) -> list[tuple[float, bool]]:
    """Return the cosine of each lookup with its nearest stored text, and whether it is the same.

    Half of the lookups repeat a stored text with noise; the others are texts that are not stored.
    """
    rng = np.random.default_rng(0)
    stored, new = embeddings.vectors[:STORED], embeddings.vectors[STORED:7000]
    again = rng.choice(STORED, len(new))
    noise = rng.standard_normal((len(new), stored.shape[1])) / np.sqrt(stored.shape[1])
    turned = stored[again] + rng.uniform(0.1, 0.6, (len(new), 1)) * noise
    lookups = np.concatenate([turned / np.linalg.norm(turned, axis=1, keepdims=True), new])
    cosines = lookups @ stored.T
    meant = np.concatenate([again, np.full(len(new), -1)])
    return list(zip(cosines.max(axis=1), cosines.argmax(axis=1) == meant, strict=True))


if __name__ == "__main__":
    main()
