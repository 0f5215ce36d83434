"""Collections: durable, growing, searchable at any time."""

from memvec.collection._blocks import FileDuplicates, deduplicate_files
from memvec.collection._check import check_collection
from memvec.collection._collection import Collection
from memvec.collection._ids import checked_metadata
from memvec.collection._items import Item
from memvec.collection._opening import open_collection, scratch_collection
from memvec.collection._reading import Stats
from memvec.collection._repair import Repair, repair_collection
from memvec.collection._settings import Settings
from memvec.collection._streams import Match, MatchBlock, PairBlock, PairStream, RangeStream
from memvec.search import DuplicateGroup, Duplicates, SimilarPair

__all__ = [
    "Collection",
    "DuplicateGroup",
    "Duplicates",
    "FileDuplicates",
    "Item",
    "Match",
    "MatchBlock",
    "PairBlock",
    "PairStream",
    "RangeStream",
    "Repair",
    "Settings",
    "SimilarPair",
    "Stats",
    "check_collection",
    "checked_metadata",
    "deduplicate_files",
    "open_collection",
    "repair_collection",
    "scratch_collection",
]
