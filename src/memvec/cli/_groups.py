"""Groups of commands, which name the flag where the library names its parameter."""

from __future__ import annotations

import re
from typing import Any

import click

from memvec.errors import MemvecError

# How every rejected argument of the library begins; see memvec.checks.
_REJECTED = re.compile(r"The '(\w+)' parameter of \S+ (must be .*)", re.DOTALL)


class FlagGroup(click.Group):
    """A click group whose errors name flags."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command; an argument that the library rejects is a bad flag."""
        try:
            return super().invoke(context)
        except MemvecError as error:
            self._name_flag(context, str(error))
            raise

    def _name_flag(self, context: click.Context, text: str) -> None:
        """Raise an error that names the flag where the library names its parameter."""
        rejected = _REJECTED.fullmatch(text)
        command = self.get_command(context, context.invoked_subcommand or "")
        if rejected is None or command is None:
            return
        own = click.Context(command, info_name=context.invoked_subcommand, parent=context)
        for parameter in command.params:
            if parameter.name == rejected[1]:
                raise click.BadParameter(f"it {rejected[2]}", ctx=own, param=parameter)
