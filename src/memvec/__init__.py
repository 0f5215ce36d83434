"""Similarity search with memory vectors.

Find everything above a similarity, miss at most a stated fraction, and show the proof.

>>> import memvec, numpy as np
>>> vectors = np.random.default_rng(0).standard_normal((1000, 64))
>>> index = memvec.Index.build(vectors, similarity=0.7, miss_rate=0.01)
>>> index.range_search(vectors[:2])
Hits(2 matches of 2 queries, cost ratio ...)
"""

from importlib.metadata import version

from memvec.collection import Collection
from memvec.collection import open_collection as open  # noqa: A004 (as gzip and wave have one)
from memvec.errors import MemvecError
from memvec.index import Index, IndexConfig
from memvec.search import Hits, TopHits

__version__ = version("memvec")

__all__ = [
    "Collection",
    "Hits",
    "Index",
    "IndexConfig",
    "MemvecError",
    "TopHits",
    "__version__",
    "open",
]
