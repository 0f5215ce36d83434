"""Random operations, compared with a dictionary after each."""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import memvec
from memvec.search import UnitSource
from naive import DictCollection

DIM = 4
CONFIG = memvec.IndexConfig(codes="none", unit_size=4, reserve=2, assignment="random")
# A coarse grid has many copies and many equal scores.
GRID = np.array(list(np.ndindex((2,) * DIM)), dtype=np.float32) - 0.3
NAMES = [*range(10), *"abcdefghij"]

rows_of_grid = st.integers(0, len(GRID) - 1)
some_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True)
tags = st.sampled_from([{}, {"tag": "x"}, {"tag": "y", "n": 1}, {"n": 2}, {"n": 2.5}])
filters = st.sampled_from(
    [None, {"tag": "x"}, {"n": {"$gte": 2}}, {"tag": {"$ne": "x"}}, {"$not": {"n": 1}}, {"n": 9}]
)


class CollectionMachine(RuleBasedStateMachine):
    """A collection and a dictionary to which the same is done."""

    @initialize()
    def create(self):
        parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.parent = Path(tempfile.mkdtemp(prefix="memvec-machine-", dir=parent))
        self.folder = self.parent / "0.mv"
        self.n_kills = 0
        self.twin = DictCollection()
        self.few_rows, UnitSource.few_rows = UnitSource.few_rows, 5
        self.collection = memvec.open(
            self.folder, dim=DIM, config=CONFIG, seal_at=12, background=False
        )

    def teardown(self):
        if hasattr(self, "collection"):
            self.collection.close()
            shutil.rmtree(self.parent)
            UnitSource.few_rows = self.few_rows

    @rule(names=some_names, data=st.data())
    def add(self, names, data):
        names = [name for name in names if name not in self.twin.items]
        if names:
            vectors, metadata = self.draw(names, data)
            assert self.collection.add(vectors, names, metadata) == names
            self.twin.put(vectors, names, metadata)

    @rule(names=some_names, data=st.data())
    def upsert(self, names, data):
        vectors, metadata = self.draw(names, data)
        self.collection.upsert(vectors, names, metadata)
        self.twin.put(vectors, names, metadata)

    def draw(self, names, data):
        size = len(names)
        chosen = data.draw(st.lists(rows_of_grid, min_size=size, max_size=size))
        return GRID[chosen], data.draw(st.lists(tags, min_size=size, max_size=size))

    @precondition(lambda self: self.twin.items)
    @rule(data=st.data())
    def delete(self, data):
        known = st.sampled_from(list(self.twin.items))
        names = data.draw(st.lists(known, min_size=1, max_size=5, unique=True))
        assert self.collection.delete(names) == len(names)
        self.twin.delete(names)

    @rule()
    def seal(self):
        self.collection.seal()

    @rule()
    def compact(self):
        assert self.collection.compact() == len(self.twin.items)

    @rule()
    def reopen(self):
        self.collection.close()
        self.collection = memvec.open(self.folder, background=False)

    @rule()
    def kill(self):
        """Go on with a copy of the files as they are now, which is what a killed writer leaves."""
        self.n_kills += 1
        copy = self.parent / f"{self.n_kills}.mv"
        shutil.copytree(self.folder, copy)
        self.collection.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        self.collection = memvec.open(self.folder, background=False)
        assert self.collection.check().ok

    @rule(query=rows_of_grid, similarity=st.sampled_from([0.2, 0.5, 0.9, 1.0]), where=filters)
    def range_search(self, query, similarity, where):
        query = GRID[query] + 0.01
        hits = self.collection.range_search(query, similarity, where=where, guarantee="exact")
        found = list(zip(hits.ids, hits.scores.tolist(), strict=True))
        assert found == self.twin.range(query, similarity, where)

    @rule(query=rows_of_grid, k=st.integers(1, 8), where=filters)
    def search(self, query, k, where):
        top = self.collection.search(GRID[query], k, where=where, guarantee="exact")
        found = list(zip(top.ids[0], top.scores[0].tolist(), strict=True))
        assert found == self.twin.best(GRID[query], k, where)

    @invariant()
    def same_items(self):
        if not hasattr(self, "collection"):
            return
        assert len(self.collection) == len(self.twin.items)
        with memvec.open(self.folder, read_only=True) as reader:
            for collection in (self.collection, reader):
                items = list(collection.items())
                assert [item.id for item in items] == list(self.twin.items)
                for item, (vector, metadata) in zip(items, self.twin.items.values(), strict=True):
                    assert np.array_equal(item.vector, vector)
                    assert item.metadata == metadata
        for item in self.collection.get(list(self.twin.items)[:3]):
            assert np.array_equal(item.vector, self.twin.items[item.id][0])


TestCollectionMachine = CollectionMachine.TestCase
TestCollectionMachine.settings = settings(deadline=None, max_examples=15, stateful_step_count=25)
