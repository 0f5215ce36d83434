"""The one path from a question to its answer: scopes searched by a plan, and what is observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from memvec import checks
from memvec.guarantee import (
    Asked,
    Certificate,
    Chosen,
    Measurement,
    Monitor,
    Plan,
    Request,
    Thresholds,
    Watched,
    significance,
)
from memvec.kernels import ALL_ALLOWED, MATCH_SLACK, StoredRows, canonical_score_pairs
from memvec.matches import Matches
from memvec.metric import LEAST_DISTANCE, radius_of
from memvec.search._explain import Explanation
from memvec.search._hits import Searched
from memvec.search._source import Source, UnitSource
from memvec.types import BoolArray, Float32Array, IntArray


class Scope(NamedTuple):
    """What of a source a question is about.

    Attributes
    ----------
    source : Source
        What is searched.
    keys : ndarray of shape (n_rows,) or None
        What its rows are called; their numbers by default.
    allowed : ndarray of shape (n_rows,)
        Which of its rows count; all where it is empty.
    """

    source: Source
    keys: IntArray | None = None
    allowed: BoolArray = ALL_ALLOWED


def search_scopes(
    scopes: Sequence[Scope],
    queries: Float32Array,
    similarity: float,
    thresholds: Thresholds | None,
    threads: int | None,
) -> Matches:
    """Return everything above a similarity in all scopes together."""
    if not len(queries):  # asked for a certificate: no kernel is loaded for that
        return Matches.merged([], 0)
    if len(scopes) == 1 and scopes[0].keys is None:
        source, _, allowed = scopes[0]
        return source.search(queries, similarity, thresholds, threads, allowed)
    # All are asked before the first answer is waited for: sources elsewhere work at the same time.
    begun = [
        _begun(source)(queries, similarity, thresholds, threads, allowed)
        for source, _, allowed in scopes
    ]
    found = [_named(one(), scope.keys) for one, scope in zip(begun, scopes, strict=True)]
    return Matches.merged(found, len(queries))


def _begun(source: Source) -> Callable[..., Callable[[], Matches]]:
    """Return what begins a search of a source, and returns what waits for its end."""
    begin: Callable[..., Callable[[], Matches]] | None = getattr(source, "begin", None)
    return begin or partial(partial, source.search)


def compare_scopes(
    scopes: Sequence[Scope],
    queries: Float32Array,
    similarity: float,
    threads: int | None = None,
    progress: bool | None = False,
) -> Matches:
    """Return everything above a similarity in all scopes together, by comparing everything."""
    found = [
        _named(source.compare_all(queries, similarity, threads, allowed, progress), keys)
        for source, keys, allowed in scopes
    ]
    return found[0] if len(scopes) == 1 else Matches.merged(found, len(queries))


def _named(found: Matches, keys: IntArray | None) -> Matches:
    return found if keys is None else found.named(keys)


class Target(Protocol):
    """What one question is asked of: sources, and promises about all of them together."""

    @property
    def scopes(self) -> Sequence[Scope]:
        """What is searched."""

    @property
    def filtered(self) -> bool:
        """Whether a filter left some rows out."""

    @property
    def searched(self) -> Searched:
        """How much there is, and what unrelated vectors score."""

    def range_plan(self, similarity: float, request: Request, where: str) -> Plan:
        """Return how to find everything above a similarity."""

    def nearest_plan(self, k: int, request: Request, where: str) -> Plan:
        """Return how to find the k nearest."""

    def watched(self, similarity: float, request: Request) -> Watched:
        """Return a range as the watch for drift sees it."""


def find_range(
    target: Target, rows: Float32Array, similarity: float, plan: Plan, threads: int | None
) -> Matches:
    """Return everything above a similarity, by a plan."""
    return search_scopes(target.scopes, rows, similarity, plan.thresholds, threads)


def observe_range(
    target: Target,
    monitor: Monitor,
    rows: Float32Array,
    found: Matches,
    plan: Plan,
    request: Request,
    share: float,
) -> Certificate:
    """Take note of live queries, and return the certificate with what is known against it.

    What a filter leaves is neither watched nor compared, nor are answers that miss nothing.

    Parameters
    ----------
    share : float
        Of the queries, to be compared with the exhaustive search.
    """
    watched = is_watched(target, plan)
    chosen = monitor.count(len(rows), share if watched else 0.0)
    return note_range(target, monitor, chosen, rows, found, plan, request)


def is_watched(target: Target, plan: Plan) -> bool:
    """Tell whether answers may miss something, and more than a filter does."""
    return not plan.certificate.complete and not target.filtered


def note_range(
    target: Target,
    monitor: Monitor,
    chosen: Chosen,
    rows: Float32Array,
    found: Matches,
    plan: Plan,
    request: Request,
) -> Certificate:
    """Look at the queries that were chosen, and return the certificate; see `observe_range`."""
    looked_at, compared = chosen
    certificate, watched = plan.certificate, is_watched(target, plan)
    similarity = certificate.similarity
    if looked_at:
        question = None
        if watched and certificate.natural and similarity is not None:
            question = target.watched(similarity, request)
        monitor.look_at(looked_at, rows, found, question)
    if not watched or similarity is None:
        return certificate
    asked = Asked(similarity, request.allowed, certificate.level)
    if compared:
        truth = partial(_truth, target, similarity)
        monitor.compare(compared, rows, found, asked, truth)
    return monitor.marked(certificate, asked)


def observe_nearest(
    monitor: Monitor, rows: Float32Array, found: Matches, certificate: Certificate
) -> Certificate:
    """Take note of live queries for the nearest, which are not compared."""
    looked_at, _ = monitor.count(len(rows))
    monitor.look_at(looked_at, rows, found, None)
    return monitor.marked(certificate)


def _truth(target: Target, similarity: float, rows: Float32Array) -> Matches:
    return compare_scopes(target.scopes, rows, similarity)


def measure(
    target: Target,
    rows: Float32Array,
    similarity: float,
    request: Request,
    where: str,
    progress: bool | None,
) -> Measurement:
    """Compare answers with the exhaustive search; such queries are not live ones."""
    plan = target.range_plan(similarity, request, where)
    found = find_range(target, rows, similarity, plan, None)
    truth = compare_scopes(target.scopes, rows, similarity, progress=progress)
    return Measurement.of_answer(truth, found, request.allowed)


def explain(
    source: Source,
    vector: StoredRows,
    row: int,
    name: int | str,
    query: Float32Array,
    similarity: float,
    plan: Plan,
    searched: Searched,
) -> Explanation:
    """Tell what each stage of a source sees of a query and one of its rows."""
    zero = np.zeros(1, dtype=np.int64)
    asked = vector.like(query[np.newaxis])
    [score] = canonical_score_pairs(asked, vector, zero, zero)
    surprise = significance(searched.null_law, float(score), searched.n_candidates)
    told = float(score)
    if searched.metric == "euclidean":
        told = radius_of(told)
        if told <= LEAST_DISTANCE and score >= similarity - MATCH_SLACK:
            told = 0.0  # as hits have it
    stages = source.stages(query, row, plan.thresholds)
    certificate = plan.certificate.in_metric(searched.metric)
    on_units = np.empty(0, dtype=np.float32)
    if isinstance(source, UnitSource):
        on_units = source.cascade.unit_similarities(query)
    return Explanation(name, told, similarity, stages, surprise, certificate, on_units)


def sampled(rows: Float32Array, sample: int | None, seed: int, where: str) -> Float32Array:
    """Return some of the queries, drawn at random; all where no number is given."""
    if sample is None:
        return rows
    wanted = min(checks.integer(sample, "sample", where), len(rows))
    drawn = np.random.default_rng(seed).choice(len(rows), wanted, replace=False)
    return rows[np.sort(drawn)]


def rate_of_recall(
    miss_rate: float | None, target_recall: float | None, where: str
) -> float | None:
    """Return the miss rate that is asked for by either name."""
    if target_recall is None:
        return miss_rate
    if miss_rate is not None:
        expected = "left out where 'miss_rate' is given"
        raise checks.bad_value("target_recall", where, expected, target_recall)
    return 1 - checks.miss_rate(target_recall, where, "target_recall")
