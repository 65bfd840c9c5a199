"""Metrics of requests and of the collection, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from onlinehash.collection import Stats

MEDIA_TYPE = CONTENT_TYPE_LATEST
_EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COLLECTION = {  # name: attribute of the statistics, description
    "items": ("n_items", "Items stored."),
    "items_searchable": ("n_searchable", "Items with a code."),
    "instances_learned": ("n_learned", "Instances that the hasher has learned from."),
    "code_bits": ("n_bits", "Bits per code."),
    "generation": ("generation", "Generation of the codes searched."),
    "encoder_version": ("version", "Version of the encoder in use; 0 if there is none."),
    "staleness": ("staleness", "Instances learned since the encoder version in use."),
    "refreshing": ("refreshing", "1 while a refresh runs."),
    "refresh_progress": ("progress", "Share of the items that the running refresh has encoded."),
    "refresh_failed": ("refresh_error", "1 if the last refresh failed."),
    "bits_recomputed": ("bits_recomputed", "Bits computed again by all refreshes."),
    "file_bytes": ("n_bytes", "Bytes of the file, or of all tables."),
}
_SERVICE = {
    "reading_waiting": "Requests waiting to read.",
    "writing_waiting": "Requests waiting to write.",
    "body_bytes": "Bytes of request bodies in memory.",
}


class Metrics:
    """Count requests by route and status, and measure their duration.

    Parameters
    ----------
    collections : list of str
        Names of the collections; empty for a service of one.
    """

    def __init__(self, collections: list[str]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "onlinehash_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "onlinehash_request_seconds", "Seconds per request.", ["route"], buckets=_EDGES, registry=registry
        )
        self.active = Gauge("onlinehash_requests_active", "Requests being answered.", registry=registry)
        self._by_name, names = bool(collections), ["collection"] if collections else []
        texts = {name: text for name, (_, text) in _COLLECTION.items()} | _SERVICE
        self._gauges = {
            name: Gauge(f"onlinehash_{name}", text, names, registry=registry) for name, text in texts.items()
        }
        self._counters: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request to a route, given as its pattern."""
        key = (method, route, status)
        if key not in self._counters:
            self._counters[key] = self._requests.labels(*key), self._seconds.labels(route)
        requests, durations = self._counters[key]
        requests.inc()
        durations.observe(seconds)

    def set(self, collection: str, stats: Stats, gauges: Mapping[str, float]) -> None:
        """Set the gauges of a collection: its statistics, and others by name."""
        values = {name: getattr(stats, attribute) for name, (attribute, _) in _COLLECTION.items()} | dict(gauges)
        values["refresh_failed"] = values["refresh_failed"] is not None
        for name, value in values.items():
            gauge = self._gauges[name].labels(collection) if self._by_name else self._gauges[name]
            gauge.set(value or 0)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
