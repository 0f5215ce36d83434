"""Shards in one process: they answer as one collection does, with one certificate."""

import shutil

import numpy as np
import pytest

import memvec
from cluster.conftest import N_ITEMS, N_SHARDS, SETTINGS, lists_of, open_local
from memvec import cluster
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InvalidTypeError,
    InvalidValueError,
    LockedError,
    ShardError,
    StorageError,
    UnknownVersionError,
)
from memvec.storage import open_folder

WHERE = {"year": {"$gte": 2010}}


@pytest.fixture(scope="module")
def sharded(template):
    with open_local(template) as collection:
        yield collection


@pytest.mark.parametrize("where", [None, WHERE])
def test_exact_answers_are_those_of_one_collection(sharded, whole, queries, where):
    asked = {"guarantee": "exact", "where": where}
    ours, theirs = sharded.range_search(queries, **asked), whole.range_search(queries, **asked)
    assert lists_of(ours) == lists_of(theirs)
    assert len(theirs.ids) > 50
    assert np.array_equal(sharded.count(queries, **asked), whole.count(queries, **asked))
    assert np.array_equal(sharded.contains(queries, **asked), whole.contains(queries, **asked))
    best, of_whole = sharded.search(queries, 7, **asked), whole.search(queries, 7, **asked)
    assert np.array_equal(best.ids, of_whole.ids)
    assert np.array_equal(best.scores, of_whole.scores)


def test_promise_covers_all_shards(sharded, queries):
    certificate = sharded.range_search(queries).certificate
    assert certificate.level == "expected"
    # A sample of the living items of all shards, those of the last steps aside.
    assert certificate.population > 0.9 * N_ITEMS
    assert sharded.measure(queries).miss_rate <= 0.1
    assert certificate.missing_shards == ()


def test_calibration_queries_of_each_shard_are_asked_of_every_segment(sharded):
    state = sharded.shards.current()
    numbers = [part.rows.number for part in state.segments]
    assert len(numbers) == 2 * N_SHARDS
    known = set(state.calibration)
    assert known == {(a, b) for a in numbers for b in numbers if a != b}


def test_given_queries_calibrate_all_shards(root, sample, queries):
    with open_local(root) as collection:
        certificate = collection.recalibrate(sample[6000:6400])
        assert (certificate.source, certificate.level) == ("queries", "expected")
        assert collection.range_search(queries).certificate.source == "queries"
        assert collection.health.n_queries == len(queries)


def test_reopened_shards_answer_alike(root, queries):
    with open_local(root) as collection:
        first = collection.range_search(queries)
    shutil.rmtree(root / "tables")  # they are made again
    with open_local(root, read_only=True) as collection:
        again = collection.range_search(queries)
        with pytest.raises(StorageError, match="read_only=True"):
            collection.add(queries[:1])
    assert lists_of(first) == lists_of(again)
    assert first.certificate.to_json() == again.certificate.to_json()
    assert not (root / "tables").exists()


def test_damaged_tables_are_made_again(root, queries):
    [blobs] = (root / "tables").glob("g*/blobs.npy")
    content = bytearray(blobs.read_bytes())
    content[-1] ^= 1
    blobs.write_bytes(bytes(content))
    with open_local(root) as collection:
        assert collection.range_search(queries).certificate.level == "expected"
    with open_local(root) as collection:
        pass
    arrays, _ = open_folder(root / "tables", verify=True)
    assert len(arrays["names"]) == 4 * N_SHARDS * (N_SHARDS - 1)


def test_segment_is_seen_together_with_its_tables(root, queries, sample):
    with open_local(root) as collection:
        before = collection.range_search(queries, guarantee="exact")
        # Sealed behind the collection's back, as a thread of the shard does.
        collection.shards.links[1].begin("seal", False)()
        held = collection.shards.state
        assert lists_of(collection.range_search(queries, guarantee="exact")) == lists_of(before)
        assert collection.shards.state is held  # the answer was that of the old state
        assert lists_of(collection.range_search(queries, guarantee="exact")) == lists_of(before)
        state = collection.shards.state
        numbers = [part.rows.number for part in state.segments]
        assert len(numbers) == len(held.segments) + 1
        assert {(a, b) for a in numbers for b in numbers if a != b} == set(state.calibration)


def test_items_are_read_changed_and_listed(root, sample, whole):
    with open_local(root) as collection:
        assert sorted(map(str, collection)) == sorted(map(str, whole))
        assert len(collection) == len(whole) == collection.stats().n_items
        assert "n1" in collection
        assert [] not in collection
        assert 10 not in collection
        [one, two] = collection.get(["n1", 2])
        assert (one.id, two.metadata) == ("n1", {"year": 2002})
        assert np.array_equal(one.vector, whole.get("n1").vector)
        collection.upsert(sample[6000:6002], ["n1", "new"], [{"a": 1}, None])
        assert collection.get("n1").metadata == {"a": 1}
        assert collection.delete(["new", 2]) == 2
        assert "new" not in collection
        assert {item.id for item in collection.items({"a": 1})} == {"n1"}
        # Two keys were given to what was upserted.
        assert collection.add(sample[6002:6005]) == [N_ITEMS + 2, N_ITEMS + 3, N_ITEMS + 4]
        hits = collection.range_search(sample[6002:6003], 0.99, include=["metadata", "vectors"])
        assert hits.ids.tolist() == [N_ITEMS + 2]
        assert (hits.metadata, hits.vectors.shape) == ([{}], (1, 384))
        assert [match.id for match in collection.iter_range(sample[6003:6004], 0.99)] == [
            N_ITEMS + 3
        ]
        assert "Returned." in str(collection.explain(sample[6002], N_ITEMS + 2, 0.9))
        assert collection.compact() == len(collection)
        assert collection.check().ok
        assert repr(collection).startswith("ShardedCollection(")
    assert repr(collection).endswith("3 shards)")
    with pytest.raises(InvalidValueError, match="was closed"):
        len(collection)


def test_joins_find_what_one_collection_finds(sharded, whole):
    def pairs(collection):
        found = collection.self_join(0.75, guarantee="exact")
        return {(*sorted(map(str, pair[:2])), pair.score) for pair in found}

    assert pairs(sharded) == pairs(whole)
    ours, theirs = (one.deduplicate(0.75, guarantee="exact") for one in (sharded, whole))
    assert len(ours.groups) == len(theirs.groups) > 10
    assert {frozenset(map(str, (one.kept, *one.dropped))) for one in ours.groups} == {
        frozenset(map(str, (one.kept, *one.dropped))) for one in theirs.groups
    }


def test_bad_items_change_no_shard(root, sample):
    with open_local(root) as collection:
        before = collection.stats()
        with pytest.raises(InvalidValueError, match="ids that are new; upsert replaces.*'n1'"):
            collection.add(sample[:3], ["a", "b", "n1"])
        with pytest.raises(InvalidValueError, match="NaN"):
            collection.add(np.full((2, 384), np.nan), ["a", "b"])
        with pytest.raises(InvalidValueError, match="in the collection. Got 'nobody' instead"):
            collection.delete(["n1", "nobody"])
        with pytest.raises(InvalidValueError, match="in the collection"):
            collection.get(["n1", "nobody"])
        assert collection.stats() == before


def test_ids_go_where_the_stated_hash_says(root):
    # Golden: another hash would lose every item.
    names = [0, 1, 2, 10**18, -5, "0", "a", "naïve", ""]
    assert [cluster.shard_of(name, 4096) for name in names] == [
        633,
        1287,
        2671,
        3684,
        3159,
        1364,
        636,
        2081,
        312,
    ]
    assert cluster.PLACEMENT == "blake2b-64/1"
    for number in range(N_SHARDS):
        with memvec.open(root / f"shard-{number:04d}", read_only=True) as alone:
            assert {cluster.shard_of(name, N_SHARDS) for name in alone} == {number}


def test_lost_shard_is_an_error_that_names_it(root, queries):
    shutil.rmtree(root / "shard-0001")
    with pytest.raises(ShardError, match="Shard 1, in .*-0001, does not answer: its folder is"):
        open_local(root)
    with open_local(root, partial=True) as collection:
        hits = collection.range_search(queries)
        assert collection.missing_shards == hits.certificate.missing_shards == (1,)
        assert "Nothing is promised about their items" in str(hits.certificate)
        told = memvec.guarantee.Certificate.from_json(hits.certificate.to_json())
        assert told.missing_shards == (1,)
        exact = collection.range_search(queries, guarantee="exact").certificate
        assert not exact.complete
        assert collection.search(queries, 3).certificate.missing_shards == (1,)
        with pytest.raises(ShardError, match="Shard 1"):
            collection.add(queries[:1])
        assert "Shard 1" in str(collection.check())


def test_shard_whose_folder_is_removed_while_it_is_open_acknowledges_nothing(tmp_path):
    with open_local(tmp_path / "root", shards=2, dim=2) as collection:
        collection.add(np.eye(2), [0, 1])
        lost = cluster.shard_of(0, 2)
        shutil.rmtree(tmp_path / "root" / f"shard-{lost:04d}")
        with pytest.raises(ShardError, match=f"Shard {lost}.* was removed or replaced"):
            collection.upsert([[1.0, 1.0]], [0])
        assert len(collection) == 2


def test_shard_that_is_found_damaged_in_a_search_is_left_out_or_an_error(root, queries):
    [codes] = (root / "shard-0002" / "segments" / "200000000001").glob("g*/codes.npy")
    content = bytearray(codes.read_bytes())
    content[-1] ^= 1
    codes.write_bytes(bytes(content))
    with open_local(root) as collection, pytest.raises(ShardError, match="Shard 2.*checksum"):
        collection.range_search(queries)
    with open_local(root, partial=True) as collection:
        hits = collection.range_search(queries)
        assert hits.certificate.missing_shards == (2,)
        kept = {cluster.shard_of(name, N_SHARDS) for name in hits.ids}
        assert kept == {0, 1}


def test_no_tables_are_made_of_damaged_files(root, queries):
    """They would be kept, and taken for those of the shard after its repair."""
    shutil.rmtree(root / "tables")
    [codes] = (root / "shard-0002" / "segments" / "200000000001").glob("g*/codes.npy")
    content = bytearray(codes.read_bytes())
    content[-1] ^= 1
    codes.write_bytes(bytes(content))
    with pytest.raises(ShardError, match="Shard 2.*checksum"):
        open_local(root)
    assert not (root / "tables").exists()
    with open_local(root, partial=True) as collection:
        assert collection.range_search(queries).certificate.missing_shards == (2,)


def test_all_shards_lost_is_an_error_even_for_partial_answers(root):
    for folder in root.glob("shard-*"):
        shutil.rmtree(folder)
    with pytest.raises(ShardError):
        open_local(root, partial=True)


def test_shards_in_wrong_places_are_refused(root):
    (root / "shard-0001").rename(root / "aside")
    (root / "shard-0002").rename(root / "shard-0001")
    (root / "aside").rename(root / "shard-0002")
    with pytest.raises(ShardError, match="it is shard 2 of this collection, where 1 belongs"):
        open_local(root)


def test_shard_with_other_settings_is_refused(root):
    claim = (root / "shard-0001" / "shard.json").read_bytes()
    shutil.rmtree(root / "shard-0001")
    memvec.open(root / "shard-0001", dim=3).close()
    (root / "shard-0001" / "shard.json").write_bytes(claim)
    with pytest.raises(ShardError, match="other settings than the other shards"):
        open_local(root)


def test_one_writer_at_a_time(root):
    with open_local(root), pytest.raises(LockedError):
        open_local(root)


def test_opening_is_checked(root, tmp_path):
    with pytest.raises(InvalidValueError, match="3, as the collection was created with"):
        open_local(root, shards=4)
    with pytest.raises(InvalidValueError, match="'similarity' parameter"):
        open_local(root, similarity=0.9)
    with pytest.raises(InvalidValueError, match="at most 4,096. Got 5000 instead"):
        open_local(tmp_path / "new", shards=5000, dim=2)
    with pytest.raises(InvalidTypeError, match="'path' parameter of memvec.cluster.open"):
        open_local(3)
    with pytest.raises(InvalidValueError, match=r"path without NUL characters. Got 'a\\x00b'"):
        open_local("a\0b", shards=2, dim=3)
    with pytest.raises(StorageError, match="File name too long"):
        open_local(tmp_path / ("a" * 300), shards=2, dim=3)
    with pytest.raises(IndexNotFoundError, match="give 'dim' and 'shards'"):
        open_local(tmp_path / "new", shards=2)
    with pytest.raises(IndexNotFoundError, match="parent folder does not exist"):
        open_local(tmp_path / "no" / "new", shards=2, dim=3)
    (tmp_path / "file").write_text("x")
    with pytest.raises(CorruptIndexError, match="it is not a folder"):
        open_local(tmp_path / "file")
    with pytest.raises(CorruptIndexError, match="holds 'file'"):
        open_local(tmp_path, shards=2, dim=3)


@pytest.mark.parametrize(
    ("old", "new", "error", "text"),
    [
        ('"shards": 3', '"shards": 2', CorruptIndexError, "its checksum .* saved was"),
        ("{", "", CorruptIndexError, "does not describe a sharded collection"),
    ],
)
def test_damaged_description_is_refused(root, old, new, error, text):
    path = root / "cluster.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(error, match=text):
        open_local(root)


def test_description_of_a_later_version_is_refused(root, monkeypatch):
    monkeypatch.setattr("memvec.cluster._root.PLACEMENT", "blake2b-64/2")
    with pytest.raises(UnknownVersionError, match="placement 'blake2b-64/1'"):
        open_local(root)


def test_creation_that_was_cut_short_is_finished(tmp_path):
    with open_local(tmp_path / "cut", shards=2, dim=3):
        pass
    (tmp_path / "cut" / "cluster.json").unlink()
    with pytest.raises(IndexNotFoundError):
        open_local(tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "shard-0001")
    with open_local(tmp_path / "cut", shards=2, dim=3) as collection:
        assert collection.add(np.eye(3)) == [0, 1, 2]
        assert len(collection.range_search(np.eye(3), 0.9).ids) == 3


def test_euclidean_shards_tell_distances(tmp_path):
    with open_local(tmp_path / "far", shards=2, dim=2, radius=0.5) as collection:
        collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
        hits = collection.range_search([0.6, 0.8], radius=1.0)
        assert hits.ids.tolist() == ["north", "east"]
        assert np.allclose(hits.scores, [0.632, 0.894], atol=1e-3)


def test_growing_shards_seal_by_themselves(tmp_path, sample):
    settings = SETTINGS | {"seal_at": 300}
    with open_local(tmp_path / "grow", shards=2, background=False, **settings) as collection:
        for start in range(0, 1500, 250):
            collection.add(sample[start : start + 250])
            found = collection.range_search(sample[start : start + 1], 0.999)
            assert start in found.ids
        assert len(collection.stats().segment_sizes) >= 4
        assert len(list(collection.self_join(0.9))) > 0


def test_question_asked_again_sees_what_was_changed_meanwhile(tmp_path):
    """Shards keep what they made of the last question for as long as their state is the same."""
    with open_local(tmp_path / "root", shards=2, dim=2, similarity=0.5) as collection:

        def found(**options):
            return sorted(collection.range_search([1.0, 0.0], **options).ids.tolist())

        collection.add([[1, 0], [1, 0.1]], ["a", "b"], [{"n": 1}, {"n": 2}])
        assert found() == found() == ["a", "b"]
        assert found(where={"n": 2}) == ["b"]
        assert found(guarantee="exact") == found() == ["a", "b"]
        collection.delete("a")
        assert found() == ["b"]
        collection.upsert([[0, 1]], ["b"])
        assert found() == []
        collection.add([[1, 0.2]], ["c"])
        assert found() == found(guarantee="model") == ["c"]
        collection.seal()
        assert found() == ["c"]
