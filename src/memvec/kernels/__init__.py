"""Compiled loops. The only room that imports numba."""

from memvec.kernels._threads import blocks, default_threads, run_blocks

__all__ = ["blocks", "default_threads", "run_blocks"]
