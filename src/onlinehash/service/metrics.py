"""Metrics of requests and of the collection, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from onlinehash.collection import Stats

MEDIA_TYPE = CONTENT_TYPE_LATEST
_EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_GAUGES = {
    "items": "Items stored.",
    "items_searchable": "Items with a code.",
    "instances_learned": "Instances that the hasher has learned from.",
    "code_bits": "Bits per code.",
    "generation": "Generation of the codes searched.",
    "encoder_version": "Version of the encoder in use; 0 if there is none.",
    "staleness": "Instances learned since the encoder version in use.",
    "refreshing": "1 while a refresh runs.",
    "refresh_progress": "Share of the items that the running refresh has encoded.",
    "refresh_failed": "1 if the last refresh failed.",
    "bits_recomputed": "Bits computed again by all refreshes.",
    "file_bytes": "Bytes of the file, or of all tables.",
    "reading_waiting": "Requests waiting to read.",
    "writing_waiting": "Requests waiting to write.",
    "body_bytes": "Bytes of request bodies in memory.",
}


class Metrics:
    """Count requests by route and status, and measure their duration.

    Attributes
    ----------
    active : prometheus_client.Gauge
        Requests being answered.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("GET", "/healthz", 200, 0.003)
    >>> print(metrics.text(Stats(n_items=5), {}).splitlines()[2])
    onlinehash_requests_total{method="GET",route="/healthz",status="200"} 1.0
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("onlinehash_requests", "Requests answered.", labels, registry=registry)
        self._seconds = Histogram(
            "onlinehash_request_seconds", "Seconds per request.", ["route"], buckets=_EDGES, registry=registry
        )
        self.active = Gauge("onlinehash_requests_active", "Requests being answered.", registry=registry)
        self._gauges = {name: Gauge(f"onlinehash_{name}", text, registry=registry) for name, text in _GAUGES.items()}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request to a route, given as its pattern."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, stats: Stats, gauges: Mapping[str, float]) -> str:
        """Return all metrics in the text format of Prometheus, with further gauges by name."""
        values = {
            "items": stats.n_items,
            "items_searchable": stats.n_searchable,
            "instances_learned": stats.n_learned,
            "code_bits": stats.n_bits,
            "generation": stats.generation,
            "encoder_version": stats.version or 0,
            "staleness": stats.staleness,
            "refreshing": stats.refreshing,
            "refresh_progress": stats.progress,
            "refresh_failed": stats.refresh_error is not None,
            "bits_recomputed": stats.bits_recomputed,
            "file_bytes": stats.n_bytes,
            **gauges,
        }
        for name, value in values.items():
            self._gauges[name].set(value)
        return generate_latest(self._registry).decode()
