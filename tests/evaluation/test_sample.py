import gzip
import hashlib
import importlib.util
import lzma
import zlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from memvec.errors import InvalidValueError
from memvec.evaluation import SAMPLE_SIZE, exact_self_range, load_sample

FOLDER = files("memvec.evaluation") / "sample"
TOOL = Path(__file__).parents[2] / "tools" / "make_sample.py"


def write_texts(texts, folder):
    (folder / "texts.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))


def load_tool():
    spec = importlib.util.spec_from_file_location("make_sample", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_sample_is_unit_rows_with_texts():
    sample = load_sample()
    assert sample.vectors.shape == (10_000, 384)
    assert sample.vectors.dtype == np.float32
    assert len(sample) == len(sample.texts) == 10_000
    assert all(": " in text for text in sample.texts)
    np.testing.assert_allclose(np.linalg.norm(sample.vectors, axis=1), 1, atol=1e-6)


def test_sample_has_more_vectors_where_asked():
    whole, part = load_sample(SAMPLE_SIZE), load_sample(3)
    assert len(whole) == len(whole.vectors) == 34_000
    assert all(": " in text for text in whole.texts)
    assert part.texts == whole.texts[:3]
    np.testing.assert_array_equal(part.vectors, whole.vectors[:3])


@pytest.mark.parametrize("n_vectors", [0, 34_001])
def test_sample_refuses_a_size_it_does_not_have(n_vectors):
    with pytest.raises(InvalidValueError, match=rf"'n_vectors' .* Got {n_vectors} instead"):
        load_sample(n_vectors)


def test_sample_is_small_with_both_notices():
    sizes = {file.name: len(file.read_bytes()) for file in FOLDER.iterdir()}
    assert sum(sizes.values()) < 10_100_000  # 9.7 MB, 9.2 in the wheel
    assert {"WORDNET-LICENSE.txt", "MINILM-NOTICE.txt"} < set(sizes)
    licence = (FOLDER / "WORDNET-LICENSE.txt").read_text(encoding="utf-8")
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in licence
    assert "Apache License" in (FOLDER / "MINILM-NOTICE.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("beginning", "n_matches", "among"),
    [
        ("dog, domestic dog", 3, "wild dog"),
        ("cat, true cat", 10, "kitten"),
        ("whale:", 20, "dolphin"),
        ("butterfly:", 20, "moth"),
        ("kitchen:", 16, "galley"),
        ("clock:", 9, "digital clock"),
    ],
)
def test_readable_queries_have_matches(beginning, n_matches, among):
    sample = load_sample()
    [found] = exact_self_range(sample.vectors, 0.6, rows=[sample.row(beginning)])
    assert len(found.ids) == n_matches
    assert any(sample.texts[row].startswith(among) for row in found.ids)


def test_sample_row_refuses_words_that_are_not_there():
    with pytest.raises(InvalidValueError, match=r"'beginning' .* Got 'no such thing' instead"):
        load_sample().row("no such thing")


def test_tool_takes_the_stretch_and_repeats_itself(tmp_path):
    tool = load_tool()
    rng = np.random.default_rng(8)
    n_rows = tool.FIRST + tool.COUNT + 5
    vectors = rng.integers(-127, 128, (n_rows, 2)).astype(np.int8)
    np.save(tmp_path / "vectors_int8.npy", vectors)
    np.save(tmp_path / "scales.npy", np.ones(2, dtype=np.float32))
    write_texts([f"text {i}" for i in range(n_rows)], tmp_path)
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tool.main(tmp_path, tmp_path / name)
        written = sorted((tmp_path / name).iterdir())
        digests.append([hashlib.sha256(file.read_bytes()).digest() for file in written])
    assert digests[0] == digests[1]
    taken = vectors[tool.FIRST : tool.FIRST + tool.COUNT].astype(np.int64)
    copied = np.load(tmp_path / "one" / "vectors_int8.npy")
    np.testing.assert_array_equal(copied, taken[: tool.EXACT])
    columns = zlib.decompress((tmp_path / "one" / "others_int8.zlib").read_bytes())
    others = tool.COARSER * np.frombuffer(columns, np.int8).reshape(2, -1).T.astype(np.int64)
    assert np.abs(others - taken[tool.EXACT :]).max() == tool.COARSER / 2
    texts = lzma.decompress((tmp_path / "one" / "texts.txt.xz").read_bytes()).decode()
    assert texts.splitlines() == [f"text {tool.FIRST + i}" for i in range(tool.COUNT)]


def test_tool_refuses_data_that_is_too_short(tmp_path):
    tool = load_tool()
    np.save(tmp_path / "vectors_int8.npy", np.zeros((3, 2), dtype=np.int8))
    np.save(tmp_path / "scales.npy", np.ones(2, dtype=np.float32))
    write_texts(["a", "b", "c"], tmp_path)
    with pytest.raises(SystemExit, match=r"holds 3 vectors and 3 texts"):
        tool.main(tmp_path, tmp_path)
