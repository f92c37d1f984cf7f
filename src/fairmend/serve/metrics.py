"""Counters and histograms in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

__all__ = ["Metrics"]

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HELP = {
    "fairmend_requests_total": "Requests answered, by protocol and code.",
    "fairmend_rows_total": "Rows decided about, by group and whether they were edited.",
    "fairmend_upstream_calls_total": "Calls to the vendor, by how they ended.",
    "fairmend_request_seconds": "Time from request to answer.",
    "fairmend_upstream_seconds": "Time of one call to the vendor.",
    "fairmend_in_flight": "Requests being answered now.",
    "fairmend_ready": "Whether the sidecar is ready.",
    "fairmend_unauthorized_total": "Requests refused for want of the right token, by port.",
    "fairmend_reloads_total": "Artifacts loaded again, by how that ended.",
    "fairmend_probe_changed": "Rows of the audit that the vendor now decides otherwise.",
}


class Metrics:
    """What happened so far; written from the event loop only.

    >>> metrics = Metrics()
    >>> metrics.count("fairmend_reloads_total", result="ok")
    >>> print(metrics.text().splitlines()[-1])
    fairmend_reloads_total{result="ok"} 1
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
        self._gauges: dict[str, float] = {}
        self._times: dict[str, list[float]] = {}

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        series = self._counts[name]
        key = tuple(labels.items())
        series[key] = series.get(key, 0) + by

    def set(self, name: str, value: float) -> None:
        self._gauges[name] = value

    def time(self, name: str, seconds: float) -> None:
        buckets = self._times.setdefault(name, [0.0] * (len(_BOUNDS) + 2))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        buckets[-1] += seconds

    def text(self) -> str:
        lines = []
        for name, series in sorted(self._counts.items()):
            lines += _head(name, "counter")
            lines += [f"{name}{_labels(labels)} {value:g}" for labels, value in series.items()]
        for name, value in sorted(self._gauges.items()):
            lines += [*_head(name, "gauge"), f"{name} {value:g}"]
        for name, buckets in sorted(self._times.items()):
            lines += _head(name, "histogram")
            total = 0.0
            for bound, n in zip([*map(str, _BOUNDS), "+Inf"], buckets[:-1], strict=True):
                total += n
                lines.append(f'{name}_bucket{{le="{bound}"}} {total:g}')
            lines += [f"{name}_sum {buckets[-1]!r}", f"{name}_count {total:g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {kind}"]


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
