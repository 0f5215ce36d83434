"""Find pairs of near-duplicate texts among 10,000 real embeddings, and check what was missed.

Run it with ``python examples/find_near_duplicates.py``.
"""

import memvec
from memvec.evaluation import load_sample

SIMILARITY = 0.85


def main() -> None:
    sample = load_sample()
    index = memvec.Index.build(sample.vectors, similarity=SIMILARITY, miss_rate=0.01)
    found = index.self_join()
    print(f"{found} above {SIMILARITY}; the closest:")
    for pair in sorted(found, key=lambda pair: -pair.score)[:5]:
        left, right = sample.texts[pair.left][:50], sample.texts[pair.right][:50]
        print(f"{pair.score:.3f}  {left}  |  {right}")
    print(found.certificate)

    exact = index.self_join(guarantee="exact")
    print(f"{len(exact) - len(found)} of {len(exact)} pairs were missed.")


if __name__ == "__main__":
    main()
