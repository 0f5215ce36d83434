"""From units to the codes that a search reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memvec.codes import CodeSpace, FineCodes
from memvec.index._config import IndexConfig
from memvec.index._design import IndexDesign
from memvec.index._kmeans_design import MEMBER_WORDS
from memvec.index._units import scores_on_units
from memvec.kernels import BLOCK, StoredRows, UnitRows, in_blocks, some_rows
from memvec.progress import progress_bar
from memvec.search import Centring, CodeUnits, Units
from memvec.types import Float32Array, Float64Array, IntArray, WordArray

# What centring leaves of a vector is taken to be at least this long; a scale is finite then.
_LEAST_NORM = 1e-3


def encode_units(
    units: Units,
    tested: UnitRows,
    similarity: float,
    config: IndexConfig,
    progress: bool | None,
) -> CodeUnits:
    """Encode memory vectors and members; `tested` are the members as the tests see them."""
    space = code_space(tested.shape[1], config)
    n_prefix = min(int(config.member_words), space.n_words)
    n_unit_words = min(int(config.unit_words), space.n_words)
    bits = int(config.member_bits)
    n_total = (1 + (bits > 1)) * len(units.vectors) + units.n_tested + units.n_groups
    with progress_bar("codes", n_total, progress) as advance:
        of_groups = space.encode(units.group_vectors, space.n_words, advance=advance)
        of_units = space.encode(units.unit_vectors, n_unit_words, advance=advance)
        of_members = space.encode(tested, n_prefix, advance=advance)
        fine = FineCodes.none()
        if bits > 1:
            fine = FineCodes.of(units.vectors, bits, seed=config.seed, advance=advance)
    unit_codes = of_units.words[:, :n_unit_words]
    centred = _Centred.of(units, tested) if config.is_centred else None
    # Groups are scaled so that their members score 1 on average.
    unit_means, group_means = (units.means, units.means), (np.ones(units.n_groups),) * 2
    if centred is not None:
        unit_means = centred.means(units.unit_vectors, units.offsets[: units.n_tested + 1])
        group_means = centred.means(units.group_vectors, units.offsets[units.group_offsets])
    unit_scales, unit_shifts = (
        _scales(of_units.prefix_sums, units.unit_vectors, means) for means in unit_means
    )
    top_codes, top_scales, top_shifts = unit_codes, unit_scales, unit_shifts
    if units.n_groups:
        top_codes = of_groups.words
        top_scales, top_shifts = (
            _scales(of_groups.full_sums, units.group_vectors, means) for means in group_means
        )
    code_scales, centring = of_members.full_sums, Centring()
    if centred is not None:
        code_scales = centred.scales(of_members.full_sums)
        centring = Centring(
            _padded(top_shifts),
            unit_shifts,
            *centred.run_means(units, centred.scales(of_members.prefix_sums)),
            code_shifts=centred.shifts(code_scales),
        )
    if not config.own_scales:
        # These codes know no norms: one scale serves all members.
        code_scales = _all_alike(code_scales)
    if config.codes == "sign":
        # As in the paper, one scale serves all units, too.
        unit_scales, top_scales = map(_all_alike, (unit_scales, top_scales))
    first_words = of_members.words[:, :n_prefix]
    if len(units.run_rows):
        first_words = first_words[np.where(units.run_rows < 0, ~units.run_rows, units.run_rows)]
    return CodeUnits(
        similarity=similarity,
        units=units,
        space=space,
        top_blocks=in_blocks(top_codes),
        top_scales=_padded(top_scales),
        unit_runs=word_by_word(unit_codes, units.group_offsets),
        unit_scales=unit_scales,
        prefix=word_by_word(first_words, units.run_offsets),
        prefix_scale=float(of_members.prefix_sums.mean()),
        codes=of_members.words,
        code_scales=code_scales,
        own_scales=config.own_scales,
        centring=centring,
        fine=fine,
    )


@dataclass(frozen=True, eq=False)
class _Centred:
    """What centring leaves of vectors, ‖x − μ‖, and what it takes, xᵀμ."""

    rows: UnitRows
    norms: Float64Array
    along: Float64Array

    @classmethod
    def of(cls, units: Units, tested: UnitRows) -> _Centred:
        mean = np.zeros(0) if units.projection is None else units.projection.mean
        along = np.asarray(units.vectors.products(mean), dtype=np.float64)
        squared = 1.0 - 2.0 * along + float(mean @ mean)
        return cls(tested, np.sqrt(np.maximum(squared, _LEAST_NORM**2)), along)

    def scales(self, sums: Float32Array) -> Float32Array:
        """Return what an inner product 1 adds up to, from the sums of rows of norm 1."""
        return np.asarray(sums / self.norms, dtype=np.float32)

    def shifts(self, scales: Float32Array) -> Float32Array:
        """Return the shifts of members."""
        return np.asarray(scales * self.along, dtype=np.float32)

    def means(self, vectors: Float32Array, offsets: IntArray) -> tuple[Float64Array, Float64Array]:
        """Return what a match 1 scores on runs on average, and the same times xᵀμ."""
        sizes = np.diff(offsets)
        labels = np.repeat(np.arange(len(sizes)), sizes)
        inside = slice(0, len(labels))
        scores = scores_on_units(some_rows(self.rows, inside), labels, vectors) / self.norms[inside]
        means = (
            np.bincount(labels, weights, len(sizes)) / sizes
            for weights in (scores, scores * self.along[inside])
        )
        return next(means), next(means)

    def run_means(self, units: Units, scales: Float32Array) -> tuple[Float32Array, Float32Array]:
        """Return the mean scale and shift of the first words of each unit's members and guests."""
        sizes = np.diff(units.run_offsets)
        labels = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.arange(len(scales))
        if len(units.run_rows):
            rows = np.where(units.run_rows < 0, ~units.run_rows, units.run_rows)
        scale, shift = (
            np.bincount(labels, weights[rows], len(sizes)) / np.maximum(sizes, 1)
            for weights in (scales, self.shifts(scales))
        )
        return scale.astype(np.float32), shift.astype(np.float32)


def code_space(dim: int, config: IndexConfig) -> CodeSpace:
    """Return where vectors of a dimension become codes."""
    balanced = config.balanced_bits(dim)
    if config.rotation == "none":
        return CodeSpace.unrotated(dim, symmetric=config.symmetric, balanced=balanced)
    return CodeSpace.random(dim, symmetric=config.symmetric, seed=config.seed, balanced=balanced)


def scan_by_codes(vectors: StoredRows, config: IndexConfig, design: IndexDesign) -> CodeUnits:
    """Return a search of vectors that are in no unit: one by one, by their codes.

    Parameters
    ----------
    vectors : StoredRows of shape (n_vectors, dim)
        The rows.
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
    decided = replace(
        config,
        codes=design.config.codes,
        unit_words=1,
        member_words=words,
        member_bits=1,
        center=False,
    )
    return encode_units(units, vectors.unit_rows, design.similarity, decided, progress=False)


def _scales(sums: Float32Array, vectors: Float32Array, means: Float64Array) -> Float32Array:
    """Return what a match 1 scores, in units of a code: the mean score times Σ|m′|/‖m‖²."""
    squared = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.asarray(means * sums / np.maximum(squared, 1e-30), dtype=np.float32)


def _all_alike(scales: Float32Array) -> Float32Array:
    return np.full_like(scales, scales.mean()) if len(scales) else scales


def _padded(scales: np.ndarray) -> Float32Array:
    n_blocks = -(-len(scales) // BLOCK)
    padded = np.full(n_blocks * BLOCK, np.inf, dtype=np.float32)
    padded[: len(scales)] = scales
    return padded


def word_by_word(words: WordArray, offsets: IntArray) -> WordArray:
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
