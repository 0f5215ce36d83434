"""Make the sample of real sentence embeddings that ships with the package.

    python tools/make_sample.py FOLDER

FOLDER holds all 117,659 WordNet 3.0 synsets embedded with all-MiniLM-L6-v2: `vectors_int8.npy`,
`scales.npy` and `texts.txt.gz` (one "lemmas: gloss" a line). The same input gives the same files.

The sample is the stretch of 24,000 synsets from number 10,000 on, in WordNet's own order; most uses
take its first 10,000. A stretch keeps the neighbours of a synset together, as a random sample would
not: 79 % of the first 10,000 have another one of them above cosine 0.6 (4.3 on average). They are
the second half of the animals (shellfish, shore birds, whales, dogs, cats, insects, hoofed animals,
monkeys, fish) and the artifacts from A to "laser", so that readable queries of different kinds have
matches above 0.6 among them: whale 20, cat 10, butterfly 20, monkey 39, dog 3, boat 24, kitchen 16,
clock 9, knife 25. The rest are the other artifacts, attributes, body parts, and half of cognition.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np

FIRST = 10_000
COUNT = 24_000
SAMPLE = Path(__file__).parent.parent / "src" / "memvec" / "evaluation" / "sample"


def main(folder: Path, out: Path = SAMPLE) -> None:
    """Write the three data files of the sample; the notices beside them are kept by hand."""
    stretch = slice(FIRST, FIRST + COUNT)
    vectors = np.load(folder / "vectors_int8.npy", mmap_mode="r", allow_pickle=False)
    scales = np.load(folder / "scales.npy", allow_pickle=False)
    with gzip.open(folder / "texts.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        texts = file.read().splitlines()
    if not len(texts) == len(vectors) >= FIRST + COUNT:
        raise SystemExit(f"{folder} holds {len(vectors)} vectors and {len(texts)} texts.")
    np.save(out / "vectors_int8.npy", np.ascontiguousarray(vectors[stretch]))
    np.save(out / "scales.npy", scales)
    write_texts(texts[stretch], out / "texts.txt.gz")


def write_texts(texts: list[str], path: Path) -> None:
    """Compress the texts without a name or a date, so that only they decide the bytes."""
    content = "".join(text + "\n" for text in texts).encode()
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/make_sample.py FOLDER")
    main(Path(sys.argv[1]))
