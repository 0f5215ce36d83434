"""A notebook that runs: whoever waits for a first build sees why, by a line and by bars."""

import pytest

REASON = "of the group extras: make test-extras"
kernelspec = pytest.importorskip("ipykernel.kernelspec", reason=REASON)
nbclient = pytest.importorskip("nbclient", reason=REASON)
nbformat = pytest.importorskip("nbformat", reason=REASON)

ROWS = """
import numpy as np, memvec
rows = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
"""
BUILD = "index = memvec.Index.build(rows, similarity=0.7)"
SILENT = "index = memvec.Index.build(rows, similarity=0.7, progress=False)"
SEARCH = "hits = index.range_search(rows[:3]); hits"
WIDGET = "application/vnd.jupyter.widget-view+json"


def outputs(tmp_path, monkeypatch, *cells):
    """Run cells with nothing compiled yet; return what each of them shows."""
    monkeypatch.setenv("MEMVEC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(made, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    return [cell.outputs for cell in made.cells]


def texts(shown):
    return "".join(one.text for one in shown if one.output_type == "stream")


@pytest.fixture(autouse=True)
def kernels_of_this_environment(monkeypatch, tmp_path):
    """The kernel of the Python that runs the tests, whatever is installed elsewhere."""
    kernelspec.write_kernel_spec(str(tmp_path / "kernels" / "python3"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the event loop of nbclient
def test_first_build_in_a_notebook_tells_why_it_takes_long(tmp_path, monkeypatch):
    _, built, searched, again = outputs(tmp_path, monkeypatch, ROWS, BUILD, SEARCH, BUILD)
    assert texts(built).count("memvec: compiling for this machine.") == 1
    assert any(WIDGET in one.get("data", {}) for one in built)
    assert "compiling" not in texts(searched) + texts(again)
    assert "text/plain" in searched[-1].data


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_build_without_progress_shows_nothing_in_a_notebook(tmp_path, monkeypatch):
    _, built = outputs(tmp_path, monkeypatch, ROWS, SILENT)
    assert built == []
