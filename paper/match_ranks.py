"""Which ranks the units with a match have, for the paper's ways to make units."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from memvec.constructions import memory_vectors
from memvec.index import IndexConfig
from memvec.types import IntArray
from paper.data_sets import clustered_sets
from paper.experiment import Run
from paper.quality_curves import (
    KMEANS_PINV,
    KMEANS_SUM,
    SearchedUnits,
    kmeans_variants,
    paper_config,
    search_units,
)
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table, plain

RANK_COLUMNS = (
    "data",
    "variant",
    "rank",
    "probability",
    "deviation",
    "matches",
    "matches deviation",
    "mean matches",
    "by chance",
    "largest unit",
)
# Two figures show the same units: the last rows that were computed, by what they depend on.
_KNOWN: dict[object, tuple[tuple[Cell, ...], ...]] = {}
# What the paper's figures have; normalised sums are shown beside.
KMEANS = (KMEANS_SUM, KMEANS_PINV)


def rank_configs(unit_size: int, seed: int, rounds: int) -> dict[str, IndexConfig]:
    """Return random units of pinv, and k-means with sums, pinv and normalised sums."""
    random = paper_config("random", "pinv", unit_size, seed)
    return {"random": random, **kmeans_variants(unit_size, seed, rounds)}


def rank_table(run: Run, title: str) -> Table:
    """Return, rank by rank, how often a unit holds a match, and how many if it does.

    Means over several runs, with the deviations between them. Beside them stand the mean number of
    matches in a unit that holds one, over all ranks, what it would be if chance had made the units,
    and the share of the vectors in the largest unit of any run.
    """
    sets = clustered_sets(run.data, run.scale, run.seed)
    known = (run.data.folders, run.scale, run.seed, tuple(run.settings.items()))
    if known not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[known] = _rank_rows(run, sets)
    return Table(title, RANK_COLUMNS, _KNOWN[known])


def _rank_rows(run: Run, sets: list[RetrievalSet]) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[Cell, ...]] = []
    size, rounds = run.settings["unit_size"], run.settings["rounds"]
    seeds = [run.seed + number for number in range(run.settings["runs"])]
    names = list(rank_configs(size, 0, rounds))
    with run.bar("ranks of units", len(sets) * len(names)) as advance:
        for data in sets:
            for name in names:
                every = [
                    units_without_queries(data, rank_configs(size, seed, rounds)[name])
                    for seed in seeds
                ]
                rows += _of_variant(data, name, every, run.settings["ranks"])
                advance(1)
    return tuple(rows)


def _of_variant(
    data: RetrievalSet, name: str, every: list[SearchedUnits], ranks: int
) -> list[tuple[Cell, ...]]:
    counts = [matches_by_rank(data, units) for units in every]
    overall = sum(each.sum() for each in counts) / sum(np.count_nonzero(each) for each in counts)
    chance = matches_by_chance(data, len(every[0].sizes))
    facts = (overall, chance, max(units.largest for units in every))
    shown = min(ranks, *(each.shape[1] for each in counts))
    drawn = _rows(data.name, name, [each[:, :shown] for each in counts])
    return [plain([*row, *facts]) for row in drawn]


def largest_units(table: Table) -> str:
    """Return in words how many of the vectors the largest units of plain sums and pinv hold.

    A unit that holds many vectors holds many matches, whatever made it.
    """
    sets = [
        f"{data} "
        + " and ".join(
            f"{100 * float(table.where(data=data, variant=name).column('largest unit')[0]):.0f} %"
            for name in KMEANS
        )
        for data in table.values("data")
    ]
    return (
        "Share of the vectors in the largest unit of any run, with plain sums and with pinv: "
        f"{'; '.join(sets)}. Where it is large, what holds of sums may rest on it."
    )


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
    units = search_units(data, config)
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


def _rows(data: str, variant: str, counts: list[IntArray]) -> list[tuple[Cell, ...]]:
    rows = []
    for rank in _some_ranks(counts[0].shape[1]):
        at = [each[:, rank - 1] for each in counts]
        shares = [float(np.mean(each > 0)) for each in at]
        every = np.concatenate(at)
        held = every > 0
        mean = every[held].mean() if held.any() else float("nan")
        means = [float(each[each > 0].mean()) for each in at if (each > 0).any()]
        facts = [np.mean(shares), _deviation(shares), mean, _deviation(means)]
        rows.append(plain([data, variant, rank, *facts]))
    return rows


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _some_ranks(most: int) -> list[int]:
    """Return every rank up to 20 and some of the later ones."""
    later = np.geomspace(min(most, 20), most, 15).astype(int)
    return sorted({*range(1, min(most, 20) + 1), *(int(rank) for rank in later)})


__all__ = [
    "KMEANS",
    "RANK_COLUMNS",
    "largest_units",
    "matches_by_chance",
    "matches_by_rank",
    "own_ids",
    "rank_configs",
    "rank_table",
    "units_without_queries",
    "wanted_ids",
]
