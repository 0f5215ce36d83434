"""Arrays in values of the catalog: read as they were written, or refused."""

import io
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memvec.collection._packing import compressed, uncompressed, unpacked_arrays

ARRAYS = [
    np.arange(5),
    np.linspace(0, 1, 7),
    np.ones((3, 2), dtype=np.float32),
    np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.empty((0, 3), dtype=np.float32),
    np.empty(0, dtype=np.int64),
]


def packed(*arrays):
    stream = io.BytesIO()
    for array in arrays:
        np.save(stream, array)
    return stream.getvalue()


def test_arrays_come_back():
    found = unpacked_arrays(packed(*ARRAYS))
    for array, one in zip(ARRAYS, found, strict=True):
        assert one.dtype == array.dtype
        assert np.array_equal(one, array)
        assert one.flags.writeable
    assert unpacked_arrays(b"") == []


@pytest.mark.parametrize(
    "blob",
    [
        b"PK\x03\x04" + bytes(100),
        packed(np.array(["text"])),
        packed(np.array(5)),
        packed(np.ones((2, 2, 2))),
        packed(np.ones(3))[:-1],
        packed(np.ones(3)) + b"x",
        packed(np.ones(3)).replace(b"(3,)", b"(9,)"),
        packed(np.ones(3)).replace(b"(3,), }      ", b"(999999999,), }"[:13]),
        packed(np.ones(3)).replace(b"False", b"[[[[["),
    ],
)
def test_everything_else_is_refused(blob):
    with pytest.raises(ValueError, match="it (does not hold arrays|ends before)"):
        unpacked_arrays(blob)


@given(st.data())
def test_any_change_is_read_or_refused(data):
    blob = bytearray(packed(*ARRAYS[:3]))
    for _ in range(data.draw(st.integers(1, 5))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        sizes = [one.nbytes for one in unpacked_arrays(bytes(blob))]
    except ValueError:
        return
    assert sum(sizes) < len(blob)


@given(st.binary())
def test_compressed_value_comes_back(content):
    assert uncompressed(compressed(content)) == content


def test_arrays_that_were_not_compressed_are_read_as_they_are():
    assert uncompressed(packed(*ARRAYS)) == packed(*ARRAYS)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"text",
        compressed(b"some text")[:-1],
        compressed(b"some text") + b"x",
        compressed(b"some text")[:-4] + bytes(4),
        zlib.compress(bytes(1 << 27), 9),
    ],
)
def test_value_that_is_not_compressed_whole_is_refused(blob):
    with pytest.raises(ValueError, match="it"):
        uncompressed(blob)
