"""The index of a fixed set of vectors: design, build, search, files."""

from memvec.index._arguments import check_number, checked_config, config_of_device
from memvec.index._arrays import compares_everything, deduplicate, join, self_join
from memvec.index._build import BuildPromise
from memvec.index._config import KMEANS_RULES, IndexConfig, with_present_names
from memvec.index._costs import MachineCosts, shadow_share
from memvec.index._design import IndexDesign, measured_uniformity, random_unit_size
from memvec.index._encode import code_space, scan_by_codes, word_by_word
from memvec.index._index import Index, map_index, save_index
from memvec.index._joins import KeptRow
from memvec.index._parts import IndexParts
from memvec.index._profile import profile_machine
from memvec.index._recalibrate import check_enough, share_of_queries

__all__ = [
    "KMEANS_RULES",
    "BuildPromise",
    "Index",
    "IndexConfig",
    "IndexDesign",
    "IndexParts",
    "KeptRow",
    "MachineCosts",
    "check_enough",
    "check_number",
    "checked_config",
    "code_space",
    "compares_everything",
    "config_of_device",
    "deduplicate",
    "join",
    "map_index",
    "measured_uniformity",
    "profile_machine",
    "random_unit_size",
    "save_index",
    "scan_by_codes",
    "self_join",
    "shadow_share",
    "share_of_queries",
    "with_present_names",
    "word_by_word",
]
