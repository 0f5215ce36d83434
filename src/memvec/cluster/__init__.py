"""Collections of shards, and joins and deduplication of files, on a Ray cluster."""

from memvec.cluster._components import components
from memvec.cluster._files import deduplicate, join, self_join
from memvec.cluster._open import open_cluster as open  # noqa: A004 (as gzip and wave have one)
from memvec.cluster._operator import FindSimilar
from memvec.cluster._root import PLACEMENT, shard_of
from memvec.collection import ShardedCollection

__all__ = [
    "PLACEMENT",
    "FindSimilar",
    "ShardedCollection",
    "components",
    "deduplicate",
    "join",
    "open",
    "self_join",
    "shard_of",
]
