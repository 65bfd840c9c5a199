"""Counts and times of requests, and the state of the collection, as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

from onlinehash.collection import Stats

_EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Count requests by route and status, and how long they took.

    Everything happens in the thread of the event loop.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("GET", "/healthz", 200, 0.003)
    >>> print(metrics.text(Stats(n_items=5), {}).splitlines()[1])
    onlinehash_requests_total{method="GET",route="/healthz",status="200"} 1
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self.n_active = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; a route is the pattern, not the path, so that there are few."""
        self._requests[method, route, status] += 1
        self._buckets.setdefault(route, [0] * (len(_EDGES) + 1))[bisect_left(_EDGES, seconds)] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, stats: Stats, gauges: Mapping[str, float]) -> str:
        """Return all in the text format of Prometheus.

        Parameters
        ----------
        stats : Stats
            Of the collection.
        gauges : mapping
            Other numbers of this moment, by name.
        """
        return "\n".join(self._lines(stats, gauges)) + "\n"

    def _lines(self, stats: Stats, gauges: Mapping[str, float]) -> Iterator[str]:
        yield "# TYPE onlinehash_requests_total counter"
        for (method, route, status), n_requests in sorted(self._requests.items()):
            yield f'onlinehash_requests_total{{method="{method}",route="{route}",status="{status}"}} {n_requests}'
        yield "# TYPE onlinehash_request_seconds histogram"
        for route, buckets in sorted(self._buckets.items()):
            total = 0
            for edge, n_requests in zip((*_EDGES, "+Inf"), buckets, strict=True):
                total += n_requests
                yield f'onlinehash_request_seconds_bucket{{route="{route}",le="{edge}"}} {total}'
            yield f'onlinehash_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'onlinehash_request_seconds_count{{route="{route}"}} {total}'
        numbers = {
            "requests_active": self.n_active,
            "items": stats.n_items,
            "items_searchable": stats.n_searchable,
            "instances_learned": stats.n_learned,
            "code_bits": stats.n_bits,
            "generation": stats.generation,
            "encoder_version": stats.version or 0,
            "staleness": stats.staleness,
            "refreshing": int(stats.refreshing),
            "refresh_progress": stats.progress,
            "refresh_failed": int(stats.refresh_error is not None),
            "bits_recomputed": stats.bits_recomputed,
            "file_bytes": stats.n_bytes,
            **gauges,
        }
        for name, value in numbers.items():
            yield f"# TYPE onlinehash_{name} gauge"
            yield f"onlinehash_{name} {value}"
