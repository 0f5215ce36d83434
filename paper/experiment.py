"""What an experiment is: settings for each scale, compute, check and plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from memvec.progress import Advance, progress_bar
from paper.data_sets import DataFolders
from paper.table import Table

Scale: TypeAlias = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
Outcome: TypeAlias = Literal["reproduced", "partly", "differs", "illustrated", "not-run"]
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
    main : bool
        Whether it is what the figure is there to show, on one of the data sets.
    tested : bool
        False where the data does not allow a test, for the reason that `numbers` gives; then it
        has no part in the outcome.
    data : str
        The data set it was tested on, where there are several.

    Examples
    --------
    >>> Finding("a < b", True, "1 < 2").standing
    'holds'
    """

    claim: str
    holds: bool
    numbers: str
    of_paper: bool = True
    main: bool = False
    tested: bool = True
    data: str = ""

    def __post_init__(self) -> None:
        # Comparisons of NumPy's numbers give NumPy's booleans, which JSON does not know.
        object.__setattr__(self, "holds", bool(self.holds))

    @property
    def text(self) -> str:
        """The claim, with the data set it is about."""
        return f"{self.data}: {self.claim}" if self.data else self.claim

    @property
    def standing(self) -> Literal["holds", "does not hold", "cannot be tested"]:
        """What came of the claim, in words."""
        if not self.tested:
            return "cannot be tested"
        return "holds" if self.holds else "does not hold"


# A unit with a larger share of the vectors than this makes a search of it exhaustive.
_COLLAPSED = 0.5


def unless_collapsed(finding: Finding, largest: float) -> Finding:
    """Return a finding, or that it could not be tested where one unit holds most vectors.

    A unit that holds nearly everything holds the match, too, whatever made it.

    Parameters
    ----------
    finding : Finding
        What would be said of even units.
    largest : float
        The share of all vectors that the largest unit holds.

    Examples
    --------
    >>> unless_collapsed(Finding("sum finds it", True, "in unit 1"), 0.9).numbers
    'one unit holds 90 % of the vectors (in unit 1)'
    """
    if largest <= _COLLAPSED:
        return finding
    numbers = f"one unit holds {100 * largest:.0f} % of the vectors ({finding.numbers})"
    return replace(finding, holds=False, numbers=numbers, tested=False)


@dataclass(frozen=True)
class Verdict:
    """What came of an experiment.

    Attributes
    ----------
    findings : tuple of Finding
        Every claim that was tested; none where the experiment did not run.
    note : str
        What else there is to say, or why it did not run.
    reason : str
        In one line, why some claims do not hold: the data, the scale, what the paper leaves open,
        or that it is so.
    made_up : bool
        Whether the data was made up where the paper's is real: then nothing is reproduced, at any
        size, only illustrated.

    Examples
    --------
    >>> verdict = Verdict((Finding("a < b", True, "1 < 2"), Finding("b < c", False, "2 > 1")))
    >>> verdict.outcome
    'partly'
    """

    findings: tuple[Finding, ...] = ()
    note: str = ""
    reason: str = ""
    made_up: bool = False

    @property
    def claims(self) -> tuple[Finding, ...]:
        """The findings about claims of the paper that could be tested."""
        return tuple(finding for finding in self.findings if finding.of_paper and finding.tested)

    @property
    def main_claims(self) -> tuple[Finding, ...]:
        """What the figure is there to show; all claims where none is named."""
        return tuple(finding for finding in self.claims if finding.main) or self.claims

    @property
    def outcome(self) -> Outcome:
        """Whether the claims hold.

        Reproduced where all of them do. It differs where the main claim fails on more than half of
        the data sets it was tested on, however many others hold. Where no main claim could be
        tested nothing is said, whatever else holds.
        """
        mains = [finding for finding in self.findings if finding.of_paper and finding.main]
        if not self.claims or (mains and not any(finding.tested for finding in mains)):
            return "not-run"
        if self.made_up:
            return "illustrated"
        if all(finding.holds for finding in self.claims):
            return "reproduced"
        held = sum(finding.holds for finding in self.main_claims)
        return "partly" if held and 2 * held >= len(self.main_claims) else "differs"


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
    device : str
        Where experiments that can run on a GPU run: "cpu", "cuda", "cuda:1" and so on.
    """

    settings: Settings
    scale: Scale
    seed: int = 0
    data: DataFolders = field(default_factory=DataFolders)
    checkpoints: Path | None = None
    progress: bool | None = False
    device: str = "cpu"

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
    show_table : bool
        Whether the page prints the table.
    photographs : bool
        Whether it searches descriptors of photographs.
    reproduction : bool
        False where it is a check of the paper rather than one of its figures or numbers: what
        holds is then checked, not reproduced.
    """

    name: str
    paper_item: str
    claim: str
    settings: Mapping[Scale, Settings]
    compute: Callable[[Run], Table]
    check: Callable[[Table], Verdict]
    plot: Callable[[Table], Any] | None = None
    show_table: bool = False
    photographs: bool = False
    reproduction: bool = True


__all__ = [
    "SCALES",
    "Experiment",
    "Finding",
    "Outcome",
    "Run",
    "Scale",
    "Settings",
    "Verdict",
    "unless_collapsed",
]
