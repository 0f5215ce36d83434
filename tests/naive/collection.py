"""Twin of the collection: a dictionary, brute force, and filters in plain Python."""

import math
import operator as op

import numpy as np

from naive.scores import canonical_score, unit_rows

ORDERS = {"$gt": op.gt, "$gte": op.ge, "$lt": op.lt, "$lte": op.le}


def kind(value):
    if value is None or isinstance(value, bool):
        return repr(value)
    return "text" if isinstance(value, str) else "number"


def compares(metadata, field, operator, value):
    """Tell whether one condition on a field holds."""
    there = field in metadata and not isinstance(metadata[field], list | dict)
    held = metadata.get(field)
    if operator == "$exists":
        return (field in metadata) == value
    if operator in ("$in", "$nin"):
        found = any(compares(metadata, field, "$eq", one) for one in value)
        return found == (operator == "$in")
    if operator == "$not":
        return not all(compares(metadata, field, *pair) for pair in value.items())
    same_kind = there and kind(held) == kind(value)
    if operator in ("$eq", "$ne"):
        return (same_kind and held == value) == (operator == "$eq")
    return same_kind and ORDERS[operator](held, value)


def passes(metadata, where):
    """Tell whether metadata passes a filter."""
    for name, value in (where or {}).items():
        if name == "$and":
            holds = all(passes(metadata, part) for part in value)
        elif name == "$or":
            holds = any(passes(metadata, part) for part in value)
        elif name == "$not":
            holds = not passes(metadata, value)
        elif isinstance(value, dict):
            holds = all(compares(metadata, name, *pair) for pair in value.items())
        else:
            holds = compares(metadata, name, "$eq", value)
        if not holds:
            return False
    return True


class DictCollection:
    """Items in a dictionary; every question goes through all of them."""

    def __init__(self):
        self.items = {}

    def put(self, vectors, ids, metadata):
        for vector, name, row in zip(unit_rows(vectors), ids, metadata, strict=True):
            self.items.pop(name, None)  # a replaced item comes last
            self.items[name] = (vector, row)

    def delete(self, ids):
        for name in ids:
            del self.items[name]

    def ranked(self, query, where=None):
        """Return (id, float32 score) of all items that pass, by falling score and then by id."""
        [unit] = unit_rows(np.asarray(query)[np.newaxis])
        scored = [
            (name, canonical_score(unit, vector))
            for name, (vector, row) in self.items.items()
            if passes(row, where)
        ]
        rounded = [(name, score, float(np.float32(score))) for name, score in scored]
        return sorted(rounded, key=lambda hit: (-hit[2], isinstance(hit[0], str), hit[0]))

    def range(self, query, similarity, where=None):
        hits = self.ranked(query, where)
        return [(name, rounded) for name, score, rounded in hits if score >= similarity - 1e-6]

    def best(self, query, k, where=None):
        hits = [(name, rounded) for name, _, rounded in self.ranked(query, where)[:k]]
        return hits + [(None, -math.inf)] * (k - len(hits))

    def pairs(self, similarity, where=None):
        """Return (left, right, score) of all similar pairs, the one that came first on the left."""
        passing = [
            (name, vector) for name, (vector, row) in self.items.items() if passes(row, where)
        ]
        scored = [
            (left, right, canonical_score(a, b))
            for place, (left, a) in enumerate(passing)
            for right, b in passing[place + 1 :]
        ]
        return [
            (left, right, float(np.float32(score)))
            for left, right, score in scored
            if score >= similarity - 1e-6
        ]

    def components(self, similarity):
        """Return the groups that chains of similar pairs connect, each in the order of items."""
        group = {name: {name} for name in self.items}
        for left, right, _ in self.pairs(similarity):
            merged = group[left] | group[right]
            for name in merged:
                group[name] = merged
        order = list(self.items)
        unique = {tuple(sorted(names, key=order.index)) for names in group.values()}
        return sorted(
            (names for names in unique if len(names) > 1), key=lambda n: order.index(n[0])
        )

    def stars(self, similarity, order):
        """Return {kept: dropped} where items are kept in an order unless similar to a kept one."""
        near = {name: set() for name in self.items}
        for left, right, _ in self.pairs(similarity):
            near[left].add(right)
            near[right].add(left)
        stars, free = {}, dict.fromkeys(order)
        for name in order:
            if name in free:
                stars[name] = {other for other in near[name] if other in free}
                for other in (name, *stars[name]):
                    del free[other]
        return {name: dropped for name, dropped in stars.items() if dropped}
