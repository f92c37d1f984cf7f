"""Whether the vendor's model is still the one that was audited."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from fairmend.errors import DataError
from fairmend.model.remote import cells
from fairmend.model.wire import BadAnswer, RequestFailed
from fairmend.serve.config import Config
from fairmend.serve.metrics import Metrics
from fairmend.serve.notes import note
from fairmend.serve.repairer import Repairer, as_arrays
from fairmend.serve.upstream import Upstream, UpstreamError

__all__ = ["Probes"]

CHANGED = 0.05
"""The share of them, answered otherwise, above which it is another model."""
_UNAVAILABLE = (
    "upstream_refused", "upstream_reset", "upstream_incomplete", "upstream_timeout",
    "upstream_busy", "upstream_open",
)  # fmt: skip
"""Failures that say nothing about the model."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look at the vendor found."""

    changed: int = 0
    asked: int = 0
    at: float = 0.0

    @property
    def is_other(self) -> bool:
        """Whether so many answers differ that this is another model."""
        return self.changed > CHANGED * self.asked


class Probes:
    """Rows of the audit, put to the vendor again."""

    def __init__(self, config: Config, upstream: Upstream, metrics: Metrics) -> None:
        self._config, self._upstream, self._metrics = config, upstream, metrics
        self._last = Checked()
        self.failed = ""
        """The code of the failure, if the last look failed."""

    @property
    def changed(self) -> int:
        return self._last.changed

    @property
    def asked(self) -> int:
        return self._last.asked

    @property
    def at(self) -> float:
        return self._last.at

    @property
    def are_changed(self) -> bool:
        """Whether the vendor's model is taken for another one."""
        return self._last.is_other

    async def _look(self, serving: Repairer) -> Checked:
        probe = serving.probe
        if probe is None:  # the model is random: its answers prove nothing
            return Checked(at=time.time())
        schema = serving.schema
        rows = [schema.typed(tuple(row)) for row in cells(probe.rows)]
        deadline = asyncio.get_running_loop().time() + self._config.timeout
        _, values = await self._upstream.query(schema.sent_names, rows, schema.kinds, deadline)
        try:
            answers = as_arrays(serving.read(values))
        except BadAnswer:
            message = "the vendor's answer cannot be read"
            raise UpstreamError("upstream_bad_answer", message) from None
        changed = int(probe.changed(answers, serving.classifier.box_.cut).sum())
        return Checked(changed, len(rows), time.time())

    async def look(self, serving: Repairer) -> None:
        """Look again; a `RequestFailed` where the vendor could not be queried."""
        try:
            self.keep(await self._look(serving))
        except RequestFailed as error:
            self.failed = error.code
            self._metrics.probe_failed.set(1)
            raise

    def keep(self, checked: Checked) -> None:
        """Go by what was found."""
        self._last, self.failed = checked, ""
        self._metrics.probe_failed.set(0)
        self._metrics.probe_changed.set(checked.changed)
        self._metrics.probe_rows.set(checked.asked)
        self._metrics.probe_time.set(checked.at)
        note("probed", "warning" if checked.changed else "info", changed=checked.changed)

    async def check_start(self, serving: Repairer) -> None:
        """Refuse an artifact whose rows the vendor does not take; one that is away may come back.

        What follows from changed answers is the operator's policy.
        """
        try:
            await self.look(serving)
        except RequestFailed as error:
            note("probe failed", "warning", code=error.code)
            if self._config.mode != "off" and error.code not in _UNAVAILABLE:
                raise self._unfit(f"it answers {error.code}") from None
        else:
            if self.are_changed and self._config.vendor_changed == "refuse":
                raise self._unfit(self._difference(self._last))

    async def check_reload(self, serving: Repairer) -> Checked:
        """Refuse an artifact that is not shown to be of the vendor's model."""
        try:
            checked = await self._look(serving)
        except RequestFailed as error:
            raise self._unfit(f"it answers {error.code}") from None
        if checked.is_other and self._config.vendor_changed != "alert":
            raise self._unfit(self._difference(checked))
        return checked

    @staticmethod
    def _difference(checked: Checked) -> str:
        return f"it answers {checked.changed} of {checked.asked} otherwise than in the audit"

    def _unfit(self, got: str) -> DataError:
        return DataError(
            f"artifact {self._config.artifact!r}",
            "must be of the model that the vendor serves: rows of the audit are put to it",
            got,
            "Compare the columns and the version of the model; fit the repair anew.",
        )
