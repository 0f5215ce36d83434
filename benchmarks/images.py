"""Photographs: places found again among the frames of a walk, and near-copies of pictures."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from benchmarks.image_copies import CHANGES, copy_of
from benchmarks.measure import print_table
from memvec import Index, IndexConfig
from memvec.errors import FileFormatError
from memvec.evaluation import (
    complexity_ratio,
    count_misses,
    exact_range,
    exact_top_k,
    mean_average_precision,
)
from memvec.images import (
    Described,
    DescriptorCache,
    ImageDescriptor,
    SiftConfig,
    Triangulation,
    describe_photos,
    find_photos,
    open_descriptor,
    save_descriptor,
    training_bags,
)
from memvec.kernels import run_blocks
from memvec.progress import progress_bar
from memvec.types import Float32Array

NEAR_FRAMES, FAR_FRAMES = 2, 10
# With units of 10 a ratio of 0.1 would be spent on memory vectors alone.
UNIT_SIZE = 20
RATIOS = tuple(round(0.1 * step, 1) for step in range(1, 11))
SIMILARITIES = (0.4, 0.5, 0.6, 0.7)
MISS_RATE = 0.01
EVERY = 4


def run(data: str, work: str | None, n_words: int, max_side: int) -> None:
    """Print all tables; `work` keeps what was learned and computed for the next run."""
    root = Path(data)
    for name in ("gardens-point", "st-lucia", "ukb56"):
        if not (root / name).is_dir():
            raise click.UsageError(f"There is no folder {name} in {data}.")
    with tempfile.TemporaryDirectory() as temporary:
        kept = Path(work or temporary)
        kept.mkdir(parents=True, exist_ok=True)
        model = replace(_model(root, kept, n_words), sift=SiftConfig(max_side=max_side))
        with DescriptorCache(kept / "vectors.sqlite", model) as cache:
            _places(root, model, cache)
            _variants(root, model)
            _copies(root, model, cache)


def _model(root: Path, kept: Path, n_words: int) -> Triangulation:
    folder = kept / f"triangulation-{n_words}"
    if not folder.exists():
        bags, _ = training_bags(find_photos(root / "st-lucia"))
        save_descriptor(Triangulation.fit(bags, n_words), folder)
    model = open_descriptor(folder)
    assert isinstance(model, Triangulation)
    return model


def _walk(root: Path, name: str, model: ImageDescriptor, cache: DescriptorCache) -> Float32Array:
    folder = root / "gardens-point" / "images" / name
    return describe_photos(find_photos(folder), model, cache=cache).vectors


def _places(root: Path, model: Triangulation, cache: DescriptorCache) -> None:
    """Print mAP of day_right → day_left: exhaustive, and at each complexity ratio."""
    vectors, queries = (_walk(root, name, model, cache) for name in ("day_left", "day_right"))
    relevant = near_frames(len(queries), len(vectors))
    whole = exact_top_k(vectors, queries, len(vectors), progress=False).ids
    exhaustive = mean_average_precision(whole, relevant)
    columns = {
        f"{assignment}, {construction}": _map_at_ratios(
            vectors, queries, relevant, assignment, construction
        )
        for assignment in ("random", "kmeans")
        for construction in ("sum", "pinv")
    }
    rows = [
        [f"{ratio:.1f}", *(f"{values[place]:.3f}" for values in columns.values())]
        for place, ratio in enumerate(RATIOS)
    ]
    print_table(
        f"Gardens Point, day_right → day_left, matches within ±{NEAR_FRAMES} frames: mAP with "
        f"memory vectors",
        ["complexity ratio", *columns],
        [*rows, ["exhaustive", *[f"{exhaustive:.3f}"] * len(columns)]],
        f"{model}; {len(vectors)} photographs in units of {UNIT_SIZE}, {len(queries)} queries; "
        f"random units and k-means: means over 10 seeds. Median cosine of matches "
        f"{_median_cosine(vectors, queries, relevant):.2f}.",
    )


def _variants(root: Path, model: Triangulation) -> None:
    """Print the exhaustive mAP of both aggregations, with and without the power law."""
    walks = [
        training_bags(find_photos(root / "gardens-point" / "images" / name), sift=model.sift)[0]
        for name in ("day_left", "day_right")
    ]
    relevant = near_frames(len(walks[1]), len(walks[0]))
    rows = []
    for aggregation in ("sum", "democratic"):
        for power in (1.0, 0.5):
            variant = replace(model, aggregation=aggregation, power=power)
            vectors, queries = (
                np.array([variant.aggregate(bag) for bag in bags]) for bags in walks
            )
            ids = exact_top_k(vectors, queries, len(vectors), progress=False).ids
            rows.append([aggregation, f"{power:g}", f"{mean_average_precision(ids, relevant):.3f}"])
    print_table("The same, exhaustive, by aggregation", ["aggregation", "power", "mAP"], rows)


def near_frames(n_queries: int, n_frames: int) -> list[list[int]]:
    return [
        [frame for frame in range(n_frames) if abs(frame - query) <= NEAR_FRAMES]
        for query in range(n_queries)
    ]


def _median_cosine(
    vectors: Float32Array, queries: Float32Array, relevant: list[list[int]]
) -> float:
    cosines = [vectors[ids] @ query for query, ids in zip(queries, relevant, strict=True)]
    return float(np.median(np.concatenate(cosines)))


def _map_at_ratios(
    vectors: Float32Array,
    queries: Float32Array,
    relevant: list[list[int]],
    assignment: str,
    construction: str,
    n_seeds: int = 10,
) -> Float32Array:
    """Return the mAP at each ratio, the mean over assignments."""
    found = np.empty((n_seeds, len(RATIOS)))
    for seed in range(n_seeds):
        config = IndexConfig(
            construction=construction,  # type: ignore[arg-type]
            assignment=assignment,  # type: ignore[arg-type]
            unit_size=UNIT_SIZE,
            codes="none",
            levels=1,
            reserve=0,
            seed=seed,
        )
        index = Index.build(vectors, config=config, progress=False)
        for place, ratio in enumerate(RATIOS):
            threshold = threshold_within(index, queries, ratio)
            top = index.search(queries, len(vectors), threshold=threshold)
            assert top.work.cost_ratio <= ratio + 1e-9
            found[seed, place] = mean_average_precision(top.ids, relevant)
    return found.mean(axis=0).astype(np.float32)


def threshold_within(index: Index, queries: Float32Array, ratio: float) -> float:
    """Return the lowest threshold τ at which the mean complexity ratio is at most `ratio`."""
    scores, sizes = index.unit_scores(queries), index.unit_sizes
    levels = np.unique(scores)
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        # Units at the threshold itself are visited, too.
        level = float(np.nextafter(levels[middle], -np.inf, dtype=np.float32))
        if complexity_ratio(scores, sizes, level).mean() <= ratio:
            high = middle
        else:
            low = middle + 1
    return float(levels[low]) if low < len(levels) else float(levels[-1]) + 1.0


def _copies(root: Path, model: Triangulation, cache: DescriptorCache) -> None:
    """Print how near copies stay to their originals, and which share of them searches find."""
    paths = [*find_photos(root / "gardens-point"), *find_photos(root / "ukb56")]
    stored = describe_photos(paths, model, cache=cache)
    _strangers(stored)
    originals = np.arange(0, len(stored.paths), EVERY)
    copies = {
        change: _copied([stored.paths[row] for row in originals], change, model)
        for change in CHANGES
    }
    rows = [_nearness(name, stored.vectors[originals], found) for name, found in copies.items()]
    title = f"{len(originals)} photographs and their copies: cosine between the two"
    limits = [f"≥ {similarity}" for similarity in SIMILARITIES]
    print_table(title, ["change", "median", "5 % below", "described", *limits], rows, f"{model}.")
    usable = {name: found[~np.isnan(found[:, 0])] for name, found in copies.items()}
    queries = np.concatenate(list(usable.values()))
    whose = np.concatenate([originals[~np.isnan(found[:, 0])] for found in copies.values()])
    _searches(stored.vectors, queries, whose)


def _strangers(stored: Described) -> None:
    """Print how many pairs of photographs, none a copy of the other, are above each similarity."""
    frames = np.array(["gardens-point" in Path(path).parts for path in stored.paths])
    numbers = numbers_in_folders(stored.paths)
    left, right = np.triu_indices(len(numbers), 1)
    walks, objects = frames[left] & frames[right], ~frames[left] & ~frames[right]
    apart = np.abs(numbers[left] - numbers[right])
    kinds = {
        "one object": objects & (numbers[left] // 4 == numbers[right] // 4),
        "two objects": objects & (numbers[left] // 4 != numbers[right] // 4),
        f"frames at most {NEAR_FRAMES} apart": walks & (apart <= NEAR_FRAMES),
        f"frames more than {FAR_FRAMES} apart": walks & (apart > FAR_FRAMES),
        "an object and a frame": frames[left] != frames[right],
    }
    cosines = (stored.vectors @ stored.vectors.T)[left, right]
    rows = [
        [name, f"{of.sum():,}", *(f"{(of & (cosines >= s)).sum():,}" for s in SIMILARITIES)]
        for name, of in kinds.items()
    ]
    title = f"Pairs of {len(numbers)} photographs that are no copies, above a cosine"
    print_table(title, ["pairs of", "all", *(f"≥ {s}" for s in SIMILARITIES)], rows)


def numbers_in_folders(paths: list[str]) -> np.ndarray:
    """Return of each path its number in its folder."""
    seen: Counter[Path] = Counter()
    numbers = []
    for path in paths:
        numbers.append(seen[Path(path).parent])
        seen[Path(path).parent] += 1
    return np.array(numbers)


def _copied(paths: list[str], change: str, model: Triangulation) -> Float32Array:
    """Return the vectors of changed photographs; NaN where nothing is left to describe."""
    vectors = np.full((len(paths), model.dim), np.nan, dtype=np.float32)

    def describe(start: int, stop: int) -> None:
        for place in range(start, stop):
            try:
                vectors[place] = model.describe(copy_of(paths[place], change))
            except FileFormatError:
                continue

    with progress_bar(change, len(paths)) as advance:
        run_blocks(describe, len(paths), 1, done=advance)
    return vectors


def _nearness(name: str, originals: Float32Array, copies: Float32Array) -> list[str]:
    described = ~np.isnan(copies[:, 0])
    if not described.any():
        return [name, "–", "–", "0%", *["0%"] * len(SIMILARITIES)]
    cosines = np.einsum("ij,ij->i", originals[described], copies[described])
    # What cannot be described is not found: shares are of all copies.
    shares = [f"{(cosines >= s).sum() / len(copies):.0%}" for s in SIMILARITIES]
    low = np.quantile(cosines, 0.05)
    return [name, f"{np.median(cosines):.2f}", f"{low:.2f}", f"{described.mean():.0%}", *shares]


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
