"""The notebooks run from top to bottom, and draw what they promise."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient, of the group `extras`, is missing")
nbformat = pytest.importorskip("nbformat", reason="nbformat, of the group `extras`, is missing")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def run(path, folder):
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}}).execute()
    return [output for cell in book.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_shows_something(path, tmp_path):
    outputs = run(path, tmp_path)
    assert not [output for output in outputs if output.output_type == "error"]
    shown = [output.data for output in outputs if "data" in output]
    assert any("text/html" in data or "image/png" in data for data in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path):
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in book.cells)
