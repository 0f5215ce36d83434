"""The statement that comes with every answer."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from memvec.display import html_text, new_figure
from memvec.errors import FileFormatError, InvalidValueError
from memvec.guarantee._profile import MissProfile
from memvec.metric import Metric, limit_text, radius_of

Level = Literal["exact", "high_probability", "expected", "model", "none"]
EvidenceSource = Literal["reserve", "queries", "synthetic"]

_STATEMENT: dict[Level, str] = {
    "exact": "Misses nothing{of_range}.",
    "high_probability": "{queries} miss at most {miss_rate} of their matches{of_range} on "
    "average, with {confidence} confidence.",
    "expected": "{queries} miss at most {miss_rate} of their matches{of_range} on average.",
    "model": "Misses at most {miss_rate} of the matches{of_range} if the data is uniform, as "
    "the paper's law of the score assumes; this was not checked.",
    "none": "No promise: thresholds or numbers of units were set by hand.",
}
# What JSON may hold for a field of a type.
_PLAIN = {"float": (int, float), "int": (int,), "bool": (bool,), "str": (str,)}
# Whose matches a promise is about: this comes first.
_QUERIES: dict[EvidenceSource, str] = {
    "reserve": "Queries like the stored vectors",
    "queries": "Queries like those given",
    "synthetic": "Synthetic queries (stored vectors with noise; yours may differ)",
}


@dataclass(frozen=True)
class Certificate:
    """What is promised about the matches that an answer misses, and on what evidence.

    The miss rate is the mean, over queries that have a match, of the share of their matches that is
    not returned. A promise is about queries like those it was calibrated on.

    Attributes
    ----------
    level : {"exact", "high_probability", "expected", "model", "none"}
        What the promise rests on: bounds that no score can break ("exact"), calibration queries
        ("high_probability" and "expected"), or the paper's law ("model"). "none" is no promise.
    similarity : float or None
        α₀, of a range.
    miss_rate : float or None
        ε, the miss rate asked for.
    bound : float or None
        The miss rate that the evidence supports with the thresholds used: at most ε.
    confidence : float or None
        1 − δ, the probability over the draw of the calibration queries, for "high_probability".
    n_queries, n_matches : int
        Number of calibration queries with matches, and of their matches.
    n_synthetic : int
        How many of these matches are of synthetic queries.
    source : {"reserve", "queries", "synthetic"} or None
        Where they came from.
    observed : float or None
        The miss rate of the calibration queries themselves.
    pair_miss : float or None
        The share of all their matches that is missed; usually smaller.
    thresholds : dict
        How far below the expected score of a match each stage lets scores pass, in standard
        deviations.
    calibrated : str or None
        Time of the calibration, in ISO 8601.
    state : str or None
        A fingerprint of the index that was calibrated.
    complete : bool
        Whether it is certain that nothing is missed.
    drifted : bool
        Whether recent queries were found to differ from the calibration queries.
    filter : str or None
        What is known about the subset that passes a filter; None without a filter.
    k : int or None
        The k of a search for the k nearest; None for a range.
    interval : tuple of float or None
        A 95 % confidence interval for the miss rate of this index, for queries like those it was
        calibrated on. Its upper end allows for thresholds that were chosen on the same queries.
    left_out : int
        Number of given queries that were not used, because they are copies of stored vectors.
    estimated : bool
        Whether `n_matches` is an estimate: of queries with more than 500 matches, some are drawn as
        a sample.
    profile : MissProfile or None
        What the mean over the calibration queries hides: the share of queries that miss everything,
        the worst tenth, and the share missed at each similarity.
    population : int or None
        Number of vectors that the calibration queries are a sample of, if they are stored vectors.
    stale : float
        The share of stored vectors that were added after the sample was drawn.
    deleted : float
        The share of stored items that are deleted. They count neither as queries nor as matches.
    live : tuple of float or None
        A 95 % confidence interval for the miss rate of live queries. It is set only if the live
        queries that were compared with an exhaustive search miss more than promised.
    metric : {"cosine", "euclidean"}
        Whether ranges are given as cosines or as distances.
    missing_shards : tuple of int
        Shards of a cluster that did not answer. Nothing is promised about their items.

    Examples
    --------
    >>> print(Certificate("expected", 0.8, 0.01, 0.0096, n_queries=973, n_matches=2108,
    ...                   source="reserve", observed=0.0086, interval=(0.0041, 0.0163),
    ...                   population=117_659))
    Queries like the stored vectors miss at most 1 % of their matches above 0.8 on average.
      Calibrated on 973 of 117,659 vectors, held out, with 2,108 matches: they missed 0.86 %.
      95 % interval for this index: 0.41 % to 1.6 %.
    """

    level: Level
    similarity: float | None = None
    miss_rate: float | None = None
    bound: float | None = None
    confidence: float | None = None
    n_queries: int = 0
    n_matches: int = 0
    n_synthetic: int = 0
    source: EvidenceSource | None = None
    observed: float | None = None
    pair_miss: float | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    calibrated: str | None = None
    state: str | None = None
    complete: bool = False
    drifted: bool = False
    filter: str | None = None
    k: int | None = None
    interval: tuple[float, float] | None = None
    left_out: int = 0
    estimated: bool = False
    profile: MissProfile | None = None
    population: int | None = None
    stale: float = 0.0
    deleted: float = 0.0
    live: tuple[float, float] | None = None
    metric: Metric = "cosine"
    missing_shards: tuple[int, ...] = ()

    def in_metric(self, metric: Metric) -> Certificate:
        """Return the same promise, stated in a metric."""
        return self if metric == self.metric else dataclasses.replace(self, metric=metric)

    @property
    def radius(self) -> float | None:
        """√(2 − 2α₀), the radius of a range as a Euclidean distance."""
        return None if self.similarity is None else radius_of(self.similarity)

    @property
    def range_text(self) -> str:
        """The range in words: ``above 0.8``, ``within 0.632``, ``among the 10 nearest``."""
        if self.k is not None:
            return f"among the {self.k:,} nearest"
        return "" if self.similarity is None else limit_text(self.metric, self.similarity)

    @property
    def natural(self) -> bool:
        """Whether the promise rests on real calibration queries."""
        return self.source in ("reserve", "queries")

    @property
    def synthetic(self) -> bool:
        """Whether the promise rests on synthetic queries."""
        return self.n_synthetic > 0

    def __str__(self) -> str:
        lines = [self._statement(), *self._evidence(), *self._caveats()]
        return "\n  ".join(lines)

    def _statement(self) -> str:
        of_range = f" {self.range_text}" if self.range_text else ""
        if self.missing_shards:
            of_range += " in the shards that were searched"
        return _STATEMENT[self.level].format(
            queries="Queries" if self.source is None else _QUERIES[self.source],
            of_range=of_range,
            miss_rate=_percent(self.miss_rate, 3),
            # As many digits as it has: 99.9999 % is not 100 %.
            confidence=_percent(self.confidence, 12),
        )

    def _evidence(self) -> list[str]:
        if self.source is None:
            return []
        kind = {
            "reserve": "held-out vectors",
            "queries": "queries",
            "synthetic": "synthetic queries",
        }
        queries = f"{self.n_queries:,} {kind[self.source]}"
        if self.population is not None:
            queries = f"{self.n_queries:,} of {self.population:,} vectors, held out,"
        about = "about " if self.estimated else ""
        seen = "" if self.observed is None else f": they missed {_percent(self.observed)}"
        lines = [f"Calibrated on {queries} with {about}{self.n_matches:,} matches{seen}."]
        if self.interval is not None:
            lines.append(f"95 % interval for this index: {_span(self.interval)}.")
        return lines

    def _caveats(self) -> list[str]:
        """Return what was left out of the evidence, and what is known against it."""
        lines = []
        if self.missing_shards:
            numbers = ", ".join(map(str, self.missing_shards))
            lines.append(f"Not searched: shards {numbers}. Nothing is promised about their items.")
        if self.left_out:
            lines.append(f"Left out: {self.left_out:,} queries that are copies of stored vectors.")
        if self.deleted > 0:
            lines.append(f"Deleted: {_percent(self.deleted)} of what was stored; not counted.")
        if self.stale > 0:
            lines.append(
                f"Added after the sample was drawn: {_percent(self.stale)} of the vectors."
            )
        if self.drifted:
            lines.append(
                "Matches of recent queries are harder to find than those of the calibration "
                "queries: the promise may not hold."
            )
        if self.live is not None:
            lines.append(f"Live queries miss more than that: {_span(self.live)} (95 % interval).")
        if self.filter is not None:
            lines.append(f"Filter: {self.filter}.")
        return lines

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def plot(self) -> Any:
        """Return a matplotlib figure: the miss rate allowed, the one seen, and its interval.

        If the certificate has a `profile`, a second panel shows the share missed at each
        similarity.
        """
        if self.miss_rate is None or self.observed is None:
            raise InvalidValueError(
                f"A certificate of level {self.level!r} without calibration queries has nothing to "
                "plot: no miss rate was seen."
            )
        bands = self.profile is not None and bool(self.profile.bands)
        figure = new_figure("Certificate.plot()", 11 if bands else 6.4)
        axes = figure.subplots(1, 2 if bands else 1, squeeze=False)[0]
        self._draw_rates(axes[0])
        if bands and self.profile is not None:
            self.profile.draw(axes[1])
        return figure

    def _draw_rates(self, axes: Any) -> None:
        allowed = 100 * (self.miss_rate or 0.0)
        axes.axvline(allowed, color="tab:red", linestyle="--", label=f"allowed: {allowed:.3g} %")
        seen = 100 * (self.observed or 0.0)
        drawn = [("calibration", self.interval, "0.2"), ("live", self.live, "tab:orange")]
        for place, (name, ends, colour) in enumerate(drawn):
            if ends is not None:
                span = [100 * end for end in ends]
                axes.plot(span, [place, place], color=colour, label=f"{name}, 95 % interval")
        axes.plot(seen, 0, "o", color="0.2", label=f"calibration queries: {seen:.2g} %")
        axes.set(xlabel=f"missed of a query's matches {self.range_text}, %", yticks=[])
        axes.set_ylim(-1, 3)
        axes.set_xlim(left=0)
        axes.legend(frameon=False)

    def to_json(self) -> str:
        """Return the certificate as JSON; `from_json` reads it.

        Examples
        --------
        >>> Certificate.from_json(Certificate("exact", 0.9, complete=True).to_json()).level
        'exact'
        """
        fields = dataclasses.asdict(self)
        # JSON has no infinity: a stage that lets everything pass has no threshold.
        slacks = self.thresholds.items()
        fields["thresholds"] = {k: v if math.isfinite(v) else None for k, v in slacks}
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Return the certificate that `to_json` wrote."""
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["level"] not in _STATEMENT:
                raise ValueError(f"the level {fields['level']!r} is unknown")
            slacks = fields.pop("thresholds", {}).items()
            thresholds = {k: math.inf if v is None else float(v) for k, v in slacks}
            for name in ("interval", "live"):
                if fields.get(name) is not None:
                    low, high = fields[name]
                    fields[name] = float(low), float(high)
            if "missing_shards" in fields:
                fields["missing_shards"] = tuple(int(one) for one in fields["missing_shards"])
            if fields.get("profile") is not None:
                fields["profile"] = MissProfile.from_dict(fields["profile"])
            made = cls(**fields, thresholds=thresholds)
            made._check_types()
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise FileFormatError(f"Not a certificate: {error}.") from error
        return made

    def _check_types(self) -> None:
        """Raise where a field that is a number, a text or a truth value is something else."""
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            kind, *others = str(one.type).split(" | ")
            if value is None and others:
                continue
            if kind in _PLAIN and type(value) not in _PLAIN[kind]:
                raise TypeError(f"{one.name} is {value!r}")


def _span(ends: tuple[float, float]) -> str:
    return f"{_percent(ends[0])} to {_percent(ends[1])}"


def _percent(share: float | None, digits: int = 2) -> str:
    # To a millionth: an end of an interval at 1e-9 is 0 to anybody. 12 digits keep a confidence.
    value = math.nan if share is None else round(100 * share, max(4, digits))
    return f"{value:.{digits}g} %"
