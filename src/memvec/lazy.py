"""SciPy's modules, imported when they are first used.

They take longer to import than all the rest, and many programs never call them. So rooms write
``from memvec.lazy import special`` in place of ``from scipy import special``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """A module that imports the one it stands for when it is first asked for an attribute."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


optimize = _LazyModule("scipy.optimize")
sparse = _LazyModule("scipy.sparse")
special = _LazyModule("scipy.special")

__all__ = ["optimize", "sparse", "special"]
