"""A card made of NumPy: what a GPU is asked to do is done here by slow twins, kernel by kernel.

`install` puts it where CuPy and the first GPU are looked for, so that sources, joins and builds run
without either. Kernels are not run: tests on a card compare each with its twin.
"""

import math
import sys

import numpy as np

import naive
from gpu.numpy_cupy import ArrayOnCard, Device, NumpyCupy, on_card, recorded
from memvec import gpu
from memvec.gpu import _build, _source

__all__ = ["Device", "NumpyCard", "canonical_scores", "install", "on_card"]


class NumpyCard(gpu.Card):
    """A card whose kernels are twins."""

    def launch(self, kernel, grid, threads, arguments, shared=0):
        source, _, macros = kernel
        twin = TWINS["join" if source.startswith("join") else source]
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                assert type(argument) is ArrayOnCard
                assert argument.card == self.number
        with Device(self.number):
            recorded(lambda: twin(macros, *map(plain, arguments)))


def plain(argument):
    return argument.view(np.ndarray) if isinstance(argument, ArrayOnCard) else argument


def install(monkeypatch, number=0):
    """Let "cuda" be a card of NumPy."""
    monkeypatch.setitem(sys.modules, "cupy", NumpyCupy())
    card = NumpyCard(number, "NumPy", (7, 5), 4)
    for module in (_build, _source):
        monkeypatch.setattr(module, "find_card", lambda device: card)
    return card


def bits_of(codes):
    """The bits of codes of words of 32 bits, shape (n, n_bits), float32."""
    words = np.ascontiguousarray(codes).view(np.uint8)
    return np.unpackbits(words, axis=1, bitorder="little").astype(np.float32)


def append(entries, count, capacity, found):
    at = int(count[0])
    count[0] += np.uint64(len(found))
    fitting = found[: max(0, min(int(capacity), len(entries)) - at)]
    entries[at : at + len(fitting)] = fitting
    return at, len(fitting)


def scan(macros, query, columns, n_columns, thresholds, entries, count, capacity):
    common = bits_of(columns) @ bits_of(query)[0]
    passed = np.flatnonzero(common >= thresholds)
    append(entries, count, capacity, np.stack([np.zeros_like(passed), passed], axis=1))


def join(macros, rows, begin, end, columns, n, thresholds, stops, share, entries, count, capacity):
    common = bits_of(rows[begin:end]) @ bits_of(columns).T
    passes = common >= thresholds
    if stops is not None:
        passes &= np.arange(begin, end)[:, np.newaxis] < stops
    found = np.argwhere(passes)
    append(entries, count, capacity, found + np.array([begin, 0]))


def members(
    macros, rows, candidates, n_candidates, room, begins, ends, slots, codes, limits, limit,
    first_limit, once, entries, count, capacity, tested,
):  # fmt: skip
    row_bits, code_bits = bits_of(rows), bits_of(codes)
    found = []
    for row, unit in candidates[: min(int(n_candidates[0]), int(room))].tolist():
        held = np.arange(begins[unit], ends[unit])
        held = held if slots is None else slots[held]
        differ = row_bits[row] != code_bits[held]
        passes = differ.sum(axis=1) <= (limit if limits is None else limits[held])
        if macros["FIRST"]:
            passes &= differ[:, : 64 * macros["FIRST"]].sum(axis=1) <= first_limit
        if once:
            passes &= held > row
        found += [(row, int(member)) for member in held[passes]]
        if tested is not None:
            tested[0] += np.uint64(len(held))
    append(entries, count, capacity, np.array(found, dtype=np.int32).reshape(-1, 2))


def score(
    macros, left, left_scales, left_places, right, right_scales, right_places, dim, allowed, pairs,
    n_pairs, room, lowest, entries, scores, count, capacity,
):  # fmt: skip
    named = np.asarray(pairs[: min(int(n_pairs[0]), int(room))])
    x = named[:, 0] if left_places is None else np.asarray(left_places)[named[:, 0]]
    y = named[:, 1] if right_places is None else np.asarray(right_places)[named[:, 1]]
    values = canonical_scores(left[x], right[y])
    if left_scales is not None:
        values = values * (np.asarray(left_scales)[x] * np.asarray(right_scales)[y])
    kept = values >= lowest
    if allowed is not None:
        kept &= np.asarray(allowed)[y] > 0
    at, n = append(entries, count, capacity, np.stack([named[kept, 0], y[kept]], axis=1))
    scores[at : at + n] = values[kept][:n]


def canonical_scores(left, right):
    """`naive.canonical_score` of many rows: eight partial sums, one entry of each at a time."""
    n, dim = left.shape
    products = np.zeros((n, -(-dim // 8) * 8))
    products[:, :dim] = np.asarray(left, dtype=np.float64) * np.asarray(right, dtype=np.float64)
    partial = np.zeros((n, 8))
    for first in range(0, dim, 8):
        partial += products[:, first : first + 8]
    total = np.zeros(n)
    for lane in range(8):
        total += partial[:, lane]
    return total


def encode(macros, rows, dim, n_rows, flips, n_rounds, codes, sums):
    turned = np.empty((0, macros["LENGTH"])) if flips is None else np.asarray(flips)
    mixed = naive.mixed_rows(np.asarray(rows), turned, macros["LENGTH"])[:, : macros["CODED"]]
    bits = np.zeros((len(mixed), macros["BITS"]), dtype=bool)
    largest = np.argsort(-(mixed + np.float32(0)), axis=1, kind="stable")[:, : macros["CODED"] // 2]
    np.put_along_axis(bits, largest, True, axis=1)
    codes[...] = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
    if sums is not None:
        sums[:] = np.abs(mixed).sum(axis=1)


def store(macros, rows, dim, n_rows, tolerance, unit_rows, stored, width, scales, unusable):
    for number, row in enumerate(np.asarray(rows)):
        if not np.isfinite(row).all() or not row.any():
            unusable[0] = min(int(unusable[0]), number)
            continue
        norm = np.linalg.norm(row.astype(np.float64))
        ready = row.dtype == np.float32 and abs(norm - 1) <= tolerance
        unit_rows[number] = row if ready else naive.unit_row(row)
        if stored is not None:
            data = naive.stored_row(np.asarray(unit_rows[number]), str(stored.dtype))
            scale = 1 / math.sqrt(naive.canonical_score(data, data))
            stored[number], scales[number] = 0, scale
            stored[number, :dim] = data
            unit_rows[number] = [float(entry) * scale for entry in data]


def above(macros, products, n_rows, n_real, floors, first_row, entries, count, capacity):
    passes = np.asarray(products, dtype=np.float32)[:, :n_real] >= np.asarray(floors)[:, None]
    append(entries, count, capacity, np.argwhere(passes) + np.array([0, first_row]))


def solve(macros, grams, n_units, cut, weights, easy):
    for unit, gram in enumerate(np.asarray(grams, dtype=np.float64)):
        solved = naive.least_pivot(gram) > cut * np.trace(gram)
        easy[unit] = solved
        weights[unit] = np.linalg.solve(gram, np.ones(len(gram))) if solved else 0


def weights(macros, rows, dim, order, offsets, n_units, cut, found, easy):
    for unit in range(n_units):
        slots = np.arange(offsets[unit], offsets[unit + 1])
        members = np.asarray(rows, dtype=np.float64)[np.asarray(order)[slots]]
        gram = members @ members.T
        solved = 0 < len(slots) <= macros["MOST"]
        solved = solved and naive.least_pivot(gram) > cut * np.trace(gram)
        easy[unit] = solved
        found[slots] = np.linalg.solve(gram, np.ones(len(gram))) if solved else 0


def combine(macros, rows, dim, order, offsets, n_units, given, vectors):
    for unit in range(n_units):
        vectors[unit] = 0
        for slot in range(offsets[unit], offsets[unit + 1]):
            weight = 1 if given is None else given[slot]
            vectors[unit] += weight * np.asarray(rows)[order[slot]]


def nearest(macros, products, n_rows, n_units, n_real, first_unit, best, labels):
    scores = np.asarray(products, dtype=np.float32)[:, :n_real]
    highest, unit = scores.max(axis=1), scores.argmax(axis=1)
    better = highest > best
    best[better], labels[better] = highest[better], first_unit + unit[better]


TWINS = {
    "above": above,
    "combine": combine,
    "encode": encode,
    "join": join,
    "members": members,
    "nearest": nearest,
    "scan": scan,
    "scores": score,
    "solve": solve,
    "store": store,
    "weights": weights,
}
