"""Twins of the evaluation room."""

import struct


def misses(truth, answer):
    """Return the miss rate and the pair miss; 0 where there is nothing to miss."""
    shares, n_missed, n_pairs = [], 0, 0
    for true, given in zip(truth, answer, strict=True):
        missed = len(set(true) - set(given))
        n_missed, n_pairs = n_missed + missed, n_pairs + len(true)
        if true:
            shares.append(missed / len(true))
    return sum(shares) / max(len(shares), 1), n_missed / max(n_pairs, 1)


def trapezoid_average_precision(ranking, relevant, ignored=()):
    """Walk down the ranking and add the trapezoid of each step of the precision-recall curve."""
    area, old_recall, old_precision, n_found, n_seen = 0.0, 0.0, 1.0, 0, 0
    for item in ranking:
        if item in ignored:
            continue
        n_seen += 1
        n_found += item in relevant
        recall, precision = n_found / len(relevant), n_found / n_seen
        area += (recall - old_recall) * (old_precision + precision) / 2
        old_recall, old_precision = recall, precision
    return area


def plain_average_precision(ranking, relevant, ignored=()):
    kept = [item for item in ranking if item not in ignored]
    precisions = [
        sum(other in relevant for other in kept[: i + 1]) / (i + 1)
        for i, item in enumerate(kept)
        if item in relevant
    ]
    return sum(precisions) / len(relevant)


def mann_whitney(scores_h0, scores_h1):
    """Return the share of pairs in which H1 scores higher, ties counting one half."""
    wins = [(high > low) + (high == low) / 2 for low in scores_h0 for high in scores_h1]
    return sum(wins) / len(wins)


def complexity_ratio(unit_scores, unit_sizes, threshold):
    ratios = []
    for scores in unit_scores:
        cost = len(unit_sizes)
        for score, size in zip(scores, unit_sizes, strict=True):
            if score > threshold:
                cost += size
        ratios.append(cost / sum(unit_sizes))
    return ratios


def write_vecs(path, rows, kind):
    """Write .fvecs (kind "f"), .ivecs ("i") or .bvecs ("B"): the dimension, then the entries."""
    with path.open("wb") as file:
        for row in rows:
            file.write(struct.pack("<i", len(row)))
            file.write(struct.pack(f"<{len(row)}{kind}", *row))
