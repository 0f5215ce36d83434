"""The lock files in requirements/ hold what pyproject.toml asks for, on every version of Python."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PYTHONS = ["3.11.0", "3.12.0", "3.13.0"]
# What each file locks: groups of development and extras, besides what the package needs.
LOCKED = {
    "package": ["build"],
    "dev": ["build", "dev"],
    "extras": ["build", "extras"],
    "docs": ["build", "docs"],
    "bench": ["bench"],
    "release": ["release"],
}
SHARED = ["package", "dev", "bench", "release"]  # installed in one environment


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def wanted(project, name):
    """Give the requirements that a lock file answers."""
    lines = list(project["project"]["dependencies"])
    for group in LOCKED[name]:
        lines += flattened(project, group)
    return [Requirement(line) for line in lines]


def flattened(project, group):
    extras = project["project"]["optional-dependencies"]
    entries = extras[group] if group in extras else project["dependency-groups"][group]
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            yield from flattened(project, entry["include-group"])


def read_lock(name):
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def pins(text, python):
    """Give the versions that a lock file holds for Linux and a version of Python."""
    machine = environment(python)
    lines = [line.removesuffix("\\") for line in text.splitlines() if re.match(r"\w", line)]
    locked = [Requirement(line) for line in lines]
    here = [pin for pin in locked if pin.marker is None or pin.marker.evaluate(machine)]
    names = [canonicalize_name(pin.name) for pin in here]
    assert len(names) == len(set(names)), f"two versions of one package for Python {python}"
    return {
        name: str(pin.specifier).removeprefix("==") for name, pin in zip(names, here, strict=True)
    }


def environment(python):
    versions = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    return default_environment() | versions | {"sys_platform": "linux", "os_name": "posix"}


def unanswered(requirements, locked, python):
    """Name the requirements that no locked version meets."""
    machine = environment(python)
    asked = [line for line in requirements if line.marker is None or line.marker.evaluate(machine)]
    return [
        str(line)
        for line in asked
        if not line.specifier.contains(locked.get(canonicalize_name(line.name), "0"))
    ]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", LOCKED)
def test_locked_versions_meet_the_ranges_of_the_project(project, name, python):
    locked = pins(read_lock(name), python)
    assert unanswered(wanted(project, name), locked, python) == [], "run `make lock`"


def test_versions_that_are_missing_or_out_of_range_are_named():
    asked = [Requirement(line) for line in ("numpy>=2", "rich>=13", "ray>=2; python_version<'3'")]
    assert unanswered(asked, {"numpy": "1.26", "rich": "15.0"}, "3.11.0") == ["numpy>=2"]
    assert unanswered(asked, {"numpy": "2.4"}, "3.11.0") == ["rich>=13"]


def test_every_group_and_extra_of_the_makefile_is_locked():
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlock:")[2]
    lines = re.findall(r"\(LOCK\) (.*) -o requirements/(\w+)\.txt", rule)
    named = {name: re.findall(r"--(?:group|extra) (\w+)", options) for options, name in lines}
    assert {name: sorted(groups) for name, groups in named.items()} == LOCKED
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == set(LOCKED)


@pytest.mark.parametrize("python", PYTHONS)
def test_files_of_one_environment_hold_the_same_versions(python):
    versions = {}
    for name in SHARED:
        for package, version in pins(read_lock(name), python).items():
            assert versions.setdefault(package, version) == version, f"{package} in {name}"


@pytest.mark.parametrize("name", LOCKED)
def test_locks_name_versions_and_hashes_and_no_place(name):
    text = read_lock(name)
    assert not re.search(r"://|^-|@", text, re.MULTILINE)
    entries = re.split(r"\n(?=\w)", text)[1:]
    assert entries
    for entry in entries:
        assert re.match(r"[\w.-]+==[\w.]+ ", entry)
        assert "--hash=sha256:" in entry
