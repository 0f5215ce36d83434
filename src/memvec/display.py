"""What notebooks and plots are made of: HTML from plain values, and empty figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO
from typing import Any

from memvec.errors import MissingExtraError


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, everything in it escaped; an empty header is left out.

    Examples
    --------
    >>> html_table(["id", "score"], [["<b>", 0.5]])
    '<table><tr><th>id</th><th>score</th></tr><tr><td>&lt;b&gt;</td><td>0.5</td></tr></table>'
    """
    top = _row("th", header) if header else ""
    return f"<table>{top}{''.join(_row('td', row) for row in rows)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def html_text(text: str) -> str:
    """Return a text as HTML: its first line stands out, each further one is a line of its own.

    Examples
    --------
    >>> html_text("Misses nothing.")
    '<div><b>Misses nothing.</b></div>'
    """
    first, *others = (escape(line.strip()) for line in text.splitlines())
    return f"<div><b>{first}</b>{''.join(f'<br>{line}' for line in others)}</div>"


def new_figure(where: str, width: float = 6.4) -> Any:
    """Return an empty figure of matplotlib, which is imported here; a notebook shows it.

    Parameters
    ----------
    where : str
        What draws it, for the error where matplotlib is missing.
    width : float
        In inches.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(where, "matplotlib", "plot") from error

    class ShownFigure(Figure):
        """A figure that a notebook shows without a backend of matplotlib."""

        def _repr_png_(self) -> bytes:
            image = BytesIO()
            self.savefig(image, format="png")
            return image.getvalue()

    return ShownFigure(figsize=(width, 3.6), layout="constrained")
