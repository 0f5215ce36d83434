"""Learn the descriptor of photographs that ships with the package.

    pip download --no-deps scikit-image==0.26.0 matplotlib==3.11.2 PyWavelets==1.9.0
    pip download --no-deps --only-binary :all: --python-version 3.10 scipy==1.9.3
    for wheel in *.whl; do unzip -o "$wheel" -d FOLDER; done
    python tools/make_descriptor.py FOLDER

It is learned from eight photographs that come with these packages, all of them in the public domain
or under CC0: astronaut (NASA), camera (L. Varshney), chelsea (S. van der Walt), coffee
(R. Michetti) and rocket (SpaceX) as `skimage.data` says, grace_hopper (US Navy), and the raccoon
and the ascent of public-domain-image.com. Each is seen whole and by quarters, at two sizes. The
same photographs and the same OpenCV give the same files. The whitening is kept in float16.
"""

from __future__ import annotations

import bz2
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from memvec.images import SiftConfig, Triangulation, local_descriptors
from memvec.storage import DESCRIPTOR, write_folder

PHOTOGRAPHS = (
    "skimage/data/astronaut.png",
    "skimage/data/camera.png",
    "skimage/data/coffee.png",
    "skimage/data/chelsea.png",
    "skimage/data/rocket.jpg",
    "matplotlib/mpl-data/sample_data/grace_hopper.jpg",
    "scipy/misc/face.dat",
    "pywt/data/ascent.npz",
)
FACE_SHAPE = (768, 1024, 3)
# Chosen on near-copies of other photographs: see docs/images.md.
WORDS, POWER, SIFT = 8, 0.5, SiftConfig(max_side=480)
SIZES = (1.0, 0.7)
OUT = Path(__file__).parent.parent / "src" / "memvec" / "images" / "descriptor"


def main(folder: Path, out: Path = OUT) -> None:
    """Write the descriptor in place of the one that is there."""
    bags = [
        local_descriptors(np.asarray(view), SIFT)
        for name in PHOTOGRAPHS
        for view in views(photograph(folder / name))
    ]
    model = Triangulation.fit(bags, WORDS, power=POWER, sift=SIFT)
    arrays = {**model.arrays(), "whitening": model.whitening.astype(np.float16)}
    shutil.rmtree(out, ignore_errors=True)
    write_folder(out, arrays, {DESCRIPTOR: model.kind, "settings": model.settings()})


def photograph(path: Path) -> Image.Image:
    """Read a file of one of the packages."""
    if path.suffix == ".dat":
        raw = np.frombuffer(bz2.decompress(path.read_bytes()), dtype=np.uint8)
        return Image.fromarray(raw.reshape(FACE_SHAPE))
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as held:
            return Image.fromarray(held["data"].astype(np.uint8)).convert("RGB")
    return Image.open(path).convert("RGB")


def views(photo: Image.Image) -> Iterator[Image.Image]:
    """Yield a photograph and its quarters, at each size."""
    width, height = photo.size
    left, top = width // 2, height // 2
    boxes = [(0, 0, left, top), (left, 0, width, top), (0, top, left, height)]
    for box in [(0, 0, width, height), *boxes, (left, top, width, height)]:
        seen = photo.crop(box)
        for size in SIZES:
            yield seen.resize((int(seen.width * size), int(seen.height * size)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
