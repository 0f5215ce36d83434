"""``python -m paper --describe``: the paper's descriptor of the photographs among the data."""

from __future__ import annotations

import os
from pathlib import Path

import click
import numpy as np

from memvec.errors import FileFormatError
from memvec.images import (
    DescriptorCache,
    ImageDescriptor,
    Triangulation,
    describe_photos,
    find_photos,
    open_descriptor,
    save_descriptor,
    training_bags,
)
from memvec.types import Float32Array
from paper import COPIED_FOLDERS, PHOTO_FOLDERS, TRAINING_FOLDER, WORDS, DataFolders, Scale
from paper.photo_copies import with_copies


def describe_photographs(
    data: DataFolders, scale: Scale, kept: Path, kind: str | None = None
) -> None:
    """Write φ_Δ of the photographs among the data to the folder `kept`, as experiments read it.

    The first half of the training photographs, by name, gives vocabulary, mean and whitening; the
    second half are distractors. Beside them lie the photographs with three altered copies each, in
    fours. What is in the folder already is not computed again. The files are named by the kind of
    descriptor, which is ``phi`` and the dimension unless it is given.
    """
    n_words = WORDS[scale]
    files = described_files(kept, kind or f"phi{(n_words - 1) * 128}")
    photos = {stem: _photos(data, folder) for stem, folder in PHOTO_FOLDERS.items()}
    if all(file.is_file() for file in files.values()):
        return
    for stem, folders in COPIED_FOLDERS.items():
        photos[stem] = [path for folder in folders for path in _copied(data, folder, kept)]
    street = _photos(data, TRAINING_FOLDER)
    half = len(street) // 2
    [distractors] = [stem for stem, folder in PHOTO_FOLDERS.items() if folder == TRAINING_FOLDER]
    photos[distractors] = street[half:]
    kept.mkdir(parents=True, exist_ok=True)
    model = _model(kept / f"triangulation-{n_words}", street[:half], n_words)
    with DescriptorCache(kept / "vectors.sqlite", model) as cache:
        for stem, paths in photos.items():
            if not files[stem].is_file():
                _write(files[stem], _vectors(paths, model, cache))


def described_files(kept: Path, kind: str) -> dict[str, Path]:
    """Return where the descriptors of each folder of photographs are kept."""
    return {stem: kept / stem.format(kind=kind) for stem in (*PHOTO_FOLDERS, *COPIED_FOLDERS)}


def _photos(data: DataFolders, name: str) -> list[str]:
    folder = data.find(name)
    if folder is None:
        raise click.UsageError(
            f"--describe needs photographs in {name}, in one of the folders given with --data; "
            "docs/paper-data.md tells which."
        )
    return find_photos(folder)


def _copied(data: DataFolders, name: str, kept: Path) -> list[str]:
    return with_copies(_photos(data, name), kept / "copies" / name)


def _model(folder: Path, training: list[str], n_words: int) -> ImageDescriptor:
    if not folder.exists():
        bags, _ = training_bags(training)
        save_descriptor(Triangulation.fit(bags, n_words), folder)
    return open_descriptor(folder)


def _vectors(paths: list[str], model: ImageDescriptor, cache: DescriptorCache) -> Float32Array:
    found = describe_photos(paths, model, cache=cache)
    if found.skipped:
        # Rows are told by their place: one that is missing would shift the others.
        first = found.skipped[0]
        raise FileFormatError(f"{first.path} cannot be described: {first.reason}")
    return found.vectors


def _write(path: Path, vectors: Float32Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npy")
    np.save(part, vectors)
    os.replace(part, path)


__all__ = ["describe_photographs", "described_files"]
