"""Collections: durable, growing, searchable at any time."""

from memvec.collection._blocks import (
    FileDuplicates,
    checked_asked,
    deduplicate_by,
    deduplicate_files,
    input_paths,
)
from memvec.collection._blocks_groups import LABELS, edge_files
from memvec.collection._blocks_pairs import FileJoin, join_by, join_files
from memvec.collection._blocks_plan import Asked, BlockPlan, Task
from memvec.collection._blocks_reading import FIRSTS
from memvec.collection._blocks_running import DoTasks, check_out, do_task, work_folder
from memvec.collection._blocks_work import WorkFolder
from memvec.collection._check import check_collection
from memvec.collection._collection import Collection
from memvec.collection._ids import checked_id, checked_metadata
from memvec.collection._items import Item
from memvec.collection._opening import given_settings, open_collection, scratch_collection
from memvec.collection._reading import Stats
from memvec.collection._repair import Repair, repair_collection
from memvec.collection._settings import Settings, settle
from memvec.collection._shard import Known, Listing, Shard, Sought, listed_state
from memvec.collection._sharded import ShardedCollection
from memvec.collection._sharded_store import LOSSES, Link, LocalLink, ShardedStore
from memvec.collection._state import State
from memvec.collection._streams import Match, MatchBlock, PairBlock, PairStream, RangeStream
from memvec.collection._waiting import Waiting
from memvec.search import DuplicateGroup, Duplicates, SimilarPair

__all__ = [
    "FIRSTS",
    "LABELS",
    "LOSSES",
    "Asked",
    "BlockPlan",
    "Collection",
    "DoTasks",
    "DuplicateGroup",
    "Duplicates",
    "FileDuplicates",
    "FileJoin",
    "Item",
    "Known",
    "Link",
    "Listing",
    "LocalLink",
    "Match",
    "MatchBlock",
    "PairBlock",
    "PairStream",
    "RangeStream",
    "Repair",
    "Settings",
    "Shard",
    "ShardedCollection",
    "ShardedStore",
    "SimilarPair",
    "Sought",
    "State",
    "Stats",
    "Task",
    "Waiting",
    "WorkFolder",
    "check_collection",
    "check_out",
    "checked_asked",
    "checked_id",
    "checked_metadata",
    "deduplicate_by",
    "deduplicate_files",
    "do_task",
    "edge_files",
    "given_settings",
    "input_paths",
    "join_by",
    "join_files",
    "listed_state",
    "open_collection",
    "repair_collection",
    "scratch_collection",
    "settle",
    "work_folder",
]
