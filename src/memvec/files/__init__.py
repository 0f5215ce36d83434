"""Files of vectors: ``.npy``, ``.npz``, ``.fvecs``, HDF5, Parquet, JSON Lines.

`read_vectors` gives all vectors of a file, `read_blocks` its rows block by block, with ids and
metadata, and `count_rows` how many there are.
"""

from memvec.files._blocks import BLOCK_SUFFIXES, count_rows, read_blocks
from memvec.files._hdf5 import AnnBenchmark, read_ann_benchmark
from memvec.files._readers import read_vectors
from memvec.files._records import VectorBlock

__all__ = [
    "BLOCK_SUFFIXES",
    "AnnBenchmark",
    "VectorBlock",
    "count_rows",
    "read_ann_benchmark",
    "read_blocks",
    "read_vectors",
]
