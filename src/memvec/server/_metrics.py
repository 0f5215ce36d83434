"""Numbers for operators, in the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path

Labels = tuple[tuple[str, str], ...]

# Seconds: from a search in process to what a request may take.
_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Searches that the latency of a collection is the median of.
_LATEST = 200


class Metrics:
    """Counts of requests and what they found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[Labels, int] = defaultdict(int)
        self._times: dict[Labels, list[float]] = {}
        self._hits: dict[str, int] = defaultdict(int)
        self._latest: dict[str, deque[float]] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        labels = (("route", route), ("method", method))
        with self._lock:
            self._requests[(*labels, ("status", str(status)))] += 1
            # The numbers of each bucket, their sum, and how many there were.
            times = self._times.setdefault(labels, [0.0] * (len(_EDGES) + 2))
            place = bisect_left(_EDGES, seconds)
            if place < len(_EDGES):
                times[place] += 1
            times[-2] += seconds
            times[-1] += 1

    def found(self, collection: str, n_hits: int) -> None:
        """Count matches that were returned."""
        with self._lock:
            self._hits[collection] += n_hits

    def took(self, collection: str, seconds: float) -> None:
        """Take note of how long a search took."""
        with self._lock:
            self._latest.setdefault(collection, deque(maxlen=_LATEST)).append(seconds)

    def latency(self, collection: str) -> float | None:
        """Return the median time of the latest searches of a collection, in seconds."""
        with self._lock:
            times = sorted(self._latest.get(collection, ()))
        return times[len(times) // 2] if times else None

    def lines(self) -> Iterator[str]:
        """Yield the counts as Prometheus reads them."""
        with self._lock:
            requests, hits = dict(self._requests), dict(self._hits)
            times = {labels: list(values) for labels, values in self._times.items()}
        yield from family(
            "memvec_requests_total", "counter", "Requests answered.", requests.items()
        )
        yield "# HELP memvec_request_seconds Time to the whole answer."
        yield "# TYPE memvec_request_seconds histogram"
        for labels, values in times.items():
            total = 0.0
            for edge, count in zip(_EDGES, values, strict=False):
                total += count
                yield _line("memvec_request_seconds_bucket", (*labels, ("le", f"{edge:g}")), total)
            yield _line("memvec_request_seconds_bucket", (*labels, ("le", "+Inf")), values[-1])
            yield _line("memvec_request_seconds_sum", labels, values[-2])
            yield _line("memvec_request_seconds_count", labels, values[-1])
        counted = ((of(collection=name), count) for name, count in hits.items())
        yield from family("memvec_hits_total", "counter", "Matches returned.", counted)


def of(**labels: str) -> Labels:
    """Return labels of a value."""
    return tuple(labels.items())


def family(
    name: str, kind: str, text: str, values: Iterable[tuple[Labels, float]]
) -> Iterator[str]:
    """Yield the lines of one metric."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    yield from (_line(name, labels, value) for labels, value in values)


def _line(name: str, labels: Labels, value: float) -> str:
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{told}}} {value:.17g}" if told else f"{name} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def resident_bytes() -> int | None:
    """Return the memory of this process; None where the system does not tell it so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()
