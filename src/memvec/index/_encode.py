"""From units to the codes that a search reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memvec.codes import CodeSpace
from memvec.index._config import IndexConfig
from memvec.index._design import MEMBER_WORDS, IndexDesign
from memvec.kernels import BLOCK
from memvec.progress import progress_bar
from memvec.search import CodeUnits, Units
from memvec.types import Float32Array, Float64Array, IntArray, WordArray


def encode_units(
    units: Units,
    tested: Float32Array,
    similarity: float,
    config: IndexConfig,
    progress: bool | None,
) -> CodeUnits:
    """Encode memory vectors and members; `tested` are the members as the tests see them."""
    space = code_space(tested.shape[1], config)
    n_prefix = min(int(config.member_words), space.n_words)
    n_unit_words = min(int(config.unit_words), space.n_words)
    n_total = len(units.vectors) + units.n_tested + units.n_groups
    with progress_bar("codes", n_total, progress) as advance:
        of_groups = space.encode(units.group_vectors, space.n_words, advance=advance)
        of_units = space.encode(units.unit_vectors, n_unit_words, advance=advance)
        of_members = space.encode(tested, n_prefix, advance=advance)
    unit_codes = of_units.words[:, :n_unit_words]
    unit_scales = _scales(of_units.prefix_sums, units.unit_vectors, units.means)
    top_codes, top_scales = unit_codes, unit_scales
    if units.n_groups:
        # Groups are scaled so that their members score 1 on average.
        top_codes = of_groups.words
        top_scales = _scales(of_groups.full_sums, units.group_vectors, np.ones(units.n_groups))
    code_scales = of_members.full_sums
    if config.codes == "sign":
        # The paper's codes know no norms: one scale serves all units, and one all members.
        unit_scales, top_scales, code_scales = map(
            _all_alike, (unit_scales, top_scales, code_scales)
        )
    first_words = of_members.words[:, :n_prefix]
    if len(units.run_rows):
        first_words = first_words[np.where(units.run_rows < 0, ~units.run_rows, units.run_rows)]
    return CodeUnits(
        similarity=similarity,
        units=units,
        space=space,
        top_blocks=_in_blocks(top_codes),
        top_scales=_padded(top_scales),
        unit_runs=_word_by_word(unit_codes, units.group_offsets),
        unit_scales=unit_scales,
        prefix=_word_by_word(first_words, units.run_offsets),
        prefix_scale=float(of_members.prefix_sums.mean()),
        codes=of_members.words,
        code_scales=code_scales,
        own_scales=config.codes != "sign",
    )


def code_space(dim: int, config: IndexConfig) -> CodeSpace:
    """Return where vectors of a dimension become codes."""
    if config.rotation == "none":
        return CodeSpace.unrotated(dim, symmetric=config.symmetric)
    return CodeSpace.random(dim, symmetric=config.symmetric, seed=config.seed)


def scan_by_codes(vectors: Float32Array, config: IndexConfig, design: IndexDesign) -> CodeUnits:
    """Return a search of vectors that are in no unit: one by one, by their codes.

    Parameters
    ----------
    vectors : ndarray of shape (n_vectors, dim)
        Unit rows.
    config : IndexConfig
        Of the indexes that they are searched with; their lines of thresholds hold for these, too.
    design : IndexDesign
        Of one of them: what `config` leaves open was decided there.
    """
    dim = vectors.shape[1]
    none = np.empty((0, dim), dtype=np.float32)
    units = Units(
        vectors,
        np.arange(len(vectors)),
        np.array([0, len(vectors)]),
        None,
        none,
        np.empty(0),
        np.empty(0),
        np.array([0]),
        none,
        np.array([0, len(vectors)]),
        np.empty(0, dtype=np.int32),
    )
    # As many first words as any of the indexes may have: more of them miss less at the same slack.
    words = MEMBER_WORDS if config.member_words == "auto" else config.member_words
    decided = replace(config, codes=design.config.codes, unit_words=1, member_words=words)
    return encode_units(units, vectors, design.similarity, decided, progress=False)


def _scales(sums: Float32Array, vectors: Float32Array, means: Float64Array) -> Float32Array:
    """Return what a match 1 scores, in units of a code: the mean score times Σ|m′|/‖m‖²."""
    squared = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.asarray(means * sums / np.maximum(squared, 1e-30), dtype=np.float32)


def _all_alike(scales: Float32Array) -> Float32Array:
    return np.full_like(scales, scales.mean()) if len(scales) else scales


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
    """Return the words of each run of codes flat: all first words, then all second ones.

    Codes beyond the last offset are left out: all of them, where there are no groups.
    """
    n_codes, n_words = int(offsets[-1]), words.shape[1]
    sizes = np.diff(offsets)
    starts = np.repeat(offsets[:-1], sizes)
    lengths = np.repeat(sizes, sizes)
    inside = np.arange(n_codes) - starts
    flat = np.empty(n_codes * n_words, dtype=np.uint64)
    for word in range(n_words):
        flat[starts * n_words + word * lengths + inside] = words[:n_codes, word]
    return flat
