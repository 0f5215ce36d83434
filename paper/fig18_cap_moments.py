"""Figures 18 and 19: mean, variance and Kullback–Leibler distance of the score against η.

Command: ``python -m paper fig18-cap-sum fig19-cap-pinv``. The protocol, the paper's and the one
here, stands in `paper.protocols`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from memvec.theory import pinv_cap_scores, sum_cap_scores
from paper.drawing import finish, new_panels, share_legend, style
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.simulated_queries import cap_scores
from paper.table import Cell, Table, plain

_DIM, _SIZE, _ALPHA = 512, 10, 0.5
_QUANTITIES = ("match_mean", "null_variance", "match_variance", "kl")
_TITLES = {
    "match_mean": "E[yᵀm | H1]",
    "null_variance": "V[yᵀm | H0]",
    "match_variance": "V[yᵀm | H1]",
    "kl": "Kullback–Leibler distance",
}

_ERRORS = {
    "match_mean": "mean_error",
    "null_variance": "null_error",
    "match_variance": "match_error",
    "kl": "kl_error",
}

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"units": 300, "caps": (0.0, 0.5)},
    "small": {"units": 3000, "caps": (-0.5, 0.0, 0.2, 0.4, 0.6, 0.8)},
    "paper": {"units": 20_000, "caps": (-0.8, -0.4, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)},
}

_COLUMNS = (
    "kind",
    "cap_cosine",
    *_QUANTITIES,
    "mean_error",
    "null_error",
    "match_error",
    "kl_error",
)


def _compute(construction: Literal["sum", "pinv"]) -> Callable[[Run], Table]:
    def compute(run: Run) -> Table:
        """Return the theory at many widths of the cap, and simulated moments at some."""
        make = sum_cap_scores if construction == "sum" else pinv_cap_scores
        rows: list[tuple[Cell, ...]] = []
        for eta in np.union1d(np.linspace(-0.9, 0.95, 38), run.settings["caps"]):
            found = make(_SIZE, dim=_DIM, similarity=_ALPHA, cap_cosine=float(eta))
            values = [getattr(found, name) for name in _QUANTITIES]
            rows.append(plain(["theory", eta, *values, 0, 0, 0, 0]))
        rng = np.random.default_rng(run.seed)
        with run.bar(f"caps, {construction}", len(run.settings["caps"])) as advance:
            for eta in run.settings["caps"]:
                scores = cap_scores(
                    construction, _SIZE, run.settings["units"], _DIM, _ALPHA, eta, rng
                )
                rows.append(plain(["simulated", eta, *_moments(*scores)]))
                advance(1)
        return Table(f"Scores of {construction} units in caps", _COLUMNS, tuple(rows))

    return compute


def _moments(unrelated: Any, related: Any) -> list[float]:
    """Return the moments, their distance, and the standard errors of all four.

    That of the distance follows from the others, each times the slope of the distance.
    """
    null, match = unrelated**2, (related - related.mean()) ** 2
    mean, null_mean, match_mean = related.mean(), null.mean(), match.mean()
    ratio = match_mean / null_mean
    kl = (ratio - 1 - np.log(ratio) + mean**2 / null_mean) / 2
    errors = [each.std() / np.sqrt(len(related)) for each in (related, null, match)]
    slopes = (
        mean / null_mean,
        (1 - ratio - mean**2 / null_mean) / (2 * null_mean),
        (1 / null_mean - 1 / match_mean) / 2,
    )
    kl_error = np.sqrt(sum((a * b) ** 2 for a, b in zip(slopes, errors, strict=True)))
    return [mean, null_mean, match_mean, kl, *errors, kl_error]


def _check(construction: str) -> Callable[[Table], Verdict]:
    def check(table: Table) -> Verdict:
        """Test that points lie on the lines, and what the paper says of the lines."""
        lines = table.where(kind="theory")
        distance = lines.column("kl")
        findings = [
            _on_lines(table),
            Finding(
                "the Kullback–Leibler distance grows with η",
                bool(np.all(np.diff(distance) >= -1e-9)),
                f"from {distance[0]:.1f} at η = −0.9 to {distance[-1]:.1f} at 0.95",
                main=True,
            ),
        ]
        reason = "genuine: by the printed formulas as by the corrected ones, and by simulation"
        return Verdict((*findings, *_of_moments(construction, lines)), reason=reason)

    return check


def _of_moments(construction: str, lines: Table) -> list[Finding]:
    mean, null, match = (lines.column(name) for name in _QUANTITIES[:3])
    peak = lines.column("cap_cosine")[int(np.argmax(match))]
    falls = bool(np.all(np.diff(match) <= 1e-9))
    numbers = (
        f"{match[0]:.4f} at η = −0.9, {match.max():.4f} at {peak:.2f}, {match[-1]:.4f} at 0.95"
    )
    if construction == "sum":
        return [
            Finding(
                "sum: the mean under H1 and the variance under H0 grow with η",
                bool(np.all(np.diff(mean) >= -1e-9) and np.all(np.diff(null) >= -1e-9)),
                f"mean {mean[0]:.2f} to {mean[-1]:.2f}, variance {null[0]:.3f} to {null[-1]:.3f}",
            ),
            Finding("sum: the variance under H1 decreases with η", falls, numbers),
        ]
    return [
        Finding(
            "pinv: the mean under H1 stays α, the variances under H0 and H1 decrease with η",
            bool(np.ptp(mean) < 1e-9 and np.all(np.diff(null) <= 1e-9) and falls),
            f"mean {mean[0]:.2f}, H0 {null[0]:.4f} to {null[-1]:.4f}, H1 {numbers}",
        )
    ]


def _on_lines(table: Table) -> Finding:
    lines = table.where(kind="theory")
    gaps = []
    for row in table.where(kind="simulated").to_records():
        for name, error in _ERRORS.items():
            at = float(row["cap_cosine"])
            expected = float(lines.where(cap_cosine=at).column(name)[0])
            # The norm of pinv is known to 1 %.
            allowed = 4 * float(row[error]) + 0.02 * abs(expected)
            gaps.append(abs(float(row[name]) - expected) / allowed)
    return Finding(
        "simulated moments and distances lie on the lines (4 standard errors and 2 %)",
        max(gaps) <= 1,
        f"largest gap {max(gaps):.2f} of that, over {len(gaps)} points",
        of_paper=False,
    )


def plot(table: Table) -> Any:
    """Draw the four quantities against η."""
    figure, panels = new_panels(["mean of a match", "variance, H0", "variance, H1", "distance"])
    line, dots = table.where(kind="theory"), table.where(kind="simulated")
    for panel, name in zip(panels, _QUANTITIES, strict=True):
        panel.plot(line.column("cap_cosine"), line.column(name), color="black", label="theory")
        look = {**style(1), "linestyle": "none", "label": "simulated"}
        bars = {"yerr": dots.column(_ERRORS[name]), "elinewidth": 0.6, "capsize": 1.5}
        panel.errorbar(dots.column("cap_cosine"), dots.column(name), **bars, **look)
        if np.ptp(line.column(name)) < 1e-9:  # a constant; its panel would show noise alone
            panel.set_ylim(0.9 * line.column(name)[0], 1.1 * line.column(name)[0])
        finish(panel, ("η, the cosine of the cap", _TITLES[name]), "y" if name == "kl" else "")
    share_legend(figure, panels)
    return figure


def _experiment(number: int, construction: Literal["sum", "pinv"], claim: str) -> Experiment:
    return Experiment(
        f"fig{number}-cap-{construction}",
        f"Figure {number}",
        claim,
        SETTINGS,
        _compute(construction),
        _check(construction),
        plot,
    )


FIG18 = _experiment(
    18,
    "sum",
    "For sum, with η the mean of a match and the variance under H0 grow, the variance of a match "
    "falls, and the Kullback–Leibler distance grows.",
)
FIG19 = _experiment(
    19,
    "pinv",
    "For pinv, with η the mean of a match stays, both variances fall, and the Kullback–Leibler "
    "distance grows.",
)

__all__ = ["FIG18", "FIG19"]
