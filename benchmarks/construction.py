"""Memory vectors of all units of ten, against passes over the data."""

from __future__ import annotations

import numpy as np

from benchmarks.data import uniform_vectors
from benchmarks.measure import interleaved, print_table, spread
from memvec.constructions import memory_vectors

DIM, UNIT_SIZE = 1024, 10


def run(n_vectors: int, rounds: int) -> None:
    """Print the time of sum and pinv, with that of one pass over the vectors beside it."""
    vectors = uniform_vectors(n_vectors, DIM)
    offsets = np.append(np.arange(0, n_vectors, UNIT_SIZE), n_vectors)
    memory_vectors(vectors[:100], np.array([0, 100]))
    seconds = interleaved(
        {
            "one pass (sum of the array)": lambda: vectors.sum(),
            "sum": lambda: memory_vectors(vectors, offsets, construction="sum"),
            "pinv": lambda: memory_vectors(vectors, offsets, construction="pinv"),
        },
        rounds,
    )
    rows = [[name, spread(values)] for name, values in seconds.items()]
    title = f"Memory vectors of {n_vectors:,} × {DIM} uniform vectors, units of {UNIT_SIZE}"
    print_table(title, ["what", "seconds, all cores"], rows)
