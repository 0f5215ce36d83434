"""Starting stays light: what only some users need is imported when they need it."""

import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np

import memvec
from memvec.cli import main

EXTRAS = [
    "cuda.bindings",
    "cuda.core",
    "cupy",
    "cv2",
    "datasets",
    "faiss",
    "fastapi",
    "h5py",
    "httpx",
    "langchain_core",
    "matplotlib",
    "mcp",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "ray",
    "sklearn",
    "uvicorn",
]
# Numba is imported by the first kernel that runs, SciPy by the first law that is evaluated.
HEAVY = [*EXTRAS, "llvmlite", "numba", "rich", "scipy"]
ROOMS = ["collection", "guarantee", "index", "kernels", "theory"]
COMPILER = ["llvmlite", "numba"]


def loaded_after(code: str, modules: list[str]) -> list[str]:
    """Return which of the modules a fresh process has imported after running the code."""
    told = f"import json, sys; print(json.dumps([m for m in {modules!r} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def running(commands: list[list[str]]) -> str:
    """Return code that runs commands of the command line, one after the other."""
    return f"""
from memvec.cli import main
for arguments in {commands!r}:
    try:
        main(arguments)
    except SystemExit as done:
        assert not done.code, arguments
"""


def command_paths(command: click.Command, path: tuple[str, ...] = ()) -> list[list[str]]:
    commands = command.commands if isinstance(command, click.Group) else {}
    below = [found for name in commands for found in command_paths(commands[name], (*path, name))]
    return [[*path], *below]


def test_import_loads_no_room():
    rooms = [f"memvec.{room}" for room in ROOMS]
    assert loaded_after("import memvec", [*HEAVY, "numpy", *rooms]) == []


def test_using_every_public_name_loads_nothing_heavy():
    touched = "\n".join(f"memvec.{name}" for name in memvec.__all__)
    assert loaded_after(f"import memvec\n{touched}", HEAVY) == []


def test_room_of_gpus_loads_nothing_heavy():
    assert loaded_after("import memvec.gpu", HEAVY) == []


def test_first_kernel_loads_the_compiler():
    code = "from memvec.kernels import float32_slack\nfloat32_slack(4)"
    assert loaded_after(code, COMPILER) == COMPILER


def test_help_and_version_load_no_compiler_and_no_scipy():
    helps = [[*path, "--help"] for path in command_paths(main)]
    assert ["images", "--help"] in helps
    assert loaded_after(running([["--version"], *helps]), [*EXTRAS, *COMPILER, "scipy"]) == []


def test_commands_that_need_no_kernel_load_no_compiler(tmp_path: Path):
    vectors, collection = str(tmp_path / "rows.npy"), str(tmp_path / "rows.mv")
    np.save(vectors, np.random.default_rng(0).standard_normal((40, 8)))
    commands = [
        ["design", "--dim", "100", "--similarity", "0.7"],
        ["create", collection, "--dim", "8"],
        ["add", collection, vectors],
        ["info", collection],
        ["delete", collection, "rows.npy:3"],
        ["export", collection, str(tmp_path / "rows.jsonl")],
        ["check", collection],
    ]
    assert loaded_after(running(commands), COMPILER) == []
