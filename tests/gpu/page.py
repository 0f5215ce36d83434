"""The blocks of the page on GPUs, run as they stand there."""

import re
from pathlib import Path

import pytest

import memvec
from gpu.collection_cases import rows_and_queries
from memvec.files import read_column

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"


def run_blocks():
    """Run them in the current folder; the second GPU is the first one here."""
    pytest.importorskip("pyarrow")
    rows, _ = rows_and_queries()
    names = {"memvec": memvec, "vectors": rows, "queries": rows[:60]}
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    for block in blocks:
        exec(compile(block.replace('"cuda:1"', '"cuda:0"'), str(PAGE), "exec"), names)
    assert len(blocks) == 4
    pairs = read_column("pairs.parquet", "score")
    n_pairs = len(names["index"].self_join(0.8))
    assert len(pairs) == n_pairs > 100
    assert len(names["groups"].groups) > 0
    assert len(names["ids"]) == len(names["scores"]) > 50
    assert names["hits"].counts.sum() > 50
    assert names["index"].range_search(rows[:60]).counts.sum() > 50
