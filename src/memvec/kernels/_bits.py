"""Machine instructions that NumPy's operators do not reach.

These are their meanings in Python; `memvec.kernels._instructions` has what kernels run instead.
"""

from __future__ import annotations


def popcount(word):
    """Return the number of ones in a uint64; LLVM turns loops of it into vector instructions."""
    return int(word).bit_count()


def prefetch(array, position):
    """Ask for the cache line of ``array.flat[position]``, ahead of its use."""


def borrowed(array):
    """Return an array of the same memory whose references are not counted.

    A slice of an array counts a reference up and down, by two locked instructions: of a run of
    eight codes they take most of the time. The array itself must be an argument of the kernel, so
    that the caller keeps it; one that is made in a kernel would be freed after its last use.
    """
    return array
