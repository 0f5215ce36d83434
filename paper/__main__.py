"""``python -m paper``: recompute the paper's results."""

from __future__ import annotations

import errno
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table as RichTable

from memvec.errors import MemvecError, MissingExtraError
from memvec.progress import printable
from paper import (
    EXPERIMENTS,
    SCALES,
    DataFolders,
    Result,
    Scale,
    Table,
    check_page,
    page_verdicts,
    photo_kind,
    run_experiment,
    write_report,
)
from paper.described_photographs import describe_photographs
from paper.made_up_photographs import describe_made_up

_PIPED_WIDTH = 140
# Longer tables are for files; a screen shows the verdict.
_MOST_ROWS = 40
# As shells have it for a process that SIGINT ended.
_INTERRUPTED = 130


class _Command(click.Command):
    """A click command that shows errors of the library as one line instead of a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            _echo("Interrupted. The results of finished experiments are kept.", err=True)
            sys.exit(_INTERRUPTED)
        except (MemvecError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever reads has seen enough: click ends quietly
            raise click.ClickException(printable(str(error))) from error


def _echo(text: str, *, err: bool = False) -> None:
    """Print a text; names of files may hold what a terminal would obey instead of showing it."""
    click.echo(printable(text), err=err)


def _known(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in EXPERIMENTS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(EXPERIMENTS)}.")
    return list(dict.fromkeys(names)) or list(EXPERIMENTS)


@click.command(
    "paper",
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
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
@click.option(
    "--list", "only_list", is_flag=True, help="Print what there is, and the verdict of the page."
)
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
    help="The page that --report writes and --list reads.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where chance starts."
)
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="Where Figure 17 is computed: cpu, or cuda for a GPU. The others always use the CPU.",
)
def main(
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
    device: str,
) -> None:
    """Recompute results of the paper, all of them or those named.

    Each is computed once and kept; a run that was interrupted goes on where it stopped. A claim
    that does not hold fails nothing, only an error does.

    \b
    Examples:
      python -m paper --list                            what there is, and what came of it
      python -m paper fig01-cost-random --scale smoke   one figure, in seconds
      python -m paper --data DIR --describe --report    all of it, from photographs to the page

    docs/paper-data.md tells which data sets there are, and how a folder of them is laid out.
    """  # noqa: D301 - click wants the character itself, not its name
    if only_list:
        _print_list(names, page, as_json)
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
                device=device,
            )
        except Exception:  # whatever goes wrong in one experiment, the others still run
            failed.append(name)
            _echo(f"{name} failed:\n{traceback.format_exc()}", err=True)
            continue
        if not as_json:
            _print_result(results[name])
    if as_json:
        _echo(json.dumps({name: _record(result) for name, result in results.items()}))
    if report:
        write_report(EXPERIMENTS, out, page)
        _echo(f"wrote {page}", err=True)
    if failed:
        _echo(f"Error: {', '.join(failed)} did not run to the end.", err=True)
        sys.exit(1)


def _with_photographs(given: DataFolders, folder: Path) -> DataFolders:
    """Make up photographs where none are given, or say what is missing for that."""
    if photo_kind(given, "smoke") is not None:
        return given
    try:
        describe_made_up(folder)
    except MissingExtraError as error:
        _echo(
            f"{error}\nWithout it, made-up vectors take the place of described photographs.",
            err=True,
        )
        return given
    return DataFolders((*given.folders, folder))


def _print_list(names: list[str], page: Path, as_json: bool) -> None:
    verdicts = page_verdicts(page)
    records = [
        {
            "name": name,
            "title": EXPERIMENTS[name].paper_item,
            "claim": EXPERIMENTS[name].claim,
            "verdict": verdicts.get(name, "not run"),
        }
        for name in names
    ]
    if as_json:
        _echo(json.dumps(records))
        return
    for record in records:
        _echo("{name}  {title}  [{verdict}]\n    {claim}".format(**record))


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
    _echo(f"{result.name}: {verdict.outcome} ({result.scale}, {result.seconds:.1f} s)")
    for finding in verdict.findings:
        sign = {"holds": "+", "does not hold": "-", "cannot be tested": "?"}[finding.standing]
        _echo(f"  {sign} {finding.text}\n      {finding.numbers}")
    if verdict.note:
        _echo(f"  {verdict.note}")


def _print_table(table: Table) -> None:
    shown = RichTable(title=table.title)
    for column, cell in zip(table.columns, table.rows[0], strict=True):
        shown.add_column(column, justify="left" if isinstance(cell, str) else "right")
    for row in table.cells():
        shown.add_row(*row)
    # Piped output has no width of its own, and a table cut at 80 columns would lose digits.
    piped = not Console().is_terminal
    Console(width=_PIPED_WIDTH if piped else None).print(shown)


__all__ = ["main"]

if __name__ == "__main__":
    main()
