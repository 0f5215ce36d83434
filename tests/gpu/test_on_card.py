"""What needs a card: every kernel against its twin. Run by `make test-gpu`."""

import gc
import threading

import numpy as np
import pytest
from click.testing import CliRunner

import naive
from gpu import build_cases, collection_cases, kmeans_cases, page, source_cases
from gpu.codes_made import balanced_codes, common_counts, join_case
from memvec import IndexConfig, gpu
from memvec.codes import CodeSpace
from memvec.errors import (
    DeviceError,
    DeviceMemoryError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
)
from memvec.gpu._copied import rows_on_card
from memvec.gpu._kmeans import NearestUnits
from memvec.gpu._solve import solve_grams
from memvec.kernels import StoredRows, canonical_score_pairs

pytestmark = pytest.mark.gpu
LENGTHS = (256, 384, 768, 1024, 1280, 1536, 2048)


@pytest.fixture(scope="module")
def card():
    try:
        return gpu.find_card()
    except (DeviceError, MissingExtraError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cupy(card):
    return pytest.importorskip("cupy")


@pytest.fixture(params=gpu.WAYS)
def way(request, card):
    if request.param not in card.ways:
        pytest.skip(f"{card.name} has no products by {request.param}")
    return request.param


def pairs_of(found):
    """The pairs as a set; each is there once."""
    pairs = set(map(tuple, found.get().tolist()))
    assert len(pairs) == len(found)
    return pairs


def pairs_where(passes):
    return set(zip(*(axis.tolist() for axis in np.nonzero(passes)), strict=True))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("n_rows", "n_columns"), [(1, 1), (63, 257), (700, 1500)])
def test_join_finds_the_pairs_of_the_twin(card, cupy, way, length, n_rows, n_columns):
    case = join_case(n_rows, n_columns, length, np.random.default_rng(length))
    found = gpu.join_codes(*map(cupy.asarray, case), card, way=way)
    rows, columns, thresholds = case
    assert pairs_of(found) == pairs_where(common_counts(rows, columns) >= thresholds)
    if n_rows * n_columns < 100_000:
        assert pairs_of(found) == naive.joined(*case)


@pytest.mark.parametrize("length", [256, 1024, 2048])
def test_join_below_stops_tests_a_triangle(card, cupy, way, length):
    generator = np.random.default_rng(0)
    codes = balanced_codes(3000, length, generator)
    columns, numbers = cupy.asarray(codes), np.arange(3000)
    level = int(np.quantile(common_counts(codes[:300], codes), 0.999))
    thresholds = cupy.full(3000, level, dtype=np.int16)
    stops = cupy.asarray(numbers, dtype=np.int32)
    found = gpu.join_codes(columns, columns, thresholds, card, stops=stops, way=way)
    passes = (common_counts(codes, codes) >= level) & (numbers[:, None] < numbers)
    assert len(found) > 100
    assert pairs_of(found) == pairs_where(passes)


def test_join_takes_any_stops_and_part_of_the_rows(card, cupy, way):
    generator = np.random.default_rng(1)
    rows, columns, thresholds = join_case(5000, 600, 512, generator)
    stops = generator.integers(-5, 6000, 600)
    given = {"stops": cupy.asarray(stops, dtype=np.int32), "row_range": (130, 4321), "way": way}
    found = gpu.join_codes(*map(cupy.asarray, (rows, columns, thresholds)), card, **given)
    numbers = np.arange(5000)[:, None]
    passes = (common_counts(rows, columns) >= thresholds) & (numbers < stops)
    assert pairs_of(found) == pairs_where(passes & (numbers >= 130) & (numbers < 4321))


def test_join_where_everything_passes_asks_again_for_room(card, cupy, way):
    generator = np.random.default_rng(2)
    rows, columns = (cupy.asarray(balanced_codes(n, 768, generator)) for n in (333, 777))
    thresholds = cupy.zeros(777, dtype=np.int16)
    found = gpu.join_codes(rows, columns, thresholds, card, room=1000, way=way)
    assert pairs_of(found) == {(i, j) for i in range(333) for j in range(777)}


def test_join_does_not_write_past_the_queue(card, cupy, way):
    codes = cupy.asarray(balanced_codes(300, 256, np.random.default_rng(3)))
    queue = gpu.Queue(card, 1000)
    queue.entries = cupy.full((2000, 2), -1, dtype=np.int32)[:1000]
    whole = queue.entries.base
    gpu.launch_join(codes, codes, cupy.zeros(300, dtype=np.int16), queue, way=way)
    assert queue.length() == 90_000
    assert queue.read() is None
    assert (whole[:1000] >= 0).all()
    assert (whole[1000:] == -1).all()


def test_join_of_nothing_finds_nothing(card, cupy):
    codes = cupy.asarray(balanced_codes(10, 256, np.random.default_rng(4)))
    zeros = cupy.zeros(10, dtype=np.int16)
    assert len(gpu.join_codes(codes[:0], codes, zeros, card)) == 0
    assert len(gpu.join_codes(codes, codes[:0], zeros[:0], card)) == 0
    assert len(gpu.scan_codes(codes[:1], codes[:0], zeros[:0], card)) == 0
    queue, no_units = gpu.Queue(card, 10), cupy.empty(0, dtype=np.int32)
    runs = gpu.Runs(no_units, no_units, codes)
    gpu.launch_members(codes, queue, runs, gpu.MemberLimits(9), queue)
    assert queue.length() == 0


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("kind", ["one limit", "limits", "first words", "slots"])
def test_members_found_are_those_of_the_twin(card, cupy, length, once, kind):
    generator = np.random.default_rng(length)
    codes = balanced_codes(400, length, generator)
    bounds = np.sort(generator.choice(401, 60)).astype(np.int32)  # some units have no members
    candidates = {tuple(pair) for pair in generator.integers(0, (400, 59), (500, 2)).tolist()}
    usual = length - 2 * np.quantile(common_counts(codes, codes), 0.8)
    level = np.full(400, int(usual))
    if kind == "limits":
        level += generator.integers(-4, 5, 400)
    first = (6, 96)  # words of 32 bits, of which half differ
    slots = generator.permutation(400).astype(np.int32) if kind == "slots" else None
    queue, waiting = gpu.Queue(card, 10_000), gpu.Queue(card, len(candidates))
    waiting.entries[:] = cupy.asarray(sorted(candidates), dtype=np.int32)
    waiting.count.fill(len(candidates))
    whole = cupy.asarray(level, dtype=np.int16) if kind == "limits" else int(usual)
    limits = gpu.MemberLimits(whole)
    if kind == "first words":
        limits = gpu.MemberLimits(whole, first[1], 3)
    rows, begins, ends = map(cupy.asarray, (codes, bounds[:-1], bounds[1:]))
    runs = gpu.Runs(begins, ends, rows, None if slots is None else cupy.asarray(slots))
    gpu.launch_members(rows, waiting, runs, limits, queue, once=once)
    more = {"first": first} if kind == "first words" else {"slots": slots}
    expected = naive.passing_members(
        codes, candidates, bounds[:-1], bounds[1:], codes, level, once, **more
    )
    assert pairs_of(queue.read()) == expected
    assert len(expected) > 100


@pytest.mark.parametrize("way_of_members", gpu.WAYS)
def test_members_follow_a_join_without_the_host(card, cupy, way_of_members):
    if way_of_members not in card.ways:
        pytest.skip(f"{card.name} has no products by {way_of_members}")
    codes = balanced_codes(3000, 512, np.random.default_rng(0))
    common = common_counts(codes, codes)
    level = int(np.quantile(common, 0.999))
    # Units of four; their codes are those of their first members.
    begins = np.arange(0, 3000, 4, dtype=np.int32)
    units = cupy.asarray(np.ascontiguousarray(codes[::4]))
    rows, n_units = cupy.asarray(codes), len(begins)
    waiting, queue = gpu.Queue(card, 1 << 20), gpu.Queue(card, 1 << 20)
    stops = cupy.asarray(begins + 3)  # the last member: rows below it have one above them
    limits = cupy.full(n_units, level - 20, dtype=np.int16)
    gpu.launch_join(rows, units, limits, waiting, stops=stops, way=way_of_members)
    runs = gpu.Runs(cupy.asarray(begins), cupy.asarray(begins + 4), rows)
    members = gpu.MemberLimits(512 - 2 * level)
    gpu.launch_members(rows, waiting, runs, members, queue, once=True)
    unit_passes = np.repeat(common[:, ::4] >= level - 20, 4, axis=1)
    numbers = np.arange(3000)
    expected = unit_passes & (common >= level) & (numbers[:, None] < numbers)
    assert pairs_of(queue.read()) == pairs_where(expected)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("n_columns", [1, 33, 100_003])
def test_scan_finds_the_columns_of_the_twin(card, cupy, length, n_columns):
    generator = np.random.default_rng(length)
    columns = balanced_codes(min(n_columns, 1000), length, generator)
    columns = columns[generator.integers(0, len(columns), n_columns)]
    query = balanced_codes(1, length, generator)
    common = common_counts(query, columns)[0]
    thresholds = np.quantile(common, 0.9) + generator.integers(-2, 3, n_columns)
    thresholds = thresholds.astype(np.int16)
    given = map(cupy.asarray, (query, columns, thresholds))
    found = gpu.scan_codes(*given, card, room=500).get()
    assert sorted(found.tolist()) == np.flatnonzero(common >= thresholds).tolist()
    assert common[0] == naive.common_bits(query[0], columns[0])


@pytest.mark.parametrize(
    ("dim", "length"),
    [(10, 256), (384, 384), (700, 768), (1000, 1024), (1536, 1536), (2048, 2048)],
)
def test_codes_are_those_of_the_twin(card, cupy, dim, length):
    generator = np.random.default_rng(dim)
    rows = generator.standard_normal((300, dim)).astype(np.float32)
    rows[::7] = np.round(rows[::7])  # ties
    rows[5] = 0.0
    rows[6] = -0.0
    flips = CodeSpace.random(length, seed=5).flips
    bits = -(-length // 256) * 256
    for turned in (flips[:0], flips):
        codes = gpu.encode_balanced(cupy.asarray(rows), turned, length, card).get()
        mixed = naive.mixed_rows(rows, turned, length)
        expected = [naive.packed_bits(naive.balanced_bits(row), bits // 32) for row in mixed]
        np.testing.assert_array_equal(codes, expected)


def test_codes_of_any_even_length_are_balanced(card, cupy):
    rows = np.random.default_rng(6).standard_normal((50, 300)).astype(np.float32)
    codes = gpu.encode_balanced(cupy.asarray(rows), np.empty((0, 302), np.float32), 302, card)
    mixed = naive.mixed_rows(rows, [], 302)
    expected = [naive.packed_bits(naive.balanced_bits(row), 16) for row in mixed]
    np.testing.assert_array_equal(codes.get(), expected)


def test_first_entries_alone_can_be_coded(card, cupy):
    rows = np.random.default_rng(7).standard_normal((50, 300)).astype(np.float32)
    flips = CodeSpace.random(320, seed=5).flips
    sums = cupy.empty(50, dtype=np.float32)
    codes = gpu.encode_balanced(cupy.asarray(rows), flips, 320, card, coded=70, sums=sums)
    mixed = naive.mixed_rows(rows, flips, 320)[:, :70]
    expected = [naive.packed_bits(naive.balanced_bits(row), 8) for row in mixed]
    np.testing.assert_array_equal(codes.get(), expected)
    np.testing.assert_allclose(sums.get(), np.abs(mixed).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("dim", [16, 100, 384, 1024, 4096])
def test_scores_are_those_of_the_cpu(card, cupy, dim, dtype):
    generator = np.random.default_rng(dim)
    stored = [
        StoredRows.of(naive.unit_rows(generator.standard_normal((n, dim))), dtype) for n in (50, 70)
    ]
    left, right = (rows_on_card(rows, card) for rows in stored)
    places = generator.permutation(70).astype(np.int32)
    pairs = np.stack([generator.integers(0, n, 1001) for n in (50, 70)], axis=1).astype(np.int32)
    allowed = (generator.random(70) < 0.9).astype(np.uint8)
    waiting, queue = gpu.Queue(card, 1001), gpu.Queue(card, 1001, scored=True)
    waiting.entries[:] = cupy.asarray(pairs)
    waiting.count.fill(1001)
    right = right._replace(places=cupy.asarray(places))
    gpu.launch_scores(left, right, waiting, 0.0, queue, allowed=cupy.asarray(allowed))
    n = queue.length()
    at = places[pairs[:, 1]].astype(np.int64)
    scores = canonical_score_pairs(*stored, pairs[:, 0].astype(np.int64), at)
    kept = (scores >= 0.0) & (allowed[at] > 0)
    expected = sorted(zip(pairs[kept, 0].tolist(), at[kept].tolist(), scores[kept], strict=True))
    hits, values = queue.entries[:n].get().tolist(), queue.scores[:n].get()
    assert sorted((i, j, score) for (i, j), score in zip(hits, values, strict=True)) == expected


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("given", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dim", [5, 384, 1000])
def test_stored_rows_are_those_of_the_cpu(card, cupy, dtype, given, dim):
    rows = (9 * np.random.default_rng(dim).standard_normal((300, dim))).astype(given)
    rows[100:200] = naive.unit_rows(rows[100:200])
    found = gpu.store_rows(cupy.asarray(rows), dtype, card, "test")
    expected = StoredRows.checked(rows, "rows", "test", dtype)
    np.testing.assert_array_equal(found.rows.data.get()[:, :dim], expected.data)
    assert not found.rows.data.get()[:, dim:].any()
    np.testing.assert_array_equal(found.unit_rows.get(), expected[:])
    if dtype != "float32":
        np.testing.assert_array_equal(found.rows.scales.get(), expected.scales)


@pytest.mark.parametrize("wrong", [0.0, np.nan, np.inf])
def test_rows_without_a_direction_are_refused_with_their_number(card, cupy, wrong):
    rows = cupy.ones((10, 64), dtype=np.float32)
    rows[7] = wrong
    problem = {0.0: "only zeros", np.inf: "an infinite value"}.get(wrong, "NaN")
    with pytest.raises(InvalidValueError, match=f"'vectors' .* {problem} in row 107"):
        gpu.store_rows(rows, "int8", card, "test", first_row=100)
    with pytest.raises(InvalidTypeError, match="'vectors' .* float64. Got int32"):
        gpu.store_rows(rows[:5].astype(np.int32), "int8", card, "test")


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_weights_of_members_are_those_of_the_twin(card, cupy, size):
    rng = np.random.default_rng(size)
    rows = rng.standard_normal((500, size, 64)) / 8
    if size > 2:
        rows[7, 1] = rows[7, 0]
    grams = (rows @ rows.transpose(0, 2, 1)).astype(np.float32)
    weights, easy = solve_grams(cupy.asarray(grams), card)
    expected = [
        naive.least_pivot(gram.astype(np.float64)) > 1e-6 * np.trace(gram) for gram in grams
    ]
    assert easy.get().tolist() == expected
    chosen = np.array(expected)
    solved = np.einsum("uij,uj->ui", grams[chosen], weights.get()[chosen])
    np.testing.assert_allclose(solved, 1, atol=2e-3)
    assert not weights.get()[~chosen].any()


def test_kmeans_finds_the_clusters(card, cupy):
    kmeans_cases.assert_finds_clusters(cupy.asarray, card)


def test_memory_vectors_are_those_of_the_cpu(card, cupy):
    kmeans_cases.assert_memory_vectors(cupy.asarray, card)


@pytest.mark.parametrize("n_units", [5, 8, 300])
def test_nearest_unit_is_that_of_the_twin(card, cupy, n_units):
    rng = np.random.default_rng(n_units)
    rows = naive.unit_rows(rng.standard_normal((1000, 64)))
    vectors = naive.unit_rows(rng.standard_normal((n_units, 64)))
    vectors[3] = vectors[1]  # the first of equal ones is taken
    nearest = NearestUnits(cupy.asarray(rows), card)
    nearest.see(cupy.asarray(vectors), 0)
    scores = rows @ vectors.T
    found, labels = nearest.best.get(), nearest.labels.get()
    np.testing.assert_allclose(found, scores.max(axis=1), atol=2e-3)
    np.testing.assert_allclose(scores[np.arange(1000), labels], scores.max(axis=1), atol=4e-3)
    assert not (labels == 3).any()
    nearest.see(cupy.asarray(rows[:9]), n_units)
    assert (nearest.labels.get()[:9] == n_units + np.arange(9)).all()


@pytest.mark.parametrize("name", source_cases.CONFIGS)
def test_answers_are_those_of_the_cpu(card, name):
    index = source_cases.index_of(name)
    moved = index.to("cuda")
    source_cases.assert_same_answers(index, moved)
    source_cases.assert_same_filters(index, moved)
    source_cases.assert_joins_well(index, moved)


@pytest.mark.parametrize("kind", source_cases.KINDS)
def test_answers_of_every_kind_of_data_are_those_of_the_cpu(card, kind):
    source_cases.assert_same_of_kind(kind, 100, "int8" if kind == "pixels" else "float32")


@pytest.mark.parametrize("dim", [256, 384, 768, 1536, 2048])
def test_answers_of_every_length_are_those_of_the_cpu(card, dim):
    source_cases.assert_same_of_kind("uniform", dim, "int8")


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_answers_of_stored_rows_are_those_of_the_cpu(card, dtype):
    index = source_cases.index_of("whole codes", dtype)
    source_cases.assert_same_answers(index, index.to("cuda:0"))
    source_cases.assert_joins_well(index, index.to("cuda"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_nearest_are_those_of_the_cpu(card, dtype):
    source_cases.assert_same_nearest(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_queries_may_lie_on_the_card(card, cupy, dtype):
    index = source_cases.index_of("whole codes", dtype)
    moved = index.to("cuda")
    source_cases.assert_takes_arrays(index, moved, cupy.asarray)
    torch = pytest.importorskip("torch")
    source_cases.assert_takes_arrays(
        index, moved, lambda rows: torch.from_numpy(np.array(rows)).cuda()
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_batches_of_numpy_are_scaled_on_the_card(card, dtype):
    source_cases.assert_uploads_batches(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_built_index_answers_like_its_saved_copy(card, cupy, tmp_path, dtype):
    index = build_cases.built("cuda", dtype)
    build_cases.assert_built_well(index, tmp_path)
    rows, queries = build_cases.rows_and_queries()
    again = build_cases.built("cuda", dtype, vectors=cupy.asarray(rows))
    here, there = (one.range_search(queries) for one in (index, again))
    np.testing.assert_array_equal(here.ids, there.ids)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_index_of_kmeans_units_answers_like_its_saved_copy(card, monkeypatch, tmp_path, dtype):
    index = build_cases.clustered(dtype, monkeypatch)
    build_cases.assert_built_well(index, tmp_path)
    places = (
        one.source.moved.rows.places.get()
        for one in (index, build_cases.clustered(dtype, monkeypatch))
    )
    np.testing.assert_array_equal(*places)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_collection_answers_like_the_cpu(card, tmp_path, dtype):
    config = IndexConfig(unit_size=4)
    collection_cases.assert_answers_on_card(tmp_path / "some.mv", dtype=dtype, config=config)


def test_blocks_of_the_page_run(card, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page.run_blocks()


@pytest.mark.parametrize("work", source_cases.WORKS)
def test_interrupts_leave_an_index_as_it_was(card, monkeypatch, work):
    source_cases.assert_survives_interrupts(work, gpu.Card, monkeypatch)


@pytest.mark.parametrize("work", source_cases.WORKS[1:])
def test_interrupts_leave_no_memory_taken(card, cupy, monkeypatch, work):
    moved, pool = source_cases.index_of("whole codes").to("cuda"), cupy.get_default_memory_pool()
    work(moved)
    gc.collect()
    taken = pool.used_bytes()
    for n_kernels in (0, 1):
        source_cases.interrupt(moved, work, gpu.Card, monkeypatch, n_kernels)
        gc.collect()
        assert pool.used_bytes() == taken


def test_several_threads_search_one_index(card):
    index, (_, queries) = source_cases.index_of("whole codes"), source_cases.rows_and_queries()
    moved, found = index.to("cuda"), {}
    expected = [index.range_search(query, 0.75).ids.tolist() for query in queries]

    def work(number):
        found[number] = [moved.range_search(query, 0.75).ids.tolist() for query in queries]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), expected)


def test_packed_codes_have_the_bits_of_their_words(card):
    words = np.random.default_rng(7).integers(0, 2**63, (9, 6)).astype(np.uint64)
    packed = gpu.pack_codes(words, card).get()
    assert packed.shape == (9, 16)
    assert (packed[:, 12:] == 0).all()
    for row, code in zip(words, packed, strict=True):
        np.testing.assert_array_equal(naive.packed_bits(naive.unpack(row), 16), code)


def test_several_threads_use_one_card(card, cupy):
    case = join_case(500, 500, 1024, np.random.default_rng(8))
    given, found = [cupy.asarray(part) for part in case], []

    def work():
        with cupy.cuda.Stream(non_blocking=True):
            found.extend(pairs_of(gpu.join_codes(*given, card)) for _ in range(5))

    cupy.cuda.Device().synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert all(pairs == found[0] for pairs in found)
    assert found[0] == pairs_where(common_counts(*case[:2]) >= case[2])


def test_too_little_memory_is_named(card):
    with pytest.raises(DeviceMemoryError, match=r"queue .* needs 8000\.000 GB .* are free"):
        gpu.Queue(card, 10**12)


def test_card_that_is_not_there_is_named(card):
    with pytest.raises(DeviceError, match="'cuda:99' is not there: this machine has"):
        gpu.find_card("cuda:99")


def test_arrays_that_no_kernel_reads_are_refused(card, cupy):
    codes = cupy.asarray(balanced_codes(10, 512, np.random.default_rng(9)))
    zeros = cupy.zeros(10, dtype=np.int16)
    with pytest.raises(InvalidTypeError, match="'rows' .* on a GPU. Got ndarray"):
        gpu.join_codes(codes.get(), codes, zeros, card)
    with pytest.raises(InvalidValueError, match="'columns' .* codes of 512 bits. Got 256"):
        gpu.join_codes(codes, cupy.ascontiguousarray(codes[:, :8]), zeros, card)
    with pytest.raises(InvalidValueError, match="'rows' .* C-contiguous"):
        gpu.join_codes(codes[:, :8], codes, zeros, card)
    with pytest.raises(InvalidValueError, match="'thresholds' .* of length 10. Got length 9"):
        gpu.join_codes(codes, codes, zeros[:9], card)
    with pytest.raises(InvalidValueError, match="'row_range' .* within"):
        gpu.join_codes(codes, codes, zeros, card, row_range=(3, 11))
    numbers, queue = cupy.zeros(5, dtype=np.int32), gpu.Queue(card, 10)
    runs = gpu.Runs(numbers, numbers[:4], codes)
    with pytest.raises(InvalidValueError, match="'ends' .* of length 5. Got length 4"):
        gpu.launch_members(codes, queue, runs, gpu.MemberLimits(3), queue)
    with pytest.raises(InvalidValueError, match="'coded' .* at most 256. Got 300"):
        gpu.encode_balanced(
            cupy.zeros((2, 9), dtype=np.float32), np.empty((0, 256)), 256, card, coded=300
        )
    narrow = gpu.CardRows(cupy.zeros((2, 7), dtype=np.int8), cupy.ones(2))
    with pytest.raises(InvalidValueError, match="'left' .* of int8 a multiple of 16"):
        gpu.launch_scores(narrow, narrow, queue, 0.0, queue)
    with pytest.raises(InvalidValueError, match="'query' .* one code. Got 10 codes"):
        gpu.scan_codes(codes, codes, zeros, card)
    rows = cupy.zeros((2, 400), dtype=np.float32)
    with pytest.raises(InvalidValueError, match="'length' .* at least 400"):
        gpu.encode_balanced(rows, np.empty((0, 256), np.float32), 256, card)
    with pytest.raises(InvalidValueError, match="'length' .* as long as the flips, 512"):
        gpu.encode_balanced(rows, np.ones((1, 512), np.float32), 768, card)


def test_benchmark_prints_its_tables(card, cupy):
    from benchmarks.__main__ import main

    arguments = "gpu --rows 4096 --columns 2048 --scanned 5000 --rounds 1"
    outcome = CliRunner().invoke(main, arguments.split(), catch_exceptions=False)
    assert outcome.exit_code == 0
    for title in (
        "Join of 4,096 × 2,048",
        "bf16",
        "One query against 5,000",
        "Encoding, members, scores",
    ):
        assert f"### {title}" in outcome.output
