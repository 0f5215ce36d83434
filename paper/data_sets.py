"""Where experiments get their data: folders given, the packaged sample, vectors made up.

Descriptors of photographs are looked for as ``gardens-point/day_left_KIND.npy`` (and so on) and
``ukb56/KIND.npy``, of a KIND listed in `DESCRIPTORS`, the best first. ``python -m paper
--describe`` makes such files of photographs; a folder that holds them beside those given with
``--data`` is enough to plug others in. At the scale "smoke" the command makes up photographs where
none are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import ascii_letters
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import Projection
from memvec.evaluation import load_sample
from memvec.files import read_vectors
from memvec.types import Float32Array
from paper.data_folders import DataFolders
from paper.paper_sets import (
    VECTOR_SUFFIXES,
    holidays,
    holidays_flickr1m,
    oxford5k,
    ukb,
)
from paper.retrieval_sets import RetrievalSet, cosine_set, made_up_views

# Centroids of φ_Δ at each scale; the paper has 16 and 64, which give 1920 and 8064 dimensions.
WORDS = {"smoke": 4, "small": 16, "paper": 64}
# φ_Δ as in the paper, else GeM-pooled features of EfficientNet-Lite0; at the scale "smoke" φ_Δ of
# photographs that were made up.
MADE_UP = "made384"
DESCRIPTORS = {
    "smoke": ("phi384", MADE_UP),
    "small": ("phi1920", "gem1280"),
    "paper": ("phi8064", "phi1920", "gem1280"),
}
TRAINING_FOLDER = "st-lucia/images"
# Where descriptors are looked for, and the photographs they are of.
PHOTO_FOLDERS = {
    "gardens-point/day_left_{kind}.npy": "gardens-point/images/day_left",
    "gardens-point/day_right_{kind}.npy": "gardens-point/images/day_right",
    "gardens-point/night_right_{kind}.npy": "gardens-point/images/night_right",
    "ukb56/{kind}.npy": "ukb56/images",
    "st-lucia/{kind}.npy": TRAINING_FOLDER,
}
# Photographs with three altered copies each: those to search, and those to learn PCA from.
COPIES_FILE, LEARNED_COPIES_FILE = "copies/searched_{kind}.npy", "copies/learned_{kind}.npy"
COPIED_FOLDERS = {
    COPIES_FILE: [folder for folder in PHOTO_FOLDERS.values() if folder != TRAINING_FOLDER],
    LEARNED_COPIES_FILE: [TRAINING_FOLDER],
}
COPIES = "copies"
_AMONG_OTHERS = f"{COPIES} among others"
# GeM features have 1280 dimensions; whitening keeps the paper's 1024.
_GEM, _WHITENED = 1280, 1024
# Frames of Gardens Point this near show the same place.
_SAME_PLACE = 2
# Cosine above which two synsets count as a match: 6 matches a query among 117,659.
_WORDS_MATCH = 0.6
_WORDS_NAME = "WordNet"
# Vectors and queries at each scale.
_CLUSTERED_WORDS = {"smoke": 1500, "small": 10_000, "paper": 117_000}
_WORDS_LIMITS = {"smoke": (1500, 100), "small": (20_000, 500), "paper": (117_659, 1000)}


def clustered_sets(data: DataFolders, scale: str, seed: int) -> list[RetrievalSet]:
    """Return the sets of figures 4 to 6 and Table 1: photographs of two kinds, and words."""
    found = paper_sets(data) if scale != "smoke" else []
    if found:
        return found
    photos = closed_sets(data, scale)
    if scale == "smoke":
        photos = [photos[0], photos[-1]]
    return [*photos[:2], words(data, scale, seed, _CLUSTERED_WORDS[scale])]


def closed_sets(data: DataFolders, scale: str) -> list[RetrievalSet]:
    """Return the closed sets: the paper's, else photographs with copies by φ_Δ, and by a CNN."""
    found = paper_sets(data) if scale != "smoke" else []
    if found or scale == "smoke" or photo_kind(data, scale, "gem1280") is None:
        return found or photo_sets(data, scale)
    copies, deep = copied_set(data, scale), photo_sets(data, scale, "gem1280")
    return [*([] if copies is None else [copies]), deep[0], deep[2]]


def reduced_sets(data: DataFolders, scale: str, dim: int) -> list[RetrievalSet]:
    """Return closed sets after PCA to `dim` dimensions, learned on other images where possible.

    φ_Δ of photographs with copies by PCA learned on those of another city; the paper's own sets,
    and made-up ones, which come without other images, by PCA learned on themselves.
    """
    found = paper_sets(data) if scale != "smoke" else []
    if found or scale == "smoke" or photo_kind(data, scale, "gem1280") is None:
        return [_reduced(each, each.vectors, dim) for each in found or photo_sets(data, scale)]
    copies, other = copied_set(data, scale), learned_copies(data, scale)
    deep = photo_sets(data, scale, "gem1280")
    return ([] if copies is None or other is None else [_reduced(copies, other, dim)]) + deep


def pca_pairs(data: DataFolders, scale: str, dim: int) -> list[tuple[RetrievalSet, RetrievalSet]]:
    """Return closed sets before and after plain PCA to `dim` dimensions; see `reduced_sets`.

    GeM features, which have a common direction, are centred in both, on other images.
    """
    found = paper_sets(data) if scale != "smoke" else []
    if found or scale == "smoke" or photo_kind(data, scale, "gem1280") is None:
        sets = found or photo_sets(data, scale)
        return [(each, _reduced(each, each.vectors, dim)) for each in sets]
    copies, other = copied_set(data, scale), learned_copies(data, scale)
    pairs = [] if copies is None or other is None else [(copies, _reduced(copies, other, dim))]
    full, less = (photo_sets(data, scale, "gem1280", out) for out in (_GEM, dim))
    return [*pairs, *zip(full, less, strict=True)]


def _reduced(data: RetrievalSet, learned_on: Float32Array, dim: int) -> RetrievalSet:
    out_dim = min(dim, min(learned_on.shape) - 1)
    return data.projected(Projection.fit(learned_on, out_dim, center=True), data.name)


def copied_set(data: DataFolders, scale: str) -> RetrievalSet | None:
    """Return photographs with three altered copies each, in fours as in UKB; None without them.

    The photographs themselves ask, which are the first of each four.
    """
    rows = _copied_rows(data, scale, COPIES_FILE)
    if rows is None:
        return None
    groups = np.arange(len(rows)).reshape(-1, 4)
    return RetrievalSet(COPIES, rows, rows[groups[:, 0]], list(groups), "4-recall@4")


def learned_copies(data: DataFolders, scale: str) -> Float32Array | None:
    """Return the photographs, with copies, that PCA is learned on."""
    return _copied_rows(data, scale, LEARNED_COPIES_FILE)


def _copied_rows(data: DataFolders, scale: str, name: str) -> Float32Array | None:
    files = (data.find(name.format(kind=kind)) for kind in DESCRIPTORS[scale])
    return next((_rows(file) for file in files if file is not None), None)


def visual_sets(data: DataFolders, scale: str, kind: str | None = None) -> list[RetrievalSet]:
    """Return the sets of photographs whose ground truth is visual.

    With a kind, which is that of deep descriptors, the paper's sets count only where there are deep
    descriptors of them.
    """
    stem = "vectors" if kind is None else _DEEP
    return (paper_sets(data, stem) if scale != "smoke" else []) or photo_sets(data, scale, kind)


def paper_sets(data: DataFolders, stem: str = "vectors") -> list[RetrievalSet]:
    """Return those of the paper's own three data sets that are there, closed, without Flickr1M."""
    found = {name: _paper_folder(data, name, stem) for name in _PAPER_SETS}
    return [_PAPER_SETS[name](path, stem) for name, path in found.items() if path is not None]


def _paper_folder(data: DataFolders, name: str, stem: str) -> Path | None:
    """Return the folder of a set; one without deep descriptors is no set of those."""
    if stem == "vectors":
        return data.find(name)
    files = (data.find(f"{name}/{stem}{suffix}") for suffix in VECTOR_SUFFIXES)
    return next((file.parent for file in files if file is not None), None)


_PAPER_SETS: dict[str, Callable[[Path, str], RetrievalSet]] = {
    "holidays": holidays,
    "oxford5k": oxford5k,
    "ukb": ukb,
}
_DEEP = "vectors_deep"


def photo_sets(
    data: DataFolders, scale: str, kind: str | None = None, centred: int | None = None
) -> list[RetrievalSet]:
    """Return Gardens Point by day and by night and UKB-56, or sets made up in their place.

    GeM features are whitened, or, with a number of dimensions, centred and reduced to these.
    """
    name = photo_kind(data, scale, kind)
    if name is None:
        return _made_up()
    *walks, objects = (_rows(file) for file in _photo_files(data, name))
    return _photo_sets(name, walks, objects, *_others(data, name, centred))


def photo_kind(data: DataFolders, scale: str, kind: str | None = None) -> str | None:
    """Return the descriptors of photographs that a scale uses, None where there are none."""
    wanted = len(_WALKS) + 1
    kinds = (name for name in _kinds(scale, kind) if len(_photo_files(data, name)) == wanted)
    return next(kinds, None)


def _photo_files(data: DataFolders, kind: str) -> list[Path]:
    """Return those files that are there, of the three walks and the objects."""
    names = [f"gardens-point/{walk}_{kind}.npy" for walk in _WALKS]
    found = (data.find(name) for name in (*names, f"ukb56/{kind}.npy"))
    return [file for file in found if file is not None]


def _kinds(scale: str, kind: str | None) -> tuple[str, ...]:
    """Return the descriptors to look for; where a scale has not the kind asked for, its own."""
    return (kind,) if kind in DESCRIPTORS[scale] else DESCRIPTORS[scale]


_WALKS = ("day_right", "day_left", "night_right")
_NAMES = ("Gardens Point", "UKB-56")


def _photo_sets(
    kind: str,
    walks: list[Float32Array],
    objects: Float32Array,
    project: Callable[[Float32Array], Float32Array],
    others: Float32Array,
) -> list[RetrievalSet]:
    day_right, day_left, night_right = (project(walk) for walk in walks)
    objects = project(objects)
    groups = np.arange(len(objects)).reshape(-1, 4)
    # With few photographs of streets, objects are distractors of places and places of objects.
    scarce = not kind.startswith("gem")
    among = np.concatenate([objects, others]) if scarce else others
    views = [day_right, day_left, night_right] if scarce else []
    walk, things = ("made-up walk", "made-up objects") if kind == MADE_UP else _NAMES
    by = "" if scarce else ", CNN"
    return [
        _places(f"{walk}, day{by}", day_right, day_left, among),
        _places(f"{walk}, night{by}", night_right, day_right, among),
        RetrievalSet(
            f"{things}{by}",
            np.concatenate([objects, *views, others]),
            objects,
            list(np.repeat(groups, 4, axis=0)),
            "4-recall@4",
        ),
    ]


def _places(
    name: str, queries: Float32Array, places: Float32Array, others: Float32Array
) -> RetrievalSet:
    frames = np.arange(len(places))
    near = [frames[np.abs(frames - frame) <= _SAME_PLACE] for frame in range(len(queries))]
    return RetrievalSet(name, np.concatenate([places, others]), queries, near, "mAP")


def _others(
    data: DataFolders, kind: str, centred: int | None = None
) -> tuple[Callable[[Float32Array], Float32Array], Float32Array]:
    """Return how descriptors are prepared, and distractors prepared likewise.

    GeM features have a common direction and a fast spectrum: they are centred and whitened to 1024
    dimensions, learned on one half of Tiny-ImageNet; the other half are the distractors. With
    `centred`, they are centred and reduced to so many dimensions, not whitened.
    """
    street = data.find(f"st-lucia/{kind}.npy")
    if street is not None:
        return _as_they_are, _rows(street)
    folder = data.find("tiny-imagenet") if kind == "gem1280" else None
    if folder is None:
        return _as_they_are, np.empty((0, _dim(kind)), dtype=np.float32)
    rows = _steps(folder, "gem1280_int8.npy", data.signature("tiny-imagenet"))
    whiten = centred is None
    out_dim = _WHITENED if centred is None else centred
    projection = Projection.fit(rows[::2], out_dim, center=True, whiten=whiten)
    return projection.apply, projection.apply(rows[1::2])


def _dim(kind: str) -> int:
    return int(kind.lstrip(ascii_letters))


def _as_they_are(rows: Float32Array) -> Float32Array:
    return rows


def words(data: DataFolders, scale: str, seed: int, n_vectors: int | None = None) -> RetrievalSet:
    """Return WordNet embeddings; what should be found is everything above cosine 0.6."""
    most, n_queries = _WORDS_LIMITS[scale]
    rows = word_rows(data, scale)
    order = np.random.default_rng([seed, 7]).permutation(len(rows))
    kept = np.sort(order[: (n_vectors or most) + n_queries])
    return cosine_set(_WORDS_NAME, rows[kept], n_queries, _WORDS_MATCH, seed)


def word_rows(data: DataFolders, scale: str) -> Float32Array:
    """Return all WordNet embeddings there are, or the packaged sample of them."""
    folder = None if scale == "smoke" else data.find("wordnet-minilm")
    if folder is None:
        return load_sample().vectors
    return _steps(folder, "vectors_int8.npy", data.signature("wordnet-minilm"))


def large_set(
    data: DataFolders, scale: str, seed: int, n_vectors: int | None = None
) -> RetrievalSet:
    """Return Holidays+Flickr1M where both are there, else `words`.

    At the scale "paper" Flickr1M is read whole; before that, only as many distractors as make the
    set as large as the words would be.
    """
    most = n_vectors or _WORDS_LIMITS[scale][0]
    found = _holidays_flickr1m(data, scale, most)
    return words(data, scale, seed, n_vectors) if found is None else found


def large_split(
    data: DataFolders, scale: str, n_vectors: int, n_queries: int, rng: np.random.Generator
) -> tuple[str, Float32Array, Float32Array]:
    """Return the name of the set of `large_set`, its vectors, and queries that are none of them.

    Queries of Holidays+Flickr1M are those of Holidays, in random order; of words, any.
    """
    found = _holidays_flickr1m(data, scale, n_vectors)
    if found is not None and found.own is not None:
        asked = rng.permutation(len(found.queries))[:n_queries]
        return found.name, np.delete(found.vectors, found.own, axis=0), found.queries[asked]
    rows = word_rows(data, scale)
    order = rng.permutation(len(rows))[: n_queries + n_vectors]
    return _WORDS_NAME, rows[order[n_queries:]], rows[order[:n_queries]]


def streamed_sets(data: DataFolders, scale: str, seed: int) -> list[RetrievalSet]:
    """Return the sets of figure 13: Holidays+Flickr1M, else photographs among others, and words."""
    found = _holidays_flickr1m(data, scale, _WORDS_LIMITS[scale][0])
    return [*_among_others(data, scale), words(data, scale, seed)] if found is None else [found]


def batched_sets(data: DataFolders, scale: str, seed: int, n_vectors: int) -> list[RetrievalSet]:
    """Return the sets of figures 14 to 16: `large_set`, and, where that is words, photographs."""
    large = large_set(data, scale, seed, n_vectors)
    photographs = scale != "smoke" and large.name == _WORDS_NAME
    return [*(_among_others(data, scale) if photographs else []), large]


def _among_others(data: DataFolders, scale: str) -> list[RetrievalSet]:
    """Return photographs with copies, by φ_Δ, among those of another city, and places, by a CNN."""
    copies, others = copied_set(data, scale), learned_copies(data, scale)
    places = photo_sets(data, scale, "gem1280")[:2]
    if copies is None or others is None:
        return places
    vectors = np.concatenate([copies.vectors, others])
    return [replace(copies, name=_AMONG_OTHERS, vectors=vectors), *places]


def _holidays_flickr1m(data: DataFolders, scale: str, n_vectors: int) -> RetrievalSet | None:
    if scale == "smoke":
        return None
    own, others = data.find("holidays"), data.find("flickr1m")
    if own is None or others is None:
        return None
    return holidays_flickr1m(own, others, None if scale == "paper" else n_vectors)


def _made_up() -> list[RetrievalSet]:
    return [
        made_up_views("made-up vectors of scenes", 40, 5, 800, 96, seed=1),
        made_up_views("made-up vectors of objects", 25, 4, 700, 96, seed=2),
    ]


def _rows(path: Path) -> Float32Array:
    return checks.unit_rows(read_vectors(path), "vectors", str(path))


@cache
def _steps(folder: Path, name: str, signature: str) -> Float32Array:
    """Return rows stored as int8 with one scale per dimension, read once while they are the same.

    The signature is not used; a file that was replaced has another one.
    """
    path = folder / name
    factors: Any = np.load(folder / "scales.npy", allow_pickle=False)
    return checks.unit_rows(read_vectors(path) * factors, "vectors", str(path))


__all__ = [
    "COPIED_FOLDERS",
    "COPIES",
    "DESCRIPTORS",
    "MADE_UP",
    "PHOTO_FOLDERS",
    "TRAINING_FOLDER",
    "WORDS",
    "DataFolders",
    "batched_sets",
    "closed_sets",
    "clustered_sets",
    "copied_set",
    "large_set",
    "large_split",
    "learned_copies",
    "paper_sets",
    "pca_pairs",
    "photo_kind",
    "photo_sets",
    "reduced_sets",
    "streamed_sets",
    "visual_sets",
    "word_rows",
    "words",
]
