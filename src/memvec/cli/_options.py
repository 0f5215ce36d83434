"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from memvec import Collection, checks
from memvec.collection import checked_metadata
from memvec.errors import InvalidTypeError, InvalidValueError, MemvecError
from memvec.files import BLOCK_SUFFIXES, VectorBlock, read_blocks
from memvec.kernels import rounded_rows
from memvec.types import Float32Array

Command = Callable[..., Any]
Id = int | str


def named(name: str, kind: Any) -> Any:
    """Return the type of an option under the name that help and errors show."""
    kind.name = name
    return kind


STDIN = "-"
COUNT = named("count", click.IntRange(1))
COSINE = named("cosine", click.FloatRange(0, 1, min_open=True))
RADIUS = named("distance", click.FloatRange(0, round(math.sqrt(2), 5), max_open=True))
SHARE = named("share", click.FloatRange(0, 1, min_open=True, max_open=True))
SEED = named("seed", click.IntRange(0))
PORT = named("port", click.IntRange(0, 65535))
FOLDER = click.Path(exists=True, file_okay=False)
# Of an integer of 64 bits. Python refuses to read integers of some thousand digits.
_MOST_DIGITS = 19


def options(*decorators: Command) -> Callable[[Command], Command]:
    """Return one decorator of several."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def option(
    flag: str, kind: Any, text: str, default: Any = None, *, name: str | None = None, **more: Any
) -> Command:
    """Return an option of click, which shows its default where it has one.

    `name` is the parameter's, where it is not that of the flag.
    """
    if default is not None:
        more |= {"default": default, "show_default": True}
    names = (flag,) if name is None else (flag, name)
    return click.option(*names, type=kind, help=text, **more)


def _parsed_filter(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{text!r} is not a JSON object.")
    return value


def _known_file(
    context: click.Context, parameter: click.Parameter, value: str | tuple[str, ...] | None
) -> Any:
    """Refuse files of other formats before anything is done."""
    for path in [value] if isinstance(value, str) else value or ():
        if path != STDIN and Path(path).suffix.lower() not in BLOCK_SUFFIXES:
            known = ", ".join(BLOCK_SUFFIXES)
            raise click.BadParameter(f"{path!r} does not end in one of {known}.")
    return value


collection_argument = click.argument("collection", type=FOLDER, metavar="COLLECTION")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
radius_option = option(
    "--radius", RADIUS, "Distance, in place of --similarity, if the metric is euclidean."
)
similarity_option = options(
    option(
        "--similarity",
        COSINE,
        "Cosine α₀ above which everything is found. Without it: that of the collection.",
    ),
    radius_option,
)
where_option = click.option(
    "--where",
    metavar="JSON",
    callback=_parsed_filter,
    help="""Only items whose metadata passes this filter, such as '{"year": {"$gte": 2020}}'.""",
)
level_choice = click.Choice(["model", "expected", "high_probability", "exact"])


def promise_options(
    miss_rate: str = "that of the collection",
    level: str = "that of the collection",
    confidence: str = "that of the collection",
) -> Command:
    """Return the options of a promise; the texts say what holds without them."""
    return options(
        option(
            "--miss-rate",
            SHARE,
            f"Share ε of the matches that may be missed. Without it: {miss_rate}.",
        ),
        option(
            "--guarantee",
            level_choice,
            "Level that the answer must promise; exact misses nothing. Without it: "
            f"{level}, or a lower one if there is too little evidence.",
        ),
        option(
            "--confidence",
            SHARE,
            f"Confidence of high_probability. Without it: {confidence}.",
        ),
    )


def limit_option(default: int) -> Command:
    """Return the option of how much a table shows."""
    return option("--limit", COUNT, "Maximum number of rows in the table; JSON has all.", default)


threads_option = option("--threads", COUNT, "Number of threads. Without it: all cores.")
field_options = options(
    click.option(
        "--vectors",
        "--column",
        "field",
        metavar="NAME",
        help="Array, dataset, column or key of the vectors. Without it: vectors (npz), train "
        "(hdf5), the only column of lists (parquet), vector (jsonl).",
    ),
    click.option(
        "--ids",
        "--id",
        metavar="NAME",
        help="Array, dataset, column or key of the ids. Without it: id or ids, if present.",
    ),
    click.option(
        "--metadata",
        metavar="NAME",
        multiple=True,
        help="Array, dataset, column or key to store as metadata, under its own name; repeatable, "
        "* stands for all others. Null and NaN are left out. Without it: metadata, if present, "
        "which holds whole objects.",
    ),
)
file_path = click.Path(exists=True, dir_okay=False, allow_dash=True)


def file_argument(name: str, **more: Any) -> Command:
    """Return an argument for vector files."""
    return click.argument(name, type=file_path, callback=_known_file, **more)


def blocks_of(
    path: str, field: str | None, ids: str | None, metadata: tuple[str, ...], rows: int = 1000
) -> Iterator[VectorBlock]:
    """Return the blocks of a file, or of standard input as JSON Lines."""
    source = sys.stdin.buffer if path == STDIN else path
    return read_blocks(source, field=field, ids=ids, metadata=metadata or None, block_rows=rows)


def unit_rows(block: VectorBlock, path: str, collection: Collection) -> Float32Array:
    """Return vectors as a collection takes them; errors name the file and the row in it."""
    try:
        rows = checks.unit_rows(
            block.vectors,
            "vectors",
            path,
            dim=collection.dim,
            first_row=block.first_row,
            copy=False,
            scale=collection.metric == "cosine",
        )
        return rounded_rows(rows, collection.dtype)
    except (InvalidValueError, InvalidTypeError) as error:
        raise _refused(error, path) from None


@contextmanager
def named_rows(block: VectorBlock, path: str) -> Iterator[None]:
    """Let errors about metadata name the file and the row in it, while a block is added."""
    try:
        yield
    except (InvalidValueError, InvalidTypeError):
        try:
            checked_metadata(block.metadata, len(block), path, first_row=block.first_row)
        except (InvalidValueError, InvalidTypeError) as error:
            raise _refused(error, path) from None
        raise


def _refused(error: MemvecError, path: str) -> click.BadParameter:
    """Return an error that names the argument or flag of a file, the file, and what is wrong."""
    _, _, reason = str(error).partition(f" of {path} must be ")
    subject = str(error).split("'")[1]  # as in: The 'vectors' parameter of …
    name = "standard input" if path == STDIN else path
    return click.BadParameter(f"the {subject} of {name} must be {reason}", param=_parameter(path))


def _parameter(path: str) -> click.Parameter | None:
    """Return the argument or option that a file was given for."""
    context = click.get_current_context()
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if path == value or (isinstance(value, tuple) and path in value):
            return parameter
    return None


def known_ids(collection: Collection, texts: Iterable[str], flag: str) -> list[Id]:
    """Return ids that people typed for a flag, all of which exist; see `typed_id`."""
    ids = [typed_id(collection, text, flag) for text in texts]
    for name in ids:
        if name not in collection:
            raise click.BadParameter(f"no item has the id {name!r}.", param_hint=f"'{flag}'")
    return ids


def typed_id(collection: Collection, text: str, flag: str) -> Id:
    """Return the id that a text stands for: an integer if there is one, or else the text.

    In double quotes it is always a text, as JSON has it.
    """
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise click.BadParameter(
                f"{text} is in quotes, but is not a JSON string: {error}.",
                param_hint=f"'{flag}'",
            ) from None
    if _is_number(text) and int(text) in collection:
        return int(text)
    return text


def as_typed(name: Id) -> str:
    r"""Return one line that `typed_id` takes for an id.

    Examples
    --------
    >>> for name in (7, "7", "whale", "two\nlines", '"', ""):
    ...     print(as_typed(name))
    7
    "7"
    whale
    "two\nlines"
    "\""
    ""
    """
    if isinstance(name, int):
        return str(name)
    plain = name and name.isprintable() and name[0] != '"' and not _is_number(name)
    return name if plain else json.dumps(name)


def _is_number(text: str) -> bool:
    """Return whether a text is how an integer of 64 bits, or little more, is written."""
    digits = text.removeprefix("-")
    short = len(digits) <= _MOST_DIGITS
    return short and digits.isascii() and digits.isdecimal() and str(int(text)) == text


def gather(
    blocks: Iterable[VectorBlock], path: str, collection: Collection
) -> tuple[Float32Array, list[Any]]:
    """Return all queries of a file and their names: ids, or else row numbers."""
    rows, names = [np.empty((0, collection.dim), dtype=np.float32)], list[Any]()
    for block in blocks:
        rows.append(unit_rows(block, path, collection))
        names += block.ids or range(block.first_row, block.first_row + len(block))
    return np.concatenate(rows), names
