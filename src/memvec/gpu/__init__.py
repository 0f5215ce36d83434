"""The GPU: units of an index as a source on a card, and the loops under it.

Nothing of CUDA is imported before the first call. Arrays are CuPy's, on the card that is current.
"""

from memvec.gpu._build import build_on_card
from memvec.gpu._card import WAYS, Card, Way, find_card
from memvec.gpu._codes import BITS_STEP, LENGTHS, code_bits, encode_balanced, pack_codes
from memvec.gpu._compile import compile_kernel
from memvec.gpu._copied import units_on_card
from memvec.gpu._join import join_codes, launch_join
from memvec.gpu._kmeans import CardUnitsOfRows, kmeans_on_card, memory_vectors_on_card
from memvec.gpu._limits import limits_of
from memvec.gpu._members import MemberLimits, Runs, launch_members
from memvec.gpu._own_pairs import OwnPairs, own_pairs
from memvec.gpu._queue import Queue
from memvec.gpu._scan import launch_scan, scan_codes
from memvec.gpu._scores import CardRows, launch_scores
from memvec.gpu._source import CardSource, check_card, source_on_card
from memvec.gpu._sources import KERNELS, kernel_macros
from memvec.gpu._store import Stored, store_rows
from memvec.gpu._units import CardUnits
from memvec.search import register_device

register_device("cuda", source_on_card, build_on_card, check_card)

__all__ = [
    "BITS_STEP",
    "KERNELS",
    "LENGTHS",
    "WAYS",
    "Card",
    "CardRows",
    "CardSource",
    "CardUnits",
    "CardUnitsOfRows",
    "MemberLimits",
    "OwnPairs",
    "Queue",
    "Runs",
    "Stored",
    "Way",
    "build_on_card",
    "code_bits",
    "compile_kernel",
    "encode_balanced",
    "find_card",
    "join_codes",
    "kernel_macros",
    "kmeans_on_card",
    "launch_join",
    "launch_members",
    "launch_scan",
    "launch_scores",
    "limits_of",
    "memory_vectors_on_card",
    "own_pairs",
    "pack_codes",
    "scan_codes",
    "source_on_card",
    "store_rows",
    "units_on_card",
]
