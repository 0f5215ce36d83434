"""``memvec info`` and ``memvec calibrate``: what a collection holds and promises."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

import memvec
from memvec import Collection, Index
from memvec.cli._options import COSINE, collection_argument, json_option, option, promise_options
from memvec.cli._output import (
    certificate_record,
    echo,
    echo_json,
    print_table,
    share_text,
    size_text,
)
from memvec.collection import Stats
from memvec.errors import MemvecError
from memvec.guarantee import Certificate
from memvec.metric import limit_text, radius_of
from memvec.theory import imbalance_factor

_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@click.command()
@collection_argument
@json_option
def info(collection: str, as_json: bool) -> None:
    """Print sizes, segments, units, and what searches promise.

    Imbalance is the paper's factor: 1 for units of equal size.

    \b
    Example:
      memvec info synsets.mv
    """  # noqa: D301 - click wants the character itself, not its name
    with memvec.open(collection, read_only=True, verify=False) as opened:
        stats = opened.stats()
        units = _units(Path(collection), stats)
        certificate = _certificate(opened, None)
        settings = opened.settings
    if as_json:
        echo_json(
            {
                "collection": collection,
                **asdict(settings),
                "similarities": settings.listed,
                **asdict(stats),
                "units": units,
                "certificate": certificate_record(certificate),
            }
        )
        return
    _print_sizes(collection, opened, stats)
    _print_segments(stats, units)
    echo(str(certificate))


def _print_sizes(collection: str, opened: Collection, stats: Stats) -> None:
    settings = opened.settings
    rows = [
        ["items", f"{stats.n_items:,}"],
        ["dimension", f"{settings.dim:,}, {settings.dtype}"],
        [
            "designed for",
            f"everything {limit_text(settings.metric, settings.similarity)}, "
            f"{share_text(settings.miss_rate)} missed",
        ],
        ["waiting for a segment", f"{stats.n_waiting:,}{_due(settings.seal_at)}"],
        ["deleted, not yet freed", f"{stats.n_deleted:,}"],
        ["segments on disk", size_text(stats.segment_bytes)],
        ["catalog on disk", size_text(stats.catalog_bytes)],
        ["changes committed", f"{stats.change:,}"],
    ]
    print_table(collection, [], rows)


def _due(seal_at: int) -> str:
    """Return when a segment is made of what waits."""
    return f" of {seal_at:,}" if seal_at else ", until `memvec compact`"


def _print_segments(stats: Stats, units: list[dict[str, Any]] | None) -> None:
    if not stats.segment_sizes:
        return
    if units is None:
        sizes = ", ".join(f"{size:,}" for size in stats.segment_sizes)
        echo(
            f"Segments of {sizes} vectors; they are being changed, or are damaged "
            "(`memvec check`); their units are not listed."
        )
        return
    keys = ("segment", "vectors", "units", "unit_size", "imbalance", "construction", "codes")
    header = ["vectors per unit" if key == "unit_size" else key for key in keys]
    print_table("Segments", header, [[unit[key] for key in keys] for unit in units])


def _units(folder: Path, stats: Stats) -> list[dict[str, Any]] | None:
    """Return what the segments are like, or None if a writer has removed one meanwhile."""
    found = []
    for number in stats.segment_numbers:
        segment = folder / "segments" / f"{number:06d}"
        try:
            found.append(_unit_record(segment.name, Index.open(segment)))
        except (MemvecError, OSError):
            return None
    return found


def _unit_record(name: str, index: Index) -> dict[str, Any]:
    sizes, config = index.unit_sizes, index.design.config
    return {
        "segment": name,
        "vectors": len(index),
        "units": len(sizes),
        "unit_size": float(sizes.mean()) if len(sizes) else 0.0,
        "imbalance": imbalance_factor(sizes) if sizes.any() else 1.0,
        "construction": config.construction,
        "assignment": config.assignment,
        "codes": config.codes,
    }


def _certificate(collection: Collection, similarity: float | None, **asked: Any) -> Certificate:
    """Return what a search would promise: a search for nothing tells."""
    nothing = np.empty((0, collection.dim), dtype=np.float32)
    if similarity is not None and collection.metric == "euclidean":
        asked["radius"] = radius_of(similarity)
        similarity = None
    return collection.range_search(nothing, similarity, **asked).certificate


@click.command()
@collection_argument
@option(
    "--similarity",
    COSINE,
    "Cosine α₀ to print the promise for; repeatable. Without it: that of the collection and "
    "some others.",
    multiple=True,
)
@promise_options()
@click.option(
    "--renew", is_flag=True, help="Compact first, with new units and new calibration queries."
)
@json_option
def calibrate(
    collection: str, similarity: tuple[float, ...], renew: bool, as_json: bool, **asked: Any
) -> None:
    """Print what searches promise at several similarities.

    The table also shows the evidence. Each similarity is calibrated separately, on the calibration
    queries of all segments. If there are too few of them, the level is lower than asked. A level
    named by --guarantee that the evidence does not support is an error.

    \b
    Example:
      memvec calibrate synsets.mv
      memvec calibrate synsets.mv --similarity 0.85 --miss-rate 0.001
      memvec calibrate synsets.mv --renew
    """  # noqa: D301 - click wants the character itself, not its name
    if renew:
        with memvec.open(collection, background=False) as writer:
            writer.compact()
    with memvec.open(collection, read_only=True) as opened:
        designed = opened.settings.similarity
        # That level is promised for the similarities of the design alone.
        others = () if asked["guarantee"] == "high_probability" else _SIMILARITIES
        levels = similarity or sorted({*others, designed})
        found = {level: _certificate(opened, level, **asked) for level in levels}
    if as_json:
        echo_json([certificate_record(certificate) for certificate in found.values()])
        return
    rows = [_row(certificate) for certificate in found.values()]
    header = [
        "range",
        "level",
        "asked",
        "supported",
        "observed",
        "pairs",
        "queries",
        "matches",
        "from",
    ]
    print_table(f"What searches of {collection} promise to miss at most", header, rows)


def _row(certificate: Certificate) -> list[object]:
    return [
        certificate.range_text,
        certificate.level,
        share_text(certificate.miss_rate),
        share_text(certificate.bound),
        share_text(certificate.observed),
        share_text(certificate.pair_miss),
        certificate.n_queries,
        certificate.n_matches,
        certificate.source or "",
    ]
