"""The sample of real sentence embeddings that ships with the package."""

from __future__ import annotations

import lzma
import zlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memvec import checks
from memvec.types import Float32Array

#: How many vectors ship with the package.
SAMPLE_SIZE = 34_000

# Those of `vectors_int8.npy`; the others are in `others_int8.zlib`.
_FIRST = 10_000
# Coarser steps fit the others into the wheel: 4.3 bits per entry, where the first take 6.9.
_COARSER = 6


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """WordNet 3.0 synsets and their embeddings by all-MiniLM-L6-v2.

    Attributes
    ----------
    vectors : ndarray of shape (n_vectors, 384)
        Unit rows, float32.
    texts : tuple of str
        "lemmas: gloss" of each row.
    """

    vectors: Float32Array
    texts: tuple[str, ...]

    def row(self, beginning: str) -> int:
        """Return the first row whose text begins with these words.

        Examples
        --------
        >>> sample = load_sample()
        >>> sample.texts[sample.row("whale:")]
        'whale: any of the larger cetacean mammals having a streamlined body and breathing ...'
        """
        for row, text in enumerate(self.texts):
            if text.startswith(beginning):
                return row
        expected = "the beginning of one of the texts"
        raise checks.bad_value("beginning", "Sample.row", expected, repr(beginning))

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        n_vectors, dim = self.vectors.shape
        return f"Sample(n_vectors={n_vectors}, dim={dim})"


def load_sample(n_vectors: int = 10_000) -> Sample:
    """Return the first vectors of the packaged sample of WordNet.

    The first 10,000 are animals and artifacts; other artifacts, attributes, body parts, cognition
    and communication follow. The first 10,000 are stored as int8 with one scale per dimension, the
    others in steps six times as coarse: their cosine with the model's vector is 0.998. All are
    scaled to norm 1. The files are beside the notices of WordNet and of the model.

    Parameters
    ----------
    n_vectors : int
        At most `SAMPLE_SIZE`, 34,000.

    Examples
    --------
    >>> load_sample()
    Sample(n_vectors=10000, dim=384)
    """
    n_vectors = checks.integer(n_vectors, "n_vectors", "load_sample")
    if n_vectors > SAMPLE_SIZE:
        raise checks.bad_value("n_vectors", "load_sample", f"at most {SAMPLE_SIZE}", n_vectors)
    folder = files("memvec.evaluation") / "sample"
    scales = _read_array(folder / "scales.npy")
    rows = _read_array(folder / "vectors_int8.npy")[:n_vectors] * scales
    if n_vectors > _FIRST:
        columns = zlib.decompress((folder / "others_int8.zlib").read_bytes())
        steps = np.frombuffer(columns, np.int8).reshape(len(scales), -1)
        others = steps[:, : n_vectors - _FIRST].T * (_COARSER * scales)
        rows = np.concatenate([rows, others])
    texts = lzma.decompress((folder / "texts.txt.xz").read_bytes()).decode("utf-8")
    vectors = checks.unit_rows(rows, "vectors", "load_sample")
    return Sample(vectors, tuple(texts.split("\n", n_vectors)[:n_vectors]))


def _read_array(path: Traversable) -> NDArray[Any]:
    with path.open("rb") as file:
        array: NDArray[Any] = np.load(file, allow_pickle=False)
    return array
