"""From keys to ids, and the order of equal scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memvec.collection._answers import Answer
from memvec.collection._catalog import Catalog
from memvec.collection._ids import Id
from memvec.collection._items import ids_of
from memvec.collection._results import IdArray
from memvec.types import IntArray


class MovedError(Exception):
    """An item was compacted away after it was found; the answer belongs to no state any more."""


def id_order(name: Id) -> tuple[bool, Id]:
    """Return what sorts ids: integers before strings."""
    return isinstance(name, str), name


def named(catalog: Catalog, answer: Answer) -> IdArray:
    """Return the ids of an ordered answer, equal scores by id.

    Queries and scores of the answer stay where they are: ids move only among equals.
    """
    ids = _ids(catalog, answer.keys)
    for start, stop in _ties(answer):
        ids[start:stop] = _as_objects(sorted(ids[start:stop], key=id_order))
    return ids


def still_named(catalog: Catalog, answer: Answer) -> Answer:
    """Return the matches whose items were not compacted away."""
    known = np.array(list(ids_of(catalog, np.unique(answer.keys))), dtype=np.int64)
    return answer.taken(np.isin(answer.keys, known))


def _ids(catalog: Catalog, keys: IntArray) -> IdArray:
    unique, places = np.unique(keys, return_inverse=True)
    found = ids_of(catalog, unique) if len(unique) else {}
    if len(found) < len(unique):
        raise MovedError
    return _as_objects([found[key] for key in unique.tolist()])[places]


def _as_objects(names: list[Id]) -> IdArray:
    objects = np.empty(len(names), dtype=object)
    objects[:] = names
    return objects


def _ties(answer: Answer) -> Iterator[tuple[int, int]]:
    """Yield the runs of matches of one query with one score."""
    if len(answer.keys) < 2:
        return
    queries, scores = answer.queries, answer.scores
    fresh = (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1])
    starts = np.concatenate([[0], np.flatnonzero(fresh) + 1, [len(scores)]])
    for run in np.flatnonzero(np.diff(starts) > 1):
        yield int(starts[run]), int(starts[run + 1])


__all__ = ["MovedError", "id_order", "named", "still_named"]
