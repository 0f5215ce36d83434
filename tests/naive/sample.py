"""Twin of the sample that a collection is calibrated on: all living rows, sorted by priority."""

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def splitmix(value):
    """Return the finaliser of SplitMix64."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def priority(key, seed):
    """Return the fixed place of a key in [0, 1)."""
    start = splitmix((seed + GAMMA) & MASK)
    return (splitmix((start + GAMMA * (key + 1)) & MASK) >> 11) / 2**53


def held_out(keys, share, most):
    """Return the keys below a priority, at most so many, by rising priority; one is left."""
    ordered = sorted(keys, key=lambda key: priority(key, 0))
    return [key for key in ordered if priority(key, 0) < share][: min(most, len(keys) - 1)]


def sample(segments, waiting, known, most):
    """Return the living keys below the bound, by rising priority.

    Parameters
    ----------
    segments : dict
        By number the strangers of a segment and its living keys.
    waiting : list of int
        Living keys that wait and are represented.
    known : dict
        By segment and source the strangers of the source that the segment was asked about.
    most : int
        Rows of a sample.
    """
    segments = {number: one for number, one in segments.items() if one[1]}
    living = [*waiting, *(key for _, alive in segments.values() for key in alive)]
    bound = most / max(len(living), 1)
    for source, (strangers, alive) in segments.items():
        for key in alive:
            unasked = [
                other
                for other in segments
                if other != source and key not in known.get((other, source), [])
            ]
            if key not in strangers or unasked:
                bound = min(bound, priority(key, 0))
    return sorted((key for key in living if priority(key, 0) < bound), key=lambda k: priority(k, 0))
