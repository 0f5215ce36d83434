"""Levels of promise, what they need, and what shows that they are kept."""

import json
from functools import partial

import numpy as np
import pytest

import naive
from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import CorruptIndexError, InvalidTypeError, InvalidValueError
from memvec.evaluation import count_misses, exact_range
from memvec.guarantee import Certificate
from memvec.storage import open_folder, write_folder

DIM = 48
CENTRES = np.random.default_rng(1).standard_normal((300, DIM))
# With cosines of about 0.8 to each other inside a cluster.
clustered = partial(around, CENTRES, 0.5)
VECTORS, QUERIES = clustered(2, 12_000), clustered(3, 1500)


@pytest.fixture(scope="module")
def index():
    return Index.build(VECTORS, similarity=0.7, miss_rate=0.05, similarities=(0.6, 0.7))


@pytest.fixture(scope="module")
def truth():
    return exact_range(VECTORS, QUERIES, 0.7)


def test_levels_miss_no_more_than_they_promise(index, truth):
    missed = {}
    for level in ("model", "expected", "high_probability", "exact"):
        hits = index.range_search(QUERIES, guarantee=level)
        assert hits.certificate.level == level
        misses = count_misses(truth, hits)
        assert misses.extra.sum() == 0
        missed[level] = misses.miss_rate
        if level != "model":  # this data is not uniform
            assert misses.miss_rate <= 0.05 + 4 * misses.standard_error
    assert missed["exact"] == 0
    assert missed["high_probability"] < missed["expected"]


def test_a_surer_level_misses_no_more_in_large_units():
    """Planted near-copies need more room in these units than the sure level at 0.7 by itself."""
    config = IndexConfig(unit_size=80)
    index = Index.build(VECTORS, similarity=0.7, miss_rate=0.05, config=config)
    hits = {
        level: index.range_search(QUERIES, guarantee=level)
        for level in ("expected", "high_probability")
    }
    for expected, sure in zip(hits["expected"], hits["high_probability"], strict=True):
        assert set(expected.ids) <= set(sure.ids)


def test_the_level_of_the_build_is_the_default():
    built = Index.build(VECTORS[:3000], guarantee="exact")
    assert built.range_search(QUERIES[:3]).certificate.level == "exact"
    assert built.search(QUERIES[:3], 2).certificate.complete
    sure = Index.build(VECTORS, miss_rate=0.05, guarantee="high_probability", confidence=0.9)
    certificate = sure.range_search(QUERIES[:3]).certificate
    assert (certificate.level, certificate.confidence) == ("high_probability", 0.9)
    # A similarity that is not on the list lowers the level that was chosen at the build.
    assert sure.range_search(QUERIES[:3], 0.6).certificate.level == "expected"


def test_high_probability_is_refused_off_its_list(index):
    index.range_search(QUERIES[:1], 0.6, guarantee="high_probability")
    with pytest.raises(InvalidValueError, match=r"one of 0.6, 0.7 for.*Got 0.65 instead"):
        index.range_search(QUERIES[:1], 0.65, guarantee="high_probability")


def test_too_little_evidence_lowers_the_level_and_is_refused_by_name(index):
    tiny = 1e-6
    assert index.range_search(QUERIES[:1], miss_rate=tiny).certificate.level == "model"
    refused = r"needs 999,999 calibration queries.*Got 600, and 20,000 that can be made of stored"
    with pytest.raises(InvalidValueError, match=refused):
        index.range_search(QUERIES[:1], miss_rate=tiny, guarantee="expected")
    with pytest.raises(InvalidValueError, match=r"needs 3,688,878 .* Got 600 instead"):
        index.range_search(QUERIES[:1], 0.6, miss_rate=1e-6, guarantee="high_probability")


def test_few_vectors_are_rather_visited():
    few = Index.build(VECTORS[:500], miss_rate=1e-6)
    assert few.range_search(QUERIES[:1]).certificate.complete
    assert few.search(QUERIES[:1], 3).certificate.complete


def test_certificates_carry_their_evidence(index):
    certificate = index.range_search(QUERIES[:1]).certificate
    assert certificate.source == "reserve"
    assert certificate.n_synthetic == 0
    assert certificate.similarity == 0.7
    assert 0 <= certificate.observed <= certificate.bound <= certificate.miss_rate == 0.05
    assert certificate.n_matches >= certificate.n_queries >= 19
    assert set(certificate.thresholds) == {"unit", "prefix", "code"}
    assert certificate.calibrated is not None
    assert len(certificate.state) == 8
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert json.loads(certificate.to_json())["level"] == "expected"


def test_synthetic_evidence_is_named(index):
    certificate = index.range_search(QUERIES[:1], 0.95).certificate
    assert certificate.source == "synthetic"
    assert certificate.n_synthetic == certificate.n_matches == 2000
    assert str(certificate).startswith("Synthetic queries (stored vectors with noise; yours may")
    assert certificate.interval is None


def test_high_probability_never_rests_on_synthetic_evidence():
    """Its confidence would be over the draw of a seed, and says nothing of anybody's queries."""
    settings = {"miss_rate": 0.05, "similarities": [0.7, 0.95]}
    built = Index.build(VECTORS, guarantee="high_probability", **settings)
    assert built.range_search(QUERIES[:1], 0.7).certificate.level == "high_probability"
    lowered = built.range_search(QUERIES[:1], 0.95).certificate
    assert (lowered.level, lowered.source) == ("expected", "synthetic")
    with pytest.raises(InvalidValueError, match=r"needs 72 calibration queries.*Got \d+ instead"):
        built.range_search(QUERIES[:1], 0.95, guarantee="high_probability")


def test_certificates_give_the_interval_of_this_index(index):
    certificate = index.range_search(QUERIES[:1]).certificate
    low, high = certificate.interval
    assert low <= certificate.observed <= certificate.miss_rate < high
    assert f"95 % interval for this index: {100 * low:.2g} % to" in str(certificate)


def test_confidence_is_printed_with_all_its_digits():
    sure = Certificate("high_probability", 0.7, 0.01, confidence=0.999999, source="queries")
    assert "with 99.9999 % confidence" in str(sure)


def test_certificates_say_which_queries_were_left_out():
    queries = np.concatenate([VECTORS[:50], clustered(4, 300)])
    built = Index.build(VECTORS, miss_rate=0.05, queries=queries)
    certificate = built.range_search(QUERIES[:1]).certificate
    assert certificate.left_out == 50
    assert "Left out: 50 queries that are copies" in str(certificate)


def test_calibration_on_queries_of_the_caller(truth):
    built = Index.build(VECTORS, similarity=0.7, miss_rate=0.05, queries=clustered(4, 1000))
    assert (built.labels < 0).sum() == 60  # strays, one in 200; nothing else is kept out
    hits = built.range_search(QUERIES)
    misses = count_misses(truth, hits)
    assert misses.miss_rate <= 0.05 + 4 * misses.standard_error
    assert hits.certificate.source == "queries"
    assert str(hits.certificate).startswith("Queries like those given miss at most 5 %")


def test_copies_among_the_callers_queries_are_left_out():
    queries = np.concatenate([VECTORS[:50], clustered(4, 300)])
    built = Index.build(VECTORS, miss_rate=0.05, queries=queries)
    assert built.range_search(QUERIES[:1]).certificate.n_queries <= 300
    only_copies = Index.build(VECTORS, miss_rate=0.05, queries=VECTORS[:50])
    assert only_copies.range_search(QUERIES[:1]).certificate.source == "synthetic"


def test_bad_input_is_refused(index):
    with pytest.raises(InvalidValueError, match=r"'queries' parameter of Index.build"):
        Index.build(VECTORS[:100], queries=np.ones((3, 5)))
    with pytest.raises(InvalidValueError, match="NaN"):
        Index.build(VECTORS[:100], queries=np.full((3, DIM), np.nan))
    with pytest.raises(InvalidValueError, match="'confidence' parameter of Index.build"):
        Index.build(VECTORS[:100], confidence=1.0)
    with pytest.raises(InvalidValueError, match="'similarities' .* at least one"):
        Index.build(VECTORS[:100], similarities=[])
    with pytest.raises(InvalidValueError, match="'guarantee' .* one of 'model', 'expected'"):
        index.range_search(QUERIES[:1], guarantee="certain")
    with pytest.raises(InvalidTypeError, match="'confidence'"):
        index.range_search(QUERIES[:1], confidence="high")
    with pytest.raises(InvalidValueError, match="'target_recall' .* left out"):
        index.search(QUERIES[:1], 3, miss_rate=0.1, target_recall=0.9)
    with pytest.raises(InvalidValueError, match="says nothing about the nearest"):
        index.search(QUERIES[:1], 3, guarantee="model")
    with pytest.raises(InvalidValueError, match=r"'shadow' .* \[0, 1\]"):
        index.shadow = 2.0


def test_top_k_at_every_level(index):
    exact = index.search(QUERIES[:300], 10, guarantee="exact")
    for query, ids, scores in zip(QUERIES[:20], exact.ids, exact.scores, strict=False):
        expected = naive.matches(VECTORS, query, -2)[:10]
        assert ids.tolist() == [number for number, _ in expected]
        assert scores.tolist() == [np.float32(score) for _, score in expected]
    for request in ({"miss_rate": 0.05}, {"target_recall": 0.95}):
        top = index.search(QUERIES[:300], 10, **request)
        recall = np.mean(
            [len(np.intersect1d(a, b)) / 10 for a, b in zip(top.ids, exact.ids, strict=True)]
        )
        assert recall >= 0.93
        assert top.certificate.level == "expected"
    sure = index.search(QUERIES[:3], 10, guarantee="high_probability")
    assert sure.certificate.level == "high_probability"


def test_explanations_agree_with_the_search(index, truth):
    hits = index.range_search(QUERIES)
    seen = {"Returned.": 0, "Missed": 0}
    for query in range(300):
        found = set(hits[query].ids.tolist())
        for key in truth[query].ids[:5].tolist():
            told = index.explain(QUERIES[query], key)
            assert told.returned == (key in found)
            seen["Returned." if told.returned else "Missed"] += 1
    assert min(seen.values()) > 0


def test_explanations_read_well(index):
    far = int(np.argmin(VECTORS @ QUERIES[0]))
    told = index.explain(QUERIES[0], far)
    assert not told.matches
    assert str(told).startswith(f"Vector {far}: Not returned: its score -")
    assert "memory vector of its unit" in str(told)
    assert told.significance.p_value == pytest.approx(1.0, abs=1e-3)
    near = index.range_search(QUERIES).ids[0]
    drawn = index.explain(QUERIES[0], int(near)).plot()
    assert [text.get_text() for text in drawn.axes[0].get_legend().get_texts()][-1] == (
        "this vector's unit"
    )
    compared = index.explain(QUERIES[0], int(near), guarantee="exact")
    assert compared.stages == ()
    with pytest.raises(InvalidValueError, match="has no unit test to plot"):
        compared.plot()
    with pytest.raises(InvalidValueError, match="'id' .* less than the 12000 vectors"):
        index.explain(QUERIES[0], 12_000)
    with pytest.raises(InvalidValueError, match="'query' .* one query. Got 2"):
        index.explain(QUERIES[:2], 0)


def test_measure_tells_what_was_missed(index, truth):
    misses = count_misses(truth, index.range_search(QUERIES))
    checked = index.measure(QUERIES)
    assert checked.n_missed == misses.n_missed
    assert checked.miss_rate == misses.miss_rate
    assert checked.interval[0] <= misses.miss_rate <= checked.interval[1]
    assert checked.kept
    assert "was allowed" in str(checked)
    assert index.measure(QUERIES, sample=100).n_queries == 100
    careless = index.measure(QUERIES, miss_rate=0.9)
    assert careless.miss_rate > checked.miss_rate


def test_the_shadow_keeps_a_tally(truth):
    built = Index.build(VECTORS, similarity=0.7, miss_rate=0.05)
    built.shadow = 0.01
    for query in QUERIES[:1000]:
        built.range_search(query)
    built.range_search(QUERIES[1000:])
    health = built.health
    assert health.n_queries == 1500
    assert health.shadow.n_queries == 15
    chosen = np.arange(99, 1500, 100)
    assert health.shadow.n_matches == truth.counts[chosen].sum()
    built.range_search(QUERIES, shadow=1.0)
    misses = count_misses(truth, built.range_search(QUERIES, shadow=0.0))
    assert built.health.shadow.n_queries == 1515
    assert built.health.shadow.n_missed >= misses.n_missed
    assert "Compared with the exhaustive search, above 0.7" in str(built.health)


def test_p_values_tell_matches_from_chance(index):
    hits = index.range_search(QUERIES[:100])
    assert (hits.p_values < 0.01).all()
    np.testing.assert_allclose(hits.e_values, hits.p_values * len(index))
    law = hits.null_law
    random = np.einsum("ij,ij->i", VECTORS[:5000], VECTORS[5000:10_000])
    for share in (0.5, 0.1, 0.01):
        frequency = np.mean(law.p_values(random) <= share)
        assert frequency <= share + 4 * np.sqrt(share / len(random))


@pytest.mark.parametrize("config", [IndexConfig(codes="none"), IndexConfig(codes="sign")])
def test_exact_searches_skip_what_they_can(config):
    rng = np.random.default_rng(7)
    originals = rng.standard_normal((400, DIM))
    copies = np.repeat(originals, 20, axis=0) + 0.05 * rng.standard_normal((8000, DIM))
    built = Index.build(copies, similarity=0.95, config=config)
    hits = built.range_search(copies[::400], guarantee="exact")
    misses = count_misses(exact_range(copies, copies[::400], 0.95), hits)
    assert misses.n_missed == 0
    assert misses.n_pairs > 100
    estimates = Index.build(copies, similarity=0.95, config=IndexConfig(codes="estimate"))
    assert estimates.range_search(copies[::400], guarantee="exact").work.skipped > 0.9


def test_foreign_evidence_is_refused(index, tmp_path):
    index.save(tmp_path / "one.mv")
    Index.build(VECTORS[::-1], similarity=0.7, similarities=(0.6, 0.7)).save(tmp_path / "other.mv")
    arrays, meta = open_folder(tmp_path / "one.mv")
    foreign, other = open_folder(tmp_path / "other.mv")
    mixed = {
        name: np.array(foreign[name] if name.startswith("calibration_") else array)
        for name, array in arrays.items()
    }
    write_folder(tmp_path / "mixed.mv", mixed, {**meta, "evidence": other["evidence"]})
    with pytest.raises(CorruptIndexError, match="the calibration belongs to an index"):
        Index.open(tmp_path / "mixed.mv")
    short = {name: np.array(array) for name, array in arrays.items()}
    short["calibration_keys"] = short["calibration_keys"][:-1]
    write_folder(tmp_path / "short.mv", short, meta)
    with pytest.raises(CorruptIndexError, match="'calibration_keys' is of type"):
        Index.open(tmp_path / "short.mv")


def test_altered_evidence_is_refused(index, tmp_path):
    index.save(tmp_path / "one.mv")
    arrays, meta = open_folder(tmp_path / "one.mv")
    for name, change in (("scores", 2.0), ("slopes", np.nan)):
        other = {key: np.array(array) for key, array in arrays.items()}
        other[f"calibration_{name}"] += np.float32(change)
        write_folder(tmp_path / "altered.mv", other, meta)
        with pytest.raises(CorruptIndexError, match="checksum .* of the calibration|not finite"):
            Index.open(tmp_path / "altered.mv")


@pytest.mark.parametrize("codes", ["none", "estimate"])
@pytest.mark.parametrize("similarity", [1.0, 0.99999, 0.9999])
def test_exact_allows_for_rows_that_are_a_little_too_long(codes, similarity):
    """Rows of norm 1 + 10⁻⁶ are kept as they are; their scores are larger than their cosines."""
    rng = np.random.default_rng(0)
    first = np.zeros(16)
    first[0] = 1
    second = rng.standard_normal((200, 16))
    second -= second[:, :1] * first
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    angles = np.linspace(0, 0.9, 200)[:, np.newaxis]
    rows = np.cos(angles) * first + np.sin(angles) * second
    rows = (rows * (1 + 0.9e-6)).astype(np.float32)
    queries = rows + np.float32(2e-4) * rng.standard_normal(rows.shape).astype(np.float32)
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True) * np.float32(1 + 0.9e-6)
    built = Index.build(rows, similarity=0.9, config=IndexConfig(codes=codes, unit_size=20))
    truth = exact_range(rows, queries, similarity)
    hits = built.range_search(queries, similarity, guarantee="exact")
    assert count_misses(truth, hits).n_missed == 0


def test_measure_is_not_a_live_query():
    built = Index.build(VECTORS, similarity=0.7, miss_rate=0.05)
    built.measure(np.random.default_rng(5).standard_normal((8000, DIM)), progress=False)
    assert built.health.n_queries == 0
    assert not built.health.drift.alarmed
    assert built.measure(QUERIES[:50], guarantee="exact", progress=False).asked == 0.0


def test_the_shadow_keeps_questions_apart(index):
    built = Index.build(VECTORS, similarity=0.7, miss_rate=0.05)
    built.range_search(QUERIES[:300], miss_rate=0.5, shadow=1.0)
    built.range_search(QUERIES[:100], shadow=1.0)
    seen = built.health.shadows
    assert {asked: one.n_queries for (_, asked, _), one in seen.items()} == {0.5: 300, 0.05: 100}
    assert seen[0.7, 0.05, "expected"].kept
    assert built.health.shadow.n_queries == 300


def test_certificates_of_the_nearest_say_how_many(index):
    certificate = index.search(QUERIES[:3], 10).certificate
    assert certificate.k == 10
    assert "among the 10 nearest" in str(certificate)


def test_an_opened_index_keeps_its_promises(index, tmp_path):
    index.save(tmp_path / "index.mv")
    opened = Index.open(tmp_path / "index.mv")
    for level in ("expected", "high_probability", "exact", "model"):
        one = index.range_search(QUERIES[:50], guarantee=level)
        other = opened.range_search(QUERIES[:50], guarantee=level)
        assert one.certificate == other.certificate
        assert one.ids.tolist() == other.ids.tolist()


def test_rows_held_out_are_the_reserve_in_their_order():
    rows = np.random.default_rng(8).permutation(4000)[:300]
    index = Index.build(VECTORS[:4000], similarity=0.7, miss_rate=0.05, held_out=rows)
    assert index.reserve.tolist() == rows.tolist()
    assert np.all(index.labels[rows] == -1)
    certificate = index.range_search(VECTORS[:1]).certificate
    assert (certificate.source, certificate.population) == ("reserve", 4000)
    table = index.calibration_table
    for query in (0, 7, 299):
        mine = table.rows(table.queries == query)
        scores = VECTORS[mine.keys] @ VECTORS[rows[query]]
        assert np.allclose(scores, mine.cosines, atol=1e-5)
    assert len(Index.build(VECTORS[:200], held_out=[]).reserve) == 0


@pytest.mark.parametrize(
    ("rows", "kind", "got"),
    [
        ([0, 20], InvalidValueError, "a row 20"),
        ([-1, 3], InvalidValueError, "a row -1"),
        ([3, 3], InvalidValueError, "2 rows, 1 of them distinct"),
        (range(20), InvalidValueError, "20 rows, 20 of them distinct"),
        ([0.5], InvalidTypeError, r"an array of float64 and shape \(1,\)"),
        ([[1]], InvalidTypeError, r"an array of int64 and shape \(1, 1\)"),
    ],
)
def test_rows_to_hold_out_are_checked(rows, kind, got):
    with pytest.raises(kind, match=f"'held_out' .* rows of the 20 vectors.* Got {got}"):
        Index.build(VECTORS[:20], held_out=rows)


def test_rows_are_not_held_out_beside_queries():
    with pytest.raises(InvalidValueError, match="'held_out' .* left out where 'queries' is given"):
        Index.build(VECTORS[:20], held_out=[1], queries=VECTORS[20:30])


def test_matches_drawn_for_a_query_do_not_depend_on_the_others():
    crowd = around(np.ones((1, 16)), 0.3, 5, 3000)
    index = Index.build(crowd[100:], similarity=0.7, config=IndexConfig(reserve=0))
    both, one = index.calibration_rows(crowd[:2]), index.calibration_rows(crowd[1:2])
    of_second = both.rows(both.queries == 1)
    assert len(one) < len(crowd) / 2
    for name in ("cosines", "keys", "copies", "scores"):
        assert np.array_equal(getattr(of_second, name), getattr(one, name))


def test_a_reserve_of_everything_is_refused():
    with pytest.raises(InvalidValueError, match="'reserve' .* less than the 20 vectors. Got 20"):
        Index.build(VECTORS[:20], config=IndexConfig(reserve=20))


def test_batches_mean_kmeans():
    uniform = np.random.default_rng(0).standard_normal((3000, 64))
    built = Index.build(uniform, config=IndexConfig(batch_size=1000, unit_size=10))
    assert built.config.assignment == "kmeans"


def test_promise_holds_among_vectors_that_are_all_alike():
    """Noise mixed from them would be none, and planted queries copies."""
    rng = np.random.default_rng(8)
    one = rng.standard_normal(DIM) / np.sqrt(DIM)
    rows = np.repeat(one[np.newaxis], 1000, axis=0)  # too few for a reserve: queries are planted
    queries = one + 0.6 / np.sqrt(DIM) * rng.standard_normal((300, DIM))
    hits = Index.build(rows, similarity=0.7, miss_rate=0.05).range_search(queries)
    misses = count_misses(exact_range(rows, queries, 0.7), hits)
    assert misses.miss_rate <= 0.05 + 4 * misses.standard_error
