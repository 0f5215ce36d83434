"""Past one machine: collections of several shards, in one process or on Ray."""

from memvec.cluster._open import open_cluster as open  # noqa: A004 (as gzip and wave have one)
from memvec.cluster._root import PLACEMENT, shard_of
from memvec.collection import ShardedCollection

__all__ = [
    "PLACEMENT",
    "ShardedCollection",
    "open",
    "shard_of",
]
