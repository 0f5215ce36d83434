"""``python -m paper --scale smoke`` without photographs: some are made up, and described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memvec.images import made_up_scene, made_up_view
from paper import MADE_UP, TRAINING_FOLDER, DataFolders
from paper.described_photographs import describe_photographs, described_files

# A walk, photographed every 26 of 130 pixels: frames at most two apart share more than half.
_N_FRAMES, _STEP, _HEIGHT, _WIDTH = 40, 26, 112, 142
# Folder, number of the view, and light of each walk along the scene.
_WALKS = (("day_left", 0, 1.0), ("day_right", 1, 1.0), ("night_right", 2, 0.35))
_N_OBJECTS, _N_VIEWS = 3, 4
# One half to learn vocabulary and whitening from, the other half distractors.
_N_STREET = 40


def describe_made_up(folder: Path) -> None:
    """Make up photographs in a folder, with their descriptors, unless these are there."""
    if all(file.is_file() for file in described_files(folder, MADE_UP).values()):
        return
    _write_walks(folder / "gardens-point" / "images")
    for number in range(_N_OBJECTS * _N_VIEWS):
        _write(folder / "ukb56" / "images", number, 1000 + number // _N_VIEWS, number)
    for number in range(_N_STREET):
        _write(folder / TRAINING_FOLDER, number, 2000 + number, number)
    describe_photographs(DataFolders((folder,)), "smoke", folder, MADE_UP)


def _write_walks(folder: Path) -> None:
    scene = made_up_scene(0, height=_HEIGHT, width=_N_FRAMES * _STEP + _WIDTH)
    for name, view, light in _WALKS:
        for frame in range(_N_FRAMES):
            seed = view * _N_FRAMES + frame
            pixels = made_up_view(scene, seed, left=frame * _STEP, light=light)
            _save(folder / name, frame, pixels)


def _write(folder: Path, number: int, scene: int, view: int) -> None:
    pixels = made_up_scene(scene, height=_HEIGHT, width=_WIDTH)
    _save(folder, number, made_up_view(pixels, view))


def _save(folder: Path, number: int, pixels: Any) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(folder / f"{number:03d}.png")


__all__ = ["describe_made_up"]
