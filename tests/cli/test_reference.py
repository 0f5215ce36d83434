"""The reference of the command line is what the commands say, and every command teaches."""

import re
import runpy
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from memvec.cli import main
from memvec.evaluation import load_sample

ROOT = Path(__file__).parent.parent.parent


def commands(command=main, path=()):
    """Return the path of each command that is no group."""
    if isinstance(command, click.Group):
        return [p for name, c in command.commands.items() for p in commands(c, (*path, name))]
    return [path]


def test_reference_has_every_command_with_its_options():
    text = runpy.run_path(str(ROOT / "docs" / "command_reference.py"))["reference"]()
    sections = dict(re.findall(r"^## memvec ([\w ]+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    for path in commands():
        shown = CliRunner().invoke(main, [*path, "--help"]).output
        flags = set(re.findall(r"^  (-[\w-]+)", shown, re.M)) - {"-h"}
        section = sections[" ".join(path)]
        assert flags == set(re.findall(r"^\| `(-[\w-]+)", section, re.M))
        assert f"memvec {' '.join(path)}" in section.split("```text")[1]


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_teaches_by_example(path):
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert f"    memvec {' '.join(path)}" in result.output


def test_help_tells_the_exit_codes():
    output = CliRunner().invoke(main, ["--help"]).output
    for code in ("0", "1", "2", "3", "130"):
        assert f"\n    {code} " in output


def test_commands_of_the_readme_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sample = load_sample()
    np.savez("synsets.npz", vectors=sample.vectors, text=sample.texts)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Sixty seconds on the command line")[1]
    block = re.search(r"^```console\n(.*?)^```", section, re.M | re.S)[1]
    shown = re.findall(r"^\$ memvec (.*?)\n(.*?)(?=^\$|\Z)", block, re.M | re.S)
    assert len(shown) == 4
    for command, expected in shown:
        arguments = shlex.split(command.split(">")[0], comments=True)
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        # The first line; what follows has digits that another machine may round otherwise.
        assert expected.splitlines()[0] in result.output
