"""An ecosystem that is not installed is told by its pip line, and none pulls another."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

MISSING = {
    "sklearn": ("sklearn", "scikit-learn", "sklearn"),
    "langchain": ("langchain_core", "langchain-core", "langchain"),
    "arrow": ("pyarrow", "pyarrow", "arrow"),
    "datasets": ("datasets", "datasets", "datasets"),
    "mcp": ("mcp", "mcp", "mcp"),
}
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", MISSING)
def test_missing_package_is_named_with_its_pip_line(module):
    imported, package, extra = MISSING[module]
    code = f"import sys; sys.modules[{imported!r}] = None; import memvec.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = f"memvec.errors.MissingExtraError: memvec.integrations.{module} needs the package"
    assert f"{told} '{package}'" in done.stderr
    assert f"pip install 'memvec[{extra}]'" in done.stderr


def test_extras_stay_apart():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for _, package, extra in MISSING.values():
        named = [line.split(">")[0] for line in extras[extra]]
        assert package in named
        assert set(named) <= {package, "pyarrow"}  # which data sets are made of
