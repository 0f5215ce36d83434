"""From vectors to the parts of an index: design, assign, encode, calibrate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.codes import Projection, as_tested
from memvec.guarantee import Guarantee, gather_evidence, reserve_size
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._design import design_index
from memvec.index._encode import encode_units
from memvec.index._kmeans_design import design_centring, leaves_units_open
from memvec.index._parts import IndexParts
from memvec.index._trial import Trials
from memvec.index._units import build_units
from memvec.kernels import StoredRows, rounded_rows
from memvec.metric import Metric
from memvec.search import CodeUnits, FloatUnits, UnitSource
from memvec.types import Float32Array, IntArray


@dataclass(frozen=True)
class BuildPromise:
    """What a build is asked to promise."""

    similarity: float
    miss_rate: float
    guarantee: Guarantee
    confidence: float
    similarities: tuple[float, ...]
    metric: Metric = "cosine"


def build_parts(
    rows: StoredRows,
    promise: BuildPromise,
    queries: Float32Array | None,
    held_out: IntArray | None,
    config: IndexConfig,
    costs: MachineCosts,
    progress: bool | None,
) -> IndexParts:
    """Design, assign, encode and calibrate; `queries` are unit rows."""
    reserve = _drawn_reserve(rows, queries, config) if held_out is None else held_out
    outside = _outside(rows, reserve)
    trials = None
    if "auto" in (config.center, config.assignment) or leaves_units_open(config):
        trials = Trials(rows, outside, promise.similarity, config.seed)
    config = design_centring(config, rows.shape, trials, costs, promise.guarantee)
    projection = _fit_projection(rows, outside, config)
    tested = as_tested(rows, projection)
    asked = promise.similarity, promise.miss_rate
    chosen = design_index(tested, rows, outside, *asked, config, costs, trials, promise.guarantee)
    design = dataclasses.replace(
        chosen,
        dim=rows.shape[1],
        guarantee=promise.guarantee,
        confidence=promise.confidence,
        similarities=promise.similarities,
        metric=promise.metric,
        dtype=rows.dtype,
    )
    if queries is not None:
        queries = rounded_rows(queries, rows.dtype)
    made = design.config
    units, tested = build_units(rows, reserve, projection, tested, made, progress)
    cascade: CodeUnits | FloatUnits
    if made.codes == "none":
        cascade = FloatUnits.of_units(units, promise.similarity, design.effective_dim)
    else:
        cascade = encode_units(units, tested, promise.similarity, made, progress)
    evidence = gather_evidence(
        cascade, queries, len(reserve), promise.similarity, units.fingerprint, made.seed, progress
    )
    return IndexParts(design, UnitSource(cascade), evidence)


def _drawn_reserve(rows: StoredRows, queries: Float32Array | None, config: IndexConfig) -> IntArray:
    """Return the vectors that are kept out of the units, drawn at random."""
    rng = np.random.default_rng([config.seed, 1])
    size = _reserve_size(rows, queries, config)
    return np.sort(rng.choice(len(rows), size, replace=False))


def _reserve_size(rows: StoredRows, queries: Float32Array | None, config: IndexConfig) -> int:
    """Return how many vectors are kept out of the units: none where queries are given."""
    if config.reserve != "auto":
        if config.reserve >= len(rows):
            expected = f"less than the {len(rows)} vectors"
            raise checks.bad_value("reserve", "IndexConfig", expected, config.reserve)
        return config.reserve
    return reserve_size(*rows.shape) if queries is None else 0


def _fit_projection(rows: StoredRows, among: IntArray, config: IndexConfig) -> Projection | None:
    """Fit the projection, on rows that are not calibrated on."""
    if not config.projects:
        return None
    return Projection.fit(
        rows.unit_rows,
        config.pca_dim,
        center=config.center is True,
        whiten=config.whiten,
        seed=config.seed,
        among=among,
    )


def _outside(rows: StoredRows, reserve: IntArray) -> IntArray:
    """Return the rows that are not calibrated on."""
    return np.delete(np.arange(len(rows)), reserve)
