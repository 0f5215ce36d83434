"""Collections: durable, growing, searchable at any time."""

from memvec.collection._collection import Collection, open_collection
from memvec.collection._ids import checked_metadata
from memvec.collection._items import Item
from memvec.collection._joining import DuplicateGroup, Duplicates, SimilarPair
from memvec.collection._lookup import Stats
from memvec.collection._repair import Repair, repair_collection
from memvec.collection._results import (
    CollectionHits,
    CollectionRow,
    CollectionTopHits,
    Match,
)
from memvec.collection._settings import Settings
from memvec.collection._verify import Verification, verify_collection

__all__ = [
    "Collection",
    "CollectionHits",
    "CollectionRow",
    "CollectionTopHits",
    "DuplicateGroup",
    "Duplicates",
    "Item",
    "Match",
    "Repair",
    "Settings",
    "SimilarPair",
    "Stats",
    "Verification",
    "checked_metadata",
    "open_collection",
    "repair_collection",
    "verify_collection",
]
