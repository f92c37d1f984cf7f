"""What the sidecar counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of one sidecar.

    >>> metrics = Metrics()
    >>> metrics.reloads.labels("ok").inc()
    >>> [line for line in metrics.text().splitlines() if "reloads_total{" in line]
    ['fairmend_reloads_total{result="ok"} 1.0']
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"fairmend_{name}", about, labels, registry=self._registry)

        def seconds(name: str, about: str) -> Histogram:
            return Histogram(f"fairmend_{name}", about, buckets=_SECONDS, registry=self._registry)

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"fairmend_{name}", about, registry=self._registry)

        self.requests = counter("requests", "Requests, by result.", "protocol", "code")
        self.rows = counter("rows", "Rows decided, by group and edit.", "group", "edited")
        self.unauthorized = counter("unauthorized", "Requests without the right token.", "port")
        self.reloads = counter("reloads", "Artifacts loaded again, by result.", "result")
        self.upstream_calls = counter("upstream_calls", "Calls to the vendor, by result.", "code")
        self.request_seconds = seconds("request_seconds", "Time from request to response.")
        self.upstream_seconds = seconds("upstream_seconds", "Time of one call to the vendor.")
        self.not_repaired = counter(
            "not_repaired", "Requests passed on that could not be repaired, by reason.", "reason"
        )
        self.unrecorded = counter("unrecorded", "Requests passed on that could not be logged.")
        self.failures_not_logged = counter(
            "failures_not_logged", "Failed requests beyond the number that is logged a minute."
        )
        self.probe_failed = gauge("probe_failed", "Whether the last look at the probes failed.")
        self.repairing = gauge("repairing", "Whether decisions are repaired now.")
        self.in_flight = gauge("in_flight", "Requests in progress.")
        self.ready = gauge("ready", "Whether the sidecar is ready.")
        self.probe_changed = gauge("probe_changed", "Probe rows answered unlike in the audit.")

    def text(self) -> str:
        return generate_latest(self._registry).decode()
