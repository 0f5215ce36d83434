"""Make the sample of real sentence embeddings that ships with the package.

    python tools/make_sample.py FOLDER

FOLDER holds all 117,659 WordNet 3.0 synsets embedded with all-MiniLM-L6-v2: `vectors_int8.npy`,
`scales.npy` and `texts.txt.gz` (one "lemmas: gloss" a line). The same input gives the same files.

The sample is the stretch of 34,000 synsets from number 10,000 on, in WordNet's own order; most uses
take its first 10,000. A stretch keeps the neighbours of a synset together, as a random sample would
not: 79 % of the first 10,000 have another one of them above cosine 0.6 (4.3 on average). They are
the second half of the animals (shellfish, shore birds, whales, dogs, cats, insects, hoofed animals,
monkeys, fish) and the artifacts from A to "laser", so that readable queries of different kinds have
matches above 0.6 among them: whale 20, cat 10, butterfly 20, monkey 39, dog 3, boat 24, kitchen 16,
clock 9, knife 25. The rest are the other artifacts, attributes, body parts, cognition, and half
of communication.

The first 10,000 are copied. The others are rounded to steps six times as coarse and compressed
column by column, each entry by its frequency: 4.3 bits an entry instead of 6.9, and the cosine of a
row with the model's own vector is 0.998.
"""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

FIRST = 10_000
COUNT = 34_000
EXACT = 10_000
COARSER = 6
SAMPLE = Path(__file__).parent.parent / "src" / "memvec" / "evaluation" / "sample"


def main(folder: Path, out: Path = SAMPLE) -> None:
    """Write the four data files of the sample; the notices beside them are kept by hand."""
    stretch = slice(FIRST, FIRST + COUNT)
    vectors = np.load(folder / "vectors_int8.npy", mmap_mode="r", allow_pickle=False)
    scales = np.load(folder / "scales.npy", allow_pickle=False)
    with gzip.open(folder / "texts.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        texts = file.read().splitlines()
    if not len(texts) == len(vectors) >= FIRST + COUNT:
        raise SystemExit(f"{folder} holds {len(vectors)} vectors and {len(texts)} texts.")
    taken = vectors[stretch]
    np.save(out / "vectors_int8.npy", np.ascontiguousarray(taken[:EXACT]))
    np.save(out / "scales.npy", scales)
    write_others(taken[EXACT:], out / "others_int8.zlib")
    write_texts(texts[stretch], out / "texts.txt.xz")


def write_others(rows: npt.NDArray[np.int8], path: Path) -> None:
    """Compress coarse rows, shape (n_rows, dim), by columns; there are no repeats to look for."""
    columns = np.ascontiguousarray(np.rint(rows / COARSER).astype(np.int8).T)
    packed = zlib.compressobj(level=9, memLevel=9, strategy=zlib.Z_HUFFMAN_ONLY)
    path.write_bytes(packed.compress(columns.tobytes()) + packed.flush())


def write_texts(texts: list[str], path: Path) -> None:
    """Compress the texts, one a line."""
    content = "".join(text + "\n" for text in texts).encode()
    path.write_bytes(lzma.compress(content, preset=9))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/make_sample.py FOLDER")
    main(Path(sys.argv[1]))
