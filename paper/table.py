"""What an experiment returns: a table of named columns, printable anywhere."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from memvec.types import Float64Array

Cell: TypeAlias = str | int | float


@dataclass(frozen=True)
class Table:
    """The outcome of an experiment.

    Examples
    --------
    >>> table = Table("Squares", ("n", "square"), ((2, 4), (3, 9.5)))
    >>> print(table.to_markdown())
    | n | square |
    |---|---|
    | 2 | 4 |
    | 3 | 9.5 |
    >>> table.where(n=3).column("square")
    array([9.5])
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

    def to_csv(self) -> str:
        """Return the table as comma-separated values, all digits kept."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def where(self, **wanted: Cell) -> Table:
        """Return the rows that hold these values in these columns."""
        places = {self.columns.index(name): value for name, value in wanted.items()}
        rows = tuple(
            row for row in self.rows if all(row[place] == cell for place, cell in places.items())
        )
        return Table(self.title, self.columns, rows)

    def values(self, name: str) -> list[Cell]:
        """Return the different values of a column, in the order they appear."""
        place = self.columns.index(name)
        return list(dict.fromkeys(row[place] for row in self.rows))

    def column(self, name: str) -> Float64Array:
        """Return a column of numbers."""
        place = self.columns.index(name)
        return np.array([row[place] for row in self.rows], dtype=np.float64)

    def number(self, name: str) -> float:
        """Return the one number of a column of a table of one row."""
        [value] = self.column(name)
        return float(value)


def plain(row: Iterable[object]) -> tuple[Cell, ...]:
    """Return a row with Python's own numbers for NumPy's, which JSON can hold.

    Examples
    --------
    >>> plain(["pinv", np.int64(3), np.float32(0.5)])
    ('pinv', 3, 0.5)
    """
    return tuple(_plain(cell) for cell in row)


def _plain(cell: object) -> Cell:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int | np.integer):
        return int(cell)
    return float(cell)  # type: ignore[arg-type]


def _text(cell: Cell) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


__all__ = ["Cell", "Table", "plain"]
