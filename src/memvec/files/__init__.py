"""Files of vectors: ``.npy``, ``.npz``, ``.fvecs``, HDF5, Parquet, JSON Lines.

`read_vectors` returns all vectors of a file, `read_blocks` its rows block by block, with ids and
metadata, and `count_rows` their number. `writing_table` and `read_column` write and read Parquet
files of plain columns.
"""

from memvec.files._blocks import BLOCK_SUFFIXES, count_rows, read_blocks
from memvec.files._hdf5 import AnnBenchmark, read_ann_benchmark
from memvec.files._paths import expand_paths
from memvec.files._readers import read_vectors
from memvec.files._records import VectorBlock
from memvec.files._tables import Column, WriteBatch, joined_columns, read_column, writing_table

__all__ = [
    "BLOCK_SUFFIXES",
    "AnnBenchmark",
    "Column",
    "VectorBlock",
    "WriteBatch",
    "count_rows",
    "expand_paths",
    "joined_columns",
    "read_ann_benchmark",
    "read_blocks",
    "read_column",
    "read_vectors",
    "writing_table",
]
