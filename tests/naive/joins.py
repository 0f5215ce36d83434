"""Twins of the joins of arrays."""

from naive.collection import DictCollection
from naive.scores import unit_rows


def array_pairs(vectors, similarity):
    """Return (left, right, score) of all similar rows, in order."""
    return sorted(_items(vectors).pairs(similarity))


def array_groups(vectors, similarity, order, grouping="components"):
    """Return groups of similar rows, that of lowest rows first, and in each the row to keep."""
    items, order = _items(vectors), list(order)
    if grouping == "components":
        found = [sorted(group, key=order.index) for group in items.components(similarity)]
    else:
        stars = items.stars(similarity, order)
        found = [[kept, *dropped] for kept, dropped in stars.items()]
    return sorted(((kept, *sorted(rest)) for kept, *rest in found), key=min)


def _items(vectors):
    rows = unit_rows(vectors)
    items = DictCollection()
    items.put(rows, list(range(len(rows))), [{}] * len(rows))
    return items
