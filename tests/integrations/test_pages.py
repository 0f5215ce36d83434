"""The pages and examples of integrations run, with every ecosystem installed."""

import os
import runpy
import sys
from pathlib import Path

import pytest

from test_docs import EXTRA_PAGES, run_python

for package in ("chromadb", "datasets", "faiss", "hnswlib", "langchain_core", "mcp", "sklearn"):
    pytest.importorskip(package, reason="of the group extras: make test-extras")

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"


@pytest.mark.parametrize("page", EXTRA_PAGES, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = Path(sys.executable).parent  # where `memvec` is, whether or not it is activated
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    run_python(page)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_runs(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
