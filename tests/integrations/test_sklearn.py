"""The estimators conform to scikit-learn, and find what its own find."""

import pickle

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.cluster import DBSCAN, SpectralClustering
from sklearn.exceptions import NotFittedError
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors as TheirNeighbors
from sklearn.neighbors import RadiusNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import memvec
from memvec.evaluation import load_sample
from memvec.integrations.sklearn import NearestNeighbors, RangeNeighborsTransformer

RADIUS = 0.3
METRICS = [("cosine", RADIUS), ("euclidean", np.sqrt(2 * RADIUS))]


@parametrize_with_checks([NearestNeighbors(), RangeNeighborsTransformer()])
def test_conforms_to_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    """Return 1,500 embeddings in float64, of norm 1 to its last digit but one."""
    wide = load_sample().vectors[:1500].astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def with_zeros(rows):
    mixed = np.array(rows)
    mixed[[3, 50, 51]] = 0.0
    return mixed


def edges(graph):
    """Return the entries of a matrix, the stored zeros too."""
    coo = graph.tocoo()
    return {(i, j): d for i, j, d in zip(coo.row, coo.col, coo.data, strict=True)}


def assert_same_graph(ours, theirs, absolute=2e-6):
    assert ours.shape == theirs.shape
    ours, theirs = edges(ours), edges(theirs)
    assert ours.keys() == theirs.keys()
    keys = list(ours)
    # Euclidean distances of float32 cosines: near 0 the root of their rounding.
    np.testing.assert_allclose([ours[k] for k in keys], [theirs[k] for k in keys], atol=absolute)


@pytest.mark.parametrize(("metric", "radius"), METRICS)
@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_radius_graph_is_that_of_scikit_learn(rows, metric, radius, mode):
    ours = NearestNeighbors(metric=metric, radius=radius).fit(rows[:1200])
    theirs = TheirNeighbors(metric=metric, radius=radius).fit(rows[:1200])
    asked = rows[1000:]
    tolerance = 2e-6 if metric == "cosine" else 1e-3
    for X in (asked, None):
        mine = ours.radius_neighbors_graph(X, mode=mode)
        assert_same_graph(mine, theirs.radius_neighbors_graph(X, mode=mode), tolerance)
    assert mine.nnz > 500


@pytest.mark.parametrize(("metric", "radius"), METRICS)
def test_radius_neighbors_are_those_of_scikit_learn(rows, metric, radius):
    ours = NearestNeighbors(metric=metric, radius=radius).fit(rows)
    theirs = TheirNeighbors(metric=metric, radius=radius).fit(rows)
    distances, found = ours.radius_neighbors(rows[:200])
    wanted = theirs.radius_neighbors(rows[:200], sort_results=True)[1]
    assert [set(row) for row in found] == [set(row) for row in wanted]
    assert all((np.diff(row) >= 0).all() for row in distances)
    alone = ours.radius_neighbors(rows[:200], return_distance=False)
    assert all(np.array_equal(a, b) for a, b in zip(alone, found, strict=True))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("asked", ["others", "fit"])
def test_nearest_are_those_of_scikit_learn(rows, zeros, asked):
    fitted = with_zeros(rows[:800]) if zeros else rows[:800]
    ours, theirs = (kind(n_neighbors=7, metric="cosine").fit(fitted) for kind in KINDS)
    X = None if asked == "fit" else with_zeros(rows[700:]) if zeros else rows[700:]
    mine, names = ours.kneighbors(X)
    yours, wanted = theirs.kneighbors(X)
    np.testing.assert_allclose(mine, yours, atol=2e-6)
    directed = mine[:, -1] < 1 - 1e-6  # of ties at distance 1, theirs come in any order
    assert directed.sum() >= 797
    assert (np.sort(names[directed], axis=1) == np.sort(wanted[directed], axis=1)).mean() > 0.999
    graph = ours.kneighbors_graph(X, mode="distance")
    np.testing.assert_array_equal(np.sort(graph.data), np.sort(mine.ravel()))


KINDS = NearestNeighbors, TheirNeighbors


def test_rows_of_zeros_are_at_distance_1_from_everything(rows):
    few = with_zeros(rows[:60])
    ours, theirs = (kind(n_neighbors=60, metric="cosine").fit(few) for kind in KINDS)
    np.testing.assert_allclose(
        ours.kneighbors(few[10:])[0], theirs.kneighbors(few[10:])[0], atol=2e-6
    )
    distances, names = ours.kneighbors(few[3:4], n_neighbors=4)
    assert (distances == 1).all()
    assert names.tolist() == [[0, 1, 2, 3]]
    assert ours.kneighbors(n_neighbors=4, return_distance=False)[3].tolist() == [0, 1, 2, 4]
    assert len(ours.radius_neighbors(few[3:4], return_distance=False)[0]) == 0
    assert not ours.radius_neighbors_graph()[:, [3, 50, 51]].nnz


def test_rows_of_zeros_alone_have_no_neighbours():
    ours = NearestNeighbors(n_neighbors=2).fit(np.zeros((3, 4)))
    assert ours.index_ is None
    assert ours.certificate() is None
    assert ours.radius_neighbors_graph(np.ones((2, 4))).nnz == 0
    assert ours.radius_neighbors_graph().nnz == 0
    assert ours.kneighbors(np.ones((1, 4)))[1].tolist() == [[0, 1]]


def test_transformer_is_that_of_scikit_learn(rows):
    ours = RangeNeighborsTransformer(radius=RADIUS)
    theirs = RadiusNeighborsTransformer(radius=RADIUS, metric="cosine")
    graph = ours.fit_transform(rows)
    assert_same_graph(graph, theirs.fit_transform(rows))
    assert_same_graph(ours.transform(rows[:50]), theirs.transform(rows[:50]))
    assert (graph != graph.T).nnz == 0
    assert list(ours.get_feature_names_out()[:2]) == [
        "rangeneighborstransformer0",
        "rangeneighborstransformer1",
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_are_of_the_type_of_the_rows(rows, dtype):
    some = rows[:100].astype(dtype)
    ours = NearestNeighbors(n_jobs=1).fit(some)
    graphs = ours.radius_neighbors_graph(), ours.kneighbors_graph(some, mode="distance")
    assert [graph.dtype for graph in graphs] == [dtype, dtype]


def test_dbscan_gives_the_clusters_of_the_rows(rows):
    mixed = with_zeros(rows)
    wanted = DBSCAN(eps=RADIUS, min_samples=3, metric="cosine").fit_predict(mixed)
    graph = RangeNeighborsTransformer(radius=RADIUS)
    clusters = DBSCAN(eps=RADIUS, min_samples=3, metric="precomputed")
    found = make_pipeline(graph, clusters).fit_predict(mixed)
    assert len(set(wanted)) > 20
    assert np.array_equal(found, wanted)


def test_spectral_clustering_takes_the_graph(rows):
    graph = NearestNeighbors().fit(rows[:200]).kneighbors_graph(rows[:200], 10)
    ways = {"affinity": "precomputed_nearest_neighbors", "n_neighbors": 10}
    theirs = TheirNeighbors(metric="cosine").fit(rows[:200]).kneighbors_graph(rows[:200], 10)
    labels = [
        SpectralClustering(3, assign_labels="cluster_qr", random_state=0, **ways).fit_predict(some)
        for some in (graph, theirs)
    ]
    assert np.array_equal(*labels)


def test_tsne_takes_the_graph(rows):
    graph = NearestNeighbors().fit(rows[:100]).kneighbors_graph(rows[:100], 17, mode="distance")
    assert issparse(graph)
    ways = {"perplexity": 5, "init": "random", "random_state": 0, "max_iter": 250}
    assert TSNE(metric="precomputed", **ways).fit_transform(graph).shape == (100, 2)


def missed_share(fitted, asked, radius, miss_rate):
    """Return the mean share of their neighbours that queries miss."""
    ours = NearestNeighbors(radius=radius, miss_rate=miss_rate).fit(fitted)
    assert ours.certificate().level == "expected"
    assert ours.certificate().miss_rate == miss_rate
    every = TheirNeighbors(radius=radius, metric="cosine").fit(fitted)
    found, wanted = (
        np.asarray(some.radius_neighbors_graph(asked).sum(axis=1)).ravel() for some in (ours, every)
    )
    return np.mean(1 - found[wanted > 0] / wanted[wanted > 0])


def test_promise_holds_where_the_index_is_calibrated():
    """Of queries drawn at random: the sample is in the order of WordNet, and its ends differ."""
    vectors = load_sample().vectors
    orders = [np.random.default_rng(seed).permutation(len(vectors)) for seed in range(3)]
    shares = [missed_share(vectors[o[:9000]], vectors[o[9000:]], 0.4, 0.02) for o in orders]
    assert np.mean(shares) <= 0.02  # 0.0083 seen; six draws: 0.0109, standard error 0.0028


def test_certificate_is_that_of_the_radius(rows):
    assert NearestNeighbors().fit(rows).certificate(0.4).similarity == pytest.approx(0.6)


def test_few_rows_are_searched_exactly(rows):
    assert NearestNeighbors().fit(rows).certificate().level == "exact"
    assert NearestNeighbors(guarantee="model").fit(rows).certificate().level == "model"


def test_pickles_by_value_and_clones(rows):
    fitted = RangeNeighborsTransformer(radius=0.25, n_jobs=-1).fit(rows)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.transform(rows[:20]) != fitted.transform(rows[:20])).nnz == 0
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "index_")
    assert isinstance(again.index_, memvec.Index)


@pytest.mark.parametrize(
    ("settings", "X", "match"),
    [
        ({"metric": "euclidean"}, [[1.0, 1.0]], "rows of norm 1 .* Got norm 1.414 in row 0"),
        ({"metric": "euclidean"}, [[0.0, 0.0]], "Got only zeros in row 0"),
        ({"metric": "ip"}, [[1.0, 0.0]], "'metric' parameter of NearestNeighbors must be 'cosine'"),
        ({"radius": 1.0}, [[1.0, 0.0]], r"NearestNeighbors must be a number in \[0, 1\). Got 1.0"),
        ({"metric": "euclidean", "radius": 1.5}, [[1.0, 0.0]], r"in \[0, 1.41421\). Got 1.5"),
    ],
)
def test_what_cannot_be_fitted_is_refused(settings, X, match):
    with pytest.raises(ValueError, match=match):
        NearestNeighbors(**settings).fit(X)


def test_what_cannot_be_asked_is_refused(rows):
    ours = NearestNeighbors().fit(rows[:10])
    with pytest.raises(ValueError, match="at most the 9 rows that can be neighbours. Got 10"):
        ours.kneighbors(n_neighbors=10)
    with pytest.raises(ValueError, match="must be an integer >= 1. Got 0"):
        ours.kneighbors(rows[:1], n_neighbors=0)
    for graph in (ours.kneighbors_graph, ours.radius_neighbors_graph):
        with pytest.raises(ValueError, match="'mode' parameter of NearestNeighbors must be one of"):
            graph(mode="weights")
    with pytest.raises(ValueError, match="'mode' parameter of RangeNeighborsTransformer"):
        RangeNeighborsTransformer(mode="weights").fit_transform(rows[:10])
    with pytest.raises(NotFittedError):
        NearestNeighbors().certificate()
