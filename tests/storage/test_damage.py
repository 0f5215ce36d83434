"""Every bit, every length: damage is named or, without `verify`, at least never a wrong shape."""

import os

import numpy as np
import pytest

from memvec.errors import CorruptIndexError, FileFormatError, UnknownVersionError
from memvec.storage import open_folder, write_folder

ARRAYS = {
    "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
    "keys": np.array(["a", "bc"]),
    "none": np.empty((0, 3), np.int64),
    "one": np.array(7, np.uint8),
}
FILES = [f"g000001/{name}.npy" for name in ARRAYS]


@pytest.fixture
def saved(tmp_path):
    write_folder(tmp_path, ARRAYS, {"dim": 3})
    return tmp_path


def flips(content):
    """Yield the content with each of its bits flipped in turn."""
    for position in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            yield bytes(flipped)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_of_an_array_is_found_by_verify(saved, name):
    content = (saved / name).read_bytes()
    text = rf"{name} is damaged: its checksum \(CRC-32\) is \w{{8}}, saved was \w{{8}}"
    for flipped in flips(content):
        (saved / name).write_bytes(flipped)
        with pytest.raises(CorruptIndexError, match=text):
            open_folder(saved, verify=True)
    (saved / name).write_bytes(content)
    open_folder(saved, verify=True)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_of_a_header_is_found_at_open(saved, name):
    content = (saved / name).read_bytes()
    for flipped in flips(content[:128]):
        (saved / name).write_bytes(flipped + content[128:])
        with pytest.raises(CorruptIndexError, match=rf"{name} is damaged: it begins with b"):
            open_folder(saved)


def test_every_flipped_bit_of_the_manifest_is_found_at_open(saved):
    content = (saved / "manifest.json").read_bytes()
    unknown_versions = 0
    for flipped in flips(content):
        (saved / "manifest.json").write_bytes(flipped)
        with pytest.raises(FileFormatError, match=r"manifest\.json") as info:
            open_folder(saved)
        unknown_versions += isinstance(info.value, UnknownVersionError)
    assert unknown_versions == 4  # the digit 1 becomes 0, 3, 5 or 9


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_of_an_array_is_found_at_open(saved, name):
    size = (saved / name).stat().st_size
    for length in reversed(range(size)):
        os.truncate(saved / name, length)
        text = rf"{name} is damaged: its size is {length} bytes, saved were {size}"
        with pytest.raises(CorruptIndexError, match=text):
            open_folder(saved)


@pytest.mark.parametrize("extra", [1, 64, 10**12])
@pytest.mark.parametrize("name", FILES)
def test_extension_of_an_array_is_found_at_open(saved, name, extra):
    size = (saved / name).stat().st_size
    os.truncate(saved / name, size + extra)
    text = rf"{name} is damaged: its size is {size + extra} bytes, saved were {size}"
    with pytest.raises(CorruptIndexError, match=text):
        open_folder(saved)


def test_every_truncation_of_the_manifest_is_found_at_open(saved):
    size = (saved / "manifest.json").stat().st_size
    for length in reversed(range(size)):
        os.truncate(saved / "manifest.json", length)
        with pytest.raises(CorruptIndexError, match=r"manifest\.json is damaged"):
            open_folder(saved)


@pytest.mark.parametrize("extra", [b"\n", b" ", b"\0", b"{}", b"x" * 1000])
def test_extension_of_the_manifest_is_found_at_open(saved, extra):
    with (saved / "manifest.json").open("ab") as file:
        file.write(extra)
    with pytest.raises(CorruptIndexError, match=r"manifest\.json is damaged"):
        open_folder(saved)


@pytest.mark.parametrize("name", FILES)
def test_missing_array_is_found_at_open(saved, name):
    size = (saved / name).stat().st_size
    (saved / name).unlink()
    with pytest.raises(CorruptIndexError, match=rf"{name} is missing: a file of {size} bytes was"):
        open_folder(saved)


def test_missing_manifest_is_found_at_open(saved):
    (saved / "manifest.json").unlink()
    with pytest.raises(CorruptIndexError, match=r"not a saved index: it holds no manifest\.json"):
        open_folder(saved)


def test_index_with_damaged_arrays_can_be_saved_again(saved):
    os.truncate(saved / FILES[0], 5)
    (saved / FILES[1]).unlink()
    write_folder(saved, ARRAYS, {"dim": 3})
    found, values = open_folder(saved, verify=True)
    assert values == {"dim": 3}
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)


def test_index_with_a_damaged_manifest_is_not_saved_over(saved):
    content = (saved / "manifest.json").read_bytes()
    (saved / "manifest.json").write_bytes(content.replace(b"rows", b"rowz"))
    with pytest.raises(CorruptIndexError, match=r"checksum \(CRC-32\) is \w{8}, it says \w{8}"):
        write_folder(saved, ARRAYS, {"dim": 3})
    assert sorted(os.listdir(saved)) == ["g000001", "manifest.json"]
    assert sorted(os.listdir(saved / "g000001")) == sorted(f"{name}.npy" for name in ARRAYS)


def test_flipped_bit_is_found_at_open_in_all_arrays_but_those_left_out(saved):
    for name, file in zip(ARRAYS, FILES, strict=True):
        content = (saved / file).read_bytes()
        (saved / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        if len(content) > 128:  # with more than a header, which is always compared
            open_folder(saved, unsummed=[name])
        with pytest.raises(CorruptIndexError, match=rf"{file} is damaged"):
            open_folder(saved, unsummed=set(ARRAYS) - {name})
        (saved / file).write_bytes(content)
    open_folder(saved, unsummed=())
