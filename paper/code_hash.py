"""The code that a module computes with: itself and all that it imports of memvec and paper."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import memvec

_PACKAGES = (Path(memvec.__file__).parent, Path(__file__).parent)
# They show what was computed and decide nothing: figures are drawn anew whenever a result is used,
# and verdicts are made from its table. The packages themselves gather what users import.
_SHOWING = {
    "memvec.__init__",
    "memvec.progress",
    "paper.__init__",
    "paper.drawing",
    "paper.experiment",
}


def code_hash(file: Path) -> str:
    """Return a hash of a module and of all of memvec and paper that it imports, directly or not."""
    sources, name = all_sources(), _module_name(file)
    text = sources[name] if name in sources else file.read_bytes()
    found = _reached(frozenset(_imports(text)))
    parts = [text, *(sources[module] for module in sorted(found - {name}))]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


@cache
def all_sources() -> dict[str, bytes]:
    """Return the source of each module of memvec and paper.

    All are read when the first experiment starts, and once: a file that changes while a long run
    goes on must not be taken for the one that runs.
    """
    files = [file for package in _PACKAGES for file in sorted(package.rglob("*.py"))]
    return {_module_name(file): file.read_bytes() for file in files}


def _module_name(file: Path) -> str:
    for package in _PACKAGES:
        if file.is_relative_to(package):
            path = file.relative_to(package.parent).with_suffix("")
            return path.as_posix().replace("/", ".")
    return ""


def _reached(names: frozenset[str]) -> set[str]:
    """Return the modules that some lead to."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        found |= waiting
        waiting = {name for module in waiting for name in _imports_of(module)} - found
    return found


@cache
def _imports_of(module: str) -> frozenset[str]:
    return frozenset(_imports(all_sources()[module]))


def _imports(text: bytes) -> Iterator[str]:
    """Yield the modules of memvec and paper that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield from _modules(node.module)
            for name in node.names:
                yield from _modules(f"{node.module}.{name.name}")
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield from _modules(name.name)


def _modules(name: str) -> Iterator[str]:
    """Yield a name where it is that of a module that computes; a package is its ``__init__``."""
    for module in (name, f"{name}.__init__"):
        if module in all_sources() and module not in _SHOWING:
            yield module


__all__ = ["all_sources", "code_hash"]
