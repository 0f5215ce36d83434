"""``memvec create``."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

import memvec
from memvec import IndexConfig
from memvec.cli._options import json_option, level_choice
from memvec.cli._output import echo, echo_json
from memvec.guarantee import Guarantee


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
@click.option("--dim", type=click.IntRange(1), required=True, help="Dimension of the vectors.")
@click.option(
    "--similarity",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.7,
    show_default=True,
    help="Cosine α₀ that it is designed for; searches may ask for others.",
)
@click.option(
    "--miss-rate",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Share ε of the matches that searches may miss.",
)
@click.option(
    "--guarantee",
    type=level_choice,
    default="expected",
    show_default=True,
    help="What searches promise that do not ask for a level themselves.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of high_probability.",
)
@click.option(
    "--promise-at",
    "similarities",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    help="A similarity that high_probability may be asked for; repeatable, all are promised at "
    "once. Without it: --similarity.",
)
@click.option(
    "--seal-at",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    help="So many waiting vectors become a segment; 0 leaves it to `memvec compact`.",
)
@click.option(
    "--config",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_config,
    help="A field of memvec.IndexConfig: how segments are built. May be repeated.",
)
@json_option
def create(
    path: str,
    dim: int,
    similarity: float,
    miss_rate: float,
    guarantee: Guarantee,
    confidence: float,
    similarities: tuple[float, ...],
    seal_at: int,
    config: IndexConfig | None,
    as_json: bool,
) -> None:
    """Create an empty collection: a folder, COLLECTION.

    \b
    Example:
      memvec create synsets.mv --dim 384 --similarity 0.8
      memvec create synsets.mv --dim 384 --config assignment=random --config unit_size=10
    """  # noqa: D301 - click wants the character itself, not its name
    if (Path(path) / "catalog.sqlite").exists():
        raise click.BadParameter(f"{path} is a collection already.", param_hint="'COLLECTION'")
    with memvec.open(
        path,
        dim=dim,
        similarity=similarity,
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
        f"Created {path}: dimension {dim}, everything above {similarity:g}, "
        f"at most {100 * miss_rate:g} % missed."
    )
