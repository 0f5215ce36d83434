"""Deduplicate 10,000 real embeddings on disk, and check what was missed.

Run it with ``python examples/deduplicate.py``.
"""

import tempfile
from pathlib import Path

import memvec
from memvec.evaluation import load_sample

SIMILARITY = 0.9


def main() -> None:
    sample = load_sample()
    texts = [{"text": text} for text in sample.texts]
    with (
        tempfile.TemporaryDirectory() as folder,
        memvec.open(Path(folder) / "synsets.mv", dim=384, similarity=SIMILARITY) as collection,
    ):
        collection.add(sample.vectors, metadata=texts)  # ids are 0, 1, 2, …
        collection.seal()

        # Keep the longest text; drop what is near to a kept one itself, not what is near to that.
        found = collection.deduplicate(keep="longest", groups="star")
        print(f"{len(found.groups)} groups above {SIMILARITY}, {len(found.drop)} texts to drop:")
        for group in found.groups[:3]:
            print(f"  kept     {sample.texts[group.kept][:72]}")
            for name in group.dropped:
                print(f"  dropped  {sample.texts[name][:72]}")
        print(found.certificate)

        exact = collection.deduplicate(keep="longest", groups="star", guarantee="exact")
        print(f"{len(set(exact.drop) - set(found.drop))} of {len(exact.drop)} were missed.")

        collection.delete(found.drop)
        collection.compact()  # frees their space
        print(collection)


if __name__ == "__main__":
    main()
