"""Files that are not what they seem: links to others, pipes, headers that no array has."""

import os
import struct
import zipfile

import h5py
import numpy as np
import pytest

from memvec.errors import FileFormatError
from memvec.files import count_rows, read_ann_benchmark, read_blocks, read_vectors

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
SECRET = ROWS + 100


def all_blocks(path, **asked):
    return list(read_blocks(path, **asked))


# --- HDF5 ----------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path):
    """Another file of the same layout."""
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        file["train"] = SECRET
        file["id"] = np.arange(4)
    return "elsewhere.h5"


def write_external_link(file, other):
    file["train"] = h5py.ExternalLink(other, "/train")


def write_soft_link_to_external(file, other):
    file["train"] = h5py.SoftLink("/folder/again")
    file.create_group("folder")["again"] = h5py.SoftLink("away")
    file["folder"]["away"] = h5py.ExternalLink(other, "/train")


def write_external_folder(file, other):
    file["away"] = h5py.ExternalLink(other, "/")
    file["train"] = h5py.SoftLink("/away/train")


def write_external_storage(file, other):
    shape, size = ROWS.shape, ROWS.nbytes
    file.create_dataset("train", shape, "f4", external=[(other, 0, size)])


def write_virtual(file, other):
    layout = h5py.VirtualLayout(shape=ROWS.shape, dtype="f4")
    layout[:] = h5py.VirtualSource(other, "train", shape=ROWS.shape)
    file.create_virtual_dataset("train", layout)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (write_external_link, "holds 'train' as a link to another file, 'elsewhere.h5'"),
        (write_soft_link_to_external, "holds 'away' as a link to another file"),
        (write_external_folder, "holds 'away' as a link to another file"),
        (write_external_storage, "holds no bytes of 'train': they are in another file"),
        (write_virtual, "holds no bytes of 'train': they are in another file"),
    ],
)
@pytest.mark.parametrize("read", [read_vectors, all_blocks, count_rows])
def test_hdf5_that_leads_to_other_files_is_refused(tmp_path, elsewhere, write, text, read):
    with h5py.File(tmp_path / "v.h5", "w") as file:
        write(file, elsewhere)
    with pytest.raises(FileFormatError, match=text):
        read(tmp_path / "v.h5")


def test_hdf5_link_to_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.h5")
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["train"] = ROWS
        file["id"] = h5py.ExternalLink("pipe.h5", "/id")
    assert read_vectors(tmp_path / "v.h5").tolist() == ROWS.tolist()
    with pytest.raises(FileFormatError, match="holds 'id' as a link to another file, 'pipe.h5'"):
        all_blocks(tmp_path / "v.h5")


def test_hdf5_ids_and_metadata_of_other_files_are_refused(tmp_path, elsewhere):
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["train"] = ROWS
        file["year"] = h5py.ExternalLink(elsewhere, "/id")
    assert len(all_blocks(tmp_path / "v.h5")) == 1
    for asked in ({"ids": "year"}, {"metadata": ["year"]}, {"metadata": ["*"]}):
        with pytest.raises(FileFormatError, match="'year' as a link to another file"):
            all_blocks(tmp_path / "v.h5", **asked)


def test_hdf5_links_within_the_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["folder/rows"] = ROWS
        file["train"] = h5py.SoftLink("/folder/rows")
        file["hard"] = file["folder/rows"]
        file["round"] = h5py.SoftLink("/round")
        layout = h5py.VirtualLayout(shape=ROWS.shape, dtype="f4")
        layout[:] = h5py.VirtualSource(".", "train", shape=ROWS.shape)
        file.create_virtual_dataset("virtual", layout)
    for field in (None, "hard", "folder/rows", "/train", "virtual"):
        assert read_vectors(tmp_path / "v.h5", field=field).tolist() == ROWS.tolist()
        [block] = read_blocks(tmp_path / "v.h5", field=field)
        assert block.vectors.tolist() == ROWS.tolist()
    for field in ("round", "nothing", "folder/rows/deeper"):
        with pytest.raises(FileFormatError, match=f"has no dataset '{field}'"):
            read_vectors(tmp_path / "v.h5", field=field)


def test_ann_benchmark_that_leads_elsewhere_is_refused(tmp_path, elsewhere):
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["train"], file["test"], file["neighbors"] = ROWS, ROWS, np.zeros((4, 2), int)
        file["distances"] = h5py.ExternalLink(elsewhere, "/train")
    with pytest.raises(FileFormatError, match="'distances' as a link to another file"):
        read_ann_benchmark(tmp_path / "v.h5")


def test_hdf5_of_damaged_names_and_texts_is_refused(tmp_path):
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["train"], file["id"] = ROWS, ["a", "b", "c", "d"]
    content = (tmp_path / "v.h5").read_bytes()
    # A node of the tree of names, the heap of names, and a text.
    for old, new in ((b"TREE", b"TREX"), (b"HEAP", b"HEAX"), (b"a\0\0\0\0", b"\xb7\0\0\0\0")):
        assert old in content
        (tmp_path / "v.h5").write_bytes(content.replace(old, new))
        with pytest.raises(FileFormatError, match="v.h5 is not a readable HDF5 file"):
            all_blocks(tmp_path / "v.h5")


# --- headers that no array has -------------------------------------------------------------------


def npy(header, version=(1, 0)):
    text = header.encode("latin1") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + ROWS.tobytes()


def header_of(shape, descr="'<f4'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    "header",
    [
        header_of("(-4, 3)"),
        header_of("(4, -3)"),
        header_of("(-4, -3)"),
        header_of("(4, 3, -1)"),
        header_of("(True, 12)"),
        header_of("(4.0, 3)"),
        header_of(f"({10**18}, {10**18})"),
        header_of(f"({2**63}, 1)"),
        header_of("(4, 4)"),
        header_of("'x'"),
        header_of("(" * 300 + ")" * 300),
        header_of("(4, 3)", descr="()"),
        header_of("(4, 3)", descr="[('a',)]"),
        header_of("(4, 3)", descr="'|O'"),
        header_of("(4, 3)", descr="7"),
        header_of("(4, 3)", fortran="7"),
        "{" * 3000,
        "'" * 3001,
        "\\",
        "7",
        "",
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
def test_npy_header_of_no_array_is_refused(tmp_path, header, version):
    (tmp_path / "v.npy").write_bytes(npy(header, version=version))
    for read in (read_vectors, all_blocks, count_rows):
        with pytest.raises(FileFormatError, match=r"v.npy is not a readable .npy file"):
            read(tmp_path / "v.npy")


@pytest.mark.parametrize("shape", ["(-4, 3)", "(4, -3)", f"({10**18}, {10**18})"])
def test_npz_member_of_a_shape_that_no_array_has_is_refused(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "v.npz", "w") as archive:
        archive.writestr("vectors.npy", npy(header_of(shape)))
    for read in (all_blocks, count_rows):
        with pytest.raises(FileFormatError, match=r"v.npz"):
            read(tmp_path / "v.npz")


# --- what is no file -----------------------------------------------------------------------------

SUFFIXES = [".npy", ".npz", ".fvecs", ".bvecs", ".ivecs", ".h5", ".hdf5", ".parquet", ".jsonl"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".ndjson"])
def test_named_pipe_is_refused_at_once(tmp_path, suffix):
    os.mkfifo(tmp_path / f"v{suffix}")
    (tmp_path / f"link{suffix}").symlink_to(tmp_path / f"v{suffix}")
    for read in (all_blocks, count_rows, read_vectors):
        for name in (f"v{suffix}", f"link{suffix}"):
            with pytest.raises(FileFormatError, match=rf"{name} is not a file but a named pipe"):
                read(tmp_path / name)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices here")
def test_device_is_refused_at_once(tmp_path):
    (tmp_path / "v.npy").symlink_to("/dev/zero")
    with pytest.raises(FileFormatError, match="v.npy is not a file but a device"):
        read_vectors(tmp_path / "v.npy")


def test_file_behind_a_link_is_read(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    (tmp_path / "v.npy").symlink_to(tmp_path / "rows.npy")
    assert read_vectors(tmp_path / "v.npy").tolist() == ROWS.tolist()


def test_vecs_row_larger_than_any_type_is_refused(tmp_path):
    with (tmp_path / "v.fvecs").open("wb") as file:
        file.write(struct.pack("<i", 2**29))
        file.truncate(4 + 4 * 2**29)  # a hole: takes no space on the disk
    with pytest.raises(FileFormatError, match="its first row says dimension 536870912"):
        read_vectors(tmp_path / "v.fvecs")
