import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from memvec import progress
from memvec.progress import in_notebook, listening, progress_bar


@pytest.fixture
def notebook(monkeypatch):
    """A notebook, as far as one sees from inside."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)


def test_bar_in_a_bar_shares_its_display(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("outer", 3, True) as outer:
        shown = progress._SHOWN
        with progress_bar("inner", 2, True) as inner:
            assert progress._SHOWN is shown
            inner(1)
            assert [task.description for task in shown.tasks] == ["outer", "inner"]
        outer(1)
        assert [task.completed for task in shown.tasks] == [1]
    assert progress._SHOWN is None


def test_notebook_is_told_from_a_program(notebook, monkeypatch):
    assert in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not in_notebook()


@pytest.mark.parametrize("widgets", [True, False])
def test_notebook_shows_bars_where_it_has_widgets(notebook, monkeypatch, widgets):
    found = object() if widgets else None
    monkeypatch.setattr(progress, "find_spec", lambda name: found)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("counting", 3):
        assert (progress._SHOWN is not None) == widgets


@pytest.mark.parametrize("closed", [True, False])
def test_service_without_stderr_shows_nothing(monkeypatch, closed):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    with progress_bar("counting", 3) as advance:
        advance(1)
        assert progress._SHOWN is None


def test_listener_is_told_and_may_end_the_work():
    seen = []

    def listen(*told):
        seen.append(told)
        if told[1] == 2:
            raise KeyboardInterrupt

    def work():
        with listening(listen), progress_bar("a", 3, True) as advance:
            for _ in range(3):
                advance(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert seen == [("a", 0, 3), ("a", 1, 3), ("a", 2, 3)]
    with progress_bar("b", 1, False) as advance:
        advance(1)
    assert len(seen) == 3
