"""Searches and answers as bytes: what is unpacked is what was packed."""

import numpy as np
import pytest

from memvec.cluster import _wire
from memvec.cluster._ray import reason_of
from memvec.cluster._ray_links import Messages, ShardActor
from memvec.collection import Sought
from memvec.guarantee import Request, Thresholds
from memvec.matches import Matches

REQUEST = Request(0.05, "expected", 0.95, False)
LINES = Thresholds(np.array([0.6, 0.7]), np.array([[np.inf, 1.5], [2.0, 0.1]]))
FIELDS = ("offsets", "ids", "scores", "spent")


def answer_of(n_matches):
    found = Matches(
        np.array([0, n_matches]),
        np.arange(n_matches),
        np.linspace(1, 0.5, n_matches),
        np.arange(5)[np.newaxis],
    )
    return found, 4, {1: "one", 2: 2, 3: "naïve \ud800"}


def assert_same(one, other):
    assert one[1:] == other[1:]
    for name in FIELDS:
        ours, theirs = getattr(one[0], name), getattr(other[0], name)
        assert np.array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
        assert ours.flags.aligned


@pytest.mark.parametrize("lines", [None, LINES])
@pytest.mark.parametrize("dim", [4, 5])
def test_search_is_unpacked_as_it_was(lines, dim):
    rows = np.random.default_rng(0).standard_normal((3, dim)).astype(np.float32)
    sought = Sought(7, 0.6, lines, REQUEST, None, 2, b"\x05", True)
    queries, found = _wire.unpacked_find(_wire.packed_find(rows, sought), 7, b"\x05")
    assert np.array_equal(queries, rows)
    assert queries.dtype == np.float32
    assert queries.flags.aligned
    assert found._replace(thresholds=None) == sought._replace(thresholds=None)
    if lines is None:
        assert found.thresholds is None
    else:
        assert np.array_equal(found.thresholds.at, lines.at)
        assert np.array_equal(found.thresholds.slack, lines.slack)


@pytest.mark.parametrize("n_matches", [0, 3, 1000])
def test_small_answer_is_unpacked_as_it_was(n_matches):
    answer = answer_of(n_matches)
    assert _wire.is_small(answer)
    assert_same(_wire.unpacked_answer(_wire.packed_answer(answer)), answer)


def test_large_answer_is_gathered_from_its_pieces(monkeypatch):
    monkeypatch.setattr(_wire, "PIECE_BYTES", 1000)
    answer = answer_of(10_001)
    assert not _wire.is_small(answer)
    held = _wire.held_answer("a", answer)
    pieces = list(_wire.pieces_of(answer))
    assert max(len(piece) for piece in pieces) == 1000
    assert len(pieces) > 150
    assert_same(_wire.gathered(held, iter(pieces)), answer)
    assert _wire.gathered(held, iter(pieces[:-1])) is None
    assert _wire.gathered(held, iter([])) is None


def test_actor_holds_a_few_large_answers_until_they_are_fetched(monkeypatch):
    actor = ShardActor(None, 0, {}, 1)
    monkeypatch.setattr(actor, "call", lambda method, n_matches, sought: answer_of(n_matches))
    assert isinstance(actor.find_shared(3, None), bytes)
    held = [actor.find_shared(10_000 + number, None) for number in range(20)]
    assert [len(list(actor.pieces(one.token))) > 0 for one in held] == [False] * 4 + [True] * 16
    assert list(actor.pieces(held[-1].token)) == []


def test_message_is_packed_once_for_all_shards_of_a_question(monkeypatch):
    packed = []
    monkeypatch.setattr(
        "memvec.cluster._ray_links.packed_find",
        lambda rows, sought: packed.append(rows.copy()) or bytes([len(packed)]),
    )
    rows, messages = np.ones((1, 2), np.float32), Messages()
    sought = Sought(7, 0.6, LINES, REQUEST, None, 2)
    asked = [messages.of(shard, rows, sought._replace(change=shard)) for shard in range(3)]
    assert asked == [b"\x01"] * 3
    rows[:] = 2  # in place: the next question has other rows
    assert [messages.of(shard, rows, sought) for shard in range(3)] == [b"\x02"] * 3
    assert packed[1].tolist() == [[2.0, 2.0]]
    assert messages.of(0, rows.copy(), sought) == b"\x03"
    assert messages.of(1, rows, sought._replace(similarity=0.7)) == b"\x04"


def test_thresholds_that_were_sent_before_are_the_same_object():
    """What kernels made of them is kept with them."""
    rows = np.ones((1, 4), np.float32)
    sought = Sought(7, 0.6, LINES, REQUEST, None, 2)
    others = Thresholds(LINES.at, LINES.slack + 1)
    [one, again, other] = [
        _wire.unpacked_find(_wire.packed_find(rows, some), 7, None)[1].thresholds
        for some in (sought, sought, sought._replace(thresholds=others))
    ]
    assert one is again
    assert one is not other
    assert np.array_equal(other.slack, others.slack)


def test_actor_that_could_not_be_made_says_why():
    """As on a node where memvec is not installed; Ray tells it in the last line of many."""
    told = "The actor died because of an error raised in its creation task, f()\n  File x\n"
    missing = "ModuleNotFoundError: No module named 'memvec'"
    assert reason_of(RuntimeError(told + missing + "\n")).endswith(f"task, f() {missing}")
    assert reason_of(RuntimeError("The actor died.\n\tpid: 7")) == "The actor died."
    assert reason_of(RuntimeError()) == "RuntimeError()"
