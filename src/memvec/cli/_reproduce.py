"""``memvec reproduce``: recompute the paper's results."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table as RichTable

from memvec.experiments import EXPERIMENTS, Table

_PIPED_WIDTH = 140


def _known(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if name not in EXPERIMENTS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(EXPERIMENTS)}.")
    return list(names or EXPERIMENTS)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, callback=_known)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--list", "only_list", is_flag=True, help="Print the names and stop.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where chance starts."
)
def reproduce(names: list[str], as_json: bool, only_list: bool, seed: int) -> None:
    """Recompute results of the paper, all of them or those named.

    \b
    Example:
      memvec reproduce --list
      memvec reproduce errata
    """  # noqa: D301 - click wants the character itself, not its name
    if only_list:
        _print_names(names, as_json)
        return
    tables = {name: EXPERIMENTS[name].run(seed) for name in names}
    if as_json:
        click.echo(json.dumps({name: table.to_records() for name, table in tables.items()}))
        return
    for table in tables.values():
        _print_table(table)


def _print_names(names: list[str], as_json: bool) -> None:
    summaries = {name: EXPERIMENTS[name].summary for name in names}
    if as_json:
        click.echo(json.dumps(summaries))
        return
    for name, summary in summaries.items():
        click.echo(f"{name}  {summary}")


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
