"""Everything that a user may ask of a collection, on whatever lies in its folder."""

import memvec
from collection.faults import VECTORS
from memvec.collection import check_collection, repair_collection
from memvec.errors import MemvecError

QUERIES = VECTORS[:5]


def answers(collection):
    """Return what is found and what is held."""
    hits = collection.range_search(QUERIES, 0.3, guarantee="exact")
    items = [(item.id, item.vector.tolist(), item.metadata) for item in collection.items()]
    return hits.ids.tolist(), hits.scores.tolist(), items


def look_around(collection):
    """Ask in every way that reads."""
    some = list(collection)[:3]
    collection.get(some)
    collection.range_search(QUERIES, 0.5)
    collection.search(QUERIES, k=3)
    collection.search(QUERIES, k=3, where={"i": {"$gte": 2}})
    collection.count(QUERIES, 0.4, where={"i": 3})
    list(collection.self_join(0.9))
    collection.stats()
    if some:
        collection.explain(QUERIES[0], some[0], 0.5)


def read(folder):
    """Open to read, and ask everything."""
    with memvec.open(folder, read_only=True) as collection:
        found = answers(collection)
        look_around(collection)
        return found


def write(folder):
    """Open to write, and change something in every way."""
    with memvec.open(folder) as collection:
        collection.add(VECTORS[40:42], metadata=[{"i": 3}, None])
        collection.upsert(VECTORS[42:43], ids=["new"])
        collection.delete(["new"])
        collection.seal()
        collection.compact()
        answers(collection)


ACTS = {"read": read, "write": write, "check": check_collection, "repair": repair_collection}


def refused(act, folder):
    """Act on a folder; return whether it was refused as it must be. Any other error is raised."""
    try:
        ACTS[act](folder)
    except MemvecError:
        return True
    return False
