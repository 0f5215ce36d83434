"""Units that are tested by codes: groups, units, first words of members, whole and fine codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from memvec.codes import CodeSpace, FineCodes
from memvec.guarantee import Thresholds
from memvec.kernels import (
    ALL_ALLOWED,
    FINE_STAGE,
    MOST_DEVIATIONS,
    N_STAGES,
    PREFIX_STAGE,
    CodeTests,
    Packed,
    Room,
    StoredRows,
    fine_limit,
    fine_queries,
    members_by_fine_codes,
    nearest_codes,
    room_for,
    search_blocks,
    search_codes,
    tests_whole_codes,
)
from memvec.matches import Matches
from memvec.search._centring import Centring
from memvec.search._code_views import CodeViews
from memvec.search._stage_lines import StageLines, balanced_lines, of_all_stages
from memvec.search._units import Units
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray, WordArray

# Standard deviations of a code's noise that no match needs: a Gaussian exceeds them three times in
# a million, and the noise of a match is smaller.
_MOST_CODE_SLACK = 4.5
_NO_REACHES = np.empty(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class CodeUnits:
    """Search by codes: units, first words of members, whole codes and fine codes of members.

    Attributes
    ----------
    similarity : float
        At which the better of a vector's two homes is told, in calibration.
    units : Units
        What is searched.
    space : CodeSpace
        Rotation and quantisation.
    top_blocks : ndarray of shape (n_blocks, n_top_words, BLOCK)
        Codes of the groups, or of the units where there are none, word by word in blocks.
    top_scales : ndarray of shape (n_blocks * BLOCK,)
        What a match 1 scores on each of them, in units of its code.
    unit_runs : ndarray of shape (n_tested * n_unit_words,)
        Codes of the units, word by word inside each group; empty without groups.
    unit_scales : ndarray of shape (n_tested,)
        What a match 1 scores on each unit, in units of its code.
    prefix : ndarray of shape (n_slots * n_prefix,)
        First words of the members' codes, word by word inside each unit; guests are among them.
    prefix_scale : float
        The mean sum of magnitudes behind them.
    codes : ndarray of shape (n_vectors, n_words)
        Whole codes of the members.
    code_scales : ndarray of shape (n_vectors,)
        Their sums of magnitudes.
    own_scales : bool
        Whether each member has its own; the paper's codes have one for all.
    fine : FineCodes
        Codes of more bits, of the members as they are stored; of nothing where one bit is enough.
    centring : Centring
        What is known of centred vectors besides.
    """

    similarity: float
    units: Units
    space: CodeSpace
    top_blocks: WordArray
    top_scales: Float32Array
    unit_runs: WordArray
    unit_scales: Float32Array
    prefix: WordArray
    prefix_scale: float
    codes: WordArray
    code_scales: Float32Array
    own_scales: bool
    fine: FineCodes
    centring: Centring = field(default_factory=Centring)

    @property
    def vectors(self) -> StoredRows:
        """The members, in unit order."""
        return self.units.vectors

    @property
    def keys(self) -> IntArray:
        """The id of each member."""
        return self.units.keys

    def model_spreads(self, similarity: float) -> Float64Array:
        """Return 1 for every stage: the noise of codes, which outweighs that of random units."""
        return np.ones(N_STAGES)

    stage_names: ClassVar[tuple[str, ...]] = ("group", "unit", "prefix", "code", "fine")

    @property
    def stage_shares(self) -> Float64Array:
        """Most to the first tests, as what they let pass costs most; little to the last."""
        of_units = [0.4, 0.25, 0.28] if self.units.n_groups else [0.0, 0.55, 0.38]
        if self.is_balanced and self.n_prefix == self.space.n_words and not len(self.fine):
            # Whole codes are tested at once, where that costs next to nothing.
            return np.array([*([0.4, 0.5] if self.units.n_groups else [0.0, 0.9]), 0.05, 0.05, 0])
        if not len(self.fine):
            return np.array([*of_units, 0.07, 0.0])
        tests_whole = self.n_prefix < self.codes.shape[1]
        return np.array([*of_units, 0.05 if tests_whole else 0.0, 0.02])

    @property
    def most_slack(self) -> Float64Array:
        """Rotated codes of members see nothing but their noise, unless vectors are projected.

        First words of centred members see what each differs from the mean of its unit, too.
        """
        bounded = (self.codes_have_angles or bool(self.centring)) and self.space.rotates
        of_codes = _MOST_CODE_SLACK if bounded else np.inf
        of_first_words = np.inf if self.centring else of_codes
        return np.array([np.inf, np.inf, of_first_words, of_codes, _MOST_CODE_SLACK])

    @property
    def most_deviations(self) -> Float64Array:
        """Fine codes stop what is far below the similarity asked for, whatever the thresholds."""
        most = np.full(N_STAGES, np.inf)
        if len(self.fine):
            most[FINE_STAGE] = MOST_DEVIATIONS
        return most

    @cached_property
    def least_slopes(self) -> Float64Array:
        """The least gain·scale/√Σv² at each stage; √Σv² is at most top·√bits.

        Where vectors are centred it is over ‖q − μ‖, which is at most 1 + ‖μ‖.
        """
        n_top = self.units.n_groups or self.units.n_tested
        scales = [
            self.top_scales[:n_top].min(initial=np.inf),
            self.unit_scales.min(initial=np.inf),
            self.centring.run_scales.min() if self.centring else self.prefix_scale,
            self.code_scales.min(),
        ]
        words = [self.space.n_words, self.space.n_words, self.n_prefix, self.space.n_words]
        spreads = self.space.highest_level * np.sqrt(64.0 * np.array(words))
        longest = 1.0
        if self.centring and self.units.projection is not None:
            longest += float(np.linalg.norm(self.units.projection.mean))
        slopes = self.space.gain * np.array(scales) / (longest * spreads)
        return np.append(slopes, 1 / self.fine.noise if len(self.fine) else np.inf)

    @cached_property
    def unit_codes(self) -> WordArray:
        """The codes of the units, one per row, put together from where the search reads them."""
        units = self.units
        if not units.n_groups:
            n_words = self.top_blocks.shape[1]
            rows = self.top_blocks.transpose(0, 2, 1).reshape(-1, n_words)
            return np.ascontiguousarray(rows[: units.n_tested])
        n_words = len(self.unit_runs) // units.n_tested
        codes = np.empty((units.n_tested, n_words), dtype=np.uint64)
        for start, stop in pairwise(units.group_offsets):
            run = self.unit_runs[start * n_words : stop * n_words]
            codes[start:stop] = run.reshape(n_words, stop - start).T
        return codes

    @property
    def codes_have_angles(self) -> bool:
        """Whether the scale of a code tells the angle between it and its vector."""
        return self.units.projection is None and self.own_scales

    @property
    def n_prefix(self) -> int:
        """Words of a member's code that are tested first."""
        return len(self.prefix) // int(self.units.run_offsets[-1])

    @property
    def n_unit_words(self) -> int:
        """Words of a unit's code that are tested."""
        if self.units.n_groups:
            return len(self.unit_runs) // self.units.n_tested
        return int(self.top_blocks.shape[1])

    @property
    def tests_whole_codes(self) -> bool:
        """Whether whole codes of members are tested."""
        return bool(tests_whole_codes(self.n_prefix, self.codes.shape[1], len(self.fine) > 0))

    @property
    def is_balanced(self) -> bool:
        """Whether codes are balanced: then all queries have the same lines of thresholds."""
        return self.space.top < 0

    def balanced_lines(self, thresholds: Thresholds) -> tuple[StageLines, ...]:
        """Return the lines of thresholds of every query, by stage, but for fine codes.

        See :func:`balanced_lines`.
        """
        words = self.n_unit_words, self.n_prefix
        return balanced_lines(thresholds, self.space, words, self._scale_ranges)

    def keep_fine(
        self, queries: Float32Array, similarity: float, found: Matches, thresholds: Thresholds
    ) -> Matches:
        """Return the matches whose fine codes pass; all where there are none.

        `found` are the matches of a search that leaves fine codes out, by key.
        """
        if not len(self.fine):
            return found
        at, slack = thresholds.for_kernel
        flips, codes, scales, noise, n_levels = self._fine_tests
        entries, offsets, steps = fine_queries(queries, flips, n_levels)
        kept = np.zeros(len(found.ids), dtype=bool)
        nothing: Any = self.vectors.for_kernel[0][:0]
        for query, (start, stop) in enumerate(pairwise(found.offsets.tolist())):
            rows = self.units.places[found.ids[start:stop]].astype(np.int32)
            limit = fine_limit(slack[FINE_STAGE], at, noise, steps[query], similarity)
            passing, given = rows.copy(), (entries[query], offsets[query], limit, nothing)
            n_passing = members_by_fine_codes(passing, codes, scales, *given, _NO_REACHES)
            kept[start:stop] = np.isin(rows, passing[:n_passing])
        return found.kept(kept)

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return the matches of all queries."""
        asked = self.asked(similarity, thresholds)
        search: Callable[..., int] = search_codes

        def some(rows: Float32Array, room: Room) -> int:
            return search(*self._seen(rows), *asked, allowed, False, *room)

        return search_blocks(some, queries, room_for(similarity, len(self.units.vectors)), threads)

    def nearest(
        self,
        queries: Float32Array,
        cuts: Float64Array,
        thresholds: Thresholds,
        best: Float64Array,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return the nearest of each query, and all that are as near as the k-th.

        Parameters
        ----------
        cuts : ndarray of shape (n_cuts,)
            Similarities that the k-th nearest is likely to reach, falling, and `ANYTHING`.
        thresholds : Thresholds
            One line, whose slack holds at the similarity of the k-th nearest.
        best : ndarray of shape (n_queries, k)
            The k best scores so far of each query, the lowest first; −∞ where there are fewer.
            Those found here are put in.
        """
        slack = np.ascontiguousarray(of_all_stages(thresholds)[1][:, 0])
        asked = cuts, slack, *self._searched, allowed
        visit: Callable[..., int] = nearest_codes

        def some(chosen: IntArray, room: Room) -> int:
            block = slice(chosen[0], chosen[-1] + 1)
            rows, heaps = queries[block], best[block].copy()
            found = visit(*self._seen(rows), *asked, heaps, *room)
            if found <= len(room[1]):  # else it is asked again
                best[block] = heaps
            return found

        return search_blocks(some, np.arange(len(queries)), 0, threads)

    def _seen(self, queries: Float32Array) -> tuple[Float32Array, ...]:
        """Return queries as they are scored, as unit rows, and as the tests see them."""
        tested = queries if self.centring else self.units.as_tested(queries)
        return self.vectors.queries(queries), queries, tested

    @cached_property
    def _views(self) -> CodeViews:
        """What the tests see."""
        members = self.n_prefix, np.float32(self.prefix_scale), self.codes, self.code_scales
        fine_tests = self._fine_tests if len(self.fine) else None
        tests = self._encoding, self._unit_tests, members, fine_tests
        return CodeViews(self.units, self.centring, *tests)

    @property
    def _encoding(self) -> tuple[object, ...]:
        """How kernels make codes of queries."""
        space = self.space
        return space.flips, np.float32(space.steps), space.top, np.float32(space.gain)

    @property
    def _unit_tests(self) -> tuple[object, ...]:
        """What kernels test groups and units by."""
        offsets, n_tested = self.units.group_offsets, self.units.n_tested
        of_units = self.unit_runs, self.unit_scales
        return self.top_blocks, self.top_scales, offsets, *of_units, n_tested

    @property
    def tests_unit_rows(self) -> bool:
        """Whether queries are tested and scored as unit rows, all three alike."""
        return self.vectors.is_plain and (self.units.projection is None or bool(self.centring))

    def asked(self, similarity: float, thresholds: Thresholds) -> tuple[object, ...]:
        """Return what `search_codes` is given of a question, in the order of its arguments."""
        return similarity, *of_all_stages(thresholds), *self._searched

    @property
    def _searched(self) -> tuple[object, ...]:
        """What kernels search, in the order of their arguments."""
        return self.packed.address, self.vectors.for_kernel[0]

    @cached_property
    def packed(self) -> Packed[CodeTests]:
        """The tests as kernels read them."""
        units, space, fine, centring = self.units, self.space, self.fine, self.centring
        centred = units.projection if centring else None
        return Packed(
            CodeTests(
                mean=np.empty(0, dtype=np.float32) if centred is None else centred.mean,
                flips=space.flips,
                steps=space.steps,
                top=space.top,
                gain=space.gain,
                top_blocks=self.top_blocks,
                top_scales=self.top_scales,
                group_offsets=units.group_offsets,
                unit_runs=self.unit_runs,
                unit_scales=self.unit_scales,
                n_tested=units.n_tested,
                run_offsets=units.run_offsets,
                run_rows=units.run_rows,
                largest_run=units.largest_run,
                prefix=self.prefix,
                scale_ranges=self._scale_ranges,
                codes=self.codes,
                code_scales=self.code_scales,
                top_shifts=centring.top_shifts,
                unit_shifts=centring.unit_shifts,
                run_scales=centring.run_scales,
                run_shifts=centring.run_shifts,
                code_shifts=centring.code_shifts,
                fine_flips=fine.flips,
                fine_codes=fine.codes,
                fine_scales=fine.scales,
                noise=fine.noise,
                n_levels=fine.n_levels,
                scales=self.vectors.for_kernel[1],
                keys=units.keys,
            )
        )

    @property
    def _fine_tests(self) -> tuple[object, ...]:
        """What kernels test members by last."""
        fine = self.fine
        return fine.flips, fine.codes, fine.scales, np.float32(fine.noise), fine.n_levels

    @cached_property
    def _scale_ranges(self) -> Float32Array:
        """The least and the largest scale of each stage; (0, 0) where it tests nothing."""
        n_top = self.units.n_groups or self.units.n_tested
        of_first_words = np.array([self.prefix_scale], dtype=np.float32)
        if self.centring:
            of_first_words = self.centring.run_scales
        stages = [self.top_scales[:n_top], self.unit_scales, of_first_words, self.code_scales]
        ranges = [(one.min(), one.max()) if len(one) else (0.0, 0.0) for one in stages]
        return np.array(ranges, dtype=np.float32)

    def see(
        self, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs, at the better of a row's two homes.

        The better one is that of the similarity the index is designed for. Elsewhere the other may
        be: then more is found than calibration knows of.
        """
        seen, *others = self.see_homes(queries, query_of, row_of)
        for other in others:
            better = (self._needed(*other) < self._needed(*seen))[:, np.newaxis]
            seen = np.where(better, other[0], seen[0]), np.where(better, other[1], seen[1])
        return seen

    def see_homes(
        self, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> list[tuple[Float32Array, Float32Array]]:
        """Return what the stages see at the home of each row, and at its second home."""
        homes = [self.units.unit_of(row_of)]
        if len(self.units.run_rows):
            homes.append(self.units.second_homes[row_of].astype(np.int64))
        return [self._views.at(units, queries, query_of, row_of) for units in homes]

    def _needed(self, scores: Float32Array, slopes: Float32Array) -> Float32Array:
        """Return the slack that the tests of groups and units need of each pair."""
        needed = self.similarity * slopes[:, :PREFIX_STAGE] - scores[:, :PREFIX_STAGE]
        return np.asarray(needed.max(axis=1))

    def unit_scores(self, query: Float32Array) -> Float32Array:
        """Return the estimated score of every unit, in shares of what a match 1 would score."""
        return self._views.unit_scores(query, self.unit_codes, self.unit_scales)

    def unit_similarities(self, query: Float32Array) -> Float32Array:
        """Return the unit scores as similarities, which they are already."""
        return self.unit_scores(query)
