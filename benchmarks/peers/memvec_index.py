"""memvec itself, tuned like everybody else: by the miss rate it is asked for."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.contender import Answer, Contender, Ladder
from memvec import Index, IndexConfig
from memvec.types import Float32Array, IntArray

# From the most careful to the most careless, so ladders run through them backwards.
_MISS_RATES = (
    0.001,
    0.002,
    0.003,
    0.005,
    0.006,
    0.008,
    0.01,
    0.012,
    0.015,
    0.02,
    0.025,
    0.03,
    0.04,
)
_ASKED = 0.01
# What is counted of every search.
_WORK = ("unit_tests", "units_visited", "members_tested", "codes_tested", "exact_products")


class Memvec(Contender):
    """An index designed for the similarity; the setting is the miss rate asked of a search.

    It is calibrated on the queries that others are tuned on, or on a reserve of its own.
    """

    tied_to_similarity = True

    def __init__(
        self, name: str = "memvec", reserve: bool = False, config: IndexConfig | None = None
    ) -> None:
        self.name = name
        self.reserve = reserve
        self.config = config

    def warm_up(self, vectors: Float32Array) -> None:
        self.build(vectors, 0.7, 1)
        self.find(vectors[0], 0.7, _ASKED)

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.index = Index.build(
            vectors,
            similarity=similarity,
            miss_rate=_ASKED,
            queries=None if self.reserve else self.tuning_queries,
            config=self.config,
            progress=False,
        )

    def settings(self, counts: IntArray) -> list[Ladder]:
        return [_MISS_RATES[::-1]]

    def fixed_settings(self) -> dict[str, float]:
        return {f"{self.name}, untuned": _ASKED}

    def find(self, query: Float32Array, similarity: float, setting: float) -> IntArray:
        return self.index.range_search(query, similarity, miss_rate=setting, threads=1).ids

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: float, threads: int
    ) -> Answer:
        hits = self.index.range_search(queries, similarity, miss_rate=setting, threads=threads)
        return Answer(hits.offsets, hits.ids)

    def save(self, folder: Path) -> None:
        if hasattr(self.index, "save"):
            self.index.save(folder / "index.mv")

    def work(self, queries: Float32Array, similarity: float, setting: float) -> dict[str, float]:
        hits = self.index.range_search(queries, similarity, miss_rate=setting, threads=1)
        spent = {name: getattr(hits.work, name) / len(queries) for name in _WORK}
        return spent | {"matches": len(hits.ids) / len(queries)}

    def design(self) -> str:
        return str(self.index.design).partition(", for similarity")[0]

    def label(self, setting: float) -> str:
        return f"miss_rate={setting:g}"
