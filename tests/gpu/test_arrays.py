"""Arrays of users, on a card of NumPy: every kind that lies there, and what is refused."""

import numpy as np
import pytest

from gpu import build_cases, numpy_card, source_cases
from gpu.numpy_cupy import Device
from gpu.source_cases import assert_same, index_of, rows_and_queries
from memvec import Index, IndexConfig
from memvec.errors import InvalidTypeError, InvalidValueError


@pytest.fixture
def card(monkeypatch):
    return numpy_card.install(monkeypatch)


class Tensor:
    """A tensor on a card, of another library than CuPy."""

    def __init__(self, values, dtype="torch.float32", requires_grad=False, card=0):
        self.values, self.dtype, self.requires_grad = values, dtype, requires_grad
        self.card, self.streams = card, []

    @property
    def shape(self):
        return self.values.shape

    def __getitem__(self, which):
        return Tensor(self.values[which], self.dtype, self.requires_grad, self.card)

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")

    def __dlpack_device__(self):
        return 2, self.card

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.dtype == "torch.bfloat16":
            raise BufferError("bfloat16 is not supported")
        return self.values

    def float(self):
        return Tensor(self.values.astype(np.float32))

    def cpu(self):
        return self.values


class OldArray:
    """An array on a card whose library has no DLPack."""

    def __init__(self, values):
        self.__cuda_array_interface__, self.values = {"shape": values.shape}, values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


def float_rounded_to_bfloat16(values):
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize(
    "kind", ["tensor", "no DLPack", "every second row", "columns first", "backwards", "integers"]
)
def test_arrays_on_a_card_have_the_answers_of_those_in_memory(card, kind):
    _, queries = rows_and_queries()
    index = index_of("whole codes")
    on_card = numpy_card.on_card
    given = {
        "tensor": lambda: (Tensor(queries), queries),
        "no DLPack": lambda: (OldArray(queries), queries),
        "every second row": lambda: (on_card(np.repeat(queries, 2, axis=0))[::2], queries),
        "columns first": lambda: (on_card(np.asfortranarray(queries)), queries),
        "backwards": lambda: (on_card(queries[::-1, ::-1].copy())[::-1, ::-1], queries),
        "integers": lambda: (
            ((whole := np.rint(900 * queries).astype(np.int32)), whole) and (on_card(whole), whole)
        ),
    }[kind]()
    assert_same(index.range_search(given[1], 0.75), index.to("cuda").range_search(given[0], 0.75))


def test_tensors_of_bfloat16_are_widened(card):
    _, queries = rows_and_queries()
    queries = float_rounded_to_bfloat16(queries)
    index = index_of("whole codes")
    found = index.to("cuda").range_search(Tensor(queries, "torch.bfloat16"), 0.75)
    assert_same(index.range_search(queries, 0.75), found)


def test_producer_of_a_tensor_is_told_the_stream_that_reads_it(card):
    tensor = Tensor(rows_and_queries()[1])
    index_of("whole codes").to("cuda").range_search(tensor, 0.75)
    assert tensor.streams == [1]


def test_tensor_that_requires_a_gradient_is_refused(card):
    _, queries = rows_and_queries()
    moved = index_of("whole codes").to("cuda")
    tensor = Tensor(queries, requires_grad=True)
    with pytest.raises(InvalidTypeError, match=r"'queries' .*range_search .* use tensor\.detach"):
        moved.range_search(tensor, 0.75)
    with pytest.raises(InvalidTypeError, match=r"'vectors' .*Index.build .* use tensor\.detach"):
        build_cases.built("cuda", vectors=Tensor(build_cases.rows_and_queries()[0], "", True))


@pytest.mark.parametrize(
    ("wrong", "problem"), [(0.0, "only zeros"), (np.nan, "NaN"), (np.inf, "an infinite value")]
)
def test_queries_without_a_direction_are_named_by_their_row(card, wrong, problem):
    queries = rows_and_queries()[1].copy()
    queries[7] = wrong
    moved = index_of("whole codes").to("cuda")
    for some, row in ((queries, 7), (queries[7:8], 0), (queries[7], 0)):
        with pytest.raises(InvalidValueError, match=f"'queries' .* {problem} in row {row} "):
            moved.range_search(numpy_card.on_card(some), 0.75)


@pytest.mark.parametrize("dtype", [bool, np.complex64])
def test_arrays_of_no_real_numbers_are_refused(card, dtype):
    _, queries = rows_and_queries()
    moved = index_of("whole codes").to("cuda")
    with pytest.raises(InvalidTypeError, match=f"'queries' .* Got {np.dtype(dtype)}"):
        moved.range_search(numpy_card.on_card(queries.astype(dtype)), 0.75)


def test_distances_are_not_scaled_on_a_card(card):
    rows, queries = rows_and_queries()
    config = IndexConfig(codes="balanced", unit_size=4)
    index = Index.build(rows, metric="euclidean", radius=0.7, config=config, progress=False)
    moved = index.to("cuda")
    assert_same(index.range_search(queries), moved.range_search(numpy_card.on_card(queries)))
    for given in (3 * queries, numpy_card.on_card(3 * queries)):
        with pytest.raises(InvalidValueError, match="norm 3 in row 0"):
            moved.range_search(given)


def test_second_card_has_the_answers_of_the_first(monkeypatch):
    """Everything that a search, a join or a build makes lies on the card that was asked for."""
    card = numpy_card.install(monkeypatch, number=1)
    _, queries = rows_and_queries()
    for name in ("whole codes", "groups", "two homes"):
        index = index_of(name)
        moved = index.to("cuda:1")
        source_cases.assert_same_answers(index, moved)
        source_cases.assert_same_filters(index, moved)
        source_cases.assert_joins_well(index, moved)
    moved = index_of("whole codes").to("cuda:1")
    source_cases.assert_takes_arrays(index_of("whole codes"), moved, numpy_card.on_card)
    for number in (0, 1):  # CuPy's array there, and a tensor
        with Device(number):
            array = numpy_card.on_card(queries.copy())
        for given in (array, Tensor(queries, card=number)):
            found = moved.range_search(given, 0.75, shadow=1.0)
            assert_same(index_of("whole codes").range_search(queries, 0.75), found)
    assert moved.source.moved.rows.data.card == card.number == 1


def test_build_on_the_second_card_is_that_of_the_first(monkeypatch, tmp_path):
    numpy_card.install(monkeypatch, number=1)
    build_cases.assert_built_well(build_cases.built("cuda:1", "int8"), tmp_path)
    index = build_cases.clustered("float32", monkeypatch)
    assert len(index.self_join(0.8)) > 200


@pytest.mark.parametrize("kind", ["integers", "other bytes", "wide", "list", "slices"])
def test_vectors_of_every_kind_are_built_from(card, kind):
    rows, _ = build_cases.rows_and_queries()
    whole = np.rint(900 * rows).astype(np.int16)
    given = {
        "integers": whole,
        "other bytes": whole.astype(">f4"),
        "wide": whole.astype(np.longdouble),
        "list": whole.tolist(),
        "slices": Slices(whole),
    }[kind]
    index, expected = (build_cases.built("cuda", vectors=one) for one in (given, whole * 1.0))
    here, there = (
        one.range_search(rows[:50], 0.75, guarantee="exact") for one in (expected, index)
    )
    source_cases.assert_found_the_same(here, there)
    assert len(here.ids) > 90


class Slices:
    """Vectors that are made when they are asked for; only slices are arrays."""

    def __init__(self, rows):
        self.rows, self.shape = rows, rows.shape

    def __getitem__(self, which):
        assert isinstance(which, slice)
        return self.rows[which]


def test_what_the_cpu_builds_may_have_slices_only(card):
    rows, queries = build_cases.rows_and_queries()
    config = IndexConfig(codes="balanced", pca_dim=32, unit_size=4)
    index, expected = (
        build_cases.built("cuda", vectors=given, config=config) for given in (Slices(rows), rows)
    )
    source_cases.assert_found_the_same(expected.range_search(queries), index.range_search(queries))


@pytest.mark.parametrize("shape", [(0, 64), (5, 0), (64,), (2, 3, 4)])
def test_vectors_of_no_use_are_refused_like_on_the_cpu(card, shape):
    messages = []
    for device in ("cpu", "cuda"):
        with pytest.raises(InvalidValueError, match="'vectors'") as caught:
            build_cases.built(device, vectors=np.ones(shape, dtype=np.float32))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_more_vectors_than_an_index_names_are_refused_before_they_are_read(card):
    many = Slices(np.empty((0, 64), dtype=np.float32))
    many.shape = (2**30, 64)
    with pytest.raises(InvalidValueError, match="'vectors' .* at most 1073741823 rows"):
        build_cases.built("cuda", vectors=many)


@pytest.mark.parametrize("row", [0, 700, 1499])
def test_row_without_a_direction_is_named_by_its_number(card, monkeypatch, row):
    monkeypatch.setattr("memvec.gpu._build._LOOKED_AT", 160)
    rows = build_cases.rows_and_queries()[0].copy()
    rows[row] = 0
    with pytest.raises(InvalidValueError, match=f"'vectors' .* only zeros in row {row} "):
        build_cases.built("cuda", vectors=rows)


@pytest.mark.parametrize("dim", [65, 70, 100])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_any_dimension_has_the_answers_of_the_cpu(card, dim, dtype):
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((333, dim)).astype(np.float32)
    rows[111:222] = rows[:111] + 0.5 * rng.standard_normal((111, dim))
    config = IndexConfig(codes="balanced", unit_size=3)
    index = Index.build(rows, similarity=0.8, dtype=dtype, config=config, progress=False)
    moved = index.to("cuda")
    for asked in (rows[:40], rows[:1], rows[:0]):
        assert_same(index.range_search(asked, 0.8), moved.range_search(asked, 0.8))
        here, there = index.search(asked, 3), moved.search(asked, 3)
        np.testing.assert_array_equal(here.ids, there.ids)
