"""Run all benchmarks, or those named on the command line."""

from __future__ import annotations

import click

from benchmarks import assignment, construction

BENCHMARKS = {"construction": construction.run, "assignment": assignment.run}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option(
    "--data",
    envvar="MEMVEC_DATA",
    type=click.Path(file_okay=False),
    help="Folder with wordnet-minilm/ (vectors_int8.npy, scales.npy); made-up vectors without it.",
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
def main(names: tuple[str, ...], data: str | None, rounds: int) -> None:
    """Print each benchmark's table in Markdown: medians of interleaved rounds, and ratios."""
    for name in names or BENCHMARKS:
        BENCHMARKS[name](data, rounds)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
