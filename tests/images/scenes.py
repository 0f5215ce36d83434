"""Made-up photographs with enough structure for keypoints: dead leaves, discs covering discs."""

import numpy as np
from PIL import Image, ImageDraw


def scene(seed, height=120, width=160, n_discs=250):
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for _ in range(n_discs):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        radius = 4 / np.sqrt(rng.uniform(0.01, 1))
        colour = tuple(rng.integers(0, 256, 3).tolist())
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    return np.asarray(image).copy()


def write_scenes(folder, seeds, prefix="scene"):
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        Image.fromarray(scene(seed)).save(folder / f"{prefix}{seed:03d}.png")
    return folder
