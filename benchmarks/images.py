"""Photographs: places found again among the frames of a walk."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from benchmarks.measure import print_table
from memvec import Index, IndexConfig
from memvec.evaluation import (
    complexity_ratio,
    exact_top_k,
    mean_average_precision,
)
from memvec.images import (
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
from memvec.types import Float32Array

NEAR_FRAMES = 2
# With units of 10 a ratio of 0.1 would be spent on memory vectors alone.
UNIT_SIZE = 20
RATIOS = tuple(round(0.1 * step, 1) for step in range(1, 11))


def run(data: str, work: str | None, n_words: int, max_side: int) -> None:
    """Print all tables; `work` keeps what was learned and computed for the next run."""
    root = Path(data)
    for name in ("gardens-point", "st-lucia"):
        if not (root / name).is_dir():
            raise click.UsageError(f"There is no folder {name} in {data}.")
    with tempfile.TemporaryDirectory() as temporary:
        kept = Path(work or temporary)
        kept.mkdir(parents=True, exist_ok=True)
        model = replace(_model(root, kept, n_words), sift=SiftConfig(max_side=max_side))
        with DescriptorCache(kept / "vectors.sqlite", model) as cache:
            _places(root, model, cache)
            _variants(root, model)


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
