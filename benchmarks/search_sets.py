"""The questions of the search benchmark: vectors, queries in two halves, and the exact answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.data import (
    image_descriptors,
    pixel_vectors,
    planted_queries,
    sentence_vectors,
    structured_vectors,
    uniform_vectors,
    word_vectors,
)
from benchmarks.tuning import Question
from memvec.evaluation import exact_range
from memvec.types import Float32Array

# Sets of real vectors, each with its name; a part of them is held out as queries.
_REAL: dict[str, Callable[[str | None], tuple[Float32Array, str]]] = {
    "wordnet": sentence_vectors,
    "glove": lambda data: (word_vectors(data), "GloVe words"),
    "images": lambda data: (image_descriptors(data, whitened=False), "image descriptors"),
    "images-whitened": lambda data: (
        image_descriptors(data, whitened=True),
        "whitened image descriptors",
    ),
    "pixels": lambda data: (pixel_vectors(data), "MNIST pixels"),
}
SETS = (*_REAL, "uniform", "structured")


@dataclass(frozen=True)
class SearchSet:
    """Vectors, and the queries for a similarity."""

    name: str
    vectors: Float32Array
    queries: Callable[[float], Float32Array]

    def halves(self, similarity: float) -> tuple[Question, Question]:
        """Return every other query for tuning, and the others for judging."""
        queries = self.queries(similarity)
        truth = exact_range(self.vectors, queries, similarity, progress=False)
        question = Question(queries, truth, similarity)
        tuning, judging = (np.arange(first, len(queries), 2) for first in (0, 1))
        return question.rows(tuning), question.rows(judging)


def search_set(
    name: str, data: str | None, n_vectors: int | None, dim: int | None, n_queries: int | None
) -> SearchSet:
    """Return a set; None takes the size that it is meant for."""
    if name == "uniform":
        return _uniform(n_vectors or 1_000_000, dim or 1024, n_queries or 6000)
    held_out = n_queries or 2000
    if name == "structured":
        wanted = (n_vectors or 100_000) + held_out
        rows, title = structured_vectors(wanted, dim or 384), "structured vectors"
    else:
        rows, title = _REAL[name](data)
        wanted = min(len(rows), (n_vectors or len(rows)) + held_out)
    return _held_out(rows, title, wanted, held_out)


def _uniform(n_vectors: int, dim: int, n_queries: int) -> SearchSet:
    vectors = uniform_vectors(n_vectors, dim)
    return SearchSet(
        "uniform vectors",
        vectors,
        lambda similarity: planted_queries(vectors, similarity, n_queries),
    )


def _held_out(rows: Float32Array, title: str, wanted: int, held_out: int) -> SearchSet:
    order = np.random.default_rng(0).permutation(len(rows))[:wanted]
    queries = rows[order[:held_out]]
    return SearchSet(title, rows[order[held_out:]], lambda similarity: queries)
