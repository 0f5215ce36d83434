"""Shards that change while they are read: answers of one state, and none silently smaller."""

import gc
import logging
import shutil
import sys
import threading
import weakref

import numpy as np
import pytest

from cluster.conftest import open_local
from memvec import cluster
from memvec.collection import LocalLink
from memvec.errors import MissingExtraError, ShardError, StorageError

DIM = 16
VECTORS = np.random.default_rng(0).standard_normal((300, DIM)).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    """Three shards of a hundred items each, or so; none of them has segments."""
    with open_local(tmp_path / "root", shards=3, dim=DIM, similarity=0.5) as collection:
        collection.add(VECTORS, metadata=[{"odd": row % 2} for row in range(300)])
    return tmp_path / "root"


@pytest.fixture
def opened(path):
    with open_local(path) as collection:
        yield collection


def lost(collection, number):
    return ShardError(number, collection.shards.links[number].folder, "its folder is missing")


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("where", [None, {"odd": 1}])
def test_stream_shows_the_state_of_its_call(opened, ordered, where):
    """However much is changed before its first match is read, and after."""
    stream = opened.iter_range(VECTORS[:40], 0.999, where=where, ordered=ordered)
    found = []
    for _ in range(10):
        opened.add(VECTORS[:40], metadata=[{"odd": 1}] * 40)
        assert len(opened.range_search(VECTORS[1], 0.999).ids) > 1
        found.append(next(stream).id)
    opened.seal()
    found += [match.id for match in stream]
    assert sorted(found) == [row for row in range(40) if where is None or row % 2]


def test_pairs_may_be_deleted_as_they_come(tmp_path):
    with open_local(tmp_path / "root", shards=2, dim=DIM) as collection:
        collection.add(np.concatenate([VECTORS[:20]] * 3))
        pairs = 0
        for pair in collection.self_join(0.999):
            pairs += 1
            if pair.right in collection:
                collection.delete(pair.right)
        assert (pairs, len(collection)) == (60, 20)


def test_shards_keep_no_state_that_nobody_reads(opened):
    state = weakref.ref(opened.shards.state.of_shards[0])
    stream = opened.iter_range(VECTORS[:40], 0.999)
    for is_read in (True, True, True, False):
        if not is_read:
            del stream
        opened.add(VECTORS[:40])
        opened.range_search(VECTORS[0], 0.999)
        gc.collect()
        assert (state() is not None) == is_read


def restarted(collection):
    """Have watched shards opened anew, as Ray does with an actor that died."""
    for watched in collection.shards.links:
        watched.link.begin("close")()
        watched.link = LocalLink(watched.number, watched.folder, watched.link.open_shard)


class Watched:
    """A way to a shard where something happens before a call."""

    def __init__(self, link, before):
        self.number, self.folder = link.number, link.folder
        self.link, self.before = link, before

    def begin(self, method, *args):
        self.before(method)
        return self.link.begin(method, *args)

    def state(self, known, in_use):
        return self.link.state(known, in_use)

    def share(self, rows):
        return self.link.share(rows)


def watch(collection, number, before):
    links = collection.shards.links
    links[number] = Watched(links[number], before)


def test_reader_whose_shards_were_restarted_moves_to_what_is_committed(opened, path):
    with open_local(path, read_only=True) as reader:
        for number in range(3):
            watch(reader, number, lambda method: None)
        stream = reader.iter_range(VECTORS, 0.999)
        assert next(stream).id == 0
        opened.add(VECTORS)
        assert len(reader.range_search(VECTORS, 0.999).ids) == 300
        restarted(reader)
        with pytest.raises(StorageError, match="A shard was restarted, and no longer has"):
            list(stream)
        assert len(reader.range_search(VECTORS, 0.999).ids) == 600


def test_reader_moves_when_it_is_told_to(opened, path):
    with open_local(path, read_only=True) as reader:
        opened.add(VECTORS[:5])
        assert reader.explain(VECTORS[0], 0).returned
        assert len(reader) == 300
        reader.refresh()
        assert len(reader) == 305


def test_what_was_added_is_seen_though_a_search_came_between(opened):
    """The search has read the state before the shard commits, and after the add has begun."""

    def search(method):
        if method in ("insert", "delete"):
            opened.range_search(VECTORS[0], 0.999)

    watch(opened, 0, search)
    name = next(name for name in map(str, range(99)) if cluster.shard_of(name, 3) == 0)
    opened.add(VECTORS[:1], [name])
    assert name in opened.range_search(VECTORS[0], 0.999).ids
    opened.delete(name)
    assert name not in opened.range_search(VECTORS[0], 0.999).ids


def test_threads_that_add_without_ids_take_different_ones(opened):
    taken, errors = [], []

    def add(n_rows):
        try:
            for _ in range(5):
                taken.extend(opened.add(VECTORS[:n_rows]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=(n_rows,)) for n_rows in (5, 6, 7, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(taken) == list(range(300, 300 + 5 * 26))
    assert len(opened) == 300 + 5 * 26


def test_filter_is_evaluated_anew_when_another_shard_is_missing(path):
    """Shards may have the same number of changes; what passes in one says nothing of another."""
    odd = dict.fromkeys(range(3), 0)
    for row in range(1, 300, 2):
        odd[cluster.shard_of(row, 3)] += 1
    with open_local(path, partial=True) as collection:
        for number in (1, 2, 0):
            collection.shards.lose(lost(collection, number))
            found = [item.metadata["odd"] for item in collection.items({"odd": 1})]
            assert found == [1] * (150 - odd[number])
            collection.refresh()


def test_certificate_names_what_its_own_answer_lacks(path):
    """Another thread may have found the shard again before the certificate is written."""
    with open_local(path, partial=True) as collection:
        collection.shards.lose(lost(collection, 1))
        stream = collection.iter_range(VECTORS, 0.999)
        collection.refresh()
        assert collection.missing_shards == ()
        assert stream.certificate.missing_shards == (1,)
        assert {cluster.shard_of(match.id, 3) for match in stream} == {0, 2}


def test_shards_left_out_are_logged_once_and_counted(path, caplog):
    """Lengths, counts and lists have no certificate."""
    shutil.rmtree(path / "shard-0001")
    with (
        caplog.at_level(logging.WARNING, logger="memvec"),
        open_local(path, partial=True) as collection,
    ):
        for _ in range(3):
            collection.refresh()
            n_found = int(collection.count(VECTORS, 0.999).sum())
        assert n_found == len(collection) == len(list(collection)) < 300
        assert repr(collection).endswith("3 shards, 1 missing)")
    [record] = caplog.records
    text = "its folder is missing. Answers leave out its items."
    assert record.getMessage().startswith("Shard 1, in ")
    assert record.getMessage().endswith(text)


def test_two_shards_lost_in_one_search_are_left_out(path):
    with open_local(path, partial=True) as collection:
        for number in (0, 2):
            watch(collection, number, refusing(collection, number))
        hits = collection.range_search(VECTORS, 0.999)
        assert hits.certificate.missing_shards == (0, 2)
        assert {cluster.shard_of(name, 3) for name in hits.ids} == {1}


def refusing(collection, number):
    def refuse(method):
        if method == "find":
            raise lost(collection, number)

    return refuse


def test_nothing_is_created_where_ray_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError):
        cluster.open(tmp_path / "root", shards=2, dim=3)
    assert not (tmp_path / "root").exists()
