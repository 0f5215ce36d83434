"""A kernel reads from a table what Python has put there."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest

from memvec.kernels import Packed
from memvec.kernels._compile import kernel
from memvec.kernels._packed import Float, FloatRows, Floats, Int, WordBlocks, unpacked


class Things(NamedTuple):
    """A field of each kind: numbers, and arrays of one to three dimensions."""

    base: Float
    count: Int
    factors: Floats
    rows: FloatRows
    blocks: WordBlocks


@kernel
def _read(address, rows, blocks):
    base, count, factors, _, _ = unpacked(address, Things)
    things = unpacked(address, Things)
    rows[:] = things.rows
    blocks[:] = things.blocks
    return base, count, factors.sum(), things.rows.shape, things.blocks.shape


ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def things(rows=ROWS):
    blocks = np.arange(24, dtype=np.uint64).reshape(2, 3, 4) << np.uint64(59)
    return Things(0.1, -7, np.arange(3, dtype=np.float32), rows, blocks)


def read(packed, function=_read):
    rows, blocks = np.zeros((3, 4), np.float32), np.zeros((2, 3, 4), np.uint64)
    return function(packed.address, rows, blocks), rows, blocks


@pytest.mark.parametrize("function", [_read, _read.function], ids=["compiled", "python"])
def test_fields_are_read_as_they_were_packed(function):
    given = things()
    (base, count, total, *shapes), rows, blocks = read(Packed(given), function)
    assert (base, count, total) == (np.float32(0.1), -7, 3.0)
    assert shapes == [(3, 4), (2, 3, 4)]
    assert (rows == given.rows).all()
    assert (blocks == given.blocks).all()


@pytest.mark.parametrize(
    "rows",
    [
        np.arange(12, dtype=np.float64).reshape(3, 4),
        np.arange(12, dtype=np.float32).reshape(4, 3).T,
        np.arange(24, dtype=np.float32).reshape(3, 8)[:, ::2],
    ],
    ids=["float64", "transposed", "strided"],
)
def test_arrays_that_lie_otherwise_are_copied_and_kept(rows):
    _, seen, _ = read(Packed(things(rows)))
    assert (seen == rows).all()


def test_empty_arrays_have_their_shape():
    given = things()._replace(factors=np.empty(0, np.float32))
    (_, _, total, *_), _, _ = read(Packed(given))
    assert total == 0.0


def test_array_of_other_dimensions_is_refused():
    with pytest.raises(ValueError, match="2 dimensions are expected, not 1"):
        Packed(things(np.ones(4, dtype=np.float32)))


def test_pickle_is_packed_anew():
    packed = Packed(things())
    copied = pickle.loads(pickle.dumps(packed))
    assert copied.address != packed.address
    assert (read(copied)[1] == ROWS).all()
