"""The code that a module computes with: itself and all of memvec that it imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
# All sources are read when this is imported: a file that changes while a long run goes on must not
# be taken for the one that runs.
_SOURCES = {
    file.relative_to(_PACKAGE.parent).with_suffix("").as_posix().replace("/", "."): (
        file.read_bytes()
    )
    for file in sorted(_PACKAGE.rglob("*.py"))
}
# They show what was computed and decide nothing: figures are drawn anew whenever a result is used,
# and verdicts are made from its table. The package itself gathers what users import.
_SHOWING = {
    "memvec.__init__",
    "memvec.experiments._experiment",
    "memvec.experiments._figures",
    "memvec.progress",
}


def code_hash(file: Path) -> str:
    """Return a hash of a module and of every module of memvec that it imports, directly or not."""
    name = _module_name(file)
    text = _SOURCES[name] if name in _SOURCES else file.read_bytes()
    found = _reached(frozenset(_imports(text)))
    parts = [text, *(_SOURCES[module] for module in sorted(found - {name}))]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _module_name(file: Path) -> str:
    if not file.is_relative_to(_PACKAGE):
        return ""
    return file.relative_to(_PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")


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
    return frozenset(_imports(_SOURCES[module]))


def _imports(text: bytes) -> Iterator[str]:
    """Yield the modules of memvec that a source imports, wherever in it."""
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
        if module in _SOURCES and module not in _SHOWING:
            yield module


__all__ = ["code_hash"]
