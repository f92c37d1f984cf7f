"""What the sidecar counts, for Prometheus."""

from __future__ import annotations

from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from fairmend.report.monitoring import ALERT_KINDS, Monitored, MonitorFigures

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

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"fairmend_{name}", about, labels, registry=self._registry)

        self.requests = counter("requests", "Requests, by result.", "protocol", "code")
        self.rows = counter("rows", "Rows decided, by group and edit.", "group", "edited")
        self.unauthorized = counter("unauthorized", "Requests without the right token.", "port")
        self.reloads = counter("reloads", "Artifacts loaded again, by result.", "result")
        # looking a counter up by its labels takes longer than counting
        self.of_rows = cache(self.rows.labels)
        self.of_requests = cache(self.requests.labels)
        self.upstream_calls = counter("upstream_calls", "Calls to the vendor, by result.", "code")
        self.of_upstream_calls = cache(self.upstream_calls.labels)
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
        self.probe_rows = gauge("probe_rows", "Probe rows put to the vendor.")
        self.probe_time = gauge("probe_timestamp_seconds", "When the probes were last answered.")
        self.webhook = counter("webhook", "Alerts told to the webhook, by result.", "result")

        pair = ("metric", "target", "reference")
        self._watched: list[Gauge] = []

        def watched(name: str, about: str, *labels: str) -> Gauge:
            self._watched.append(gauge(name, about, *labels))
            return self._watched[-1]

        self._gap = watched(
            "gap", "Gap of the latest window (latest) or of all (all), as a share; decisions are "
            "of the vendor alone (vendor), with the repair (repair), or with the repair where "
            "outcomes to come are estimated (estimate). end: value, low or high at 95 %.",
            *pair, "window", "decisions", "end",
        )  # fmt: skip
        self._drift = watched(
            "input_drift", "Share of people whose inputs would have to differ, latest day.",
            "target", "column",
        )  # fmt: skip
        self._selected = watched(
            "selection_rate", "Share of positive decisions, all windows.", "group", "decisions"
        )
        self._right = watched(
            "accuracy", "Share of decisions that agree with outcomes, all windows.",
            "group", "decisions",
        )  # fmt: skip
        self._known = gauge("outcomes_known", "Share of decisions whose outcome is known.")
        self._alerts = watched("alerts", "Alerts on the monitor page, by kind.", "kind")
        self._edited = gauge("edited", "Decisions in the log whose inputs were edited.")
        self._decisions = gauge("decisions", "Decisions in the log.")
        self._tolerance = gauge("gap_tolerance", "The gap that is still all right.")
        self._at = gauge("watch_timestamp_seconds", "When the log was last read for these.")

    def show(self, figures: MonitorFigures) -> None:
        """Take over the figures of the monitor; groups that are no longer watched go."""
        for labelled in self._watched:
            labelled.clear()
        for one in figures.monitored:
            self._show_group(one)
        for kind in ALERT_KINDS:
            alerts = sum(alert.kind == kind for alert in figures.alerts)
            self._alerts.labels(kind).set(alerts)
        decided = figures.decisions - figures.failed
        self._known.set(figures.labelled / max(1, decided))
        self._edited.set(figures.edited)
        self._decisions.set(figures.decisions)
        self._tolerance.set(figures.tolerance)
        self._at.set(figures.at)

    def _show_group(self, one: Monitored) -> None:
        pair = (one.metric, one.target, one.baseline)
        latest = next((each for each in reversed(one.windows) if each.repaired), None)
        for window, seen in (("latest", latest), ("all", one.overall)):
            if seen is None:
                continue
            for decisions, interval in (("vendor", seen.original), ("repair", seen.repaired),
                                        ("estimate", seen.estimate)):  # fmt: skip
                if interval is not None:
                    for end, value in zip(("value", "low", "high"), interval, strict=True):
                        self._gap.labels(*pair, window, decisions, end).set(value)
        if one.inputs:
            moved = one.inputs[-1].moved
            self._drift.labels(one.target, moved.column).set(moved.distance)
        for group, rates in one.overall_rates.items():
            self._selected.labels(group, "repair").set(rates.selected[0])
            self._selected.labels(group, "vendor").set(rates.selected_alone[0])
            if rates.right is not None and rates.right_alone is not None:
                self._right.labels(group, "repair").set(rates.right[0])
                self._right.labels(group, "vendor").set(rates.right_alone[0])

    def text(self) -> str:
        return generate_latest(self._registry).decode()
