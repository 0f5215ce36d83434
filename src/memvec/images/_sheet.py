"""Contact sheets: results as one HTML file that holds everything it shows."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memvec.errors import FileFormatError
from memvec.images._photo import MAX_PIXELS, read_photo
from memvec.images._sift import scaled_down

THUMBNAIL_SIDE = 256
_JPEG_QUALITY = 80

# Nothing is fetched, no script runs: names of files cannot make the page do anything.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
ul { display: flex; flex-wrap: wrap; gap: 1rem; list-style: none; margin: 0; padding: 0; }
li { width: 16rem; } figure { margin: 0; }
img, .missing { border-radius: 4px; max-width: 100%; height: auto; }
.asked img { outline: 3px solid #0a66c2; outline-offset: 2px; }
.missing { align-items: center; border: 1px dashed; display: flex; height: 10rem;
  justify-content: center; }
figcaption { font-size: .85rem; overflow-wrap: anywhere; }
footer { border-top: 1px solid; margin-top: 2rem; font-size: .85rem; overflow-wrap: anywhere; }
""".strip()


@dataclass(frozen=True)
class SheetPhoto:
    """One photograph of a sheet.

    Attributes
    ----------
    path : str
        The file.
    caption : str
        Text below the photograph, beside the name: a score, or a word.
    asked : bool
        Whether this is the photograph asked for, which gets a frame.
    """

    path: str
    caption: str = ""
    asked: bool = False


@dataclass(frozen=True)
class SheetGroup:
    """Photographs under one heading."""

    heading: str
    photos: Sequence[SheetPhoto]


def contact_sheet(
    title: str,
    groups: Sequence[SheetGroup],
    *,
    summary: str = "",
    remarks: Sequence[str] = (),
    max_pixels: int = MAX_PIXELS,
) -> str:
    """Return an HTML page with thumbnails of photographs.

    The page needs no other file, no network and no script. Photographs that can no longer be read
    are shown by name.

    Parameters
    ----------
    title : str
        The page's title and first heading.
    groups : sequence of SheetGroup
        What is shown.
    summary : str, optional
        A sentence below the title.
    remarks : sequence of str, optional
        Lines at the end, such as the promise and the files that were skipped.
    max_pixels : int
        Do not decode larger photographs.

    Examples
    --------
    >>> page = contact_sheet("Results", [SheetGroup("None", [])], summary="<nothing> found")
    >>> "<p>&lt;nothing&gt; found</p>" in page
    True
    """
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{_text(title)}</h1>",
        f"<p>{_text(summary)}</p>" if summary else "",
        *(_group(number, group, max_pixels) for number, group in enumerate(groups)),
        "</main>",
        _footer(remarks),
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def write_sheet(path: str | os.PathLike[str], page: str) -> None:
    """Write a page, completely or not at all."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.tmp")
    try:
        unfinished.write_text(page, encoding="utf-8", errors="replace")
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _group(number: int, group: SheetGroup, max_pixels: int) -> str:
    items = "\n".join(_photo(photo, max_pixels) for photo in group.photos)
    name = f"group-{number}"
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{_text(group.heading)}</h2>\n'
        f"<ul>\n{items}\n</ul>\n</section>"
    )


def _photo(photo: SheetPhoto, max_pixels: int) -> str:
    name = os.path.basename(photo.path)
    caption = f"{photo.caption} · {name}" if photo.caption else name
    marked = ' class="asked"' if photo.asked else ""
    return (
        f'<li{marked}><figure><a href="{_text(_address(photo.path))}">'
        f"{_thumbnail(photo.path, name, max_pixels)}</a>"
        f'<figcaption title="{_text(photo.path)}">{_text(caption)}</figcaption></figure></li>'
    )


def _address(path: str) -> str:
    return Path(os.path.abspath(path)).as_uri()


def _thumbnail(path: str, name: str, max_pixels: int) -> str:
    from PIL import Image

    try:
        small = scaled_down(read_photo(path, max_pixels=max_pixels).pixels, THUMBNAIL_SIDE)
    except (FileFormatError, OSError):
        return f'<span class="missing">{_text(name)} cannot be read</span>'
    buffer = io.BytesIO()
    Image.fromarray(small).save(buffer, "JPEG", quality=_JPEG_QUALITY)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    height, width = small.shape[:2]
    return (
        f'<img src="data:image/jpeg;base64,{data}" alt="{_text(name)}" '
        f'width="{width}" height="{height}">'
    )


def _footer(remarks: Sequence[str]) -> str:
    lines = "\n".join(f"<p>{_text(remark)}</p>" for remark in remarks)
    return f"<footer>\n{lines}\n</footer>" if remarks else ""
