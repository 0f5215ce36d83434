"""The sources of kernels for GPUs: CUDA C++, compiled by whoever has a card."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "cuda"
# What a source needs before it.
_BEFORE = {
    "above": ("rows",),
    "join_mma": ("survivors",),
    "join_popcount": ("survivors",),
    "join_wgmma": ("survivors",),
    "members": ("codes",),
    "nearest": ("rows",),
    "scan": ("codes",),
    "scores": ("rows",),
    "store": ("rows",),
}


def cuda_source(name: str) -> str:
    """Return the source of a kernel, whole: nothing is included from elsewhere."""
    names = (*_BEFORE.get(name, ()), name)
    return "\n".join((_FOLDER / f"{part}.cu").read_text(encoding="utf-8") for part in names)
