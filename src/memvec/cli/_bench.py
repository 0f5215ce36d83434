"""``memvec bench``: what the steps of a search cost on this machine."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from memvec.cli._options import option
from memvec.cli._output import echo, writing
from memvec.index import MachineCosts, profile_machine

# One line for each cost, in the order of the table; all but the cache are nanoseconds.
_MEANINGS = {
    "query": "a search whatever the index",
    "code": "a unit's code besides its words",
    "word": "a word of a unit's code, in cache",
    "memory_word": "a word of a unit's code, from memory",
    "cache": "bytes of codes that stay in cache",
    "run": "a run of 64 codes where one passed",
    "visit": "going to a unit's members",
    "member_word": "one of the first words of a member's code",
    "member_code": "a member's whole code",
}


@click.command()
@click.option("--profile", is_flag=True, help="Measure the table of costs.")
@option(
    "--json",
    click.Path(dir_okay=False),
    "Also write the measured table, for Index.build(machine=MachineCosts.read(FILE)).",
    name="json_file",
    metavar="FILE",
)
def bench(profile: bool, json_file: str | None) -> None:
    """Measure the costs of a search on this machine.

    A build designs an index from a table of costs: the built-in one, unless another is passed.
    --profile measures the table of this machine, in a few seconds and one thread, and prints it
    beside the built-in one.

    \b
    Example:
      memvec bench --profile
      memvec bench --profile --json machine.json
    """  # noqa: D301 - click wants the character itself, not its name
    if not profile:
        raise click.UsageError("Missing option '--profile'.")
    measured = profile_machine()
    Console().print(_table(measured, MachineCosts()))
    if json_file is not None:
        with writing(json_file):
            measured.write(json_file)
        echo(f"Wrote {json_file}")


def _table(measured: MachineCosts, built_in: MachineCosts) -> Table:
    table = Table(title="Costs in nanoseconds (the cache in bytes)")
    for name in ("cost", "what it is", "measured", "built-in", "ratio"):
        table.add_column(name, justify="left" if name in ("cost", "what it is") else "right")
    for name, meaning in _MEANINGS.items():
        here, usual = getattr(measured, name), getattr(built_in, name)
        table.add_row(name, meaning, _number(here), _number(usual), f"{here / usual:.2f}")
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
