"""Results in the form of other tools: tables of Arrow, pandas and Polars, arrays of FAISS."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from memvec.errors import InvalidTypeError, MissingExtraError
from memvec.types import Float32Array, IntArray


class Columns(NamedTuple):
    """Matches, one per row.

    Attributes
    ----------
    query : ndarray of shape (n_matches,)
        The number of the query.
    id : ndarray of shape (n_matches,)
        Integers, or objects where some are text.
    score : ndarray of shape (n_matches,)
    """

    query: IntArray
    id: np.ndarray[Any, np.dtype[Any]]
    score: Float32Array

    def to_arrow(self, caller: str) -> Any:
        """Return a table of Arrow; of integers and text among the ids, all become text."""
        arrow = _module("pyarrow", caller, "files")
        return arrow.table({**self._asdict(), "id": arrow.array(self._of_one_type())})

    def to_pandas(self, caller: str) -> Any:
        """Return a frame of pandas."""
        pandas = _module("pandas", caller, "pandas")
        ids = integers(self.id)
        return pandas.DataFrame({**self._asdict(), "id": self.id if ids is None else ids})

    def to_polars(self, caller: str) -> Any:
        """Return a frame of Polars; of integers and text among the ids, all become text."""
        polars = _module("polars", caller, "polars")
        return polars.DataFrame({**self._asdict(), "id": self._of_one_type()})

    def _of_one_type(self) -> IntArray | list[str]:
        ids = integers(self.id)
        return [str(name) for name in self.id] if ids is None else ids


def integers(ids: np.ndarray[Any, np.dtype[Any]]) -> IntArray | None:
    """Return ids as an array of integers; None where some are text."""
    if ids.dtype == np.object_ and not all(isinstance(name, int) for name in ids.flat):
        return None
    return ids.astype(np.int64)


def faiss_ids(ids: np.ndarray[Any, np.dtype[Any]], caller: str) -> IntArray:
    """Return ids as FAISS has them, -1 for none; raise where some are text."""
    if ids.dtype == np.object_:
        missing = np.array([name is None for name in ids.flat], dtype=bool)
        ids = np.where(missing.reshape(ids.shape), -1, ids)
    plain = integers(ids)
    if plain is None:
        text = next(name for name in ids.flat if not isinstance(name, int))
        raise InvalidTypeError(
            f"{caller} returns integer ids, the only ones that FAISS has. Got {text!r} instead."
        )
    return plain


def _module(name: str, caller: str, extra: str) -> Any:
    """Return a package that only this needs."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(caller, name, extra) from None
