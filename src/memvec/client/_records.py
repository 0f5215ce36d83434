"""Results as they travel: to what JSON holds, and back."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from memvec.cache import Cache
from memvec.collection import DuplicateGroup, Duplicates, Item, Settings, Stats
from memvec.guarantee import (
    Asked,
    Certificate,
    Drift,
    Health,
    Measurement,
    MissProfile,
    Significance,
)
from memvec.search import Explanation, Hits, IdArray, Searched, StageView, TopHits
from memvec.storage import CheckReport
from memvec.types import Float32Array

Record: TypeAlias = dict[str, Any]

_TEXT_BYTES = 1 << 20
# A plan gives equal certificates to all its answers; writing one takes longer than most searches.
_TEXTS: Cache[Hashable, tuple[Certificate, str]] = Cache(_TEXT_BYTES, lambda kept: len(kept[1]))
_PLAIN_FIELDS = attrgetter(
    *(one.name for one in fields(Certificate) if one.name not in ("thresholds", "profile"))
)


def certificate_text(certificate: Certificate) -> str:
    """Return a certificate and its words as the end of a JSON object, without the brace."""

    def made() -> tuple[Certificate, str]:
        statement = json.dumps(str(certificate), ensure_ascii=False)
        return certificate, f'"certificate":{certificate.to_json()},"statement":{statement}'

    # What is kept holds the certificate, so that no other profile has the number of this one.
    thresholds, profile = tuple(certificate.thresholds.items()), id(certificate.profile)
    return _TEXTS.get((_PLAIN_FIELDS(certificate), thresholds, profile), made)[1]


def certificate_of(record: Record) -> Certificate:
    """Return the certificate that came with an answer."""
    return Certificate.from_json(json.dumps(record["certificate"]))


def searched_record(searched: Searched) -> Record:
    """Return how much was searched."""
    return {
        "n_vectors": searched.n_vectors,
        "n_candidates": searched.n_candidates,
        "metric": searched.metric,
    }


def hits_record(hits: Hits, *, p_values: bool) -> Record:
    """Return all matches of some queries, flat, without the certificate."""
    record = {
        "offsets": hits.offsets.tolist(),
        "ids": hits.ids.tolist(),
        "scores": hits.scores.tolist(),
        "spent": hits.spent.tolist(),
        "searched": searched_record(hits.searched),
    }
    if p_values:
        record["p_values"] = hits.p_values.tolist()
    return record | _carried(hits.metadata, hits.vectors)


def hits_of(record: Record) -> Hits:
    """Return the matches that `hits_record` told of."""
    hits = Hits(
        np.array(record["offsets"], dtype=np.int64),
        id_array(record["ids"]),
        np.array(record["scores"], dtype=np.float32),
        certificate_of(record),
        np.array(record["spent"], dtype=np.int64).reshape(-1, 5),
        Searched.lawless(**record["searched"]),
        record.get("metadata"),
        _vectors(record.get("vectors")),
    )
    if "p_values" in record:
        return hits.with_p_values(np.array(record["p_values"], dtype=np.float64))
    return hits


def top_record(top: TopHits) -> Record:
    """Return the best k of some queries, without the certificate; no score where there is no id."""
    vectors = top.vectors
    if vectors is not None:
        vectors = np.where(np.isnan(vectors), 0.0, vectors).astype(np.float32)
    record = {
        "ids": top.ids.tolist(),
        "scores": _or_none(top.scores),
        "spent": top.spent.tolist(),
        "searched": searched_record(top.searched),
    }
    return record | _carried(top.metadata, vectors)


def top_of(record: Record) -> TopHits:
    """Return the best k that `top_record` told of."""
    searched = Searched.lawless(**record["searched"])
    worst = -np.inf if searched.metric == "cosine" else np.inf
    rows = [[worst if one is None else one for one in row] for row in record["scores"]]
    ids = np.array([id_array(row) for row in record["ids"]], dtype=object)
    vectors = _vectors(record.get("vectors"))
    scores = np.array(rows, dtype=np.float32).reshape(ids.shape)
    if vectors is not None:
        vectors[~np.isfinite(scores)] = np.nan
    spent = np.array(record["spent"], dtype=np.int64).reshape(-1, 5)
    certificate, metadata = certificate_of(record), record.get("metadata")
    return TopHits(ids, scores, certificate, spent, searched, metadata, vectors)


def item_record(item: Item, include: Sequence[str] = ("metadata", "vectors")) -> Record:
    """Return an item, with what is asked for of it."""
    record: Record = {"id": item.id}
    if "metadata" in include:
        record["metadata"] = item.metadata
    if "vectors" in include:
        record["vector"] = item.vector.tolist()
    return record


def item_of(record: Record) -> Item:
    """Return the item that `item_record` told of, with everything."""
    return Item(record["id"], np.array(record["vector"], dtype=np.float32), record["metadata"])


def explanation_record(told: Explanation, *, unit_scores: bool) -> Record:
    """Return why an item was found or not, without the certificate."""
    record = {
        "id": told.id,
        "score": told.score,
        "similarity": told.similarity,
        "matches": told.matches,
        "returned": told.returned,
        "reason": told.reason,
        "stages": [_stage_record(stage) for stage in told.stages],
        "significance": asdict(told.significance),
    }
    if unit_scores:
        record["unit_scores"] = told.unit_scores.tolist()
    return record


def _stage_record(stage: StageView) -> Record:
    # A stage may let everything pass, and JSON has no infinity.
    threshold = stage.threshold if np.isfinite(stage.threshold) else None
    return {**asdict(stage), "threshold": threshold, "passed": stage.passed}


def explanation_of(record: Record) -> Explanation:
    """Return the explanation that `explanation_record` told of."""
    return Explanation(
        record["id"],
        record["score"],
        record["similarity"],
        tuple(_stage_of(stage) for stage in record["stages"]),
        Significance(**record["significance"]),
        certificate_of(record),
        np.array(record.get("unit_scores", []), dtype=np.float32),
    )


def _stage_of(record: Record) -> StageView:
    threshold = -np.inf if record["threshold"] is None else record["threshold"]
    return StageView(record["name"], record["score"], threshold, record["spread"])


def measurement_record(seen: Measurement) -> Record:
    """Return a measurement, and what it says in words."""
    return {**asdict(seen), "kept": seen.kept, "statement": str(seen)}


def measurement_of(record: Record) -> Measurement:
    """Return the measurement that `measurement_record` told of."""
    told = {name: value for name, value in record.items() if name not in ("kept", "statement")}
    profile = told.pop("profile")
    low, high = told.pop("interval")
    made = None if profile is None else MissProfile.from_dict(profile)
    return Measurement(**told, interval=(low, high), profile=made)


def health_record(health: Health) -> Record:
    """Return how the promise is being kept."""
    return {
        "n_queries": health.n_queries,
        "shadows": [
            {"asked": asked._asdict(), "seen": measurement_record(seen)}
            for asked, seen in health.shadows.items()
        ],
        "drift": asdict(health.drift),
        "n_recent": health.n_recent,
        "metric": health.metric,
        "statement": str(health),
    }


def health_of(record: Record) -> Health:
    """Return the health that `health_record` told of."""
    shadows = {Asked(**one["asked"]): measurement_of(one["seen"]) for one in record["shadows"]}
    drift = Drift(**record["drift"])
    return Health(record["n_queries"], shadows, drift, record["n_recent"], record["metric"])


def duplicates_record(found: Duplicates[int | str]) -> Record:
    """Return groups of duplicates, without the certificate."""
    return {
        "groups": [{"kept": group.kept, "dropped": group.dropped} for group in found.groups],
        "n_items": found.n_items,
        "n_pairs": found.n_pairs,
        "expected_missed": found.expected_missed,
    }


def duplicates_of(record: Record) -> Duplicates[int | str]:
    """Return the groups that `duplicates_record` told of."""
    groups = tuple(DuplicateGroup(one["kept"], one["dropped"]) for one in record["groups"])
    return Duplicates(groups, record["n_items"], record["n_pairs"], certificate_of(record))


def settings_record(settings: Settings) -> Record:
    """Return what a collection was created with."""
    record: Record = json.loads(settings.to_json(), parse_constant=str)
    return {**record, "dtype": settings.dtype}


def settings_of(record: Record) -> Settings:
    """Return the settings that `settings_record` told of."""
    ridge = record["config"].get("ridge")
    if ridge == "Infinity":
        record = {**record, "config": {**record["config"], "ridge": np.inf}}
    return Settings.from_json(json.dumps(record))


def stats_of(record: Record) -> Stats:
    """Return numbers and sizes as a collection gives them."""
    numbers, sizes = tuple(record["segment_numbers"]), tuple(record["segment_sizes"])
    return Stats(**{**record, "segment_numbers": numbers, "segment_sizes": sizes})


def check_of(record: Record) -> CheckReport:
    """Return what a check found."""
    return CheckReport(tuple(record["problems"]), record["n_files"], record["n_bytes"])


def id_array(names: Sequence[int | str | None]) -> IdArray:
    """Return ids as an array of objects."""
    objects = np.empty(len(names), dtype=object)
    objects[:] = names
    return objects


def _carried(metadata: object, vectors: Float32Array | None) -> Record:
    record: Record = {}
    if metadata is not None:
        record["metadata"] = metadata
    if vectors is not None:
        record["vectors"] = vectors.tolist()
    return record


def _or_none(scores: Float32Array) -> list[list[float | None]]:
    """Return scores, None where there is none."""
    return [[one if np.isfinite(one) else None for one in row] for row in scores.tolist()]


def _vectors(rows: list[Any] | None) -> Float32Array | None:
    return None if rows is None else np.array(rows, dtype=np.float32)
