"""Find pairs of near-duplicate texts among 10,000 real embeddings, and check what was missed.

Run it with ``python examples/find_near_duplicates.py``.
"""

import memvec
from memvec.evaluation import count_misses, exact_self_range, load_sample

SIMILARITY = 0.85


def main() -> None:
    sample = load_sample()
    index = memvec.Index.build(sample.vectors, similarity=SIMILARITY, miss_rate=0.01)
    hits = index.range_search(sample.vectors)

    pairs = [
        (float(score), query, int(other))
        for query, row in enumerate(hits)
        for other, score in zip(row.ids, row.scores, strict=True)
        if query < other
    ]
    print(f"{len(pairs)} pairs above {SIMILARITY}; the closest:")
    for score, left, right in sorted(pairs, reverse=True)[:5]:
        print(f"{score:.3f}  {sample.texts[left][:50]}  |  {sample.texts[right][:50]}")

    truth = exact_self_range(sample.vectors, SIMILARITY, progress=False)
    print(f"missed {count_misses(truth, hits).miss_rate:.2%}", end=" ")
    print(f"for {hits.work.cost_ratio:.1%} of the inner products of a scan")


if __name__ == "__main__":
    main()
