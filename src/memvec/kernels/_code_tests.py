"""What an index is searched by, as its kernels read it."""

from __future__ import annotations

from typing import NamedTuple

from memvec.kernels._packed import (
    ByteRows,
    Doubles,
    Float,
    FloatRows,
    Floats,
    Int,
    Ints,
    LongInts,
    WordBlocks,
    WordRows,
    Words,
)


class CodeTests(NamedTuple):
    """The codes of an index, stage by stage, and what is known of its rows besides.

    Attributes
    ----------
    mean : float32 (dim,) or (0,)
        Of `centre_queries`, where vectors are centred.
    flips, steps, top : float32 (n_rounds, padded_dim), float32, int
        Of `rotate` and `quantise_query`.
    gain : float32
        What Σ sᵢvᵢ of an inner product 1 is, for a code of scale 1.
    top_blocks : uint64 (n_blocks, n_top_words, BLOCK)
    top_scales : float32 (n_blocks * BLOCK,)
        Codes of the groups, or of the units where there are no groups.
    group_offsets : int64 (n_groups + 1,)
        Group g holds the units from ``group_offsets[g]`` on; one entry where there are no groups.
    unit_runs : uint64 (n_tested * n_unit_words,)
        Codes of the units, word by word inside each group; empty without groups.
    unit_scales : float32 (n_tested,)
    n_tested : int
        Units from this one on are visited without a test.
    run_offsets : int64 (n_units + 1,)
        Unit u holds the slots from ``run_offsets[u]`` on: its members, and guests from other units.
    run_rows : int32 (n_slots,) or (0,)
        The row of each slot, and −1 − row for a guest; slots are rows where it is empty.
    largest_run : int
        Of the slots of a unit, and of the units of a group.
    prefix : uint64 (n_slots * n_prefix,)
        The first words of the members' codes, word by word inside each unit.
    scale_ranges : float32 (STAGES_BEFORE_FINE, 2)
        The least and the largest scale of each stage's codes. First words of members have one scale
        for all: whole numbers are compared then.
    codes : uint64 (n_vectors, n_words)
    code_scales : float32 (n_vectors,)
    top_shifts, unit_shifts, run_scales, run_shifts, code_shifts : float32, each (0,) if not centred
        Shifts of `top_blocks` and of units; scales and shifts of the first words, one for each
        unit; shifts of whole codes.
    fine_flips, fine_codes, fine_scales : float32 (n_rounds, padded_dim), uint8, float32
        Flips of the rotation, codes and scales of `encode_fine`; no codes where there are none.
    noise, n_levels : float32, int
        The standard deviation of an estimate by fine codes, and their number of levels.
    scales : float64 (n_vectors,), or (0,) for float32
        Of the stored rows; see `collect_matches`.
    keys : int64 (n_vectors,)
    """

    mean: Floats
    flips: FloatRows
    steps: Float
    top: Int
    gain: Float
    top_blocks: WordBlocks
    top_scales: Floats
    group_offsets: LongInts
    unit_runs: Words
    unit_scales: Floats
    n_tested: Int
    run_offsets: LongInts
    run_rows: Ints
    largest_run: Int
    prefix: Words
    scale_ranges: FloatRows
    codes: WordRows
    code_scales: Floats
    top_shifts: Floats
    unit_shifts: Floats
    run_scales: Floats
    run_shifts: Floats
    code_shifts: Floats
    fine_flips: FloatRows
    fine_codes: ByteRows
    fine_scales: Floats
    noise: Float
    n_levels: Int
    scales: Doubles
    keys: LongInts
