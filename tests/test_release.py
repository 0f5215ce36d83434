"""What ships: the files of wheel and source distribution, and the versions that they name."""

import re
import tomllib
import zlib
from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import memvec

ROOT = Path(__file__).parent.parent
WHEEL_MEGABYTES = 12
# Besides modules: types, the sample, the descriptor of images, kernels of the GPU, the page.
SHIPPED = {
    "memvec": {"py.typed"},
    "memvec/evaluation/sample": {".npy", ".txt", ".xz", ".zlib"},
    "memvec/images/descriptor": {".json"},
    "memvec/images/descriptor/g000001": {".npy"},
    "memvec/kernels/cuda": {".cu"},
    "memvec/server/page": {".css", ".html", ".js", ".svg"},
}
TOP = {
    ".ci",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "conftest.py",
    "docs",
    "examples",
    "paper",
    "pyproject.toml",
    "requirements",
    "src",
    "tests",
    "tools",
}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def files_of(builder):
    included = builder(str(ROOT)).recurse_included_files()
    return {PurePosixPath(file.distribution_path): Path(file.path) for file in included}


@pytest.fixture(scope="module")
def wheel():
    return files_of(WheelBuilder)


def is_known(path):
    kinds = SHIPPED.get(str(path.parent), set())
    return path.suffix == ".py" or path.name in kinds or path.suffix in kinds - {""}


def test_wheel_holds_the_package_and_its_data_alone(wheel):
    assert [path for path in wheel if not is_known(path)] == []
    assert {path.parts[0] for path in wheel} == {"memvec"}
    assert not {"tests", "__pycache__"} & {part for path in wheel for part in path.parts}
    assert PurePosixPath("memvec/py.typed") in wheel


def test_wheel_lacks_no_file_of_the_package(wheel):
    package = ROOT / "src"
    there = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.relative_to(package).as_posix() for path in there} == set(map(str, wheel))


@pytest.mark.parametrize("path", ["memvec/x.pyc", "memvec/notes.txt", "memvec/server/x.js"])
def test_strange_files_would_be_told(path):
    assert not is_known(PurePosixPath(path))


def test_wheel_stays_small(wheel):
    packed = sum(len(zlib.compress(path.read_bytes(), 6)) for path in wheel.values())
    assert packed < WHEEL_MEGABYTES * 1e6


def test_source_distribution_holds_what_a_clone_does_and_nothing_else():
    files = files_of(SdistBuilder)
    assert {path.parts[0] for path in files} == TOP
    parts = {part for path in files for part in path.parts}
    assert not [part for part in parts if part.endswith((".pyc", "_cache", "__pycache__"))]
    assert "_build" not in parts


def test_licences_are_named_and_there(project):
    assert project["license"] == "Apache-2.0"
    for pattern in project["license-files"]:
        assert list(ROOT.glob(pattern))
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_one_version_is_named_everywhere(project):
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^version: \"?([\w.]+)", citation, re.MULTILINE) == [project["version"]]
    assert re.findall(r"^## ([\d.]+)", changes, re.MULTILINE)[0] == project["version"]
    assert memvec.__version__ == project["version"]
