"""The ``memvec`` command: the group, and the one place where library errors become exit codes."""

from __future__ import annotations

import sys
from typing import Any

import click

from memvec.cli._bench import bench
from memvec.cli._demo import demo
from memvec.cli._design import design
from memvec.cli._images import images
from memvec.cli._reproduce import reproduce
from memvec.errors import MemvecError


class _Group(click.Group):
    """A click group that shows memvec's errors as one line instead of a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except MemvecError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="memvec")
def main() -> None:
    """Find everything above a similarity, miss at most a stated fraction.

    \b
    Start here:
      memvec demo                                search real sentence embeddings
      memvec design --dim 1000 --similarity 0.7  what the theory promises for your setting
    """  # noqa: D301 - click wants the character itself, not its name


main.add_command(bench)
main.add_command(demo)
main.add_command(design)
main.add_command(images)
main.add_command(reproduce)
