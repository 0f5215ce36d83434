"""Saved indexes that are not what an index saves, their checksums right: each is refused."""

import math
import shutil

import numpy as np
import pytest

from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import CorruptIndexError
from memvec.index._files import _with_wide_columns
from memvec.index._validity import UNSUMMED
from memvec.storage import disk, open_folder, write_folder

N = 300
CONFIGS = {
    "codes": IndexConfig(
        assignment="kmeans",
        levels=2,
        units_per_vector=2,
        unit_size=8,
        group_size=60,
        reserve=100,
        pca_dim=30,
        member_bits=4,
    ),
    "float32": IndexConfig(codes="none", unit_size=6, center=True),
}


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Hundreds of folders are written; none of them has to survive a crash."""
    monkeypatch.setattr(disk, "sync", lambda file: file.flush())
    monkeypatch.setattr(disk, "sync_folder", lambda path: None)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder of each kind, to be copied."""
    folder = tmp_path_factory.mktemp("saved")
    rows = around(np.random.default_rng(3).standard_normal((30, 40)), 0.5, 4, N)
    for name, config in CONFIGS.items():
        Index.build(rows, config=config).save(folder / name)
    return folder


def forged(saved, folder, change, kind="codes"):
    """Save an index again after a change of its arrays and settings."""
    arrays, meta = open_folder(saved / kind)
    arrays = {name: np.array(array) for name, array in _with_wide_columns(arrays).items()}
    change(arrays, meta)
    write_folder(folder, arrays, meta)
    return folder


def setting(name, place, value):
    """Return a change that sets one value of an array."""

    def change(arrays, meta):
        arrays[name][place] = value

    return change


@pytest.mark.parametrize("value", [-1, N + 1, 2**31, -(2**62)])
@pytest.mark.parametrize("name", ["keys", "offsets", "run_offsets", "group_offsets"])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_place_out_of_range_is_refused(saved, tmp_path, name, place, value):
    text = rf"does not hold a complete index: array '{name}' (holds|does not rise)"
    with pytest.raises(CorruptIndexError, match=text):
        Index.open(forged(saved, tmp_path / "i.mv", setting(name, place, value)), verify=True)


@pytest.mark.parametrize("value", [N, -N - 1, 2**31 - 1, -(2**31)])
def test_slot_of_no_row_is_refused(saved, tmp_path, value):
    with pytest.raises(CorruptIndexError, match=r"array 'run_rows' holds .* outside of \[-300, 30"):
        Index.open(forged(saved, tmp_path / "i.mv", setting("run_rows", 5, value)))


def shuffled_slots(arrays, meta):
    arrays["run_rows"][:] = np.random.default_rng(0).permutation(arrays["run_rows"])


def guest_at_home(arrays, meta):
    slots = arrays["run_rows"]
    [first, *_] = np.flatnonzero(slots < 0)
    unit = np.searchsorted(arrays["run_offsets"], first, side="right") - 1
    slots[first] = ~int(arrays["offsets"][unit])


def guest_twice(arrays, meta):
    slots = arrays["run_rows"]
    first, second, *_ = np.flatnonzero(slots < 0)
    slots[first] = slots[second]


def no_pairs(arrays, meta):
    for name in [name for name in arrays if name.startswith("calibration_")]:
        arrays[name] = arrays[name][:0]


def no_tested_units(arrays, meta):
    for name in ("unit_vectors", "means", "variances", "unit_scales"):
        arrays[name] = arrays[name][:0]
    arrays["unit_runs"] = arrays["unit_runs"][:0]
    arrays["group_offsets"][:] = 0
    arrays["offsets"] = arrays["offsets"][[0, -1]]
    arrays["run_offsets"] = arrays["run_offsets"][[0, -1]]


def wider_codes(arrays, meta):
    """Five bits take a byte an entry, and the array has half of one."""
    meta["design"]["config"]["member_bits"] = 5


def older_table(arrays, meta):
    """Only an index without fine codes may have a table of four stages."""
    for name in ("calibration_scores", "calibration_slopes"):
        arrays[name] = arrays[name][:, :4]


def run_moved(arrays, meta):
    arrays["run_offsets"][1] -= 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (shuffled_slots, "'run_rows' does not hold every row once, in order"),
        (guest_at_home, "'run_rows' names a vector twice in a unit, or in its own unit"),
        (guest_twice, "'run_rows' names a vector twice in a unit, or in its own unit"),
        (run_moved, "'run_rows' holds a (row outside of its unit|guest twice, or at home)"),
        (no_pairs, "the calibration has no pairs"),
        (no_tested_units, "there are 1 units and 0 memory vectors"),
        (setting("keys", 0, 7), "'keys' holds a key twice"),
        (setting("calibration_keys", 0, N), r"'calibration_keys' holds .* outside of \[0, 300\)"),
        (setting("calibration_queries", 0, -1), "'calibration_queries' holds -1 to"),
        (setting("calibration_queries", 5, 10**9), "'calibration_queries' is not in rising order"),
        (setting("calibration_ranks", 0, -1), "'calibration_ranks' does not rise from 0"),
        (setting("calibration_ranks", slice(None), 7), "'calibration_ranks' does not rise"),
        (setting("calibration_copies", 0, 3e38), r"'calibration_copies' holds .* of \[0, 301\)"),
        (setting("calibration_cosines", 0, 1.5), "'calibration_cosines' holds .* to 1.5"),
        (setting("calibration_slopes", (0, 0), np.nan), "'calibration_slopes' holds values"),
        (setting("means", 0, np.nan), "'means' holds values that are not finite"),
        (setting("variances", 0, -1.0), "'variances' holds a value below 0"),
        (setting("code_scales", 3, np.inf), "'code_scales' holds values that are not finite"),
        (setting("fine_scales", 3, np.nan), "'fine_scales' holds values that are not finite"),
        (lambda arrays, meta: arrays.pop("fine_codes"), "there is no array 'fine_codes'"),
        (wider_codes, "'fine_codes' is of type .* and shape"),
        (older_table, r"'calibration_scores' is of type .* and shape .* 5\) fit"),
        (setting("top_scales", 0, -np.inf), "'top_scales' holds values that are not finite"),
        (setting("null_cosines", 0, 1.0), "'null_cosines' is not in rising order"),
        (setting("flips", (0, 0), np.nan), "'flips' holds values that are not finite"),
        (lambda arrays, meta: arrays.pop("keys"), "there is no array 'keys'"),
        (lambda arrays, meta: arrays.update(offsets=np.array(0)), "'offsets' is a single number"),
    ],
)
def test_array_that_contradicts_the_others_is_refused(saved, tmp_path, change, text):
    with pytest.raises(CorruptIndexError, match=text):
        Index.open(forged(saved, tmp_path / "i.mv", change))


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_array_of_another_shape_or_type_is_refused(saved, tmp_path, kind):
    arrays = _with_wide_columns(open_folder(saved / kind)[0])
    names = list(arrays)
    assert {"vectors", "keys", "offsets"} <= set(names)
    # How many of these there are is told by no other array.
    free = {"null_cosines"}
    for name in names:
        ways = [lambda a: a[:-1], lambda a: np.concatenate([a, a[-1:]]), lambda a: a[np.newaxis]]
        ways = ways[2:] if name in free else ways
        for way in (*ways, lambda a: a.astype(">c16"), lambda a: a[:0].reshape(0, 5)):
            old = arrays[name]
            if way(old).shape == old.shape and way(old).dtype == old.dtype:
                continue  # an empty array made shorter

            def change(arrays, meta, name=name, way=way):
                arrays[name] = way(arrays[name])

            with pytest.raises(CorruptIndexError, match="does not hold a complete index"):
                Index.open(forged(saved, tmp_path / "i.mv", change, kind))


def test_array_that_the_settings_do_not_name_is_not_used(saved, tmp_path):
    def change(arrays, meta):
        arrays["projection_basis"] = np.ones((3, 2), np.float32)

    rows = np.eye(3, 40)
    whole = Index.open(saved / "float32").range_search(rows, 0.1)
    found = Index.open(forged(saved, tmp_path / "i.mv", change, "float32")).range_search(rows, 0.1)
    np.testing.assert_array_equal(found.ids, whole.ids)


def test_flipped_bit_of_what_is_small_is_found_without_verify(saved, tmp_path):
    rng = np.random.default_rng(1)
    for path in sorted((saved / "codes" / "g000001").iterdir()):
        if path.stem in UNSUMMED and not path.stem.startswith("calibration_"):
            continue
        shutil.rmtree(tmp_path / "i.mv", ignore_errors=True)
        shutil.copytree(saved / "codes", tmp_path / "i.mv")
        content = bytearray(path.read_bytes())
        content[int(rng.integers(128, len(content))) if len(content) > 128 else 0] ^= 4
        (tmp_path / "i.mv/g000001" / path.name).write_bytes(content)
        with pytest.raises(CorruptIndexError, match=r"checksum \(CRC-32\)|it begins with|array '"):
            Index.open(tmp_path / "i.mv")


def test_flipped_bit_of_vectors_and_codes_is_found_by_verify(saved, tmp_path):
    for name in ("vectors", "codes", "fine_codes", "prefix"):
        shutil.rmtree(tmp_path / "i.mv", ignore_errors=True)
        shutil.copytree(saved / "codes", tmp_path / "i.mv")
        path = tmp_path / "i.mv/g000001" / f"{name}.npy"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        assert len(Index.open(tmp_path / "i.mv")) == N
        with pytest.raises(CorruptIndexError, match=rf"{name}.npy is damaged: its checksum"):
            Index.open(tmp_path / "i.mv", verify=True)


NUMBER = [None, "x", [], {}, True, -1, 10**30]
STRANGE = {
    ("design", "similarity"): [*NUMBER, 0, 1.5, math.inf],
    ("design", "miss_rate"): [*NUMBER, 0, 1.0],
    ("design", "n_vectors"): [*NUMBER, 0, N + 1, 300.0],
    ("design", "dim"): [*NUMBER, 0, 39, 41, 40.0],
    ("design", "effective_dim"): [*NUMBER, 0, 41, math.inf],
    ("design", "expected_microseconds"): ["x", [], True, -1.0],
    ("design", "guarantee"): [None, "x", [], 5],
    ("design", "confidence"): [*NUMBER, 0, 1],
    ("design", "similarities"): [None, [], "x", ["x"], [2.0], {}, 0.7],
    ("design", "config"): [None, [], "x", {}],
    ("design", "colour"): ["red"],
    ("config", "unit_size"): ["auto", None, 0, -1, 1.5, [], "x"],
    ("config", "unit_words"): ["auto", None, 0, 1.5],
    ("config", "member_bits"): ["auto", None, 0, 1.5, 9, True],
    ("config", "levels"): ["auto", None, 0, 1, 3, "x", []],
    ("config", "units_per_vector"): ["auto", None, 0, 1, 3, "x", []],
    ("config", "codes"): ["auto", None, "x", "none", "sign", 1],
    ("config", "rotation"): ["none", None, "x", 1],
    ("config", "pca_dim"): [None, 0, 29, 41, 10**30, "x"],
    ("config", "whiten"): [None, 0, 1, "x"],
    ("config", "center"): [None, 0, 1, "x"],
    ("config", "ridge"): [None, "x", -1, [], "nan"],
    ("config", "seed"): [None, -1, 0.5, "x"],
    ("config", "colour"): ["red"],
    ("codes", "steps"): [*NUMBER[:-1], 0, 1e31],
    ("codes", "gain"): [*NUMBER[:-1], 0, 1e31],
    ("codes", "prefix_scale"): [*NUMBER[:-1], 1e31],
    ("codes", "top"): [*NUMBER, 0, 2, 4, 3.0],
    ("codes", "own_scales"): [None, 0, 1, False, "x"],
    ("codes", "colour"): ["red"],
    ("evidence", "floor"): [*NUMBER, 1.5],
    ("evidence", "left_out"): [None, "x", -1, 0.5],
    ("evidence", "source"): ["x", 5, []],
    ("evidence", "state"): [None, 5, "00000000"],
    ("evidence", "table"): [None, 5, "00000000"],
    ("evidence", "calibrated"): [None, 5, []],
    ("evidence", "null_dimension"): [*NUMBER[:-1], 0],
    ("evidence", "colour"): ["red"],
}


@pytest.mark.parametrize(("block", "name"), STRANGE)
def test_strange_setting_is_refused(saved, tmp_path, block, name):
    for value in STRANGE[block, name]:

        def change(arrays, meta, value=value):
            held = meta["design"]["config"] if block == "config" else meta[block]
            held[name] = 1e300 if value == math.inf else value

        with pytest.raises(CorruptIndexError, match="does not hold a complete index"):
            Index.open(forged(saved, tmp_path / "i.mv", change))


@pytest.mark.parametrize("block", ["design", "codes", "evidence"])
@pytest.mark.parametrize("value", [None, [], "x", 5, {}])
def test_block_of_settings_that_is_none_is_refused(saved, tmp_path, block, value):
    with pytest.raises(CorruptIndexError, match="does not hold a complete index"):
        Index.open(forged(saved, tmp_path / "i.mv", lambda a, meta: meta.update({block: value})))


@pytest.mark.parametrize("block", ["design", "codes", "evidence"])
def test_missing_setting_is_refused(saved, tmp_path, block):
    # A folder of before there was a choice of metric has none.
    names = set(open_folder(saved / "codes")[1][block]) - {"expected_microseconds", "metric"}
    assert len(names) >= 5
    for name in names:
        with pytest.raises(CorruptIndexError, match="does not hold a complete index"):
            Index.open(forged(saved, tmp_path / "i.mv", lambda a, meta, n=name: meta[block].pop(n)))
