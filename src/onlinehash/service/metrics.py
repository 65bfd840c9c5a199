"""What an operator sees of the service: metrics for Prometheus, and the access log."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from time import time
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

access_log = logging.getLogger("onlinehash.access")
METRICS_TYPE = CONTENT_TYPE_LATEST
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
    "body_bytes": "Bytes of requests and answers in memory, of all collections.",
}


class Metrics:
    """Count requests by route and status, and measure their duration."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "onlinehash_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "onlinehash_request_seconds", "Seconds per request.", ["route"], buckets=_EDGES, registry=registry
        )
        self.n_active = 0
        active = Gauge("onlinehash_requests_active", "Requests being answered.", registry=registry)
        active.set_function(lambda: self.n_active)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        key = method, route, status
        if key not in self._children:
            self._children[key] = self.requests.labels(*key), self.seconds.labels(route)
        requests, durations = self._children[key]
        requests.inc()
        durations.observe(seconds)

    def text(self, collections: Mapping[str, dict[str, Any]]) -> bytes:
        """Return all metrics in the text format of Prometheus, with those of collections by name; "" for the only one.

        Those of a collection are its statistics, and others by name.
        """
        registry, names = CollectorRegistry(), [] if "" in collections else ["collection"]
        texts = {name: text for name, (_, text) in _COLLECTION.items()} | _SERVICE
        gauges = {name: Gauge(f"onlinehash_{name}", text, names, registry=registry) for name, text in texts.items()}
        for collection, found in collections.items():
            values = found | {name: found[attribute] for name, (attribute, _) in _COLLECTION.items()}
            values["refresh_failed"] = values["refresh_failed"] is not None
            for name, gauge in gauges.items():
                (gauge.labels(collection) if collection else gauge).set(values[name] or 0)
        return generate_latest(self._registry) + generate_latest(registry)


def log_access(scope: Scope, id: bytes, status: int, size: int, seconds: float) -> None:
    """Write a line of the access log."""
    client = scope.get("client")
    line = {
        "time": round(time(), 3),
        "client": None if client is None else client[0],
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "bytes": size,
        "ms": round(1000 * seconds, 3),
        "request_id": id.decode(),
    }
    access_log.info(json.dumps(line))
