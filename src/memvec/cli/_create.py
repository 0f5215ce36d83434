"""``memvec create``."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

import memvec
from memvec import IndexConfig
from memvec.cli._options import (
    COSINE,
    COUNT,
    SHARE,
    json_option,
    level_choice,
    named,
    option,
    radius_option,
)
from memvec.cli._output import echo, echo_json
from memvec.guarantee import Guarantee
from memvec.kernels import ROW_TYPES
from memvec.metric import Metric, limit_text
from memvec.types import RowType


def _config(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> IndexConfig | None:
    known = [field.name for field in fields(IndexConfig)]
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            names = ", ".join(known)
            raise click.BadParameter(f"{text!r} is not NAME=VALUE with a NAME of {names}.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    try:
        return IndexConfig(**values) if values else None
    except (ValueError, TypeError) as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("path", type=click.Path(file_okay=False), metavar="COLLECTION")
@option("--dim", COUNT, "Dimension of the vectors.", required=True)
@option(
    "--similarity",
    COSINE,
    "Cosine α₀ to design for; searches may ask for others. Without it: 0.7.",
)
@option(
    "--metric",
    click.Choice(["cosine", "euclidean"]),
    "What scores are. Euclidean distances need vectors of norm 1.",
    "cosine",
)
@radius_option
@option(
    "--dtype",
    click.Choice(ROW_TYPES),
    "Type that vectors are stored in; scores are those of the stored vectors.",
    "float32",
)
@option("--miss-rate", SHARE, "Share ε of the matches that searches may miss.", 0.01)
@option(
    "--guarantee",
    level_choice,
    "Level of the promise, for searches that name none.",
    "expected",
)
@option("--confidence", SHARE, "Confidence of high_probability.", 0.95)
@option(
    "--promise-at",
    COSINE,
    "Cosine at which high_probability may be asked for; repeatable, and all are promised at "
    "once. Without it: --similarity.",
    name="similarities",
    multiple=True,
)
@option(
    "--seal-at",
    named("count", click.IntRange(0)),
    "Make a segment when this many vectors wait; 0 leaves it to `memvec compact`.",
    10_000,
)
@click.option(
    "--config",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_config,
    help="Field of memvec.IndexConfig, for building segments; repeatable.",
)
@json_option
def create(
    path: str,
    dim: int,
    similarity: float | None,
    metric: Metric,
    radius: float | None,
    dtype: RowType,
    miss_rate: float,
    guarantee: Guarantee,
    confidence: float,
    similarities: tuple[float, ...],
    seal_at: int,
    config: IndexConfig | None,
    as_json: bool,
) -> None:
    """Create an empty collection, the folder COLLECTION.

    \b
    Example:
      memvec create synsets.mv --dim 384 --similarity 0.8
      memvec create synsets.mv --dim 384 --dtype int8
      memvec create synsets.mv --dim 384 --config assignment=random --config unit_size=10
    """  # noqa: D301 - click wants the character itself, not its name
    if (Path(path) / "catalog.sqlite").exists():
        raise click.BadParameter(f"{path} already is a collection.", param_hint="'COLLECTION'")
    with memvec.open(
        path,
        dim=dim,
        similarity=similarity,
        metric=metric,
        radius=radius,
        dtype=dtype,
        miss_rate=miss_rate,
        guarantee=guarantee,
        confidence=confidence,
        similarities=similarities or None,
        config=config,
        seal_at=seal_at,
    ) as collection:
        settings = collection.settings
    if as_json:
        record = {**asdict(settings), "similarities": settings.listed}
        echo_json({"collection": path, **record})
        return
    echo(
        f"Created {path}: dimension {dim}, everything "
        f"{limit_text(metric, settings.similarity)}, "
        f"at most {100 * miss_rate:g} % missed."
    )
