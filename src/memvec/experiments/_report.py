"""The page that shows each figure and table of the paper beside ours."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from memvec.experiments._data import photo_note
from memvec.experiments._experiment import Experiment, Outcome, Verdict
from memvec.experiments._results import Result, latest_result

_WORDS: dict[Outcome, str] = {
    "reproduced": "reproduced",
    "partly": "reproduced in part",
    "differs": "differs",
    "not-run": "not run",
}

_HEAD = """# The paper, figure by figure

Iscen, Furon, Gripon, Rabbat and Jégou, *Memory vectors for similarity search in high-dimensional
spaces*, recomputed on memvec's own engine: every experiment is a configuration of the index that
users search. This page is written by `memvec reproduce --report`; the verdicts come from the checks
of the experiments, each with its tolerance. How to bring the paper's own data is described in
[paper-data.md](paper-data.md), errors of the paper's formulas in [errata.md](errata.md).

Times (`time`, `flann`) depend on what else the machine does while they are measured. The ratio of
FLANN is one of times, that of memory vectors one of inner products. Where a check was changed after
its outcome had been seen, its section says so.
"""


def write_report(experiments: Mapping[str, Experiment], out: Path, page: Path) -> None:
    """Write the page, with the figures in a folder of its name beside it.

    Parameters
    ----------
    experiments : mapping of name to Experiment
        What the page shows, in this order; of each the result at the largest scale there is.
    out : path
        Where `run_experiment` left the results.
    page : path
        The Markdown file to write.
    """
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    found = {name: latest_result(name, out) for name in experiments}
    verdicts = {
        name: Verdict() if result is None else result.verdict(experiments[name])
        for name, result in found.items()
    }
    sections = [_HEAD, _not_reproduced(experiments, verdicts), _summary(experiments, verdicts)]
    for name, experiment in experiments.items():
        sections.append(_section(experiment, found[name], verdicts[name], out, pictures))
    page.write_text("\n".join(sections), encoding="utf-8")


def _not_reproduced(experiments: Mapping[str, Experiment], verdicts: Mapping[str, Verdict]) -> str:
    lines = ["## Not reproduced, or only in part", ""]
    for name, verdict in verdicts.items():
        if verdict.outcome == "reproduced":
            continue
        failed = [finding for finding in verdict.claims if not finding.holds]
        item = f"**{experiments[name].paper_item}** ([{name}](#{name}))"
        if not failed:
            lines.append(f"- {item}: not run. {verdict.note}".rstrip())
        for finding in failed:
            lines.append(f"- {item}: not so on this data: {finding.claim} ({finding.numbers}).")
    if len(lines) == 2:
        lines.append("Nothing: every claim that was tested holds.")
    return "\n".join([*lines, ""])


def _summary(experiments: Mapping[str, Experiment], verdicts: Mapping[str, Verdict]) -> str:
    lines = ["## All of it", "", "| in the paper | experiment | verdict | claims that hold |"]
    lines.append("|---|---|---|---|")
    for name, experiment in experiments.items():
        verdict = verdicts[name]
        held = sum(finding.holds for finding in verdict.claims)
        lines.append(
            f"| {experiment.paper_item} | [{name}](#{name}) | {_WORDS[verdict.outcome]} "
            f"| {held} of {len(verdict.claims)} |"
        )
    return "\n".join([*lines, ""])


def _section(
    experiment: Experiment, result: Result | None, verdict: Verdict, out: Path, pictures: Path
) -> str:
    name = experiment.name
    lines = [f"## {name}", "", f"**{experiment.paper_item}.** {experiment.claim}", ""]
    if result is None or result.table is None:
        return "\n".join([*lines, f"Not run. {verdict.note}".rstrip(), ""])
    drawn = out / result.scale / f"{name}.svg"
    if drawn.is_file():
        shutil.copyfile(drawn, pictures / drawn.name)
        lines += [f"![{name}]({pictures.name}/{drawn.name})", ""]
    if experiment.show_table:
        lines += [result.table.to_markdown(), ""]
    lines += [f"Verdict: **{_WORDS[verdict.outcome]}**.", ""]
    for finding in verdict.findings:
        sign = "holds" if finding.holds else "**does not hold**"
        sign += "" if finding.of_paper else " (beside the paper's claims, not counted)"
        lines.append(f"- {_sentence(finding.claim)}: {sign}. {_sentence(finding.numbers)}.")
    lines += ["", *_remarks(experiment, verdict, result)]
    lines += [
        f"`memvec reproduce {name} --scale {result.scale}`, {result.seconds:.0f} s, "
        f"{result.date[:10]}, seed {result.seed}.",
        "",
    ]
    return "\n".join(lines)


def _remarks(experiment: Experiment, verdict: Verdict, result: Result) -> list[str]:
    data = experiment.data_note
    for place, kind in (("{photographs}", None), ("{deep photographs}", "gem1280")):
        data = data.replace(place, photo_note(result.data, result.scale, kind))
    remarks = " ".join(text for text in (verdict.note, data) if text)
    return [remarks, ""] if remarks else []


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


__all__ = ["write_report"]
