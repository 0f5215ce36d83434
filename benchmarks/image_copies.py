"""Near-copies of photographs: what people do to a picture before it comes back."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

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
    """Turn; the corners become black, and what was in them is lost."""
    return lambda image: image.rotate(degrees, Image.Resampling.BICUBIC)


def _border(image: Image.Image) -> Image.Image:
    """Put a white frame around, a twentieth of the longer side wide."""
    return ImageOps.expand(image, round(0.05 * max(image.size)), "white")


def _caption(image: Image.Image) -> Image.Image:
    """Write into the lower left, in letters a tenth of the height."""
    written = image.copy()
    place = (round(0.05 * image.width), round(0.8 * image.height))
    ImageDraw.Draw(written).text(
        place,
        "Holiday 2024",
        fill="white",
        font=ImageFont.load_default(max(8, image.height // 10)),
        stroke_width=2,
        stroke_fill="black",
    )
    return written


CHANGES: dict[str, Change] = {
    "JPEG quality 60": _recompress(60),
    "JPEG quality 30": _recompress(30),
    "JPEG quality 10": _recompress(10),
    "scaled to 50 %": _scale(0.5),
    "scaled to 25 %": _scale(0.25),
    "crop to 90 % of each side": _crop(0.9),
    "crop to 80 %": _crop(0.8),
    "crop to 50 %": _crop(0.5),
    "rotation by 3°": _rotate(3.0),
    "rotation by 10°": _rotate(10.0),
    "brighter, × 1.4": lambda image: ImageEnhance.Brightness(image).enhance(1.4),
    "darker, × 0.6": lambda image: ImageEnhance.Brightness(image).enhance(0.6),
    "contrast × 1.5": lambda image: ImageEnhance.Contrast(image).enhance(1.5),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "blur, σ = 1 pixel": _blur(1.0),
    "blur, σ = 2": _blur(2.0),
    "caption": _caption,
    "white border": _border,
    "mirrored": ImageOps.mirror,
}


def copy_of(path: str, change: str) -> np.ndarray:
    """Return the pixels of a photograph after a change, or as they are."""
    image = Image.fromarray(read_photo(path).pixels)
    changed = CHANGES[change](image) if change in CHANGES else image
    return np.ascontiguousarray(np.asarray(changed))
