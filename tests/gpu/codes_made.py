"""Balanced codes of made-up rows, for tests with and without a card."""

import numpy as np


def balanced_codes(n, length, generator):
    """Codes of words of 32 bits with half of `length` bits set, zeros up to a multiple of 256."""
    order = generator.random((n, length)).argsort(axis=1)
    bits = np.zeros((n, -(-length // 256) * 256), dtype=bool)
    bits[:, :length] = order < length // 2
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint32)


def near_copies(codes, n_changed, generator):
    """The codes with some set bits moved to where none is set."""
    bits = np.unpackbits(codes.view(np.uint8), axis=1, bitorder="little").astype(bool)
    for row in bits:
        lost = generator.choice(np.flatnonzero(row), n_changed, replace=False)
        gained = generator.choice(np.flatnonzero(~row), n_changed, replace=False)
        row[lost], row[gained] = False, True
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint32)


def join_case(n_rows, n_columns, length, generator):
    """Rows, columns and rising thresholds: some pairs pass by a bit, others fail by a bit."""
    rows = balanced_codes(n_rows, length, generator)
    columns = balanced_codes(n_columns, length, generator)
    n_copies = min(n_rows, n_columns) // 2
    columns[:n_copies] = near_copies(rows[-n_copies:], length // 16, generator)
    ranked = -np.sort(-common_counts(rows, columns), axis=0)
    ranks = generator.integers(0, min(4, n_rows), n_columns)
    thresholds = ranked[ranks, np.arange(n_columns)] + generator.integers(0, 2, n_columns)
    thresholds = thresholds.astype(np.int16)
    order = np.argsort(thresholds, kind="stable")
    return rows, np.ascontiguousarray(columns[order]), thresholds[order]


def common_counts(rows, columns):
    """How many bits each row has in common with each column; `naive.common_bits` for many."""
    left, right = (
        np.unpackbits(codes.view(np.uint8), axis=1).astype(np.float32) for codes in (rows, columns)
    )
    return (left @ right.T).astype(np.int64)
