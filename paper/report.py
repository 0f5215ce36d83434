"""The page that shows each figure and table of the paper beside ours.

One table first, then a section an item; protocol, numbers and set-ups that were tried are folded.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from memvec.errors import InvalidValueError
from paper.data_sets import MADE_UP
from paper.experiment import SCALES, Experiment, Finding, Outcome, Verdict
from paper.protocols import PROTOCOLS, Protocol
from paper.results import Result, latest_result, read_result

_WORDS: dict[Outcome, str] = {
    "reproduced": "reproduced",
    "partly": "reproduced in part",
    "differs": "differs",
    "illustrated": "illustrated",
    "not-run": "not run",
}

_FEW_WORDS = 10
_SUMMARY = "## All of it"
_SUMMARY_ROW = re.compile(r"^\| \[[^|]+\]\(#(\S+)\) \| [^|]+ \| ([^|]+) \|", re.M)
_SHOWN_WITH_DATA = re.compile(r"`python -m paper (\S+) [^`]*--data DIR")
# A sentence begins with a capital, a symbol or the name of a construction does not.
_SYMBOL = re.compile(r"(?:mbk|pinv|[b-zα-ω])(?:[^\w-]|$)")
_MINUS = re.compile(r"(?<![\w.,)])-(?=\d)")

_HEAD = """# The paper, figure by figure

Iscen, Furon, Gripon, Rabbat and Jégou, *Memory vectors for similarity search in high-dimensional
spaces*, recomputed on memvec's own engine with other photographs and texts than the paper's. This
page tells which of its claims hold here, and why the others do not. `python -m paper --report`
writes it; every verdict comes from a check with a stated tolerance.

| verdict | meaning |
|---|---|
| reproduced | every claim that could be tested holds |
| reproduced in part | at least half of the main claims hold, counted on each data set |
| differs | fewer do |
| illustrated | the data is made up: nothing is reproduced, whatever holds |
| could not be tested | the data does not meet the premise, or the machine was busy |
| checked | formulas against simulation: there is nothing to reproduce |

Each item lists the set-ups and rules that were also tried. After outcomes were known, the rules of
Figures 4, 5, 10, 11 and 12 and of FLANN were made stricter, those of Figures 6, 13 and 15 and of
execution times were brought closer to the paper's words, and photographs were added to Figures 15
and 16. A value behind ± is the standard deviation of runs.

Errors of the paper's formulas stand in [errata.md](errata.md), the layout of `DIR` in
[paper-data.md](paper-data.md). `make reproduce DATA=DIR` recomputes the page.
`python -m paper --scale paper --data DIR --describe` takes the paper's sizes where they differ: φ_Δ
of 64 centroids (8064 dimensions), and 10⁶ vectors for execution times, which take 9 GB of memory
and 4.1 GB of disk; about a day of one core. Figure 17, 97.6 million vectors, wants a GPU
(`fig17-100m --device cuda`).
"""


def write_report(experiments: Mapping[str, Experiment], out: Path, page: Path) -> None:
    """Write the page, with the figures in a folder of its name beside it.

    Parameters
    ----------
    experiments : mapping of name to Experiment
        What the page shows, in this order; of each the result at the largest scale there is.
    out : path
        Where `run_experiment` left the results. One that lies as ``NAME.json`` among the pictures
        of the page is shown in place of a smaller one from here.
    page : path
        The Markdown file to write. One that shows results on data sets is not replaced by one that
        shows the same experiments without; see `check_page`.
    """
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    found = {name: _largest(name, out, pictures) for name in experiments}
    check_page(page, [name for name, result in found.items() if not _from_data(result)])
    verdicts = {
        name: Verdict() if result is None else result.verdict(experiments[name])
        for name, result in found.items()
    }
    sections = [_HEAD, _summary(experiments, verdicts), _time_taken(found.values())]
    for name, experiment in experiments.items():
        sections.append(_section(experiment, found[name], verdicts[name], out, pictures))
    page.write_text("\n".join(sections), encoding="utf-8")


def _largest(name: str, out: Path, pictures: Path) -> Result | None:
    """Return the result at the largest scale, of those computed here and the one kept."""
    computed, kept = latest_result(name, out), read_result(pictures / f"{name}.json")
    if computed is None or kept is None:
        return computed or kept
    return max(computed, kept, key=lambda result: SCALES.index(result.scale))


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


def _summary(experiments: Mapping[str, Experiment], verdicts: Mapping[str, Verdict]) -> str:
    lines = [_SUMMARY, "", "| item | claim | verdict | why |", "|---|---|---|---|"]
    for name, experiment in experiments.items():
        verdict = verdicts[name]
        claim = PROTOCOLS[name].headline if name in PROTOCOLS else experiment.claim
        item = f"[{experiment.paper_item}](#{name})"
        lines.append(f"| {item} | {claim} | {_word(experiment, verdict)} | {_why(verdict)} |")
    return "\n".join([*lines, ""])


def _time_taken(results: Iterable[Result | None]) -> str:
    """Return how long the experiments of the page took."""
    seconds = sum(result.seconds for result in results if result is not None)
    return (
        f"The experiments took {seconds / 60:.0f} minutes together, the description of photographs "
        "not counted.\n"
    )


def _word(experiment: Experiment, verdict: Verdict) -> str:
    if verdict.outcome == "reproduced" and not experiment.reproduction:
        return "checked"
    if verdict.outcome == "not-run" and verdict.findings:
        return "could not be tested"
    return _WORDS[verdict.outcome]


def _why(verdict: Verdict) -> str:
    """Return in one line why the verdict is what it is."""
    if not verdict.findings:
        return _typeset(verdict.note)
    untested = sum(finding.of_paper and not finding.tested for finding in verdict.findings)
    # That the paper leaves something open matters to what holds as well.
    said = untested or verdict.outcome != "reproduced" or verdict.reason.startswith("paper silent")
    return _held(verdict, untested) + (f"; {verdict.reason}" if said and verdict.reason else "")


def _held(verdict: Verdict, untested: int) -> str:
    """Return how many of the claims that were tested hold, and how many could not be."""
    held, tested = sum(finding.holds for finding in verdict.claims), len(verdict.claims)
    if not tested:
        return f"{untested} claim{'s' if untested > 1 else ''} cannot be tested"
    one = "1 claim holds" if held else "1 claim does not hold"
    count = one if tested == 1 else f"{held} of {tested} claims hold{'s' * (held == 1)}"
    return count + (f", {untested} cannot be tested" if untested else "")


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
    if (pictures / drawn.name).is_file():
        lines += [f"![{experiment.paper_item}]({pictures.name}/{drawn.name})", ""]
    lines += [f"**{_sentence(_word(experiment, verdict))}**: {_why(verdict)}.", ""]
    lines += _grouped(verdict)
    lines += ["", _command(experiment, result), "", *_folded(experiment, result, verdict)]
    return "\n".join(lines)


def _by_claim(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.claim, []).append(finding)
    return groups


def _grouped(verdict: Verdict) -> list[str]:
    """Return one line a claim of the paper: on how many data sets it holds, and where not."""
    groups = _by_claim(finding for finding in verdict.findings if finding.of_paper)
    return [_group(claim, findings) for claim, findings in groups.items()]


def _group(claim: str, findings: list[Finding]) -> str:
    tested = [finding for finding in findings if finding.tested]
    if not tested:
        return f"- {_sentence(claim)}: **cannot be tested**."
    left = len(findings) - len(tested)
    if len(tested) == 1:
        said = _single(tested[0]) + (", the one set where it can be tested" if left else "")
        return f"- {_sentence(claim)}: {said}{_numbers(tested[0])}."
    failed = [finding for finding in tested if not finding.holds]
    held = f"holds on {len(tested) - len(failed)} of {len(tested)} sets"
    rest = f"; {left} cannot be tested" if left else ""
    if not failed:
        return f"- {_sentence(claim)}: {held}{rest}."
    if len(failed) == len(tested):  # then no need to name them
        return f"- {_sentence(claim)}: **{held}**{rest}."
    where = "; ".join(each.data for each in failed)
    if len(failed) == 1:
        where += f": {_typeset(failed[0].numbers)}"
    return f"- {_sentence(claim)}: **{held}** (not on {where}){rest}."


def _single(finding: Finding) -> str:
    """Return whether a claim that was tested once holds, and on what."""
    sign = finding.standing if finding.holds else f"**{finding.standing}**"
    return f"{sign} on {finding.data}" if finding.data else sign


def _numbers(finding: Finding) -> str:
    """Return what was measured where that is short; longer lists of what holds stand folded."""
    short = len(finding.numbers.split()) <= _FEW_WORDS and not finding.data
    return f" ({_typeset(finding.numbers)})" if short or not finding.holds else ""


def _folded(experiment: Experiment, result: Result, verdict: Verdict) -> list[str]:
    """Return protocol, all numbers and what else was tried, folded."""
    lines = ["<details><summary>Protocol, numbers, set-ups tried</summary>", ""]
    protocol = PROTOCOLS.get(experiment.name)
    if protocol is not None:
        lines += [*_protocol(protocol), ""]
    lines += _listed(finding for finding in verdict.findings if finding.of_paper)
    beside = _listed(finding for finding in verdict.findings if not finding.of_paper)
    if beside:
        lines += ["", "Beside the paper's claims, not counted:", "", *beside]
    if experiment.show_table and result.table is not None:
        lines += ["", _typeset(result.table.to_markdown())]
    if verdict.note:
        lines += ["", _typeset(verdict.note)]
    if protocol is not None and protocol.tried:
        lines += ["", "Also tried:", "", *(f"- {each}" for each in protocol.tried)]
    return [*lines, "", "</details>", ""]


def _protocol(protocol: Protocol) -> list[str]:
    return [
        f"The paper's words: {protocol.quote}. Tolerance here: {protocol.tolerance}.",
        "",
        "| | paper | here |",
        "|---|---|---|",
        *(f"| {aspect} | {paper} | {here} |" for aspect, paper, here in protocol.rows()),
    ]


def _listed(findings: Iterable[Finding]) -> list[str]:
    """Return each claim, and below it what was measured on each data set."""
    lines = []
    for claim, found in _by_claim(findings).items():
        if not found[0].data:
            [finding] = found
            lines.append(f"- {_sentence(claim)}: {_outcome(finding)}")
            continue
        lines.append(f"- {_sentence(claim)}:")
        lines += [f"  - {finding.data}: {_outcome(finding)}" for finding in found]
    return lines


def _outcome(finding: Finding) -> str:
    sign = finding.standing if finding.holds else f"**{finding.standing}**"
    return f"{sign}. {_sentence(finding.numbers)}."


def _command(experiment: Experiment, result: Result) -> str:
    """Return the command that gives the result, and when it did."""
    command = f"python -m paper {experiment.name} --scale {result.scale}"
    if result.seed:
        command += f" --seed {result.seed}"
    if _from_data(result):
        command += " --data DIR" + (" --describe" if "phi" in result.data else "")
    if result.device != "cpu":
        command += f" --device {result.device}"
    return f"`{command}`, {result.date[:10]}."


def _sentence(text: str) -> str:
    text = _typeset(text)
    return text if _SYMBOL.match(text) else text[:1].upper() + text[1:]


def _typeset(text: str) -> str:
    """Return text with minus signs for hyphens, a sign of infinity, a dash for what is unknown.

    Examples
    --------
    >>> _typeset("at η = -0.9: sum inf, k-means 1-2")
    'at η = −0.9: sum ∞, k-means 1-2'
    """
    return _MINUS.sub("−", re.sub(r"\bnan\b", "–", re.sub(r"\binf\b", "∞", text)))


__all__ = ["check_page", "page_verdicts", "write_report"]
