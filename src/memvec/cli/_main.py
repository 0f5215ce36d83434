"""The ``memvec`` command: the group, and the one place where library errors become exit codes."""

from __future__ import annotations

import errno
import sys
from typing import Any

import click

from memvec.cli._add import add
from memvec.cli._bench import bench
from memvec.cli._care import check, compact, repair
from memvec.cli._cluster import cluster
from memvec.cli._create import create
from memvec.cli._dedup import dedup, join
from memvec.cli._delete import delete
from memvec.cli._demo import demo
from memvec.cli._design import design
from memvec.cli._export import export
from memvec.cli._groups import FlagGroup
from memvec.cli._images import images
from memvec.cli._info import calibrate, info
from memvec.cli._mcp import mcp
from memvec.cli._measure import measure
from memvec.cli._output import INTERRUPTED, echo
from memvec.cli._search import range_command, search
from memvec.cli._serve import keys, serve
from memvec.errors import MemvecError
from memvec.progress import printable

_FAILED = 1


class _Group(FlagGroup):
    """A click group that shows memvec's errors as one line instead of a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)
            raise
        except KeyboardInterrupt:
            echo("Interrupted. Acknowledged changes are kept.", err=True)
            sys.exit(INTERRUPTED)
        except (MemvecError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever reads has seen enough: click ends quietly
            echo(f"Error: {_told(error)}", err=True)
            sys.exit(_FAILED)


def _told(error: MemvecError | OSError) -> str:
    """Return what an error says, with a command in place of an argument of the library."""
    text, advice, _ = str(error).partition(" To create one,")
    return f"{text} To create one: memvec create." if advice else text


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

    \b
    Exit codes:
      0    done
      1    error: a damaged or missing file, a collection that another process writes
      2    invalid flag or argument; the message names it
      3    check found damage; measure found more missed than promised; repair lost items
      130  interrupted; acknowledged changes are kept
    """  # noqa: D301 - click wants the character itself, not its name


for _command in (
    add,
    bench,
    calibrate,
    check,
    cluster,
    compact,
    create,
    dedup,
    delete,
    demo,
    design,
    export,
    images,
    info,
    join,
    keys,
    mcp,
    measure,
    range_command,
    repair,
    search,
    serve,
):
    main.add_command(_command)
