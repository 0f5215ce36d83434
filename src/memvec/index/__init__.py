"""The index of a fixed set of vectors: design, build, search, results."""

from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._design import IndexDesign
from memvec.index._explain import Explanation, StageView
from memvec.index._index import Index
from memvec.index._monitor import Health, Verification
from memvec.index._profile import profile_machine
from memvec.index._results import HitRow, Hits, TopHits, Work

__all__ = [
    "Explanation",
    "Health",
    "HitRow",
    "Hits",
    "Index",
    "IndexConfig",
    "IndexDesign",
    "MachineCosts",
    "StageView",
    "TopHits",
    "Verification",
    "Work",
    "profile_machine",
]
