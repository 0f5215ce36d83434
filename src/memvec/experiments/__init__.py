"""The paper's figures, tables and errata, each recomputed by name."""

from memvec.experiments._errata import ErratumRow, errata_rows, errata_table
from memvec.experiments._registry import EXPERIMENTS
from memvec.experiments._table import Cell, Experiment, Table

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "ErratumRow",
    "Experiment",
    "Table",
    "errata_rows",
    "errata_table",
]
