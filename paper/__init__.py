"""The paper's figures, tables and errata, each recomputed by name.

`EXPERIMENTS` holds them; `run_experiment` runs one at a scale and keeps what came of it, and
`write_report` makes the page of all. On the command line: ``python -m paper --help``.
"""

from paper.data_sets import (
    COPIED_FOLDERS,
    MADE_UP,
    PHOTO_FOLDERS,
    TRAINING_FOLDER,
    WORDS,
    DataFolders,
    photo_kind,
)
from paper.errata import ErratumRow, errata_rows, errata_table
from paper.experiment import SCALES, Experiment, Finding, Run, Scale, Verdict
from paper.registry import EXPERIMENTS
from paper.report import check_page, page_verdicts, write_report
from paper.results import Result, latest_result, load_result, run_experiment
from paper.table import Cell, Table

__all__ = [
    "COPIED_FOLDERS",
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
    "page_verdicts",
    "photo_kind",
    "run_experiment",
    "write_report",
]
