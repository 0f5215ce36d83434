"""Units of one vector each, a scan of whole codes: where k-means units take more time."""

from __future__ import annotations

from dataclasses import replace

from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._kmeans_design import Tries, leaves_units_open, time_of_members


def design_flat(
    config: IndexConfig,
    shape: tuple[int, int],
    trials: Tries | None,
    costs: MachineCosts,
    most: float,
) -> tuple[IndexConfig, float] | None:
    """Return units of one vector and the microseconds of a query, where it takes less than `most`.

    Where vectors are few, or most k-means units pass, there is nothing to win by units. Codes of
    units have scales of their own, which first words have not: fewer members pass than after any
    test of first words.
    """
    if trials is None or not trials.tell or not _leaves_all_open(config):
        return None
    n_vectors, dim = shape
    n_words = config.n_code_words(dim)
    flat = replace(
        config,
        assignment="random",
        codes="estimate",
        construction="pinv",
        unit_size=1,
        group_size=1,
        levels=1,
        units_per_vector=1,
        unit_words=n_words if config.unit_words == "auto" else config.unit_words,
        member_words=n_words if config.member_words == "auto" else config.member_words,
    )
    tested, first = (min(int(words), n_words) for words in (flat.unit_words, flat.member_words))
    time = costs.query + costs.scan(n_vectors, tested)
    if 1e-3 * time > most:
        return None
    trial = trials.of(replace(flat, member_bits=1))
    time += costs.visits(n_vectors, trial.passed, 1, first)
    time += time_of_members(trial, n_vectors, (dim, n_words), costs)
    return (flat, 1e-3 * time) if 1e-3 * time < most else None


def _leaves_all_open(config: IndexConfig) -> bool:
    """Tell whether everything about units is left to the design step."""
    decided = (config.assignment, config.levels, config.units_per_vector, config.group_size)
    estimates = config.codes in ("auto", "estimate") and config.construction == "auto"
    return (
        leaves_units_open(config)
        and estimates
        and not config.normalised
        and config.batch_size is None
        and set(decided) == {"auto"}
    )
