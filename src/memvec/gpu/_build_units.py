"""Units built on a card: rows stored and coded block by block, packed, solved and put in order."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from memvec.codes import CodeSpace
from memvec.gpu._card import Card
from memvec.gpu._clusters import clustered_units
from memvec.gpu._codes import encode_balanced
from memvec.gpu._fetched import FetchedCodes
from memvec.gpu._held import OnCard
from memvec.gpu._members import Runs
from memvec.gpu._packages import cupy
from memvec.gpu._products import ROWS_AT_ONCE
from memvec.gpu._queries import on_card
from memvec.gpu._scores import CardRows
from memvec.gpu._sources import code_bits
from memvec.gpu._store import room_for_rows, store_rows
from memvec.gpu._units import CardUnits, CodeShape
from memvec.index import KMEANS_RULES, IndexDesign
from memvec.progress import progress_bar
from memvec.types import RowType

_WHERE = "Index.build"


def build_units(
    vectors: Any,
    design: IndexDesign,
    space: CodeSpace,
    n_reserve: int,
    card: Card,
    progress: bool | None,
) -> tuple[OnCard, float]:
    """Return what lies on the card, and the mean sum of magnitudes behind a member's code."""
    xp, n_rows, made = cupy(), design.n_vectors, design.config
    size = design.unit_size if made.assignment == "random" else None
    rows, by_place, total = _stored(vectors, design.dtype, space, card, progress)
    places = xp.asarray(xp.random.RandomState(made.seed).permutation(n_rows), dtype=np.int32)
    if size is None:
        places, ends = _clustered(rows, places, design, n_reserve, card, progress)
    else:
        ends = size * xp.arange(1, (n_rows - n_reserve) // size + 1, dtype=np.int32)
    n_units = len(ends)
    n_inside = int(ends[-1])
    n_words = by_place.shape[1]
    columns = card.empty("Codes of units", (n_units + n_rows - n_inside, n_words), np.uint32)
    scales = card.empty("Scales of units", (n_units,), np.float32)
    moments = card.empty("Scores of members", (2, n_units), np.float32)
    runs = _runs(ends, n_rows, by_place)
    held = OnCard(
        *(card, design.dim, design.dtype, rows._replace(places=places), runs, columns[:n_units]),
        *(scales, moments, size),
    )
    _solve(held, space, progress)
    # Units with like thresholds lie together.
    order = xp.argsort(scales)
    if size is None:
        places[:n_inside], ends = _moved_units(places[:n_inside], ends, order)
    else:
        places[:n_inside] = places[:n_inside].reshape(n_units, size)[order].reshape(-1)
    scales, moments = scales[order], moments[:, order]
    columns[:n_units] = columns[:n_units][order]
    codes = card.empty("Codes", by_place.shape, np.uint32)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        some = places[start : start + ROWS_AT_ONCE]
        codes[start : start + len(some)] = by_place[some]
    columns[n_units:] = codes[n_inside:]
    runs = _runs(ends, n_rows, codes)
    made_anew = dataclasses.replace(
        held, runs=runs, unit_codes=columns, scales=scales, moments=moments
    )
    return made_anew, float(total) / n_rows


def _clustered(
    rows: CardRows,
    places: Any,
    design: IndexDesign,
    n_reserve: int,
    card: Card,
    progress: bool | None,
) -> tuple[Any, Any]:
    """Return places unit after unit, the reserve behind them, and where k-means units end."""
    made, n_inside = design.config, len(places) - n_reserve
    rule = KMEANS_RULES[made.kmeans_rule]
    units = clustered_units(
        *(rows, design.dim, cupy().sort(places[:n_inside]), design.unit_size, card),
        construction=rule.construction,
        normalised=rule.normalised,
        iterations=made.iterations,
        seed=made.seed,
        progress=progress,
    )
    return cupy().concatenate([units.order, places[n_inside:]]), units.offsets[1:]


def _runs(ends: Any, n_rows: int, codes: Any) -> Runs:
    """Return units that end there, one after the other, and each row behind them by itself."""
    xp = cupy()
    singles = xp.arange(int(ends[-1]), n_rows, dtype=np.int32)
    begins = xp.concatenate([xp.zeros(1, dtype=np.int32), ends[:-1]])
    return Runs(xp.concatenate([begins, singles]), xp.concatenate([ends, singles + 1]), codes)


def _moved_units(places: Any, ends: Any, order: Any) -> tuple[Any, Any]:
    """Return the places of units in another order, and where units end then."""
    xp = cupy()
    begins = xp.concatenate([xp.zeros(1, dtype=ends.dtype), ends[:-1]])
    moved_ends = xp.cumsum((ends - begins)[order]).astype(np.int32)
    slots = xp.arange(len(places), dtype=np.int32)
    unit = xp.searchsorted(moved_ends, slots, side="right")
    return places[ends[order][unit] - moved_ends[unit] + slots], moved_ends


def _stored(
    vectors: Any, dtype: RowType, space: CodeSpace, card: Card, progress: bool | None
) -> tuple[CardRows, Any, Any]:
    """Store and code rows block by block; return them, their codes, and the sum of magnitudes."""
    xp, (n_rows, dim) = cupy(), vectors.shape
    rows = room_for_rows(n_rows, dim, dtype, card)
    codes = card.empty("Codes", (n_rows, code_bits(space.n_bits) // 32), np.uint32)
    total = xp.zeros((), dtype=np.float64)
    flips = xp.asarray(space.flips)
    with progress_bar("storing", n_rows, progress) as advance:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            given = on_card(vectors[start : start + ROWS_AT_ONCE], card, "vectors", _WHERE)
            part = slice(start, start + len(given))
            scales = None if rows.scales is None else rows.scales[part]
            into = CardRows(rows.data[part], scales)
            stored = store_rows(given, dtype, card, _WHERE, first_row=start, into=into)
            sums = xp.empty(len(given), dtype=np.float32)
            encode_balanced(
                *(stored.unit_rows, flips, space.padded_dim, card),
                coded=space.n_bits,
                sums=sums,
                codes=codes[part],
            )
            total += sums.sum(dtype=np.float64)
            advance(len(given))
    return rows, codes, total


def _solve(held: OnCard, space: CodeSpace, progress: bool | None) -> None:
    """Fill codes, scales and moments of all units, block by block."""
    xp, n_units = cupy(), len(held.scales)
    step = held.units_in(ROWS_AT_ONCE)
    flips = xp.asarray(space.flips)
    with progress_bar("units", n_units, progress) as advance:
        for start in range(0, n_units, step):
            stop = min(start + step, n_units)
            solved = held.solved(start, stop)
            sums = xp.empty(stop - start, dtype=np.float32)
            encode_balanced(
                *(solved.vectors, flips, space.padded_dim, held.card),
                coded=space.n_bits,
                sums=sums,
                codes=held.unit_codes[start:stop],
            )
            held.moments[0, start:stop] = solved.means
            held.moments[1, start:stop] = solved.variances
            squared = xp.maximum(solved.squared, np.float32(1e-30))
            held.scales[start:stop] = solved.means * sums / squared
            advance(stop - start)


def moved_units(held: OnCard, cascade: FetchedCodes) -> CardUnits:
    words = cascade.space.n_words
    shape = CodeShape(cascade.space.n_bits, words, words, words, tests_whole=True)
    none = cupy().empty(0, dtype=np.float32)
    return CardUnits(
        *(held.card, cascade, shape, held.scales, held.unit_codes, None, none, held.runs),
        *(held.rows, None, True),
    )
