"""Groups of commands, which name the flag where the library names its parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
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


class LazyCommands(dict[str, click.Command]):
    """Commands by name, imported when one is asked for: each needs a part of the library.

    Parameters
    ----------
    places : mapping of str to str
        By the name of a command its module in this room, and its name there.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        super().__init__()
        self._places = dict(sorted(places.items()))

    def __getitem__(self, name: str) -> click.Command:
        module, attribute = self._places[name].split(":")
        command = getattr(import_module(f"memvec.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or something else where there is none."""
        return default if name not in self._places else self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> Any:
        """Return the names, which imports nothing."""
        return self._places.keys()

    def values(self) -> Any:
        """Return all commands."""
        return {name: self[name] for name in self}.values()

    def items(self) -> Any:
        """Return all names and commands."""
        return {name: self[name] for name in self}.items()
