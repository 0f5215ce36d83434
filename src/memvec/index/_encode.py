"""From units to the codes that a search reads."""

from __future__ import annotations

import numpy as np

from memvec.codes import CodeSpace
from memvec.index._cascades import CodeCascade
from memvec.index._config import IndexConfig
from memvec.index._units import Units
from memvec.kernels import BLOCK
from memvec.progress import progress_bar
from memvec.types import Float32Array, IntArray, WordArray

# Words of a member's code that are tested before the rest is read.
_PREFIX_WORDS = 3


def encode_units(units: Units, config: IndexConfig, progress: bool | None) -> CodeCascade:
    """Encode memory vectors and members."""
    space = CodeSpace.random(units.vectors.shape[1], symmetric=config.symmetric, seed=config.seed)
    n_prefix = min(_PREFIX_WORDS, space.n_words)
    n_unit_words = min(int(config.unit_words), space.n_words)
    with progress_bar("codes", len(units.vectors) + units.n_tested, progress) as advance:
        of_units = space.encode(units.unit_vectors, n_unit_words, advance=advance)
        of_members = space.encode(units.vectors, n_prefix, advance=advance)
    scales = units.means * of_units.prefix_sums / np.maximum(units.squared_norms, 1e-30)
    code_scales = of_members.full_sums
    if config.codes == "sign":
        # The paper's codes know no norms: one scale serves all units, and one all members.
        scales = np.full_like(scales, scales.mean())
        code_scales = np.full_like(code_scales, code_scales.mean())
    return CodeCascade(
        units=units,
        space=space,
        unit_blocks=_in_blocks(of_units.words[:, :n_unit_words]),
        unit_scales=_padded(scales),
        prefix=_word_by_word(of_members.words[:, :n_prefix], units.offsets),
        prefix_scale=float(of_members.prefix_sums.mean()),
        codes=of_members.words,
        code_scales=code_scales,
    )


def _in_blocks(words: WordArray) -> WordArray:
    """Return codes in blocks, word by word inside each, the last one padded."""
    n_codes, n_words = words.shape
    n_blocks = -(-n_codes // BLOCK)
    padded = np.zeros((n_blocks * BLOCK, n_words), dtype=np.uint64)
    padded[:n_codes] = words
    return np.ascontiguousarray(padded.reshape(n_blocks, BLOCK, n_words).transpose(0, 2, 1))


def _padded(scales: np.ndarray) -> Float32Array:
    n_blocks = -(-len(scales) // BLOCK)
    padded = np.full(n_blocks * BLOCK, np.inf, dtype=np.float32)
    padded[: len(scales)] = scales
    return padded


def _word_by_word(words: WordArray, offsets: IntArray) -> WordArray:
    """Return the words of each unit's members flat: all first words, then all second ones."""
    n_codes, n_words = words.shape
    sizes = np.diff(offsets)
    starts = np.repeat(offsets[:-1], sizes)
    lengths = np.repeat(sizes, sizes)
    inside = np.arange(n_codes) - starts
    flat = np.empty(n_codes * n_words, dtype=np.uint64)
    for word in range(n_words):
        flat[starts * n_words + word * lengths + inside] = words[:, word]
    return flat


__all__ = ["encode_units"]
