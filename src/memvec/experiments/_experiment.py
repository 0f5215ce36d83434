"""What an experiment is: settings for each scale, compute, check and plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from memvec.experiments._data import DataFolders
from memvec.experiments._table import Table
from memvec.progress import Advance, progress_bar

Scale: TypeAlias = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
Outcome: TypeAlias = Literal["reproduced", "partly", "differs", "not-run"]
Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One claim of the paper, tested.

    Attributes
    ----------
    claim : str
        What should hold, with its tolerance.
    holds : bool
        Whether it does.
    numbers : str
        What was measured.
    of_paper : bool
        False for what is shown beside the paper's claims; it has no part in the outcome.
    """

    claim: str
    holds: bool
    numbers: str
    of_paper: bool = True


@dataclass(frozen=True)
class Verdict:
    """What came of an experiment.

    Attributes
    ----------
    findings : tuple of Finding
        Every claim that was tested; none where the experiment did not run.
    note : str
        The reason for a difference, or for not having run.

    Examples
    --------
    >>> verdict = Verdict((Finding("a < b", True, "1 < 2"), Finding("b < c", False, "2 > 1")))
    >>> verdict.outcome
    'partly'
    """

    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def claims(self) -> tuple[Finding, ...]:
        """The findings about claims of the paper."""
        return tuple(finding for finding in self.findings if finding.of_paper)

    @property
    def outcome(self) -> Outcome:
        """All claims of the paper hold, some of them, none, or none was tested."""
        held = [finding.holds for finding in self.claims]
        if not held:
            return "not-run"
        if all(held):
            return "reproduced"
        return "partly" if any(held) else "differs"


@dataclass(frozen=True)
class Run:
    """What an experiment computes with.

    Attributes
    ----------
    settings : mapping
        Those of the scale.
    scale : {"smoke", "small", "paper"}
        How large the run is.
    seed : int
        Fixes everything random.
    data : DataFolders
        Where real data is looked for.
    checkpoints : path, optional
        A folder in which a long computation may keep what it has done.
    progress : bool, optional
        Show bars; None shows them on a terminal.
    """

    settings: Settings
    scale: Scale
    seed: int = 0
    data: DataFolders = field(default_factory=DataFolders)
    checkpoints: Path | None = None
    progress: bool | None = False

    def bar(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """Show a progress bar while the block runs; see `memvec.progress.progress_bar`."""
        return progress_bar(description, total, self.progress)


@dataclass(frozen=True)
class Experiment:
    """A figure, a table or a number of the paper, recomputed.

    Attributes
    ----------
    name : str
        What the command line calls it.
    paper_item : str
        Where it stands in the paper.
    claim : str
        What the paper says it shows, in other words.
    settings : mapping of scale to settings
        What is computed at each scale.
    compute : callable
        Makes the table.
    check : callable
        Tests the claims on the table.
    plot : callable
        Draws the table on a new Matplotlib figure and returns it; None where there is nothing to
        draw.
    data_note : str
        How the data differs from the paper's; the page puts what the photographs were in the place
        of ``{photographs}``, and of ``{deep photographs}`` those with deep descriptors.
    show_table : bool
        Whether the page prints the table.
    photographs : bool
        Whether it searches descriptors of photographs.
    """

    name: str
    paper_item: str
    claim: str
    settings: Mapping[Scale, Settings]
    compute: Callable[[Run], Table]
    check: Callable[[Table], Verdict]
    plot: Callable[[Table], Any] | None = None
    data_note: str = ""
    show_table: bool = False
    photographs: bool = False


__all__ = ["SCALES", "Experiment", "Finding", "Outcome", "Run", "Scale", "Settings", "Verdict"]
