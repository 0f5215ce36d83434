"""The surface that users rely on: a change here is a change for them."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import memvec

SURFACE = [
    "AsyncClient",
    "Client",
    "Collection",
    "Hits",
    "Index",
    "IndexConfig",
    "MemvecError",
    "TopHits",
    "__version__",
    "deduplicate",
    "deduplicate_files",
    "join",
    "join_files",
    "open",
    "self_join",
]
ROOMS = [
    "assignment",
    "cli",
    "client",
    "cluster",
    "codes",
    "collection",
    "constructions",
    "evaluation",
    "files",
    "gpu",
    "guarantee",
    "images",
    "index",
    "integrations",
    "kernels",
    "search",
    "server",
    "storage",
    "theory",
]


def test_package_exports_what_is_documented():
    assert sorted(memvec.__all__) == sorted(SURFACE)


@pytest.mark.parametrize(
    "room", ["", *ROOMS, "checks", "errors", "lazy", "matches", "progress", "types"]
)
def test_everything_a_door_names_is_there_and_documented(room):
    module = importlib.import_module(f"memvec.{room}" if room else "memvec")
    names = [name for name in module.__all__ if name != "__version__"]
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name


@pytest.mark.parametrize("room", ROOMS)
def test_doors_only_open(room):
    """A room's door holds a docstring, imports and __all__, and no code of its own."""
    module = importlib.import_module(f"memvec.{room}")
    assert module.__doc__
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
    ]
    assert own == []


def test_completion_offers_names_that_were_not_used_yet():
    code = "import memvec; print(sorted(set(memvec.__all__) - set(dir(memvec))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rooms_are_there_without_being_imported():
    code = "import memvec; print(memvec.errors.LockedError, memvec.theory.UnitTest)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.findall(r"\.(\w+)'", done.stdout) == ["LockedError", "UnitTest"]


@pytest.mark.parametrize("name", ["nothing", "_nothing"])
def test_name_that_is_not_there_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"module 'memvec' has no attribute '{name}'"):
        getattr(memvec, name)


def test_traceback_suggests_the_name_that_was_meant():
    code = "import memvec; memvec.Indx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "module 'memvec' has no attribute 'Indx'. Did you mean: 'Index'?" in done.stderr


@pytest.mark.parametrize("name", ["Indexx", "a.b", "_index", "no room"])
def test_names_that_do_not_exist_are_told_as_python_does(name):
    assert not hasattr(memvec, name)
