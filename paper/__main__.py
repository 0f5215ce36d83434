"""``memvec reproduce``: recompute the paper's results."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table as RichTable

from memvec.cli._describe import describe_photographs
from memvec.cli._made_up import describe_made_up
from memvec.cli._output import echo
from memvec.errors import MissingExtraError
from memvec.experiments import (
    EXPERIMENTS,
    SCALES,
    DataFolders,
    Result,
    Scale,
    Table,
    Verdict,
    check_page,
    latest_result,
    photo_kind,
    run_experiment,
    write_report,
)

_PIPED_WIDTH = 140
# Longer tables are for files; a screen shows the verdict.
_MOST_ROWS = 40


def _known(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in EXPERIMENTS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(EXPERIMENTS)}.")
    return list(dict.fromkeys(names)) or list(EXPERIMENTS)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, callback=_known)
@click.option(
    "--scale",
    type=click.Choice(SCALES),
    default="small",
    show_default=True,
    help="How large: seconds, minutes, or as the paper did.",
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of data sets; may be given several times.",
)
@click.option(
    "--out",
    default=Path("results/reproduce"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where results are kept, and found again.",
)
@click.option(
    "--describe",
    is_flag=True,
    help="Describe the photographs among the data first, as the paper did; kept below --out.",
)
@click.option("--list", "only_list", is_flag=True, help="Print what there is, and its verdict.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--fresh", is_flag=True, help="Compute again what was computed before.")
@click.option(
    "--report",
    is_flag=True,
    help="Write the page of all experiments afterwards; one that shows results on data sets is not "
    "replaced by one without.",
)
@click.option(
    "--page",
    default=Path("docs/paper.md"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page that --report writes.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where chance starts."
)
def reproduce(
    names: list[str],
    scale: Scale,
    data: tuple[Path, ...],
    out: Path,
    describe: bool,
    only_list: bool,
    as_json: bool,
    fresh: bool,
    report: bool,
    page: Path,
    seed: int,
) -> None:
    """Recompute results of the paper, all of them or those named.

    Each is computed once and kept; a run that was interrupted goes on where it stopped. A claim
    that does not hold fails nothing, only an error does.

    \b
    Example:
      memvec reproduce --list
      memvec reproduce fig01-cost-random --scale smoke
    """  # noqa: D301 - click wants the character itself, not its name
    if only_list:
        _print_list(names, out, as_json)
        return
    described = out / "descriptors"
    folders = DataFolders((*data, described) if described.is_dir() else tuple(data))
    if report and not folders.folders:
        check_page(page, names)  # now rather than after everything was computed
    if describe:
        describe_photographs(DataFolders(tuple(data)), scale, described)
        folders = DataFolders((*data, described))
    if scale == "smoke" and any(EXPERIMENTS[name].photographs for name in names):
        folders = _with_photographs(folders, out / "made-up")
    results, failed = {}, []
    for name in names:
        try:
            results[name] = run_experiment(
                EXPERIMENTS[name],
                scale,
                out,
                seed=seed,
                data=folders,
                fresh=fresh,
                progress=None,
            )
        except Exception:  # whatever goes wrong in one experiment, the others still run
            failed.append(name)
            echo(f"{name} failed:\n{traceback.format_exc()}", err=True)
            continue
        if not as_json:
            _print_result(results[name])
    if as_json:
        echo(json.dumps({name: _record(result) for name, result in results.items()}))
    if report:
        write_report(EXPERIMENTS, out, page)
        echo(f"wrote {page}", err=True)
    if failed:
        echo(f"Error: {', '.join(failed)} did not run to the end.", err=True)
        sys.exit(1)


def _with_photographs(given: DataFolders, folder: Path) -> DataFolders:
    """Make up photographs where none are given, or say what is missing for that."""
    if photo_kind(given, "smoke") is not None:
        return given
    try:
        describe_made_up(folder)
    except MissingExtraError as error:
        echo(
            f"{error}\nWithout it, made-up vectors take the place of described photographs.",
            err=True,
        )
        return given
    return DataFolders((*given.folders, folder))


def _print_list(names: list[str], out: Path, as_json: bool) -> None:
    records = []
    for name in names:
        experiment, result = EXPERIMENTS[name], latest_result(name, out)
        verdict = Verdict() if result is None else result.verdict(experiment)
        records.append(
            {
                "name": name,
                "paper_item": experiment.paper_item,
                "claim": experiment.claim,
                "verdict": verdict.outcome,
            }
        )
    if as_json:
        echo(json.dumps(records))
        return
    for record in records:
        echo("{name}  {paper_item}  [{verdict}]\n    {claim}".format(**record))


def _record(result: Result) -> dict[str, Any]:
    verdict = result.verdict(EXPERIMENTS[result.name])
    return {
        "verdict": verdict.outcome,
        "note": verdict.note,
        "findings": [vars(finding) for finding in verdict.findings],
        "scale": result.scale,
        "seed": result.seed,
        "seconds": result.seconds,
        "rows": [] if result.table is None else result.table.to_records(),
    }


def _print_result(result: Result) -> None:
    verdict = result.verdict(EXPERIMENTS[result.name])
    if result.table is not None and 0 < len(result.table.rows) <= _MOST_ROWS:
        _print_table(result.table)
    echo(f"{result.name}: {verdict.outcome} ({result.scale}, {result.seconds:.1f} s)")
    for finding in verdict.findings:
        sign = {"holds": "+", "does not hold": "-", "cannot be tested": "?"}[finding.standing]
        echo(f"  {sign} {finding.claim}\n      {finding.numbers}")
    if verdict.note:
        echo(f"  {verdict.note}")


def _print_table(table: Table) -> None:
    shown = RichTable(title=table.title)
    for column, cell in zip(table.columns, table.rows[0], strict=True):
        shown.add_column(column, justify="left" if isinstance(cell, str) else "right")
    for row in table.cells():
        shown.add_row(*row)
    # Piped output has no width of its own, and a table cut at 80 columns would lose digits.
    piped = not Console().is_terminal
    Console(width=_PIPED_WIDTH if piped else None).print(shown)


__all__ = ["reproduce"]
