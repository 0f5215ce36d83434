"""Which kernels there are, and the sizes that they are compiled for."""

from __future__ import annotations

from typing import NamedTuple

from memvec import checks

#: A kernel compares or makes codes of a whole number of so many bits; zero bits count for nothing.
BITS_STEP = 256
#: The shortest and the longest code.
LENGTHS = (64, 2048)
#: Names of kernels, as `compile_kernel` takes them.
KERNELS = (
    *("above", "combine", "encode", "join_mma", "join_popcount", "join_wgmma", "members"),
    *("nearest", "scan", "scores", "solve", "store", "weights"),
)
#: Members of a unit whose weights one block solves for.
MOST_SOLVED = 64
#: How kernels number the types of entries.
ENTRY_TYPES = {"float32": 0, "float16": 1, "int8": 2, "float64": 3}

_WGMMA_ROWS, _WGMMA_COLUMNS, _WGMMA_MOST_TILES = 64, 128, 8
_MMA_COLUMNS, _POPCOUNT_COLUMNS = 128, 32
# Shared memory that a block of sm_90 can have, in bytes; what the kernel itself takes of it for the
# limits of a column, and for what a warp puts aside; and what aligning the rest may take.
_WGMMA_SHARED = 227 * 1024
_LIMITS, _ASIDE, _ALIGNMENT = 8, 2560, 1024


class Shape(NamedTuple):
    """How a join is launched.

    Attributes
    ----------
    macros : dict
    columns : int
        Columns that a block keeps.
    threads : int
        Threads of a block.
    shared : int
        Bytes of shared memory that are asked for at the launch.
    """

    macros: dict[str, int]
    columns: int
    threads: int
    shared: int


def code_bits(length: int) -> int:
    """Return how many bits a code of `length` entries takes: the next multiple of 256."""
    return -(-length // BITS_STEP) * BITS_STEP


def check_length(length: int, where: str) -> int:
    """Return the length of a code: even, between the shortest and the longest."""
    shortest, longest = LENGTHS
    length = checks.integer(length, "length", where, minimum=shortest)
    if length > longest or length % 2:
        expected = f"an even number in [{shortest}, {longest}]"
        raise checks.bad_value("length", where, expected, length)
    return length


def join_shape(kernel: str, bits: int) -> Shape:
    """Return how a join of codes of so many bits is launched."""
    code_bytes = bits // 8
    if kernel == "join_wgmma":
        # Three warpgroups: one looks for survivors while two multiply. Products of long codes take
        # so long that two are enough, and their buffers leave room for columns.
        groups = 3 if bits <= 1536 else 2
        buffers = groups * 2 * _WGMMA_ROWS * code_bytes + _ALIGNMENT
        tile = _WGMMA_COLUMNS * code_bytes
        room = _WGMMA_SHARED - buffers - groups * 4 * _ASIDE - _WGMMA_MOST_TILES * _LIMITS
        fitting = room // (tile + _WGMMA_COLUMNS * _LIMITS)
        tiles = min(fitting, _WGMMA_MOST_TILES) // 2 * 2  # multiplied by twos
        macros = {"BITS": bits, "TILES": tiles, "WARPGROUPS": groups}
        return Shape(macros, tiles * _WGMMA_COLUMNS, groups * 128, tiles * tile + buffers)
    if kernel == "join_mma":
        rows = 128 if bits <= 1024 else 64
        shared = (_MMA_COLUMNS + 2 * rows) * (code_bytes + 16)
        return Shape({"BITS": bits}, _MMA_COLUMNS, 256, shared)
    return Shape({"BITS": bits}, _POPCOUNT_COLUMNS, 128, 0)


def kernel_macros(kernel: str, length: int, **given: int) -> dict[str, int]:
    """Return the sizes that a kernel is compiled for, for codes of `length` entries.

    Parameters
    ----------
    kernel : str
        One of `KERNELS`.
    length : int
        Entries of a code.
    **given : int
        Other sizes than the usual ones; see the head of the kernel.

    Examples
    --------
    >>> kernel_macros("encode", 384)
    {'BITS': 512, 'CODED': 384, 'LENGTH': 384}
    >>> kernel_macros("join_wgmma", 1024)
    {'BITS': 1024, 'TILES': 8, 'WARPGROUPS': 3}
    """
    kernel = checks.choice(kernel, "kernel", "kernel_macros", KERNELS)
    bits = code_bits(check_length(length, "kernel_macros"))
    if kernel.startswith("join"):
        return join_shape(kernel, bits).macros
    usual = {
        "above": {},
        "combine": {},
        "encode": {"BITS": bits, "CODED": length, "LENGTH": length},
        "members": {"BITS": bits, "FIRST": 0},
        "nearest": {},
        "scan": {"BITS": bits},
        "scores": {"STORED": ENTRY_TYPES["int8"]},
        "solve": {"SIZE": 8},
        "store": {"GIVEN": ENTRY_TYPES["float32"], "STORED": ENTRY_TYPES["int8"]},
        "weights": {"MOST": MOST_SOLVED},
    }
    return usual[kernel] | given
