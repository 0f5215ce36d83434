"""Watch a stream for near-duplicates of what came before, in a window of the newest items.

Each batch is compared with the collection and with itself, added, and what has become too old is
deleted. Segments are made in the background while items come in.

Run it with ``python examples/near_duplicates_stream.py``.
"""

import tempfile
from pathlib import Path

import numpy as np

import memvec
from memvec.evaluation import load_sample

SIMILARITY = 0.85
BATCH, WINDOW = 500, 4000


def main() -> None:
    sample = load_sample()
    order = np.random.default_rng(0).permutation(len(sample))
    n_seen = n_pairs = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        memvec.open(
            Path(folder) / "stream.mv", dim=384, similarity=SIMILARITY, seal_at=2000
        ) as window,
    ):
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            vectors = sample.vectors[rows]
            pairs = [(match.id, rows[match.query]) for match in window.iter_range(vectors)]
            pairs += [(rows[a], rows[b]) for a, b in within(vectors)]
            if n_pairs == 0 and pairs:
                for old, new in pairs[:1]:
                    print(f"first seen   {sample.texts[old][:72]}")
                    print(f"seen again   {sample.texts[new][:72]}")
            n_pairs += len(pairs)

            # Durable when it returns; the number of the batch is what the window goes by.
            batch = start // BATCH
            window.add(vectors, ids=rows, metadata=[{"batch": batch}] * len(rows))
            n_seen += len(rows)
            oldest = {"batch": {"$lte": batch - WINDOW // BATCH}}
            window.delete([item.id for item in window.items(oldest)])
        print(f"{n_seen} items seen, {n_pairs} near-duplicate pairs above {SIMILARITY}")
        print(window)
        print(window.range_search(vectors[0]).certificate)


def within(vectors: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of a small batch that are similar."""
    left, right = np.nonzero(np.triu(vectors @ vectors.T, 1) >= SIMILARITY)
    return list(zip(left.tolist(), right.tolist(), strict=True))


if __name__ == "__main__":
    main()
