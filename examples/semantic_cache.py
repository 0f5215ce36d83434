"""A semantic cache: the answer to a question serves all questions that mean nearly the same.

Questions are embeddings of the sample; asked again in other words, they come with noise. The cache
is on disk: what `put` has returned from survives the process.

Run it with ``python examples/semantic_cache.py``.
"""

import tempfile
from pathlib import Path

import numpy as np

import memvec
from memvec.evaluation import load_sample

SIMILARITY = 0.9
KNOWN, ASKED = 5000, 300


class SemanticCache:
    """Answers by the meaning of the question."""

    def __init__(self, path: Path, dim: int, similarity: float) -> None:
        self.collection = memvec.open(path, dim=dim, similarity=similarity)

    def get(self, question: np.ndarray) -> str | None:
        """Return the answer to the most similar question, if one is similar enough."""
        hits = self.collection.range_search(question)
        if not len(hits.ids):
            return None
        [best] = self.collection.get(hits.ids[:1])
        return str(best.metadata["answer"])

    def put(self, questions: np.ndarray, answers: list[str]) -> None:
        """Remember answers; on disk when it returns."""
        self.collection.add(questions, metadata=[{"answer": answer} for answer in answers])

    def close(self) -> None:
        """Let the next process in."""
        self.collection.close()


def main() -> None:
    sample = load_sample()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(sample))
    known, new = order[:KNOWN], order[KNOWN : KNOWN + ASKED]
    again = rng.choice(known, ASKED)
    with tempfile.TemporaryDirectory() as folder:
        cache = SemanticCache(Path(folder) / "cache.mv", 384, SIMILARITY)
        cache.put(sample.vectors[known], [sample.texts[row] for row in known])

        rephrased = in_other_words(sample.vectors[again], 0.95, rng)
        answers = [cache.get(question) for question in rephrased]
        right = sum(a == sample.texts[row] for a, row in zip(answers, again, strict=True))
        print(f"asked again: {right} of {ASKED} got their answer from the cache")

        hits = 0
        for row in new:  # a miss is computed, and remembered for the next time
            if cache.get(sample.vectors[row]) is None:
                cache.put(sample.vectors[row][np.newaxis], [sample.texts[row]])
            else:
                hits += 1
        print(f"new questions: {ASKED - hits} computed, {hits} had one like them in the cache")
        print(cache.collection.range_search(rephrased[0]).certificate)
        cache.close()

        cache = SemanticCache(Path(folder) / "cache.mv", 384, SIMILARITY)
        print(f"opened again: {len(cache.collection)} answers")
        cache.close()


def in_other_words(vectors: np.ndarray, cosine: float, rng: np.random.Generator) -> np.ndarray:
    """Return vectors at this cosine to those given, otherwise random: αx + βz."""
    noise = rng.standard_normal(vectors.shape)
    noise -= (noise * vectors).sum(axis=1, keepdims=True) * vectors
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return cosine * vectors + np.sqrt(1 - cosine**2) * noise


if __name__ == "__main__":
    main()
