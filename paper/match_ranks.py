"""Which ranks the units with a match have, for the paper's ways to make units."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from memvec.constructions import memory_vectors
from memvec.index import Index, IndexConfig
from memvec.types import IntArray
from paper.data_sets import three_sets
from paper.experiment import Run
from paper.quality_curves import SearchedUnits, kmeans_variants, paper_config
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table, plain

RANK_COLUMNS = (
    "data",
    "variant",
    "rank",
    "probability",
    "matches",
    "mean matches",
    "by chance",
    "largest unit",
)


def rank_configs(unit_size: int, seed: int) -> dict[str, IndexConfig]:
    """Return random units of pinv, and k-means with sums, normalised sums and pinv."""
    random = paper_config("random", "pinv", unit_size, seed)
    return {"random": random, **kmeans_variants(unit_size, seed)}


def rank_table(run: Run, title: str) -> Table:
    """Return, rank by rank, how often a unit holds a match, and how many if it does.

    Beside it stand the mean number of matches in a unit that holds one, over all ranks, what it
    would be if chance had made the units, and the share of the vectors in the largest unit.
    """
    rows: list[tuple[Cell, ...]] = []
    sets = three_sets(run.data, run.scale, run.seed)
    configs = rank_configs(run.settings["unit_size"], run.seed)
    with run.bar(title, len(sets) * len(configs)) as advance:
        for data in sets:
            for variant, config in configs.items():
                units = units_without_queries(data, config)
                matches = matches_by_rank(data, units)
                overall = matches.sum() / np.count_nonzero(matches)
                facts = (overall, matches_by_chance(data, len(units.sizes)), units.largest)
                drawn = _rows(data.name, variant, matches[:, : run.settings["ranks"]])
                rows += [plain([*row, *facts]) for row in drawn]
                advance(1)
    return Table(title, RANK_COLUMNS, tuple(rows))


def own_ids(data: RetrievalSet) -> IntArray | None:
    """Return the id of each query in the data; None where queries are not part of it.

    Where 4-recall@4 is measured the query is one of the four to find: the one at cosine 1.
    """
    if data.own is not None or data.measure != "4-recall@4":
        return data.own
    nearest = [
        ids[np.argmax(data.vectors[ids] @ query)]
        for ids, query in zip(data.relevant, data.queries, strict=True)
    ]
    return np.array(nearest, dtype=np.int64)


def units_without_queries(data: RetrievalSet, config: IndexConfig) -> SearchedUnits:
    """Return units as queries see them when their own copy is not in the memory vector.

    A query that is part of the data would find its own unit first, whatever else is in it.
    """
    index = Index.build(data.vectors, config=config)
    units = SearchedUnits.of_index(index, data.queries)
    own = own_ids(data)
    if own is None:
        return units
    scores = units.scores.copy()
    for query, itself in enumerate(own):
        unit = units.labels[itself]
        members = np.setdiff1d(np.flatnonzero(units.labels == unit), itself)
        [memory] = memory_vectors(
            data.vectors,
            [0, len(members)],
            order=members,
            construction=config.construction,  # type: ignore[arg-type]
            normalised=config.normalised,
        )
        scores[query, unit] = data.queries[query] @ memory
    return SearchedUnits(scores, units.labels, units.sizes)


def wanted_ids(data: RetrievalSet) -> list[IntArray]:
    """Return what each query should find beside itself."""
    own = own_ids(data)
    if own is None:
        return list(data.relevant)
    return [ids[ids != itself] for ids, itself in zip(data.relevant, own, strict=True)]


def matches_by_rank(data: RetrievalSet, units: SearchedUnits) -> IntArray:
    """Return the number of matches in the unit of each rank, shape (n_queries, n_units).

    The query itself is no match.
    """
    counts = np.zeros(units.scores.shape, dtype=np.int64)
    for query, ids in enumerate(wanted_ids(data)):
        np.add.at(counts[query], units.labels[ids], 1)
    order = np.argsort(-units.scores, axis=1, kind="stable")
    return np.take_along_axis(counts, order, axis=1)


def matches_by_chance(data: RetrievalSet, n_units: int) -> float:
    """Return the mean number of matches in a unit that holds one, units of equal size by chance.

    With K matches among N vectors, a unit of n holds none with probability C(N−K, n)/C(N, n).
    """
    total = float(len(data.vectors) - (own_ids(data) is not None))
    size = total / n_units
    wanted = np.array([len(ids) for ids in wanted_ids(data)], dtype=np.float64)
    none = np.zeros(len(wanted))
    few = wanted <= total - size
    rest = total - wanted[few]
    none[few] = np.exp(
        gammaln(rest + 1)
        - gammaln(rest - size + 1)
        + gammaln(total - size + 1)
        - gammaln(total + 1)
    )
    return float(wanted.sum() / (n_units * (1 - none)).sum())


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


__all__ = [
    "RANK_COLUMNS",
    "matches_by_chance",
    "matches_by_rank",
    "own_ids",
    "rank_configs",
    "rank_table",
    "units_without_queries",
    "wanted_ids",
]
