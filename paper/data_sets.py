"""Where experiments get their data: folders given, the packaged sample, vectors made up.

Descriptors of photographs are looked for as ``gardens-point/day_left_KIND.npy`` (and so on) and
``ukb56/KIND.npy``, of a KIND listed in `DESCRIPTORS`, the best first. ``python -m paper
--describe`` makes such files of photographs; a folder that holds them beside those given with
``--data`` is enough to plug others in. At the scale "smoke" the command makes up photographs where
none are given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from string import ascii_letters, digits
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
# Frames of Gardens Point this near show the same place.
_SAME_PLACE = 2
# Cosine above which two synsets count as a match: 6 matches a query among 117,659.
_WORDS_MATCH = 0.6
_WORDS_NAME = "WordNet"
# Vectors and queries at each scale.
_WORDS_LIMITS = {"smoke": (1500, 100), "small": (20_000, 500), "paper": (117_659, 1000)}


def three_sets(data: DataFolders, scale: str, seed: int) -> list[RetrievalSet]:
    """Return three sets to search: two of photographs, with visual ground truth, and words."""
    found = paper_sets(data) if scale != "smoke" else []
    if found:
        return found
    photos = photo_sets(data, scale)
    return [photos[0], photos[-1], words(data, scale, seed)]


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
_PAPER_NAMES = {"holidays": "Holidays", "oxford5k": "Oxford5k", "ukb": "UKB"}
_DEEP = "vectors_deep"


def photo_sets(data: DataFolders, scale: str, kind: str | None = None) -> list[RetrievalSet]:
    """Return Gardens Point by day and by night and UKB-56, or sets made up in their place."""
    name = photo_kind(data, scale, kind)
    if name is None:
        return _made_up()
    *walks, objects = (_rows(file) for file in _photo_files(data, name))
    return _photo_sets(name, walks, objects, *_others(data, name))


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


def photo_note(key: str, scale: str, kind: str | None = None) -> str:
    """Return what the sets of photographs were in a run, for `DataFolders.key` of its data."""
    there = key.split(",")
    ending = "" if kind is None else f"/{_DEEP}"
    own = [
        name
        for folder, name in _PAPER_NAMES.items()
        if any(found.partition(".")[0] == folder + ending for found in there)
    ]
    if own and scale != "smoke":
        which = "data sets are" if kind is None else "deep descriptors are of"
        return f"The {which} the paper's: {', '.join(own)}."
    for name in _kinds(scale, kind):
        if f"ukb56/{name}.npy" in there and f"gardens-point/day_left_{name}.npy" in there:
            return _KIND_NOTES[name.rstrip(digits)].format(_dim(name))
    return "Made-up descriptors of scenes seen several times stand for Holidays, Oxford5k and UKB."


_KIND_NOTES = {
    "gem": "Gardens Point and UKB-56 among 5,000 images of Tiny-ImageNet stand for Holidays, "
    "Oxford5k and UKB. Descriptors are GeM features of EfficientNet-Lite0, a CNN, whitened to 512 "
    "dimensions on other images.",
    "made": "Photographs made up of discs, frames of a walk by day and by night and objects, stand "
    "for Holidays, Oxford5k and UKB. Descriptors are φ_Δ of {} dimensions, computed by "
    "memvec.images.",
    "phi": "Gardens Point (200 places, by day and by night) and UKB-56 (14 objects) stand for "
    "Holidays, Oxford5k and UKB. Descriptors are φ_Δ of {} dimensions, summed, without power law, "
    "computed by memvec.images; vocabulary and whitening were learned on street photographs of "
    "another city. Photographs of that city that were not learned from, and those of the other "
    "set, are distractors. By night φ_Δ finds few places even exhaustively (see fig07-retrieval): "
    "what is said of that set is said of a poor ranking.",
}


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
    return [
        _places(f"{walk}, day", day_right, day_left, among),
        _places(f"{walk}, night", night_right, day_right, among),
        RetrievalSet(
            things,
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
    data: DataFolders, kind: str
) -> tuple[Callable[[Float32Array], Float32Array], Float32Array]:
    """Return how descriptors are prepared, and distractors prepared likewise.

    GeM features have a common direction and a fast spectrum: they are centred and whitened to 512
    dimensions, learned on one half of Tiny-ImageNet; the other half are the distractors.
    """
    street = data.find(f"st-lucia/{kind}.npy")
    if street is not None:
        return _as_they_are, _rows(street)
    folder = data.find("tiny-imagenet") if kind == "gem1280" else None
    if folder is None:
        return _as_they_are, np.empty((0, _dim(kind)), dtype=np.float32)
    rows = _steps(folder, "gem1280_int8.npy", data.signature("tiny-imagenet"))
    projection = Projection.fit(rows[::2], 512, center=True, whiten=True)
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


def _holidays_flickr1m(data: DataFolders, scale: str, n_vectors: int) -> RetrievalSet | None:
    if scale == "smoke":
        return None
    own, others = data.find("holidays"), data.find("flickr1m")
    if own is None or others is None:
        return None
    return holidays_flickr1m(own, others, None if scale == "paper" else n_vectors)


def large_note(name: str, n_vectors: int, dim: int) -> str:
    """Return what the set of `large_set` was, for its name and shape."""
    what = f"{n_vectors:,} vectors of {dim} dimensions"
    if name == _WORDS_NAME:
        return (
            f"WordNet embeddings ({what}), matches above cosine {_WORDS_MATCH}, stand for "
            "Holidays+Flickr1M (10⁶ of 1920); the quality is the share of matches found."
        )
    return f"The data is the paper's, {name} ({what}); the quality is mAP."


def walk_in_order(data: DataFolders, scale: str) -> tuple[Float32Array, Float32Array, str]:
    """Return successive frames of a walk, those of another walk of the same places, and a name.

    Where there is no walk, a made-up one: each frame is near to the one before.
    """
    for kind in DESCRIPTORS[scale]:
        files = [data.find(f"gardens-point/{walk}_{kind}.npy") for walk in _WALKS[:2]]
        if all(file is not None for file in files):
            project, _ = _others(data, kind)
            right, left = (project(_rows(file)) for file in files if file is not None)
            what = "GeM features" if kind.startswith("gem") else "φ_Δ"
            name = "made-up walk" if kind == MADE_UP else _NAMES[0]
            return left, right, f"{name}, {what} of {left.shape[1]} dimensions"
    rng = np.random.default_rng(5)
    steps = rng.standard_normal((200, 128))
    walk = np.empty_like(steps)
    walk[0] = steps[0]
    for frame in range(1, len(walk)):
        walk[frame] = 0.8 * walk[frame - 1] + 0.6 * steps[frame]
    again = walk + 0.6 * rng.standard_normal(walk.shape)
    both = [checks.unit_rows(rows, "rows", "walk_in_order") for rows in (walk, again)]
    return both[0], both[1], "made-up vectors, each near to the one before"


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
    "DESCRIPTORS",
    "MADE_UP",
    "PHOTO_FOLDERS",
    "TRAINING_FOLDER",
    "WORDS",
    "DataFolders",
    "large_note",
    "large_set",
    "large_split",
    "paper_sets",
    "photo_kind",
    "photo_note",
    "photo_sets",
    "three_sets",
    "visual_sets",
    "walk_in_order",
    "word_rows",
    "words",
]
