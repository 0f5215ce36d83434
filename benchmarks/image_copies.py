"""Near-copies of photographs: what people do to a picture before it comes back."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageFilter

from memvec.images import read_photo

Change = Callable[[Image.Image], Image.Image]


def _crop(share: float) -> Change:
    """Keep the middle, `share` of each side."""

    def change(image: Image.Image) -> Image.Image:
        width, height = image.size
        left, top = (1 - share) / 2 * width, (1 - share) / 2 * height
        return image.crop((round(left), round(top), round(width - left), round(height - top)))

    return change


def _recompress(quality: int) -> Change:
    def change(image: Image.Image) -> Image.Image:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality)
        return Image.open(buffer).convert("RGB")

    return change


def _scale(factor: float) -> Change:
    def change(image: Image.Image) -> Image.Image:
        size = (round(image.width * factor), round(image.height * factor))
        return image.resize(size, Image.Resampling.LANCZOS)

    return change


def _blur(sigma: float) -> Change:
    return lambda image: image.filter(ImageFilter.GaussianBlur(sigma))


def _rotate(degrees: float) -> Change:
    """Turn, and cut off the corners that would be black: the middle 3/4 of each side stays."""
    return lambda image: _crop(0.75)(image.rotate(degrees, Image.Resampling.BICUBIC))


CHANGES: dict[str, Change] = {
    "crop to 90 % of each side": _crop(0.9),
    "crop to 75 %": _crop(0.75),
    "crop to 50 %": _crop(0.5),
    "JPEG quality 50": _recompress(50),
    "JPEG quality 20": _recompress(20),
    "JPEG quality 10": _recompress(10),
    "scaled to 75 %": _scale(0.75),
    "scaled to 50 %": _scale(0.5),
    "scaled to 25 %": _scale(0.25),
    "blur, σ = 1 pixel": _blur(1.0),
    "blur, σ = 2": _blur(2.0),
    "blur, σ = 4": _blur(4.0),
    "rotation by 2°, crop to 75 %": _rotate(2.0),
    "rotation by 5°, crop to 75 %": _rotate(5.0),
    "rotation by 10°, crop to 75 %": _rotate(10.0),
}


def copy_of(path: str, change: str) -> np.ndarray:
    """Return the pixels of a changed photograph."""
    image = Image.fromarray(read_photo(path).pixels)
    return np.ascontiguousarray(np.asarray(CHANGES[change](image)))
