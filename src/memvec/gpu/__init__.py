"""Loops on a GPU: joins and scans of balanced codes, tests of members, encoding, int8 scores.

Nothing of CUDA is imported before the first call. Arrays are CuPy's, on the card that is current.
"""

from memvec.gpu._card import WAYS, Card, Way, find_card
from memvec.gpu._codes import BITS_STEP, LENGTHS, code_bits, encode_balanced, pack_codes
from memvec.gpu._compile import compile_kernel
from memvec.gpu._join import join_codes, launch_join
from memvec.gpu._members import launch_members
from memvec.gpu._queue import Queue
from memvec.gpu._scan import launch_scan, scan_codes
from memvec.gpu._scores import score_int8_pairs
from memvec.gpu._sources import KERNELS, kernel_macros

__all__ = [
    "BITS_STEP",
    "KERNELS",
    "LENGTHS",
    "WAYS",
    "Card",
    "Queue",
    "Way",
    "code_bits",
    "compile_kernel",
    "encode_balanced",
    "find_card",
    "join_codes",
    "kernel_macros",
    "launch_join",
    "launch_members",
    "launch_scan",
    "pack_codes",
    "scan_codes",
    "score_int8_pairs",
]
