"""How a question is answered, and what is promised about the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memvec.guarantee._certificate import Certificate
from memvec.guarantee._needed import NeededSlack
from memvec.guarantee._thresholds import Thresholds
from memvec.metric import Metric


@dataclass(frozen=True, eq=False)
class Plan:
    """Thresholds for all that is searched, solved together, and what they promise.

    Attributes
    ----------
    thresholds : Thresholds or None
        How strict the stages are; None misses nothing, by bounds.
    certificate : Certificate
        What the answer promises.
    tries : tuple of float
        Similarities that the k-th nearest is likely to reach, falling, of a search for these.
    first : Plan or None
        Of a search for the k nearest that misses nothing: how to find k that are near, fast.
    needed : NeededSlack or None
        Of a range that was solved on calibration queries: how to tell what their matches need.
    """

    thresholds: Thresholds | None
    certificate: Certificate
    tries: tuple[float, ...] = ()
    first: Plan | None = None
    needed: NeededSlack | None = None

    def in_metric(self, metric: Metric) -> Plan:
        """Return the same plan, its certificate told in the unit of a metric."""
        return replace(self, certificate=self.certificate.in_metric(metric))

    @property
    def n_bytes(self) -> int:
        """What the thresholds take, as they are and as kernels read them."""
        before = 0 if self.first is None else self.first.n_bytes
        if self.thresholds is None:
            return before
        return before + 2 * int(self.thresholds.at.nbytes + self.thresholds.slack.nbytes)


def complete_plan(
    similarity: float | None, state: str | None = None, first: Plan | None = None
) -> Plan:
    """Return the plan of a search that misses nothing."""
    certificate = Certificate("exact", similarity, 0.0, bound=0.0, state=state, complete=True)
    return Plan(None, certificate, first=first)
