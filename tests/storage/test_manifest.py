"""Manifests and files that claim what is not so, their checksums agreeing."""

import json
import os
import pickle
import zlib

import numpy as np
import pytest

from memvec.errors import CorruptIndexError, FileFormatError, UnknownVersionError
from memvec.storage import _npy, open_folder, write_folder

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def rewrite(folder, change):
    """Change the manifest and give it the checksum that belongs to it."""
    document = json.loads((folder / "manifest.json").read_bytes())
    document["crc32"] = "00000000"
    change(document)
    blank = json.dumps(document).encode()
    crc = b"%08x" % zlib.crc32(blank)
    (folder / "manifest.json").write_bytes(blank.replace(b"00000000", crc, 1))


def set_array(**fields):
    return lambda document: document["arrays"]["rows"].update(fields)


@pytest.fixture
def saved(tmp_path):
    write_folder(tmp_path, {"rows": ROWS}, {})
    return tmp_path


@pytest.mark.parametrize("version", [0, 2, 10**6])
def test_unknown_version_is_refused_with_both(saved, version):
    rewrite(saved, lambda document: document.update(version=version))
    text = rf"manifest.json is of format version {version}; this memvec reads version 1\."
    for call in (lambda: open_folder(saved), lambda: write_folder(saved, {}, {})):
        with pytest.raises(UnknownVersionError, match=text) as info:
            call()
        assert isinstance(info.value, FileFormatError)
    assert os.listdir(saved / "g000001") == ["rows.npy"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.update(version="1"), "malformed: its version is '1'"),
        (lambda d: d.update(version=True), "malformed: its version is True"),
        (lambda d: d.pop("version"), "malformed: its version is None"),
        (lambda d: d.update(format="memvec"), "does not say that its format is 'memvec-index'"),
        (lambda d: d.update(crc32=5), "malformed: its checksum is 5"),
        (lambda d: d.update(crc32="12345678"), r"checksum \(CRC-32\) is \w{8}, it says 12345678"),
        (lambda d: d.pop("meta"), "malformed: 'generation', 'arrays' or 'meta' is missing"),
        (lambda d: d.update(arrays=[]), "malformed: 'generation', 'arrays' or 'meta'"),
        (lambda d: d.update(generation="../g000001"), "malformed: 'generation', 'arrays' or"),
        (lambda d: d["arrays"].update(rows=3), "array 'rows' is described by 3"),
        (lambda d: d["arrays"]["rows"].pop("bytes"), "array 'rows' is described by {"),
        (set_array(crc32="\x1b[31m"), r"array 'rows' is described by {.*'crc32': '.x1b\[31m'"),
        (set_array(file="../rows.npy"), "array 'rows' in file '../rows.npy'"),
        (set_array(file="/etc/passwd"), "array 'rows' in file '/etc/passwd'"),
        (set_array(file="other.npy"), "array 'rows' in file 'other.npy'"),
        (lambda d: d["arrays"].update({"..": d["arrays"]["rows"]}), "array '..' in file"),
        (set_array(shape=[3, -4]), r"array 'rows' has the shape \[3, -4\]"),
        (set_array(shape=[3, 4.0]), r"array 'rows' has the shape \[3, 4.0\]"),
        (set_array(dtype="O8"), "'O8' is not a type of stored arrays"),
        (set_array(dtype="|O8"), "'|O8' is not a type of stored arrays"),
        (set_array(dtype="<f5"), "array 'rows': .*f5"),
        (set_array(dtype="|f4"), "'|f4' is not a type of stored arrays"),
        (set_array(dtype="<U999999999"), "array 'rows': "),
        (set_array(shape=[10**12, 4]), r"takes 16000000000128 bytes, not 176"),
        (set_array(shape=[10**40] * 3), r"takes 4\d{120} bytes, not 176"),
        (set_array(shape=[10**4000] * 3), r"takes far more bytes, not 176"),
        (set_array(shape=[2**62] * 1000), r"takes far more bytes, not 176"),
        (set_array(shape=[1] * 30000), "array 'rows' has 30000 dimensions, more than"),
        (set_array(bytes=10**15), "takes 176 bytes, not 1000000000000000"),
    ],
)
def test_malformed_manifest_is_refused(saved, change, text):
    rewrite(saved, change)
    with pytest.raises(CorruptIndexError, match=text):
        open_folder(saved)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 10**6, b"9" * 5000]
)
def test_manifest_that_is_not_json_is_refused(saved, content):
    (saved / "manifest.json").write_bytes(content)
    with pytest.raises(CorruptIndexError, match=r"manifest.json (is damaged or not|does not say)"):
        open_folder(saved)


def test_manifest_of_any_size_is_not_read_whole(saved):
    os.truncate(saved / "manifest.json", 1 << 40)  # a hole: takes no space on the disk
    with pytest.raises(CorruptIndexError, match=r"size is 1099511627776 bytes, .* most 16777216"):
        open_folder(saved)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("strange", [nested(400), "x" * 10**5, [1] * 10**5])
@pytest.mark.parametrize(
    "change",
    [
        lambda d, value: d.update(version=value),
        lambda d, value: d.update(crc32=value),
        lambda d, value: d.update(generation=value),
        lambda d, value: d.update(arrays=value),
        lambda d, value: d.update(meta=value),
        lambda d, value: d["arrays"].update(rows=value),
        lambda d, value: d["arrays"]["rows"].update(crc32=value),
        lambda d, value: d["arrays"]["rows"].update(file=value),
        lambda d, value: d["arrays"]["rows"].update(shape=[value]),
    ],
)
def test_deep_and_long_values_give_a_short_error(saved, change, strange):
    rewrite(saved, lambda document: change(document, strange))
    with pytest.raises(CorruptIndexError) as info:
        open_folder(saved)
    assert len(str(info.value)) < 1000


def forge(folder, shape):
    """Claim another shape in manifest and file alike, sizes and checksums agreeing."""
    content = _npy.npy_header(np.dtype("<f4"), tuple(shape)) + b"\0" * (4 * (0 not in shape))
    (folder / "g000001/rows.npy").write_bytes(content)
    crc = f"{zlib.crc32(content):08x}"
    rewrite(folder, set_array(shape=shape, bytes=len(content), crc32=crc))


@pytest.mark.parametrize("shape", [[1] * 1000, [0, 10**30], [0, 2**62, 2**62]])
def test_shape_that_no_array_has_is_refused(saved, shape):
    forge(saved, shape)
    with pytest.raises(CorruptIndexError, match=r"rows.npy cannot be an array: "):
        open_folder(saved, verify=True)


def test_nothing_is_unpickled(saved):
    (saved / "g000001/rows.npy").write_bytes(pickle.dumps([1, 2]).ljust(176))
    with pytest.raises(CorruptIndexError, match=r"rows.npy is damaged: it begins with b'\\x80"):
        open_folder(saved)
