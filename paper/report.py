"""The page that shows each figure and table of the paper beside ours."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from memvec.errors import InvalidValueError
from paper.data_sets import MADE_UP, photo_note
from paper.drawing import measure
from paper.experiment import Experiment, Finding, Outcome, Verdict
from paper.results import Result, latest_result
from paper.table import Table

_WORDS: dict[Outcome, str] = {
    "reproduced": "reproduced",
    "partly": "reproduced in part",
    "differs": "differs",
    "not-run": "not run",
}

# Placeholders of the notes on data, and the descriptors that each stands for.
_PHOTOGRAPHS = {"{photographs}": None, "{deep photographs}": "gem1280"}
_SUMMARY = "## All of it"
_SUMMARY_ROW = re.compile(r"\| [^|]+ \| \[(\S+)\]\([^)]*\) \| ([^|]+) \|")
_SHOWN_WITH_DATA = re.compile(r"`python -m paper (\S+) [^`]*--data DIR")
# A sentence begins with a capital, a symbol or the name of a construction does not.
_SYMBOL = re.compile(r"(?:mbk|pinv|[b-zα-ω])(?:\W|$)")
_MINUS = re.compile(r"(?<![\w.,)])-(?=\d)")

_HEAD = """# The paper, figure by figure

Iscen, Furon, Gripon, Rabbat and Jégou, *Memory vectors for similarity search in high-dimensional
spaces*, recomputed on memvec's own engine: every experiment is a configuration of the index that
users search. This page is written by `python -m paper --report`; the verdicts come from the checks
of the experiments, each with its tolerance: *reproduced* where all claims hold, *differs* where the
main claim fails on more than half of the data sets it was tested on, *reproduced in part* between
the two. Errors of the paper's formulas are listed in [errata.md](errata.md).

Under each figure stands the command that computes it. `DIR` is a folder of data sets, laid out as
in [paper-data.md](paper-data.md), which also tells how to bring the paper's own; `--describe`
computes the descriptors of its photographs first, unless they are there. Without `--data`, the
packaged sample and made-up vectors take the place of data sets, and results are others.

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
        The Markdown file to write. One that shows results on data sets is not replaced by one that
        shows the same experiments without; see `check_page`.
    """
    found = {name: latest_result(name, out) for name in experiments}
    check_page(page, [name for name, result in found.items() if not _from_data(result)])
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    verdicts = {
        name: Verdict() if result is None else result.verdict(experiments[name])
        for name, result in found.items()
    }
    sections = [
        _HEAD,
        _not_reproduced(experiments, verdicts),
        _summary(experiments, verdicts),
        _photographs(experiments, found),
    ]
    for name, experiment in experiments.items():
        sections.append(_section(experiment, found[name], verdicts[name], out, pictures))
    page.write_text("\n".join(filter(None, sections)), encoding="utf-8")


def check_page(page: Path, without_data: Collection[str]) -> None:
    """Refuse to replace what a page shows of data sets.

    Parameters
    ----------
    page : path
        The page, which may not be there yet.
    without_data : collection of str
        The experiments whose results come without data sets.

    Raises
    ------
    InvalidValueError
        If the page shows one of them with data sets.
    """
    shown = page.read_text(encoding="utf-8") if page.is_file() else ""
    lost = [name for name in _SHOWN_WITH_DATA.findall(shown) if name in set(without_data)]
    if lost:
        raise InvalidValueError(
            f"{page} shows results on data sets ({', '.join(lost)}), and results without them "
            "would take their place. Name the folder of the data sets with --data, or another page "
            "with --page."
        )


def page_verdicts(page: Path) -> dict[str, str]:
    """Return the verdict of each experiment that a page shows, as the page words it.

    Nothing where there is no page.
    """
    shown = page.read_text(encoding="utf-8") if page.is_file() else ""
    _, _, after = shown.partition(f"{_SUMMARY}\n")
    summary, _, _ = after.partition("\n## ")
    return dict(_SUMMARY_ROW.findall(summary))


def _from_data(result: Result | None) -> bool:
    """Tell whether a result rests on data sets that somebody brought."""
    used = "" if result is None else result.data
    return any(name and MADE_UP not in name for name in used.split(","))


def _not_reproduced(experiments: Mapping[str, Experiment], verdicts: Mapping[str, Verdict]) -> str:
    lines = ["## Not reproduced, or only in part", ""]
    for name, verdict in verdicts.items():
        if verdict.outcome == "reproduced":
            continue
        item = f"- **{experiments[name].paper_item}** ([{name}](#{name})): "
        if not verdict.findings:
            lines.append(f"{item}not run. {verdict.note}".rstrip())
            continue
        lines.append(f"{item}{_word(experiments[name], verdict)}, {_held(verdict)} claims hold.")
        missing = [each for each in verdict.findings if each.of_paper and not each.holds]
        for each in missing:
            kind = "Not so here" if each.tested else "Cannot be tested"
            lines.append(f"  - {kind}: {_typeset(f'{each.claim} ({each.numbers})')}.")
    if len(lines) == 2:
        lines.append("Nothing: every claim that was tested holds.")
    return "\n".join([*lines, ""])


def _summary(experiments: Mapping[str, Experiment], verdicts: Mapping[str, Verdict]) -> str:
    lines = [_SUMMARY, "", "| in the paper | experiment | verdict | claims that hold |"]
    lines.append("|---|---|---|---|")
    for name, experiment in experiments.items():
        word, held = _word(experiment, verdicts[name]), _held(verdicts[name])
        lines.append(f"| {experiment.paper_item} | [{name}](#{name}) | {word} | {held} |")
    return "\n".join([*lines, ""])


def _word(experiment: Experiment, verdict: Verdict) -> str:
    if verdict.outcome == "reproduced" and not experiment.reproduction:
        return "checked"
    if verdict.outcome == "not-run" and verdict.findings:
        return "could not be tested"
    return _WORDS[verdict.outcome]


def _held(verdict: Verdict) -> str:
    return f"{sum(finding.holds for finding in verdict.claims)} of {len(verdict.claims)}"


def _photographs(experiments: Mapping[str, Experiment], found: Mapping[str, Result | None]) -> str:
    """Return what the photographs were, once for all experiments that search them."""
    notes: dict[str, list[str]] = {}
    for name, result in found.items():
        for place, kind in _PHOTOGRAPHS.items():
            if result is not None and place in experiments[name].data_note:
                note = photo_note(result.data, result.scale, kind)
                notes.setdefault(note, []).append(f"[{name}](#{name})")
    lines = [f"{note} Searched in {', '.join(names)}.\n" for note, names in notes.items()]
    return "\n".join(["## The photographs", "", *lines]) if lines else ""


def _section(
    experiment: Experiment, result: Result | None, verdict: Verdict, out: Path, pictures: Path
) -> str:
    name = experiment.name
    lines = [f'<a id="{name}"></a>', "", f"## {experiment.paper_item}: {name}", ""]
    lines += [f"The paper: {_sentence(experiment.claim)}", ""]
    if result is None or result.table is None:
        return "\n".join([*lines, f"Not run. {verdict.note}".rstrip(), ""])
    drawn = out / result.scale / f"{name}.svg"
    if drawn.is_file():
        shutil.copyfile(drawn, pictures / drawn.name)
        lines += [f"![{experiment.paper_item}]({pictures.name}/{drawn.name})", ""]
    if experiment.show_table:
        lines += [_typeset(result.table.to_markdown()), ""]
    lines += [f"Verdict: **{_word(experiment, verdict)}**.", ""]
    lines += [_line(finding) for finding in verdict.findings]
    lines += ["", *_remarks(experiment, verdict, result.table), _command(experiment, result), ""]
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    sign = finding.standing if finding.holds else f"**{finding.standing}**"
    kind = " (main claim)" if finding.main else ""
    if not finding.of_paper:
        kind = " (beside the paper's claims, not counted)"
    return f"- {_sentence(finding.claim)}: {sign}{kind}. {_sentence(finding.numbers)}."


def _remarks(experiment: Experiment, verdict: Verdict, table: Table) -> list[str]:
    data = experiment.data_note
    for place in _PHOTOGRAPHS:
        data = data.replace(place, "On the photographs, see [above](#the-photographs).")
    remarks = " ".join(filter(None, (_measures(table), verdict.note, data)))
    return [_typeset(remarks), ""] if remarks else []


def _measures(table: Table) -> str:
    """Return what quality means for each data set of a table that has it."""
    if "quality" not in table.columns:
        return ""
    sets: dict[str, list[str]] = {}
    for name in dict.fromkeys(str(value).split(",")[0] for value in table.values("data")):
        sets.setdefault(measure(name), []).append(name)
    told = (f"{kind} for {' and '.join(names)}" for kind, names in sets.items())
    return f"Quality is {', '.join(told)}."


def _command(experiment: Experiment, result: Result) -> str:
    """Return the command that gives the result, and when it did."""
    command = f"python -m paper {experiment.name} --scale {result.scale}"
    if result.seed:
        command += f" --seed {result.seed}"
    if _from_data(result):
        command += " --data DIR" + (" --describe" if "phi" in result.data else "")
    return f"`{command}`, {result.seconds:.0f} s, {result.date[:10]}, seed {result.seed}."


def _sentence(text: str) -> str:
    text = _typeset(text)
    return text if _SYMBOL.match(text) else text[:1].upper() + text[1:]


def _typeset(text: str) -> str:
    """Return text with minus signs for hyphens, and the sign of infinity.

    Examples
    --------
    >>> _typeset("at η = -0.9: sum inf, k-means 1-2")
    'at η = −0.9: sum ∞, k-means 1-2'
    """
    return _MINUS.sub("−", re.sub(r"\binf\b", "∞", text))


__all__ = ["check_page", "page_verdicts", "write_report"]
