"""Which ranks the units with a match have, for the paper's ways to make units."""

from __future__ import annotations

import numpy as np

from memvec.experiments._curves import (
    SearchedUnits,
    kmeans_variants,
    paper_config,
    search_units,
)
from memvec.experiments._data import three_sets
from memvec.experiments._experiment import Run
from memvec.experiments._sets import RetrievalSet
from memvec.experiments._table import Cell, Table, plain
from memvec.index import IndexConfig
from memvec.types import IntArray

RANK_COLUMNS = ("data", "variant", "rank", "probability", "matches")


def rank_configs(unit_size: int, seed: int) -> dict[str, IndexConfig]:
    """Return random units of pinv, and k-means with sums, normalised sums and pinv."""
    random = paper_config("random", "pinv", unit_size, seed)
    return {"random": random, **kmeans_variants(unit_size, seed)}


def rank_table(run: Run, title: str) -> Table:
    """Return, rank by rank, how often a unit holds a match, and how many if it does."""
    rows: list[tuple[Cell, ...]] = []
    sets = three_sets(run.data, run.scale, run.seed)
    configs = rank_configs(run.settings["unit_size"], run.seed)
    with run.bar(title, len(sets) * len(configs)) as advance:
        for data in sets:
            for variant, config in configs.items():
                matches = matches_by_rank(data, search_units(data, config))
                rows += _rows(data.name, variant, matches[:, : run.settings["ranks"]])
                advance(1)
    return Table(title, RANK_COLUMNS, tuple(rows))


def matches_by_rank(data: RetrievalSet, units: SearchedUnits) -> IntArray:
    """Return the number of matches in the unit of each rank, shape (n_queries, n_units)."""
    counts = np.zeros(units.scores.shape, dtype=np.int64)
    for query, ids in enumerate(data.relevant):
        wanted = ids if data.own is None else ids[ids != data.own[query]]
        np.add.at(counts[query], units.labels[wanted], 1)
    order = np.argsort(-units.scores, axis=1, kind="stable")
    return np.take_along_axis(counts, order, axis=1)


def _rows(data: str, variant: str, matches: IntArray) -> list[tuple[Cell, ...]]:
    positive = matches > 0
    rows = []
    for rank in _some_ranks(matches.shape[1]):
        held = positive[:, rank - 1]
        mean = matches[held, rank - 1].mean() if held.any() else float("nan")
        rows.append(plain([data, variant, rank, held.mean(), mean]))
    return rows


def _some_ranks(most: int) -> list[int]:
    """Return every rank up to 20 and some of the later ones."""
    later = np.geomspace(min(most, 20), most, 15).astype(int)
    return sorted({*range(1, min(most, 20) + 1), *(int(rank) for rank in later)})


__all__ = ["RANK_COLUMNS", "matches_by_rank", "rank_configs", "rank_table"]
