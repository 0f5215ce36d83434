"""The index of a fixed set of vectors: design, build, search, files."""

from memvec.index._arrays import compares_everything, deduplicate, join, self_join
from memvec.index._config import IndexConfig, with_present_names
from memvec.index._costs import MachineCosts, shadow_share
from memvec.index._design import IndexDesign
from memvec.index._encode import scan_by_codes
from memvec.index._index import Index, map_index, save_index
from memvec.index._joins import KeptRow
from memvec.index._profile import profile_machine
from memvec.index._recalibrate import check_enough, share_of_queries

__all__ = [
    "Index",
    "IndexConfig",
    "IndexDesign",
    "KeptRow",
    "MachineCosts",
    "check_enough",
    "compares_everything",
    "deduplicate",
    "join",
    "map_index",
    "profile_machine",
    "save_index",
    "scan_by_codes",
    "self_join",
    "shadow_share",
    "share_of_queries",
    "with_present_names",
]
