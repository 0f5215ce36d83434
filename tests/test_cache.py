import threading

from hypothesis import given
from hypothesis import strategies as st

from memvec.cache import _ENTRY_BYTES, Cache


def test_value_is_made_once():
    cache, made = Cache(1 << 20), []
    for _ in range(3):
        assert cache.get("key", lambda: made.append(1) or 7) == 7
    assert made == [1]
    assert "key" in cache
    assert "other" not in cache


def test_nothing_is_a_value_too():
    cache, made = Cache(1 << 20), []
    for _ in range(2):
        assert cache.get("key", lambda: made.append(1)) is None
    assert made == [1]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=60))
def test_cache_is_bounded_and_forgets_what_was_used_longest_ago(asked):
    most = 4 * _ENTRY_BYTES
    cache = Cache(most, lambda size: size * 100)
    recent = []
    for key, size in asked:
        value = cache.get(key, lambda size=size: size)
        known = dict(recent)
        assert value == known.get(key, size)
        recent = [pair for pair in recent if pair[0] != key] + [(key, value)]
        while len(recent) > 1 and sum(_ENTRY_BYTES + 100 * v for _, v in recent) > most:
            recent.pop(0)
        assert [key in cache for key in range(9)] == [key in dict(recent) for key in range(9)]
        assert cache.n_bytes == sum(_ENTRY_BYTES + 100 * value for _, value in recent)
        assert len(cache) == len(recent)


def test_dropped_keys_are_made_again():
    cache = Cache(1 << 20)
    for key in range(6):
        cache.get(key, lambda key=key: key)
    cache.drop(lambda key: key % 2 == 0)
    assert len(cache) == 3
    assert cache.get(0, lambda: "again") == "again"


def test_making_a_value_may_ask_for_others():
    cache = Cache(1 << 20)

    def factorial(n):
        return cache.get(n, lambda: 1 if n == 0 else n * factorial(n - 1))

    assert factorial(20) == 2432902008176640000


def test_threads_that_make_the_same_value_get_one():
    cache, barrier, values = Cache(1 << 20), threading.Barrier(8), []

    def ask():
        barrier.wait()
        values.append(cache.get("key", object))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, values))) == 1


class _Named:
    """A key whose hash is Python code, during which other threads run."""

    def __init__(self, name):
        self.name, self.at_next_hash = name, None

    def __hash__(self):
        call, self.at_next_hash = self.at_next_hash, None
        if call is not None:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join(timeout=10)
            assert not thread.is_alive()  # it waits for no lock
        return hash(self.name)


def test_cache_loses_a_key_while_it_counts_bytes():
    cache, key = Cache(most_bytes=1 << 20), _Named("first")
    cache.get(key, lambda: 1)
    key.at_next_hash = lambda: cache.drop(lambda one: one is key)
    assert cache.get("second", lambda: 2) == 2
    assert cache.keys == ["second"]


def test_cache_loses_a_key_while_it_is_asked_for():
    cache, key = Cache(most_bytes=1 << 20), _Named("first")
    cache.get(key, lambda: 1)
    key.at_next_hash = lambda: cache.drop(lambda one: one is key)
    assert cache.get(key, lambda: 2) in (1, 2)
    assert len(cache) <= 1
