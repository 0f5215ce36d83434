"""Where experiments get their data: folders given, the packaged sample, vectors made up.

Descriptors of photographs are looked for as ``gardens-point/day_left_KIND.npy`` (and so on) and
``ukb56/KIND.npy``, of a KIND listed in `DESCRIPTORS`, the best first. ``memvec reproduce
--describe`` makes such files of photographs; a folder that holds them beside those given with
``--data`` is enough to plug others in. At the scale "smoke" the command makes up photographs where
none are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import ascii_letters, digits
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import Projection
from memvec.evaluation import load_sample, read_vectors
from memvec.experiments._paper_sets import holidays, oxford5k, ukb
from memvec.experiments._sets import RetrievalSet, cosine_set, made_up_views
from memvec.types import Float32Array

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


@dataclass(frozen=True)
class DataFolders:
    """Folders that may hold data sets, the first that has a file wins."""

    folders: tuple[Path, ...] = ()

    def find(self, name: str) -> Path | None:
        """Return the path of a file or folder by its name inside the folders."""
        return next((found for folder in self.folders if (found := folder / name).exists()), None)

    def key(self) -> str:
        """Return which data sets there are, to tell results on different data apart."""
        known = [name for name in _KNOWN if self.find(name) is not None]
        return ",".join(known)


_KNOWN = (
    "wordnet-minilm",
    "tiny-imagenet",
    "ukb56/gem1280.npy",
    "ukb56/phi384.npy",
    "ukb56/made384.npy",
    "ukb56/phi1920.npy",
    "ukb56/phi8064.npy",
    "gardens-point/day_left_gem1280.npy",
    "gardens-point/day_left_phi384.npy",
    "gardens-point/day_left_made384.npy",
    "gardens-point/day_left_phi1920.npy",
    "gardens-point/day_left_phi8064.npy",
    "holidays",
    "oxford5k",
    "ukb",
    "flickr1m",
    "yahoo100m",
)


def three_sets(data: DataFolders, scale: str, seed: int) -> list[RetrievalSet]:
    """Return three sets to search: two of photographs, with visual ground truth, and words."""
    found = paper_sets(data) if scale != "smoke" else []
    if found:
        return found
    photos = photo_sets(data, scale)
    return [photos[0], photos[-1], words(data, scale, seed)]


def visual_sets(data: DataFolders, scale: str, kind: str | None = None) -> list[RetrievalSet]:
    """Return the sets of photographs whose ground truth is visual."""
    return (paper_sets(data) if scale != "smoke" else []) or photo_sets(data, scale, kind)


def paper_sets(data: DataFolders) -> list[RetrievalSet]:
    """Return those of the paper's own three data sets that are there."""
    readers: dict[str, Callable[[Path], RetrievalSet]] = {
        "holidays": holidays,
        "oxford5k": oxford5k,
        "ukb": ukb,
    }
    found = {name: data.find(name) for name in readers}
    return [readers[name](path) for name, path in found.items() if path is not None]


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
    if scale != "smoke" and {"holidays", "oxford5k", "ukb"} & set(there):
        return "The data sets are the paper's."
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
    folder = data.find("tiny-imagenet")
    if kind != "gem1280" or folder is None:
        return _as_they_are, np.empty((0, _dim(kind)), dtype=np.float32)
    rows = _steps(folder / "gem1280_int8.npy", folder / "scales.npy")
    projection = Projection.fit(rows[::2], 512, center=True, whiten=True)
    return projection.apply, projection.apply(rows[1::2])


def _dim(kind: str) -> int:
    return int(kind.lstrip(ascii_letters))


def _as_they_are(rows: Float32Array) -> Float32Array:
    return rows


def words(data: DataFolders, scale: str, seed: int, n_vectors: int | None = None) -> RetrievalSet:
    """Return WordNet embeddings; what should be found is everything above cosine 0.6."""
    limits = {"smoke": (1500, 100), "small": (20_000, 500), "paper": (117_659, 1000)}
    most, n_queries = limits[scale]
    rows = word_rows(data, scale)
    order = np.random.default_rng([seed, 7]).permutation(len(rows))
    kept = np.sort(order[: (n_vectors or most) + n_queries])
    return cosine_set("WordNet", rows[kept], n_queries, _WORDS_MATCH, seed)


def word_rows(data: DataFolders, scale: str) -> Float32Array:
    """Return all WordNet embeddings there are, or the packaged sample of them."""
    folder = data.find("wordnet-minilm")
    if folder is None or scale == "smoke":
        return load_sample().vectors
    return _steps(folder / "vectors_int8.npy", folder / "scales.npy")


def walk_in_order(data: DataFolders, scale: str) -> tuple[Float32Array, Float32Array, str]:
    """Return successive frames of a walk, those of another walk of the same places, and a name.

    Where there is no walk, a made-up one: each frame is near to the one before.
    """
    for kind in DESCRIPTORS[scale]:
        files = [data.find(f"gardens-point/{walk}_{kind}.npy") for walk in _WALKS[:2]]
        if all(file is not None for file in files):
            project, _ = _others(data, kind)
            right, left = (project(_rows(file)) for file in files if file is not None)
            return left, right, f"{'made-up walk' if kind == MADE_UP else _NAMES[0]} in order"
    rng = np.random.default_rng(5)
    steps = rng.standard_normal((200, 128))
    walk = np.empty_like(steps)
    walk[0] = steps[0]
    for frame in range(1, len(walk)):
        walk[frame] = 0.8 * walk[frame - 1] + 0.6 * steps[frame]
    again = walk + 0.6 * rng.standard_normal(walk.shape)
    both = [checks.unit_rows(rows, "rows", "walk_in_order") for rows in (walk, again)]
    return both[0], both[1], "made-up vectors in order"


def _made_up() -> list[RetrievalSet]:
    return [
        made_up_views("made-up vectors of scenes", 40, 5, 800, 96, seed=1),
        made_up_views("made-up vectors of objects", 25, 4, 700, 96, seed=2),
    ]


def _rows(path: Path) -> Float32Array:
    return checks.unit_rows(read_vectors(path), "vectors", str(path))


@cache
def _steps(path: Path, scales: Path) -> Float32Array:
    """Return rows stored as int8 with one scale per dimension."""
    factors: Any = np.load(scales, allow_pickle=False)
    return checks.unit_rows(read_vectors(path) * factors, "vectors", str(path))


__all__ = [
    "DESCRIPTORS",
    "MADE_UP",
    "PHOTO_FOLDERS",
    "TRAINING_FOLDER",
    "WORDS",
    "DataFolders",
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
