"""Twins of codes and of the search by codes."""

import numpy as np


def unrotated(rows):
    """Rows as they are, zeros up to a multiple of 64."""
    return np.array([[*row, *[0.0] * (-len(row) % 64)] for row in np.asarray(rows).tolist()])


def rotated(row, flips):
    """Flips of signs and transforms of eight runs, each float32 operation by itself."""
    padded = flips.shape[1]
    values = [np.float32(x) for x in row] + [np.float32(0)] * (padded - len(row))
    for signs in flips:
        values = [x * sign for x, sign in zip(values, signs, strict=True)]
        mixed = []
        for i in range(padded // 8):
            run = [values[i + part * padded // 8] for part in range(8)]
            for step in (1, 2, 4):
                run = [
                    run[j - step] - run[j] if j & step else run[j] + run[j + step] for j in range(8)
                ]
            mixed += run
        values = mixed
    return np.array(values)


def sum_in_lanes(values):
    """Σx: sixteen partial sums of entries sixteen apart, added one by one, in their precision."""
    total = values.dtype.type(0)
    for lane in range(16):
        part = values.dtype.type(0)
        for x in values[lane::16]:
            part += x
        total += part
    return total


def balanced_bits(values):
    """True for half of the values, the largest; of equal ones for those that come first."""
    ranked = sorted(range(len(values)), key=lambda j: (-float(values[j]), j))
    return np.isin(np.arange(len(values)), ranked[: len(values) // 2])


def sign_bits(rotated):
    """One bool an entry, as the words of a code hold them."""
    return np.asarray(rotated) > 0


def unpack(words):
    """The bits of the words of a code, the lowest first."""
    return np.array([(int(word) >> bit) & 1 for word in words for bit in range(64)], dtype=bool)


def levels(rotated, steps, top):
    """The magnitudes of a query, in whole steps."""
    return np.array([min(int(abs(float(x)) * steps + 0.5), top) for x in rotated])


def disagreement(code_bits, query_bits, query_levels):
    """The sum of the query's levels where its sign is not that of the code."""
    return int(
        sum(v for c, q, v in zip(code_bits, query_bits, query_levels, strict=True) if c != q)
    )


def most_disagreement(total, energy, slack, tested_at, gain, scale):
    """The most that 2p may be at a scale: Σv + slack·√Σv² − gain·α·scale, by any line."""
    pairs = zip(slack.tolist(), tested_at.tolist(), strict=True)
    return max(total + s * np.sqrt(energy) - gain * at * scale for s, at in pairs)


def slack_left(scores, slopes, tested_at, slack):
    """What is left of the slack of the best line, at the stage that has least; a miss below 0."""
    return min(
        max(
            given[stage] - (at * slopes[stage] - scores[stage])
            for at, given in zip(tested_at, slack, strict=True)
        )
        for stage in range(len(scores))
    )


def passes(code_bits, query_bits, query_levels, slack, need):
    """The test of a stage: Σv − 2p ≥ need − slack·√Σv²."""
    v = query_levels.astype(np.float64)
    score = v.sum() - 2 * disagreement(code_bits, query_bits, query_levels)
    return score - need + slack * np.sqrt((v**2).sum())


def centred_estimate(query, row, mean, rotate, space):
    """qᵀx by the code of x − μ: its estimate of (q − μ)ᵀ(x − μ), and what else is known exactly."""
    query, row, mean = (np.asarray(one, dtype=np.float64) for one in (query, row, mean))
    left, right = query - mean, row - mean
    asked, stored = (rotate(one / np.linalg.norm(one)) for one in (left, right))
    v, bits = levels(asked, space.steps, space.top), sign_bits(asked)
    product = v.sum() - 2 * disagreement(sign_bits(stored), bits, v)
    cosine = product / (space.gain * np.abs(stored).sum())
    norms = np.linalg.norm(left) * np.linalg.norm(right)
    return norms * cosine + query @ mean - mean @ mean + row @ mean


def fine_levels(rotated, steps, n_levels):
    """The level of each entry, ⌊x·steps⌋ + L/2 within 0 to L − 1, in float32 as entries are."""
    scaled = np.floor(np.asarray(rotated, np.float32) * np.float32(steps))
    return np.clip(scaled.astype(np.int64) + n_levels // 2, 0, n_levels - 1)


def fine_values(levels, n_levels):
    """What levels stand for: odd numbers around 0."""
    return [2 * int(level) - (n_levels - 1) for level in levels]


def unpack_fine(code, padded_dim):
    """The levels of a fine code: bytes, or low halves of bytes and then high ones."""
    if len(code) == padded_dim:
        return [int(byte) for byte in code]
    return [int(byte) % 16 for byte in code] + [int(byte) // 16 for byte in code]


def whole_numbers(rotated, largest=127):
    """A query's entries as whole numbers, the largest of them 127, and how many make up 1."""
    steps = np.float32(largest) / np.float32(max(abs(float(x)) for x in rotated))
    return [int(np.floor(np.float32(x) * steps + np.float32(0.5))) for x in rotated], float(steps)
