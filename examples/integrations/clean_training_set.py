"""A training set without near-duplicates and without copies of its evaluation set.

Run it with ``python examples/integrations/clean_training_set.py``; needs ``memvec[datasets]``.
"""

import numpy as np
from datasets import Dataset

from memvec.evaluation import load_sample
from memvec.integrations.datasets import contamination, deduplicate

SIMILARITY = 0.9


def main() -> None:
    sample = load_sample()
    rows = np.random.default_rng(0).permutation(len(sample))
    whole = Dataset.from_dict({"text": sample.texts, "embedding": list(sample.vectors)})
    train, test = whole.select(rows[:9000]), whole.select(rows[9000:])

    unique, found = deduplicate(train, column="embedding", similarity=SIMILARITY)
    print(f"{len(unique):,} of {len(train):,} rows are kept: {found}")
    leaked = contamination(unique, test, similarity=SIMILARITY)
    print(leaked)
    for pair in list(leaked.pairs)[:3]:
        copy, original = test[pair.left]["text"], unique[pair.right]["text"]
        print(f"  {pair.score:.3f}  {copy[:40]} | {original[:40]}")
    print(leaked.certificate)


if __name__ == "__main__":
    main()
