"""What joins do with frames of any kind: take vectors from a column, rows, and add a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import memvec
from memvec import checks
from memvec.errors import MissingExtraError
from memvec.guarantee import Certificate
from memvec.index import Index
from memvec.search import DuplicateRows, SimilarPairs
from memvec.types import IntArray

try:
    import pyarrow
    import pyarrow.compute
except ImportError:
    raise MissingExtraError("memvec.integrations.arrow", "pyarrow", "arrow") from None

Frame: TypeAlias = Any
Vectors: TypeAlias = Any


class Kind(NamedTuple):
    """How a kind of frame does what is needed of it.

    Attributes
    ----------
    names : function of a frame
        Return the names of its columns.
    column : function of a frame and a name
        Return a column, as Arrow or NumPy hold it.
    take : function of a frame and row numbers
        Return these rows, in this order.
    with_lists : function of a frame, a name, offsets and values
        Return the frame with one more column, of lists of row numbers.
    of_columns : function of a mapping of names to arrays, and a frame or None
        Return a frame of new columns, before those of the frame.
    """

    names: Callable[[Frame], list[str]]
    column: Callable[[Frame, str], Any]
    take: Callable[[Frame, IntArray], Frame]
    with_lists: Callable[[Frame, str, IntArray, IntArray], Frame]
    of_columns: Callable[[Mapping[str, Any], Frame | None], Frame]


class Deduplicated(NamedTuple):
    """A frame without its duplicates, and what was found.

    Attributes
    ----------
    frame : frame of the kind that was given
        The rows that are kept, with a column of the rows dropped in favour of each.
    found : DuplicateRows
        The groups, and the certificate of the pairs missed.
    """

    frame: Frame
    found: DuplicateRows


class Joined(NamedTuple):
    """Pairs of rows as a frame, with the certificate of the pairs missed."""

    frame: Frame
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Contamination:
    """Near-copies of an evaluation set in a training set.

    Attributes
    ----------
    pairs : SimilarPairs
        `left` are rows of the evaluation set, `right` rows of the training set.
    n_train, n_test : int
        Number of rows of each set.
    """

    pairs: SimilarPairs
    n_train: int
    n_test: int

    @property
    def train_rows(self) -> IntArray:
        """The rows of the training set to drop, in ascending order, each once."""
        return np.unique(self.pairs.right)

    @property
    def test_rows(self) -> IntArray:
        """The rows of the evaluation set with a near-copy, in ascending order, each once."""
        return np.unique(self.pairs.left)

    @property
    def certificate(self) -> Certificate:
        """The promise about the pairs missed."""
        return self.pairs.certificate

    def __repr__(self) -> str:
        return (
            f"Contamination({len(self.test_rows):,} of {self.n_test:,} evaluation rows in "
            f"{len(self.train_rows):,} of {self.n_train:,} training rows, "
            f"{checks.counted(len(self.pairs), 'pair')})"
        )


def vectors_of_column(column: Any, name: str, where: str) -> Vectors:
    """Return a column of Arrow as an array of shape (n_rows, dim); not copied if of fixed size.

    Columns of several chunks are put together, which copies them.
    """
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    blocks = [_block(chunk, name, where) for chunk in chunks if len(chunk)]
    if not blocks:
        raise checks.bad_value(
            "column", where, "a column with at least one row", f"{name!r} with none"
        )
    widths = {block.shape[1] for block in blocks}
    if len(widths) > 1:
        expected = "rows of one length"
        raise checks.bad_value("column", where, expected, f"{sorted(widths)} in {name!r}")
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _block(chunk: Any, name: str, where: str) -> Vectors:
    array = chunk.storage if isinstance(chunk, pyarrow.ExtensionArray) else chunk
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise checks.bad_value(
            "column", where, "rows of one length", f"null in row {row} of {name!r}"
        )
    if pyarrow.types.is_fixed_size_list(array.type):
        width = array.type.list_size
    elif pyarrow.types.is_list(array.type) or pyarrow.types.is_large_list(array.type):
        lengths = pyarrow.compute.list_value_length(array).to_numpy(zero_copy_only=False)
        width = int(lengths[0])
        if (lengths != width).any():
            got = f"{width} and {lengths[lengths != width][0]} in {name!r}"
            raise checks.bad_value("column", where, "rows of one length", got)
    else:
        raise checks.bad_type(
            "column", where, "a column of lists of numbers", f"{name!r} of {array.type}"
        )
    return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), width)


class Work(NamedTuple):
    """A frame, its kind, and the caller that errors name."""

    kind: Kind
    frame: Frame
    where: str

    def vectors(self, column: str) -> Vectors:
        """Return the vectors of a column."""
        found = self.column(column, "column")
        if isinstance(found, pyarrow.Array | pyarrow.ChunkedArray):
            return vectors_of_column(found, column, self.where)
        return found

    def column(self, name: object, parameter: str) -> Any:
        """Return a column that is there."""
        names = self.kind.names(self.frame)
        if name not in names:
            expected = f"one of {', '.join(map(repr, names))}"
            raise checks.bad_value(parameter, self.where, expected, repr(name))
        return self.kind.column(self.frame, str(name))

    def deduplicated(
        self, column: str, similarity: float, groups_column: str, options: dict[str, Any]
    ) -> Deduplicated:
        """Return the frame without duplicates, and with the groups."""
        if groups_column in self.kind.names(self.frame):
            expected = "the name of a new column"
            raise checks.bad_value("groups_column", self.where, expected, repr(groups_column))
        scores = options.get("scores")
        if isinstance(scores, str):
            options = {**options, "scores": np.asarray(self.column(scores, "scores"))}
        found = memvec.deduplicate(self.vectors(column), similarity, **options)
        dropped_of = {group.kept: group.dropped for group in found.groups}
        lists = [dropped_of.get(row, []) for row in found.kept.tolist()]
        offsets = np.cumsum([0, *map(len, lists)])
        values = np.array([row for rows in lists for row in rows], dtype=np.int64)
        kept = self.kind.take(self.frame, found.kept)
        return Deduplicated(self.kind.with_lists(kept, groups_column, offsets, values), found)

    def joined(self, pairs: SimilarPairs) -> Joined:
        """Return pairs as a frame of this kind."""
        columns = {"left": pairs.left, "right": pairs.right, "score": pairs.scores}
        return Joined(self.kind.of_columns(columns, None), pairs.certificate)

    def within(
        self, queries: Vectors, similarity: float, column: str, options: dict[str, Any]
    ) -> Joined:
        """Return everything above a similarity: query, row, score, and the other columns."""
        index = Index.build(self.vectors(column), similarity=similarity, **options)
        hits = index.range_search(queries)
        of_query = np.repeat(np.arange(len(hits)), hits.counts)
        columns = {"query": of_query, "row": hits.ids, "score": hits.scores}
        taken = {*columns, column} & {*self.kind.names(self.frame)}
        if taken != {column}:
            expected = "one without columns 'query', 'row' and 'score'"
            raise checks.bad_value("frame", self.where, expected, f"{sorted(taken - {column})}")
        found = self.kind.take(self.frame, hits.ids.astype(np.int64))
        return Joined(self.kind.of_columns(columns, _without(found, column)), hits.certificate)


def _without(frame: Frame, column: str) -> Frame:
    """Return a frame without a column: all kinds have one of two methods for it."""
    if isinstance(frame, pyarrow.Table):
        return frame.drop_columns([column])
    return frame.drop(columns=[column]) if hasattr(frame, "iloc") else frame.drop(column)


def contamination_of(
    train: Vectors, test: Vectors, similarity: float, options: dict[str, Any]
) -> Contamination:
    """Return near-copies of an evaluation set in a training set."""
    pairs = memvec.join(test, train, similarity, **options)
    return Contamination(pairs, len(train), len(test))


__all__ = [
    "Contamination",
    "Deduplicated",
    "Frame",
    "Joined",
    "Kind",
    "Work",
    "contamination_of",
    "pyarrow",
    "vectors_of_column",
]
