"""``memvec images``: from a folder of photographs to results with thumbnails."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import click

from memvec.checks import counted
from memvec.cli._groups import FlagGroup
from memvec.cli._options import COSINE, COUNT, FOLDER, json_option, named, option, options
from memvec.cli._output import echo, writing
from memvec.images import (
    SIFT_DIM,
    SUFFIXES,
    FolderReport,
    ImageDescriptor,
    OnnxDescriptor,
    PhotoCopy,
    PhotoDuplicates,
    PhotoHits,
    PhotoLibrary,
    SheetGroup,
    SheetPhoto,
    SiftConfig,
    Skipped,
    Triangulation,
    Vlad,
    contact_sheet,
    default_descriptor,
    find_photos,
    open_descriptor,
    training_bags,
    write_sheet,
)
from memvec.progress import on_terminal
from memvec.storage import Kind, check_kind
from memvec.types import Float32Array

# By docs/benchmarks-photographs.md: where copies of a photograph are, and where few others are. Who
# looks for one photograph sees what is wrong at a glance; groups should hold copies alone.
_SIMILARITY = 0.5
_COPY_SIMILARITY = 0.55
_MEGAPIXEL = 1_000_000
# What a terminal and a page can bear; JSON has everything.
_LINES_SHOWN = 20
_GROUPS_SHOWN = 500
# So many have a quarter of a million local descriptors, more than a vocabulary is learned from.
_TRAINING_PHOTOS = 300
# The principal directions need more photographs than there are of them.
_VLAD_DIM, _VLAD_PHOTOS = 1024, 1500
_WORDS = {"triangulation": 16, "vlad": 64}
_DESCRIPTORS = ("triangulation", "vlad")
_SOURCES = ("descriptor", "onnx", "learn_from", "kind", "words", "aggregation", "power")
_LEARNED = ("learn_from", "kind", "words")


_library = option(
    "--library",
    click.Path(file_okay=False),
    "Folder of the vectors and the descriptor.",
    "library.photos",
)
_html = option(
    "--html",
    click.Path(dir_okay=False),
    "File to write the contact sheet to.",
    "contact-sheet.html",
)
_megapixels = option(
    "--max-megapixels",
    named("size", click.FloatRange(0.001)),
    "Skip larger photographs before they are decoded.",
    89.0,
)
_making = options(
    _library,
    option("--descriptor", FOLDER, "Use the descriptor of this library, or this saved descriptor."),
    option(
        "--onnx",
        click.Path(exists=True, dir_okay=False),
        "Describe photographs by the ONNX model of this configuration (.toml or .json).",
    ),
    option("--learn-from", FOLDER, "Learn a descriptor from the photographs in this folder."),
    option(
        "--kind",
        click.Choice(_DESCRIPTORS),
        "Descriptor to learn, from --learn-from or else from FOLDER. Without it: triangulation.",
    ),
    option(
        "--words",
        named("count", click.IntRange(2)),
        "Size of the vocabulary to learn. Without it: 16 for triangulation, 64 for vlad.",
    ),
    option(
        "--aggregation",
        click.Choice(["sum", "democratic"]),
        "How local descriptors are added. Without it: sum. Democratic gives each the same weight.",
    ),
    option(
        "--power",
        named("exponent", click.FloatRange(0, 1, min_open=True)),
        "Exponent of the power law; 1 turns it off. Without it: 0.5.",
    ),
    _megapixels,
    json_option,
)


@click.group(cls=FlagGroup)
def images() -> None:
    """Search photographs by photographs and find copies.

    \b
    Example:
      memvec images index holiday
      memvec images search some-photo.jpg
      memvec images duplicates holiday
    """  # noqa: D301 - click wants the character itself, not its name


@images.command("index")
@click.argument("folder", type=FOLDER)
@_making
@option("--similarity", COSINE, f"Cosine to design a new library for. Without it: {_SIMILARITY}.")
def index_command(folder: str, as_json: bool, **given: Any) -> None:
    """Create or update the library of the photographs of FOLDER.

    The first call creates the library. Its descriptor is the one that ships with memvec, unless
    another is named or learned. Files that cannot be read are reported.

    \b
    Example:
      memvec images index holiday
    """  # noqa: D301 - click wants the character itself, not its name
    with _made_library(folder, given) as library:
        if given["similarity"] not in (None, library.similarity):
            kept = f"{given['library']} is designed for {library.similarity:g}"
            raise click.UsageError(f"{kept}. For another --similarity, name a new --library.")
        report = _added(library, folder, given)
        n_photos = len(library)
    if as_json:
        echo(json.dumps({"library": given["library"], "photos": n_photos, **asdict(report)}))
    else:
        _print_report(report)
        echo(f"{given['library']} holds {counted(n_photos, 'photograph')}.")
    if report.skipped and not n_photos:
        raise click.ClickException(f"No photograph of {folder} could be read.")


@images.command("search")
@click.argument("photo", type=click.Path(exists=True, dir_okay=False))
@_library
@option("--similarity", COSINE, "Find all above this cosine. Without it: that of the library.")
@option("-k", COUNT, "Find this many of the most similar instead.")
@_megapixels
@_html
@json_option
def search_command(
    photo: str,
    library: str,
    similarity: float | None,
    k: int | None,
    html: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Find photographs like PHOTO, which need not be in the library.

    \b
    Example:
      memvec images search some-photo.jpg --similarity 0.6
    """  # noqa: D301 - click wants the character itself, not its name
    if similarity is not None and k is not None:
        raise click.UsageError("Give --similarity or -k, not both.")
    pixels = _pixels(given)
    with PhotoLibrary.open(library, read_only=True) as opened:
        found = opened.search(photo, similarity, k=k, max_pixels=pixels)
        n_photos = len(opened)
    with writing(html):
        write_sheet(html, _search_page(photo, found, n_photos, pixels))
    if as_json:
        echo(json.dumps({**_plain(found), "html": html}))
        return
    for hit in found.hits[:_LINES_SHOWN]:
        echo(f"{hit.score:.3f}  {hit.path}")
    _print_rest(len(found.hits) - _LINES_SHOWN)
    echo(f"{len(found.hits):,} of {n_photos:,} photographs.\n{_promise(found)}\nWrote {html}")


@images.command("duplicates")
@click.argument("folder", type=FOLDER)
@_making
@option(
    "--similarity",
    COSINE,
    f"Cosine above which two photographs are copies. Without it: {_COPY_SIMILARITY}, or the "
    "library's if that is more.",
)
@option(
    "--groups",
    click.Choice(["star", "components"]),
    "Group photographs similar to the first of a group, or all that chains of pairs connect.",
    "star",
)
@_html
def duplicates_command(
    folder: str,
    html: str,
    as_json: bool,
    groups: Literal["star", "components"],
    **given: Any,
) -> None:
    """Find copies and near-copies among the photographs of FOLDER.

    The library is first created or updated, as by `memvec images index`.

    \b
    Example:
      memvec images duplicates holiday --html copies.html
    """  # noqa: D301 - click wants the character itself, not its name
    with _made_library(folder, given) as library:
        pixels = _pixels(given)
        report = _added(library, folder, given)
        level = given["similarity"] or max(_COPY_SIMILARITY, library.similarity)
        found = library.duplicates(level, groups=groups, below=folder)
    with writing(html):
        write_sheet(html, _duplicates_page(folder, found, groups, report.skipped, pixels))
    if as_json:
        skipped = [asdict(entry) for entry in report.skipped]
        echo(json.dumps({**_plain(found), "skipped": skipped, "html": html}))
        return
    _print_report(report)
    for group in found.groups[:_LINES_SHOWN]:
        lines = (f"  {copy.score:.3f}  {copy.path}{_link(copy, group[0])}" for copy in group)
        echo("\n".join([f"{len(group)} alike:", *lines]))
    _print_rest(len(found.groups) - _LINES_SHOWN)
    n_photos = sum(map(len, found.groups))
    echo(
        f"{n_photos:,} photographs in {counted(len(found.groups), 'group')}. {_rule(found, groups)}"
    )
    echo(f"{_promise(found)}\nWrote {html}")


def _promise(found: PhotoHits | PhotoDuplicates) -> str:
    """Return the certificate, and that it is about vectors."""
    return (
        f"The promise is about vectors, not about what photographs show:\n{found.certificate}\n"
        "docs/benchmarks-photographs.md tells how many changed copies are found, by kind of change."
    )


def _rule(found: PhotoDuplicates, groups: str) -> str:
    """Return what makes a group."""
    if groups == "star":
        return f"Each photograph has a cosine of at least {found.similarity:g} with the first."
    return (
        f"Groups are chains: each photograph has a cosine of at least {found.similarity:g} with "
        "another, and may have less with the first, which is the one printed."
    )


def _link(copy: PhotoCopy, first: PhotoCopy) -> str:
    """Return what brings a photograph into a group, where that is not the first."""
    if copy.link is None or copy.link.path == first.path:
        return ""
    return f", {copy.link.score:.3f} with {os.path.basename(copy.link.path)}"


def _made_library(folder: str, given: dict[str, Any]) -> PhotoLibrary:
    path = given["library"]
    if PhotoLibrary.exists(path):
        named = [name for name in _SOURCES if given[name] is not None]
        if named:
            flag = f"--{named[0].replace('_', '-')}"
            raise click.UsageError(
                f"{path} has its descriptor already, and {flag} is for new libraries. Leave it "
                "out, or name a new --library."
            )
        return PhotoLibrary.open(path)
    check_kind(Path(path), Kind.LIBRARY)
    _photos(folder)
    descriptor = _descriptor(folder, given)
    return PhotoLibrary.create(path, descriptor, similarity=given["similarity"] or _SIMILARITY)


def _photos(folder: str) -> list[str]:
    """Return the photographs of a folder to begin with, which must have some."""
    found = find_photos(folder)
    if not found:
        raise click.ClickException(
            f"There are no photographs in {folder} or in folders below it: no file ends in "
            f"{', '.join(sorted(SUFFIXES))}."
        )
    return found


def _added(library: PhotoLibrary, folder: str, given: dict[str, Any]) -> FolderReport:
    """Take a folder into a library; where there is no bar to be seen, a line says so."""
    if not on_terminal():
        photos = counted(len(find_photos(folder)), "photograph")
        echo(f"Reading {photos} of {folder}; new ones are described.", err=True)
    return library.add_folder(folder, max_pixels=_pixels(given))


def _descriptor(folder: str, given: dict[str, Any]) -> ImageDescriptor:
    chosen = [name for name in ("descriptor", "onnx", "learn_from") if given[name] is not None]
    if len(chosen) > 1:
        raise click.UsageError("Give one of --descriptor, --onnx and --learn-from.")
    if given["descriptor"]:
        return open_descriptor(given["descriptor"])
    if given["onnx"]:
        return OnnxDescriptor.read(given["onnx"])
    model = default_descriptor()
    aggregation, power = given["aggregation"] or model.aggregation, given["power"] or model.power
    if all(given[name] is None for name in _LEARNED):
        return replace(model, aggregation=aggregation, power=power)
    kind = given["kind"] or "triangulation"
    if kind == "vlad" and given["aggregation"]:
        raise click.UsageError("--aggregation belongs to the triangulation embedding.")
    n_words = given["words"] or _WORDS[kind]
    bags = _bags(given["learn_from"] or folder, kind, n_words, model.sift)
    if kind == "vlad":
        dim = min(_VLAD_DIM, len(bags), n_words * SIFT_DIM)
        return Vlad.fit(bags, dim, n_words, power=power, sift=model.sift)
    return Triangulation.fit(bags, n_words, aggregation=aggregation, power=power, sift=model.sift)


def _bags(source: str, kind: str, n_words: int, sift: SiftConfig) -> list[Float32Array]:
    """Return the local descriptors of photographs to learn from, which must be enough."""
    paths = _photos(source)
    most = _VLAD_PHOTOS if kind == "vlad" else _TRAINING_PHOTOS
    echo(f"Learning from {counted(min(len(paths), most), 'photograph')} of {source}.", err=True)
    bags, skipped = training_bags(paths, sift=sift, max_photos=most)
    if not bags:
        reason = _sentence(skipped[0])
        raise click.ClickException(f"No photograph of {source} can be used: {reason}")
    n_found, n_needed = sum(map(len, bags)), n_words * (1 if kind == "vlad" else SIFT_DIM)
    if n_found < n_needed:
        raise click.ClickException(
            f"The photographs of {source} have {n_found:,} local descriptors; {n_words} words are "
            f"learned from {n_needed:,} at least. Name more photographs with --learn-from, fewer "
            "--words, or neither: the descriptor that ships with memvec needs no learning."
        )
    return bags


def _pixels(given: dict[str, Any]) -> int:
    return round(float(given["max_megapixels"]) * _MEGAPIXEL)


def _print_report(report: FolderReport) -> None:
    for path, notes in list(report.notes.items())[:_LINES_SHOWN]:
        echo(f"Read {path}: {', '.join(notes)}.")
    _print_rest(len(report.notes) - _LINES_SHOWN)
    for entry in report.skipped[:_LINES_SHOWN]:
        echo(f"Skipped: {_sentence(entry)}")
    _print_rest(len(report.skipped) - _LINES_SHOWN)
    echo(
        f"{report.n_added:,} new, {report.n_changed:,} changed, {report.n_unchanged:,} unchanged, "
        f"{report.n_removed:,} gone, {len(report.skipped):,} skipped; "
        f"{report.n_computed:,} described."
    )


def _sentence(entry: Skipped) -> str:
    return entry.reason if entry.path in entry.reason else f"{entry.path}: {entry.reason}"


def _print_rest(n_left: int) -> None:
    if n_left > 0:
        echo(f"… and {n_left:,} more")


def _search_page(photo: str, found: PhotoHits, n_photos: int, max_pixels: int) -> str:
    asked = SheetPhoto(photo, "asked", asked=True)
    answers = [SheetPhoto(hit.path, f"{hit.score:.3f}") for hit in found.hits]
    return contact_sheet(
        f"Photographs like {os.path.basename(photo)}",
        [SheetGroup("The photograph asked for", [asked]), SheetGroup("Found, best first", answers)],
        summary=f"{len(answers):,} of {n_photos:,} photographs.",
        remarks=[_promise(found)],
        max_pixels=max_pixels,
    )


def _duplicates_page(
    folder: str,
    found: PhotoDuplicates,
    groups: str,
    skipped: Sequence[Skipped],
    max_pixels: int,
) -> str:
    shown = [
        SheetGroup(
            f"{len(group)} alike",
            [SheetPhoto(copy.path, f"{copy.score:.3f}{_link(copy, group[0])}") for copy in group],
        )
        for group in found.groups[:_GROUPS_SHOWN]
    ]
    left = len(found.groups) - len(shown)
    return contact_sheet(
        f"Copies in {Path(folder).name or folder}",
        shown,
        summary=f"{counted(len(found.groups), 'group')} of similar photographs. "
        + _rule(found, groups)
        + (f" The {len(shown):,} largest are shown, {left:,} are not." if left else ""),
        remarks=[_promise(found), *(f"Skipped: {_sentence(entry)}" for entry in skipped)],
        max_pixels=max_pixels,
    )


def _plain(found: PhotoHits | PhotoDuplicates) -> dict[str, Any]:
    return {**asdict(found), "certificate": str(found.certificate)}
