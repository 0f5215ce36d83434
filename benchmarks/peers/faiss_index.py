"""FAISS: flat, inverted lists, product and RaBitQ codes with exact refine, HNSW, binary codes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.peers.contender import (
    SLACK,
    Answer,
    Contender,
    Ladder,
    geometric,
    refine,
    refine_batch,
)
from benchmarks.peers.top_k import TopK, TopKContender
from memvec.types import Float32Array, IntArray


class FaissRange(Contender):
    """An index whose own range search is used; the setting is an integer."""

    def find(self, query: Float32Array, similarity: float, setting: int) -> IntArray:
        _, _, ids = self.index.range_search(query[np.newaxis], similarity - SLACK)
        return ids

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: int, threads: int
    ) -> Answer:
        faiss.omp_set_num_threads(threads)
        limits, _, ids = self.index.range_search(queries, similarity - SLACK)
        return Answer(limits.astype(np.int64), ids)

    def save(self, folder: Path) -> None:
        faiss.write_index(self.index, str(folder / "index"))


class FaissFlat(FaissRange):
    """Everything, by inner products."""

    name = "FAISS Flat"
    exact = True

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.index = faiss.IndexFlatIP(vectors.shape[1])
        self.index.add(vectors)

    def settings(self, counts: IntArray) -> list[Ladder]:
        return [["all"]]


class FaissIvf(FaissRange):
    """Inverted lists of float32 vectors; the setting is how many lists are read."""

    def __init__(self, lists_per_root: float) -> None:
        self.lists_per_root = lists_per_root
        self.name = f"FAISS IVFFlat, {lists_per_root:g}√N lists"

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        faiss.omp_set_num_threads(threads)
        n_lists, dim = _lists(len(vectors), self.lists_per_root), vectors.shape[1]
        self.index = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(dim), dim, n_lists, faiss.METRIC_INNER_PRODUCT
        )
        _train(self.index, vectors)

    def settings(self, counts: IntArray) -> list[Ladder]:
        return [geometric(1, self.index.nlist, 1.08)]

    def configure(self, setting: int) -> None:
        self.index.nprobe = setting

    def label(self, setting: int) -> str:
        return f"nprobe={setting} of {self.index.nlist}"


class FaissHnsw(FaissRange):
    """A graph, searched with FAISS's own range search."""

    def __init__(self, degree: int, construction: int = 100) -> None:
        self.degree, self.construction = degree, construction
        self.name = f"FAISS HNSW range, M={degree}"

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        faiss.omp_set_num_threads(threads)
        self.index = faiss.IndexHNSWFlat(vectors.shape[1], self.degree, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = self.construction
        self.index.add(vectors)

    def settings(self, counts: IntArray) -> list[Ladder]:
        return [geometric(4, min(8192, 4 + self.index.ntotal), 1.08)]

    def configure(self, setting: int) -> None:
        self.index.hnsw.efSearch = setting

    def label(self, setting: int) -> str:
        return f"efSearch={setting}"

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: int, threads: int
    ) -> Answer:
        # One by one: FAISS 1.15 ends the process ("labels == nullptr" failed) where its range
        # search of a graph splits a large batch into parts.
        rows = [self.find(query, similarity, setting) for query in queries]
        limits = np.cumsum([0, *(len(row) for row in rows)])
        return Answer(limits, np.concatenate([np.empty(0, dtype=np.int64), *rows]))


class FaissRefined(TopKContender):
    """Fast-scan codes in inverted lists find k candidates, exact inner products refine them.

    Candidates are asked for by number: the range search of `IndexIVFRaBitQFastScan` in FAISS 1.15
    does not keep to the radius (seen: a quarter of the matches with inner products, and all vectors
    of the lists with distances).
    """

    larger_is_closer = True

    def __init__(self, codes: str, lists_per_root: float = 4) -> None:
        self.codes, self.lists_per_root = codes, lists_per_root
        self.name = f"FAISS IVF+{codes} fast-scan, refined"

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        faiss.omp_set_num_threads(threads)
        n_lists, dim = _lists(len(vectors), self.lists_per_root), vectors.shape[1]
        quantizer, metric = faiss.IndexFlatIP(dim), faiss.METRIC_INNER_PRODUCT
        if self.codes == "PQ":
            self.lists = faiss.IndexIVFPQFastScan(
                quantizer, dim, n_lists, dim // 2 if dim % 2 == 0 else dim, 4, metric
            )
            base = self.lists
        else:
            self.lists = faiss.IndexIVFRaBitQFastScan(quantizer, dim, n_lists, metric)
            self.lists.qb = 8
            base = faiss.IndexPreTransform(faiss.RandomRotationMatrix(dim, dim), self.lists)
        self._parts = (quantizer, base)
        self.index = faiss.IndexRefineFlat(base)
        _train(self.index, vectors)
        self.vectors = vectors

    def settings(self, counts: IntArray) -> list[Ladder]:
        """Return ladders of nprobe; codes blur the order, so more than the matches are needed."""
        most = min(len(self.vectors), 16 * (int(counts.max(initial=1)) + 1))
        probes = geometric(1, self.lists.nlist, 1.08)
        return [[TopK(k, probe) for probe in probes] for k in geometric(4, most, 2.0)]

    def efforts(self, k: int) -> list[float]:
        return list(geometric(1, self.lists.nlist, 1.08))

    def configure(self, setting: TopK) -> None:
        self.lists.nprobe = int(setting.effort)

    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        scores, ids = self.index.search(query[np.newaxis], k)
        return ids[0], scores[0]

    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        faiss.omp_set_num_threads(threads)
        scores, ids = self.index.search(queries, k)
        return ids, scores

    def save(self, folder: Path) -> None:
        faiss.write_index(self.index, str(folder / "index"))

    def label(self, setting: TopK) -> str:
        return f"k={setting.k} nprobe={setting.effort} of {self.lists.nlist}"


class FaissBinary(Contender):
    """Sign codes after a random rotation within a Hamming radius, refined with exact products."""

    name = "FAISS BinaryFlat, refined"

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        faiss.omp_set_num_threads(threads)
        dim = vectors.shape[1]
        noise = np.random.default_rng(0).standard_normal((dim, 8 * math.ceil(dim / 8)))
        self.rotation = np.linalg.qr(noise.T)[0].T.astype(np.float32)
        self.vectors = vectors
        self.index = faiss.IndexBinaryFlat(self.rotation.shape[1])
        for start in range(0, len(vectors), 65536):
            self.index.add(self._codes(vectors[start : start + 65536]))

    def settings(self, counts: IntArray) -> list[Ladder]:
        bits = self.rotation.shape[1]
        return [range(max(1, bits // 20), bits // 2 + 1, max(1, bits // 256))]

    def find(self, query: Float32Array, similarity: float, setting: int) -> IntArray:
        _, _, ids = self.index.range_search(self._codes(query[np.newaxis]), setting)
        return refine(self.vectors, query, ids, similarity)

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: int, threads: int
    ) -> Answer:
        faiss.omp_set_num_threads(threads)
        limits, _, ids = self.index.range_search(self._codes(queries), setting)
        candidates = Answer(limits.astype(np.int64), ids)
        return refine_batch(self.vectors, queries, candidates, similarity)

    def _codes(self, rows: Float32Array) -> np.ndarray:
        return np.packbits(rows @ self.rotation > 0, axis=1)

    def save(self, folder: Path) -> None:
        faiss.write_index_binary(self.index, str(folder / "codes"))
        np.save(folder / "rotation.npy", self.rotation)
        np.save(folder / "vectors.npy", self.vectors)

    def label(self, setting: int) -> str:
        return f"radius={setting} of {self.rotation.shape[1]} bits"


def _lists(n_vectors: int, per_root: float) -> int:
    # FAISS asks for 39 training vectors a list and warns below that.
    return max(1, min(round(per_root * math.sqrt(n_vectors)), n_vectors // 39))


def _train(index: Any, vectors: Float32Array) -> None:
    # Training looks at 256 vectors a list by itself.
    index.train(vectors)
    index.add(vectors)
