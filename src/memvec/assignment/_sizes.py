"""From the size of a unit to the number of units."""

from __future__ import annotations

from memvec import checks


def number_of_units(n_vectors: int, unit_size: int, where: str) -> int:
    """Return M = ⌈N/n⌉: enough units that none needs more than `unit_size` vectors on average."""
    unit_size = checks.integer(unit_size, "unit_size", where)
    return -(-n_vectors // unit_size)
