"""Folders of made-up photographs."""

from PIL import Image

from memvec.images import made_up_scene


def write_scenes(folder, seeds, prefix="scene"):
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        Image.fromarray(made_up_scene(seed)).save(folder / f"{prefix}{seed:03d}.png")
    return folder
