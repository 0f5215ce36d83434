"""The ``memvec`` command: the group, and the one place where library errors become exit codes."""

from __future__ import annotations

import errno
import sys
from typing import Any

import click

from memvec.cli._groups import FlagGroup, LazyCommands
from memvec.cli._output import INTERRUPTED, echo
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


# Where each command is; `memvec info` reads no module of the others.
_COMMANDS = {
    "add": "_add:add",
    "bench": "_bench:bench",
    "calibrate": "_info:calibrate",
    "check": "_care:check",
    "cluster": "_cluster:cluster",
    "compact": "_care:compact",
    "create": "_create:create",
    "dedup": "_dedup:dedup",
    "delete": "_delete:delete",
    "demo": "_demo:demo",
    "design": "_design:design",
    "export": "_export:export",
    "images": "_images:images",
    "info": "_info:info",
    "join": "_dedup:join",
    "keys": "_serve:keys",
    "mcp": "_mcp:mcp",
    "measure": "_measure:measure",
    "range": "_search:range_command",
    "repair": "_care:repair",
    "search": "_search:search",
    "serve": "_serve:serve",
}


@click.group(
    cls=_Group,
    commands=LazyCommands(_COMMANDS),
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
