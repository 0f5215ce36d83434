"""Near-copies of photographs: how many each descriptor finds, by what was done to them.

Photographs that no descriptor has seen are changed in every way of `image_copies`. Of two different
photographs so few may be taken for copies; the similarity that keeps to that share is each
descriptor's own, and the descriptors are compared there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from benchmarks.image_copies import CHANGES, copy_of
from benchmarks.measure import print_table
from memvec import Index
from memvec.errors import FileFormatError
from memvec.evaluation import count_misses, exact_range
from memvec.images import (
    ImageDescriptor,
    SiftConfig,
    Triangulation,
    Vlad,
    default_descriptor,
    find_photos,
    local_descriptors,
    training_bags,
)
from memvec.kernels import run_blocks
from memvec.progress import progress_bar
from memvec.types import BoolArray, Float32Array, Float64Array

SIMILARITIES = (0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
MISS_RATE = 0.01
# One in ten thousand: 50 wrong pairs among 1,000 photographs of one walk.
WRONG_SHARE = 1e-4
FAR_FRAMES = 10
UNCHANGED = "unchanged"
DEFAULT = "default: φ_Δ, 8 words, 480 px, power 0.5"


@dataclass(frozen=True)
class Photographs:
    """The photographs that are searched: paths, and for each pair whether it shows one thing."""

    paths: list[str]
    apart: BoolArray


def run(data: str, every: int, n_words: int) -> None:
    """Print the tables; of the photographs, one in `every` is changed."""
    root = Path(data)
    for name in ("gardens-point", "st-lucia", "ukb56"):
        if not (root / name).is_dir():
            raise click.UsageError(f"There is no folder {name} in {data}.")
    streets = find_photos(root / "st-lucia")
    held_out = streets[len(streets) // 2 :]
    models = descriptors(streets[: len(streets) // 2], n_words)
    photos = photographs(
        [find_photos(root / "gardens-point"), find_photos(root / "ukb56"), held_out]
    )
    rows = np.arange(0, len(photos.paths), every)
    stored = _described(photos.paths, UNCHANGED, models)
    changed = [photos.paths[row] for row in rows]
    copies = {change: _described(changed, change, models) for change in CHANGES}
    cosines = {
        name: {
            change: np.einsum("ij,ij->i", stored[name][rows], found[name])
            for change, found in copies.items()
        }
        for name in models
    }
    wrong = {name: stranger_cosines(stored[name], photos.apart) for name in models}
    _compare(cosines, wrong, len(rows), len(photos.paths))
    _by_similarity(cosines[DEFAULT], wrong[DEFAULT])
    queries = np.concatenate([found[DEFAULT] for found in copies.values()])
    whose = np.tile(rows, len(copies))
    seen = ~np.isnan(queries[:, 0])
    _searches(stored[DEFAULT], queries[seen], whose[seen])


def descriptors(paths: list[str], n_words: int) -> dict[str, ImageDescriptor]:
    """Return the descriptor of the package, and others learned from photographs."""
    small, large = default_descriptor().sift, SiftConfig()
    bags = training_bags(paths, sift=small)[0]
    learned = Triangulation.fit(bags, n_words, power=0.5, sift=small)
    paper = Triangulation.fit(training_bags(paths, sift=large)[0], n_words, sift=large)
    n_vlad = 4 * n_words
    return {
        DEFAULT: default_descriptor(),
        f"learned φ_Δ, {n_words} words, 480 px, power 0.5": learned,
        f"the paper's: learned φ_Δ, {n_words} words, 1024 px": paper,
        "the paper's, power 0.5": replace(paper, power=0.5),
        f"learned VLAD, {n_vlad} words, 480 px": Vlad.fit(bags, len(bags), n_vlad, sift=small),
    }


def photographs(sets: list[list[str]]) -> Photographs:
    """Return photographs of walks and, in the second set, of objects, four of each."""
    paths = [path for one in sets for path in one]
    kind = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    numbers = numbers_in_folders(paths)
    same_object = numbers[:, np.newaxis] // 4 == numbers // 4
    near = np.abs(numbers[:, np.newaxis] - numbers) <= FAR_FRAMES
    objects = (kind == 1)[:, np.newaxis]
    same_set = kind[:, np.newaxis] == kind
    return Photographs(paths, ~(same_set & np.where(objects, same_object, near)))


def numbers_in_folders(paths: list[str]) -> np.ndarray:
    """Return of each path its number in its folder."""
    seen: Counter[Path] = Counter()
    numbers = []
    for path in paths:
        numbers.append(seen[Path(path).parent])
        seen[Path(path).parent] += 1
    return np.array(numbers)


def stranger_cosines(vectors: Float32Array, apart: BoolArray) -> Float32Array:
    """Return the cosines of pairs that show different things, the largest first."""
    pairs = np.triu(apart, 1)
    return np.asarray(-np.sort(-(vectors @ vectors.T)[pairs]), dtype=np.float32)


def similarity_for(cosines: Float32Array, share: float) -> float:
    """Return the lowest similarity above which at most this share of the cosines lies."""
    return float(np.nextafter(cosines[int(share * len(cosines))], np.float32(2)))


def _described(
    paths: list[str], change: str, models: dict[str, ImageDescriptor]
) -> dict[str, Float32Array]:
    """Return the vectors of changed photographs; NaN where nothing is left to describe."""
    found = {name: np.full((len(paths), m.dim), np.nan, np.float32) for name, m in models.items()}

    def describe(start: int, stop: int) -> None:
        for place in range(start, stop):
            pixels, bags = copy_of(paths[place], change), {}
            for name, model in models.items():
                sift = model.sift  # type: ignore[attr-defined]
                try:
                    if sift not in bags:
                        bags[sift] = local_descriptors(pixels, sift)
                    found[name][place] = model.aggregate(bags[sift])  # type: ignore[attr-defined]
                except FileFormatError:
                    continue

    with progress_bar(change, len(paths)) as advance:
        run_blocks(describe, len(paths), 1, done=advance)
    return found


def share_found(cosines: Float64Array, similarity: float) -> float:
    """Return the share of copies above a similarity; what cannot be described is not found."""
    return float(np.mean(np.nan_to_num(cosines, nan=-1.0) >= similarity))


def _compare(
    cosines: dict[str, dict[str, Float64Array]],
    wrong: dict[str, Float32Array],
    n_changed: int,
    n_photos: int,
) -> None:
    limits = {name: similarity_for(found, WRONG_SHARE) for name, found in wrong.items()}
    shares = {
        change: [share_found(cosines[name][change], limits[name]) for name in cosines]
        for change in CHANGES
    }
    rows = [[change, *(f"{share:.0%}" for share in row)] for change, row in shares.items()]
    means = np.mean(list(shares.values()), axis=0)
    print_table(
        f"Copies of {n_changed} photographs found among {n_photos}, by descriptor",
        ["change", *cosines],
        [
            *rows,
            ["mean", *(f"{mean:.1%}" for mean in means)],
            ["similarity", *(f"{limit:.2f}" for limit in limits.values())],
        ],
        "Each descriptor at the similarity above which one in 10,000 pairs of different "
        "photographs lies.",
    )


def _by_similarity(cosines: dict[str, Float64Array], wrong: Float32Array) -> None:
    rows = [
        [change, f"{np.nanmedian(found):.2f}"]
        + [f"{share_found(found, similarity):.0%}" for similarity in SIMILARITIES]
        for change, found in cosines.items()
    ]
    above = [f"{1e4 * float(np.mean(wrong >= s)):.2f}" for s in SIMILARITIES]
    print_table(
        "Copies found with the default descriptor, by similarity",
        ["change", "median cosine", *(f"≥ {similarity}" for similarity in SIMILARITIES)],
        [*rows, [f"wrong, in 10,000 of {len(wrong):,} pairs", "", *above]],
    )


def _searches(vectors: Float32Array, queries: Float32Array, whose: np.ndarray) -> None:
    rows = []
    for similarity in SIMILARITIES:
        index = Index.build(vectors, similarity=similarity, miss_rate=MISS_RATE, progress=False)
        hits = index.range_search(queries)
        truth = exact_range(vectors, queries, similarity, progress=False)
        misses = count_misses(truth, hits)
        above = np.array([row in ids.ids for row, ids in zip(whose, truth, strict=True)])
        found = np.array([row in ids.ids for row, ids in zip(whose, hits, strict=True)])
        low, high = misses.interval()
        rows.append(
            [
                f"{similarity}",
                f"{above.mean():.1%}",
                f"{found.mean():.1%}",
                f"{truth.counts.mean():.1f}",
                f"{misses.miss_rate:.2%} ({low:.2%}–{high:.2%})",
                f"{misses.pair_miss:.2%}",
                f"{MISS_RATE:.0%}, {hits.certificate.level}",
                f"{hits.work.cost_ratio:.2f}",
            ]
        )
    print_table(
        f"Searching {len(vectors)} photographs with {len(queries)} copies",
        [
            "above",
            "originals there",
            "originals found",
            "matches a query",
            "miss rate (95 % interval)",
            "pair miss",
            "promised",
            "cost ratio",
        ],
        rows,
    )
