"""The paper's figures, tables and errata, each recomputed by name.

`EXPERIMENTS` holds them; `run_experiment` runs one at a scale and keeps what came of it, and
`write_report` makes the page of all.
"""

from memvec.experiments._data import (
    MADE_UP,
    PHOTO_FOLDERS,
    TRAINING_FOLDER,
    WORDS,
    DataFolders,
    photo_kind,
)
from memvec.experiments._errata import ErratumRow, errata_rows, errata_table
from memvec.experiments._experiment import SCALES, Experiment, Finding, Run, Scale, Verdict
from memvec.experiments._registry import EXPERIMENTS
from memvec.experiments._report import check_page, write_report
from memvec.experiments._results import Result, latest_result, load_result, run_experiment
from memvec.experiments._table import Cell, Table

__all__ = [
    "EXPERIMENTS",
    "MADE_UP",
    "PHOTO_FOLDERS",
    "SCALES",
    "TRAINING_FOLDER",
    "WORDS",
    "Cell",
    "DataFolders",
    "ErratumRow",
    "Experiment",
    "Finding",
    "Result",
    "Run",
    "Scale",
    "Table",
    "Verdict",
    "check_page",
    "errata_rows",
    "errata_table",
    "latest_result",
    "load_result",
    "photo_kind",
    "run_experiment",
    "write_report",
]
