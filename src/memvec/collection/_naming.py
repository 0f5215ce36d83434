"""From keys of matches to ids; equal scores are ordered by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from memvec.collection._ids import Id
from memvec.matches import Matches
from memvec.search import IdArray
from memvec.types import IntArray

# Returns the ids of keys, as far as they are there.
Names: TypeAlias = Callable[[IntArray], dict[int, Id]]


class MovedError(Exception):
    """An item was compacted away after it was found; the answer belongs to no state any more."""


def id_order(name: Id) -> tuple[bool, Id]:
    """Return what sorts ids: integers before strings."""
    return isinstance(name, str), name


def named(names: Names, found: Matches) -> tuple[IdArray, IntArray]:
    """Return the ids of matches in order, equal scores by id, and the keys in the same order.

    Queries and scores stay where they are: ids move only among equals.
    """
    # One query finds no item twice.
    ids = (_known_ids if len(found) == 1 else _ids)(names, found.ids)
    keys = found.ids.copy()
    for start, stop in _ties(found):
        pairs = zip(ids[start:stop].tolist(), keys[start:stop].tolist(), strict=True)
        sorted_ids, places = zip(*sorted(pairs, key=lambda pair: id_order(pair[0])), strict=True)
        ids[start:stop], keys[start:stop] = _as_objects(list(sorted_ids)), places
    return ids, keys


def still_named(names: Names, found: Matches) -> Matches:
    """Return the matches whose items were not compacted away."""
    known = np.array(list(names(np.unique(found.ids))), dtype=np.int64)
    return found.kept(np.isin(found.ids, known))


def _ids(names: Names, keys: IntArray) -> IdArray:
    unique, places = np.unique(keys, return_inverse=True)
    return _known_ids(names, unique)[places]


def _known_ids(names: Names, keys: IntArray) -> IdArray:
    found = names(keys) if len(keys) else {}
    if len(found) < len(keys):
        raise MovedError
    return _as_objects([found[key] for key in keys.tolist()])


def _as_objects(names: list[Id]) -> IdArray:
    objects = np.empty(len(names), dtype=object)
    objects[:] = names
    return objects


def _ties(found: Matches) -> Iterator[tuple[int, int]]:
    """Yield the runs of matches of one query with one score."""
    scores = found.scores
    other = scores[1:] != scores[:-1]
    if other.all():  # as nearly always
        return
    queries = found.queries
    fresh = (queries[1:] != queries[:-1]) | other
    starts = np.concatenate([[0], np.flatnonzero(fresh) + 1, [len(scores)]])
    for run in np.flatnonzero(np.diff(starts) > 1):
        yield int(starts[run]), int(starts[run + 1])


def pages(found: Matches, size: int) -> Iterator[Matches]:
    """Yield matches, `size` at a time, equal scores of a query together: a page may be longer."""
    queries, scores = found.queries, found.scores
    start = 0
    while start < len(scores):
        stop = min(start + size, len(scores))
        while stop < len(scores) and (queries[stop], scores[stop]) == (
            queries[stop - 1],
            scores[stop - 1],
        ):
            stop += 1
        page = slice(start, stop)
        yield Matches.of_pairs(queries[page], found.ids[page], scores[page], found.spent)
        start = stop
