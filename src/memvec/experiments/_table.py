"""What an experiment returns: a table of named columns, printable anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Cell: TypeAlias = str | int | float


@dataclass(frozen=True)
class Table:
    """The outcome of an experiment.

    Examples
    --------
    >>> print(Table("Squares", ("n", "square"), ((2, 4), (3, 9.5))).to_markdown())
    | n | square |
    |---|---|
    | 2 | 4 |
    | 3 | 9.5 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def cells(self) -> list[list[str]]:
        """Return the rows as text, numbers with four significant digits."""
        return [[_text(cell) for cell in row] for row in self.rows]

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.columns, tuple("---" for _ in self.columns)]
        body = [_line(row) for row in self.cells()]
        return "\n".join([_line(lines[0]), "|" + "|".join(lines[1]) + "|", *body])

    def to_records(self) -> list[dict[str, Cell]]:
        """Return one dictionary a row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Experiment:
    """A named computation that reproduces something of the paper.

    Attributes
    ----------
    name : str
        What the command line calls it.
    summary : str
        One line on what it shows.
    run : callable
        Makes the table from a seed.
    """

    name: str
    summary: str
    run: Callable[[int], Table]


def _text(cell: Cell) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


__all__ = ["Cell", "Experiment", "Table"]
