import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

from memvec.kernels import _notice, search_codes
from memvec.kernels._compile import fast_kernel
from memvec.kernels._notice import CompileNotice, functions_of
from memvec.progress import heeds_progress, progress_bar


def event_of(function):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def function_in(module):
    def function():
        """Nothing."""

    function.__module__ = module
    return function


@fast_kernel
def _inner(number):
    return number + 1


@fast_kernel
def _middle(number):
    return _inner(number) + _inner(number + 1)


@pytest.fixture
def notebook(monkeypatch):
    """A notebook, as far as one sees from inside."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)


def test_compiling_is_announced_once(caplog):
    notice = CompileNotice()
    for module in ("other.module", None):
        notice.on_start(event_of(function_in(module)))
        notice.on_end(event_of(function_in(module)))
    assert caplog.messages == []
    for _ in range(2):
        notice.on_start(event_of(function_in("memvec.kernels._scores")))
        notice.on_end(event_of(function_in("memvec.kernels._scores")))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "compiling for this machine. A first build" in caplog.text


def test_code_that_cannot_be_kept_is_announced_as_such(caplog, monkeypatch):
    monkeypatch.setattr(_notice, "kept_folder", lambda: None)
    monkeypatch.setenv("MEMVEC_CACHE_DIR", "/nowhere")
    CompileNotice().on_start(event_of(function_in("memvec.kernels._scores")))
    assert "cannot be kept: /nowhere" in caplog.text
    assert "MEMVEC_CACHE_DIR" in caplog.text


def test_user_without_a_home_is_told_so(caplog, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(_notice, "kept_folder", lambda: None)
    monkeypatch.setattr(_notice, "place", homeless)
    CompileNotice().on_start(event_of(function_in("memvec.kernels._scores")))
    assert "cannot be kept: you have no home folder" in caplog.text


def test_service_without_stderr_is_told_by_its_log(caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    CompileNotice().on_start(event_of(function_in("memvec.kernels._scores")))
    assert "compiling for this machine" in caplog.text


def test_compiling_is_announced_in_a_notebook_by_a_line(notebook, capsys, caplog):
    CompileNotice().on_start(event_of(function_in("memvec.kernels._scores")))
    assert "compiling for this machine" in capsys.readouterr().err
    assert caplog.messages == []


def test_call_that_shows_no_progress_announces_nothing(notebook, capsys, caplog):
    notice = CompileNotice()

    @heeds_progress
    def compiled(*, progress=None):
        notice.on_start(event_of(function_in("memvec.kernels._scores")))
        notice.on_end(event_of(function_in("memvec.kernels._scores")))

    compiled(progress=False)
    assert (capsys.readouterr().err, caplog.messages) == ("", [])
    compiled()
    assert "compiling for this machine" in capsys.readouterr().err


def test_bar_counts_the_functions_that_are_compiled(monkeypatch):
    bars, steps = [], []

    def counted(description, total):
        bars.append(total)
        return progress_bar(description, total, False)

    monkeypatch.setattr(_notice, "progress_bar", counted)
    for kernel in (_inner, _middle):
        monkeypatch.setattr(kernel.function, "__module__", "memvec.made_up")
    monkeypatch.setattr(_notice, "_function_of_event", counting(steps, _notice._function_of_event))
    assert _middle(1) == 5
    assert bars == [2]
    assert [function.__name__ for function in steps] == ["_middle", "_inner", "_inner", "_middle"]


def counting(steps, function_of_event):
    def counted(event):
        function = function_of_event(event)
        if function is not None:
            steps.append(function)
        return function

    return counted


def test_functions_of_a_kernel_are_found_through_all_files():
    names = {kernel.__name__ for kernel in functions_of(search_codes.function)}
    assert {"rotate", "quantise_query", "pass_runs", "keep_matches", "sort_hits"} <= names
    assert "search_codes" not in names
