"""The paper's data sets, for those who have them: files and protocols.

Vectors are read by `memvec.files.read_vectors`, so ``.fvecs``, ``.npy``, ``.hdf5`` and
``.parquet`` all serve. The layout of each folder stands in the docstring of its reader and in
docs/paper-data.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError
from memvec.files import count_rows, read_vectors
from memvec.types import Float32Array, IntArray
from paper.retrieval_sets import RetrievalSet

VECTOR_SUFFIXES = (".npy", ".fvecs", ".bvecs", ".hdf5", ".h5", ".parquet")
# Groups of Holidays are numbered in steps of 100, and the first image of a group is its query.
_HOLIDAYS_STEP = 100
_DISTRACTORS_AT_A_TIME = 65_536


def holidays(folder: Path, stem: str = "vectors") -> RetrievalSet:
    """Read INRIA Holidays: mAP, the query left out of its own ranking.

    ``names.txt`` names the images, one a line and in the order of the rows of ``vectors.*``:
    ``100000.jpg`` is the query of the group ``100000`` to ``100099``. Another stem names other
    descriptors of the same images, such as ``vectors_deep.*``.
    """
    vectors, names = _vectors_and_names(folder, stem)
    numbers = np.array([_image_number(name, folder) for name in names])
    queries = np.flatnonzero(numbers % _HOLIDAYS_STEP == 0)
    groups = numbers // _HOLIDAYS_STEP
    relevant = [np.setdiff1d(np.flatnonzero(groups == groups[row]), row) for row in queries]
    asked = np.array([len(ids) > 0 for ids in relevant], dtype=bool)
    return RetrievalSet(
        "Holidays",
        vectors,
        vectors[queries[asked]],
        [ids for ids, kept in zip(relevant, asked, strict=True) if kept],
        "mAP",
        own=queries[asked],
    )


def holidays_flickr1m(folder: Path, flickr: Path, n_vectors: int | None = None) -> RetrievalSet:
    """Read Holidays among the distractors of Flickr1M, any number of vector files in a folder.

    With `n_vectors`, only so many distractors are read that the set has that many vectors.
    """
    data = holidays(folder)
    wanted = None if n_vectors is None else max(0, n_vectors - len(data.vectors))
    vectors = [data.vectors]
    for batch in vector_batches(flickr, _DISTRACTORS_AT_A_TIME, total=wanted):
        if batch.shape[1] != data.vectors.shape[1]:
            raise FileFormatError(
                f"{flickr} holds vectors of {batch.shape[1]} dimensions, {folder} of "
                f"{data.vectors.shape[1]}."
            )
        vectors.append(batch)
    return replace(data, name="Holidays+Flickr1M", vectors=np.concatenate(vectors))


def _image_number(name: str, folder: Path) -> int:
    stem = Path(name).stem
    if not stem.isdigit():
        raise FileFormatError(f"{folder / 'names.txt'} names {name!r}, which is not a number.")
    return int(stem)


def oxford5k(folder: Path, stem: str = "vectors") -> RetrievalSet:
    """Read Oxford5k: mAP with "good" and "ok" images relevant and "junk" ones ignored.

    ``names.txt`` and ``vectors.*`` as for Holidays; ``gt/`` holds the four files of each query,
    ``all_souls_1_query.txt`` (``oxc1_`` and the name of an image, then a box), ``…_good.txt``,
    ``…_ok.txt`` and ``…_junk.txt``. Row q of ``queries.*``, where there is one, is the descriptor
    of the cropped query, in the order of the sorted names; otherwise whole images are queries.
    Beside ``vectors_deep.*`` it is ``queries_deep.*``.
    """
    vectors, names = _vectors_and_names(folder, stem)
    row_of = {Path(name).stem: row for row, name in enumerate(names)}
    truths = sorted((folder / "gt").glob("*_query.txt"))
    if not truths:
        raise FileFormatError(f"{folder / 'gt'} holds no ground truth (*_query.txt).")
    own = [_rows_of([_query_name(file)], row_of, file)[0] for file in truths]
    good = [_listed(file, ("good", "ok"), row_of) for file in truths]
    junk = [_listed(file, ("junk",), row_of) for file in truths]
    crops = _find_vectors(folder, stem.replace("vectors", "queries"))
    queries = vectors[own] if crops is None else _unit(crops)
    if len(queries) != len(truths):
        raise FileFormatError(
            f"{crops} holds {len(queries)} queries, {folder / 'gt'} names {len(truths)}."
        )
    return RetrievalSet("Oxford5k", vectors, queries, good, "mAP", junk=junk)


def _query_name(file: Path) -> str:
    first = file.read_text(encoding="utf-8").split()
    if not first:
        raise FileFormatError(f"{file} is empty.")
    return first[0].removeprefix("oxc1_")


def _listed(file: Path, kinds: tuple[str, ...], row_of: dict[str, int]) -> IntArray:
    """Return the rows of the images that the files of a query list."""
    rows: list[int] = []
    for kind in kinds:
        listed = file.with_name(file.name.replace("_query.txt", f"_{kind}.txt"))
        if not listed.is_file():
            raise FileFormatError(f"{listed} is missing beside {file.name}.")
        rows += _rows_of(listed.read_text(encoding="utf-8").split(), row_of, listed)
    return np.array(rows, dtype=np.int64)


def _rows_of(names: list[str], row_of: dict[str, int], file: Path) -> list[int]:
    for name in names:
        if name not in row_of:
            raise FileFormatError(f"{file} names {name!r}, which names.txt does not.")
    return [row_of[name] for name in names]


def ukb(folder: Path, stem: str = "vectors") -> RetrievalSet:
    """Read UKB: 4-recall@4, every image a query, images 4i to 4i + 3 show one object.

    ``vectors.*`` alone, in the order of the image numbers.
    """
    vectors = _unit(_vectors_file(folder, stem))
    if len(vectors) % 4:
        raise FileFormatError(
            f"{folder} holds {len(vectors)} vectors; UKB has four images of each object."
        )
    groups = np.repeat(np.arange(len(vectors)).reshape(-1, 4), 4, axis=0)
    return RetrievalSet("UKB", vectors, vectors, list(groups), "4-recall@4")


def vector_batches(
    folder: Path, batch_size: int, *, skip: int = 0, total: int | None = None
) -> Iterator[Float32Array]:
    """Read the vectors of all files of a folder, in the order of their names, batch by batch.

    So are the distractors of Flickr1M and the VLAD descriptors of Yahoo100M given: any number of
    files of one dimension. Only one batch is in memory at a time. The first `skip` rows are passed
    over, and reading ends after row `total`.
    """
    waiting: list[Float32Array] = []
    n_waiting, passed = 0, 0
    for file in _vector_files(folder):
        if total is not None and passed >= total:
            break
        rows = read_vectors(file, rows=None if total is None else total - passed)
        start = min(len(rows), max(0, skip - passed))
        passed += len(rows)
        while start < len(rows):
            part = rows[start : start + batch_size - n_waiting]
            waiting.append(checks.unit_rows(part, "vectors", file.name, first_row=start))
            n_waiting += len(part)
            start += len(part)
            if n_waiting == batch_size:
                yield np.concatenate(waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield np.concatenate(waiting)


def count_vectors(folder: Path) -> int:
    """Return how many rows the vector files of a folder have together."""
    return sum(count_rows(file) for file in _vector_files(folder))


def vector_rows(folder: Path, numbers: IntArray) -> Float32Array:
    """Read some rows, numbered through all vector files of a folder; the numbers ascend."""
    found: list[Float32Array] = []
    first = 0
    for file in _vector_files(folder):
        rows = read_vectors(file)
        own = numbers[(numbers >= first) & (numbers < first + len(rows))] - first
        if len(own):
            found.append(checks.unit_rows(rows[own], "vectors", file.name))
        first += len(rows)
    return np.concatenate(found)


def _vector_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in VECTOR_SUFFIXES)


def _vectors_and_names(folder: Path, stem: str) -> tuple[Float32Array, list[str]]:
    vectors = _unit(_vectors_file(folder, stem))
    listed = folder / "names.txt"
    if not listed.is_file():
        raise FileFormatError(f"{folder} has no names.txt: which image is which row?")
    names = listed.read_text(encoding="utf-8").split()
    if len(names) != len(vectors):
        raise FileFormatError(f"{listed} has {len(names)} names for {len(vectors)} vectors.")
    return vectors, names


def _vectors_file(folder: Path, stem: str) -> Path:
    found = _find_vectors(folder, stem)
    if found is None:
        raise FileFormatError(f"{folder} has no file {stem}{{{','.join(VECTOR_SUFFIXES)}}}.")
    return found


def _find_vectors(folder: Path, stem: str) -> Path | None:
    """Return the vector file of a stem in a folder, whatever its format."""
    files = (folder / (stem + suffix) for suffix in VECTOR_SUFFIXES)
    return next((file for file in files if file.is_file()), None)


def _unit(path: Path) -> Float32Array:
    return checks.unit_rows(read_vectors(path), "vectors", str(path))


__all__ = [
    "VECTOR_SUFFIXES",
    "count_vectors",
    "holidays",
    "holidays_flickr1m",
    "oxford5k",
    "ukb",
    "vector_batches",
    "vector_rows",
]
