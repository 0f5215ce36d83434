"""Photographs as pixels: whatever a file holds, eight bits a channel, upright, RGB.

Files come from anywhere, so nothing is believed: the number of pixels is checked before they are
decoded, formats that run other programs are not opened, and whatever a decoder raises becomes one
`FileFormatError` with the reason.
"""

from __future__ import annotations

import hashlib
import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, MissingExtraError

if TYPE_CHECKING:
    from PIL import Image

Pixels: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

# A quarter of a GiB in RGB: what Pillow, too, takes for the largest honest photograph. A file of
# some kilobytes can claim, and a decoder then allocate, any number.
MAX_PIXELS = 89_478_485
# Photographs that were compressed at all stay far below; reading more would only fill the memory.
MAX_FILE_BYTES = 1 << 29
# SIFT looks for blobs in patches of about this size; below it a photograph shows nothing.
MIN_SIDE = 16

# Of Pillow's formats those that photographs come in. EPS would start Ghostscript.
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = frozenset(
    f".{name}"
    for names in (
        ("avif", "bmp", "gif", "j2k", "jp2", "jpe", "jpeg", "jpg"),
        ("pbm", "pgm", "png", "pnm", "ppm", "tif", "tiff", "webp"),
    )
    for name in names
)

_ORIENTATION_TAG = 0x0112
# Pillow has a limit of its own, which belongs to the whole process as filters of warnings do.
_OPENING = threading.RLock()


@dataclass(frozen=True, eq=False, repr=False)
class Photo:
    """A decoded photograph.

    Attributes
    ----------
    pixels : ndarray of shape (height, width, 3)
        RGB, uint8, turned upright.
    digest : str
        SHA-256 of the file's content, 64 hexadecimal digits.
    notes : tuple of str
        How it was changed while it was read, such as ``"CMYK converted to RGB"``.
    """

    pixels: Pixels
    digest: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        height, width = self.pixels.shape[:2]
        return f"Photo({width} x {height}{''.join(f', {note}' for note in self.notes)})"


def read_photo(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> Photo:
    """Read a photograph.

    EXIF orientation is applied, CMYK and other colour spaces become RGB, transparent parts become
    white, and 16-bit values are scaled to 8 bits. Of an animation, the first frame is read.

    Parameters
    ----------
    path : str or path
        AVIF, BMP, GIF, JPEG, JPEG 2000, PNG, PPM, TIFF or WebP, recognised by content.
    max_pixels : int
        Refuse larger photographs before decoding them.

    Raises
    ------
    FileFormatError
        If the file is truncated, damaged, too large, smaller than 16 pixels on a side, not a
        regular file or not a photograph; the message gives the reason.
    OSError
        If it does not exist or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("CMYK", (40, 30)).save(f"{folder}/a.jpg")
    ...     read_photo(f"{folder}/a.jpg")
    Photo(40 x 30, CMYK converted to RGB)
    """
    max_pixels = checks.integer(max_pixels, "max_pixels", "read_photo")
    content = read_content(path)
    return decode_photo(content, str(path), max_pixels)


def read_content(path: str | Path) -> bytes:
    """Return the bytes of a file that may be a photograph."""
    file = Path(path)
    # Asked first, since opening a pipe would wait for ever.
    if file.exists() and not file.is_file():
        raise FileFormatError(f"{path} is not a regular file.")
    size = file.stat().st_size
    if size > MAX_FILE_BYTES:
        raise FileFormatError(f"{path} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read.")
    return file.read_bytes()


def content_digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def decode_photo(content: bytes, name: str, max_pixels: int = MAX_PIXELS) -> Photo:
    """Return the photograph that `content` holds; `name` stands in messages."""
    try:
        with _opened(content) as image:
            _check_size(image.size, name, max_pixels)
            pixels, notes = _decoded(image)
    except (FileFormatError, MissingExtraError):
        raise
    except Exception as error:
        # Decoders raise all sorts of things on damaged files: OSError, SyntaxError, struct.error…
        reason = str(error).replace("<_io.BytesIO object at ", "<").split(" <")[0] or repr(error)
        reason = reason.rstrip(".")
        raise FileFormatError(f"{name} cannot be read as a photograph: {reason}.") from None
    return Photo(pixels, content_digest(content), notes)


def _opened(content: bytes) -> Image.Image:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("Reading photographs", "pillow", "images") from None
    with _without_limit():  # opening reads the header alone
        Image.init()
        known = [name for name in _FORMATS if name in Image.OPEN]
        return Image.open(io.BytesIO(content), formats=known)


@contextmanager
def _without_limit() -> Iterator[None]:
    """Set Pillow's limit of pixels aside: the caller's is the one that counts."""
    from PIL import Image

    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _decoded(image: Image.Image) -> tuple[Pixels, tuple[str, ...]]:
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    if limit is None or image.width * image.height <= limit:
        return _upright_rgb(image)
    # Some decoders ask for the limit again. Photographs as large as that are decoded one by one.
    with _without_limit():
        return _upright_rgb(image)


def _check_size(size: tuple[int, int], name: str, max_pixels: int) -> None:
    width, height = size
    if width * height > max_pixels:
        raise FileFormatError(
            f"{name} claims {width:,} x {height:,} pixels; at most {max_pixels:,} are decoded."
        )
    if min(width, height) < MIN_SIDE:
        raise FileFormatError(
            f"{name} has {width} x {height} pixels; a photograph has at least {MIN_SIDE} per side."
        )


def _upright_rgb(image: Image.Image) -> tuple[Pixels, tuple[str, ...]]:
    notes = []
    turn = _turn(image)
    if getattr(image, "n_frames", 1) > 1:
        notes.append(f"first of {image.n_frames} frames")  # type: ignore[attr-defined]
    image.load()
    rgb, note = _as_rgb(image)
    if note:
        notes.append(note)
    if turn is not None:
        rgb = rgb.transpose(turn)
        notes.append("turned as EXIF says")
    return np.ascontiguousarray(np.asarray(rgb, dtype=np.uint8)), tuple(notes)


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Return how to turn an image upright: EXIF orientations 2 to 8."""
    from PIL import Image

    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    try:
        return turns.get(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # damaged EXIF data does not make the picture unreadable
        return None


def _as_rgb(image: Image.Image) -> tuple[Image.Image, str]:
    """Return an RGB image and what was done to get it, empty where that is usual."""
    mode = image.mode
    if mode in ("RGB", "L", "1"):
        return image.convert("RGB"), ""
    if mode.startswith("I") or mode == "F":
        return _from_deep(image), f"{'16' if ';16' in mode else '32'}-bit values scaled to 8 bits"
    if "A" in mode or "a" in mode or "transparency" in image.info:
        return _over_white(image), "transparent parts made white"
    return image.convert("RGB"), "" if mode == "P" else f"{mode} converted to RGB"


def _over_white(image: Image.Image) -> Image.Image:
    from PIL import Image

    layered = image.convert("RGBA")
    white = Image.new("RGBA", layered.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, layered).convert("RGB")


def _from_deep(image: Image.Image) -> Image.Image:
    """Return 16-bit values over 256; 32-bit ones have no fixed range and are stretched to it."""
    from PIL import Image

    values = np.asarray(image)
    if ";16" in image.mode:
        narrow = (values >> 8).astype(np.uint8)
    else:
        finite = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
        low, high = finite.min(), finite.max()
        narrow = ((finite - low) * (255 / max(high - low, 1e-300))).astype(np.uint8)
    return Image.fromarray(narrow).convert("RGB")
