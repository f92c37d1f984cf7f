"""Rows that are not in memory, as the rooms see them.

An audit, a fit and a prediction take X wherever it is. `fairmend.engines`, which reads such rows,
registers itself here when it is imported, which is when somebody first asks for engines.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fairmend.data.columns import Frame
    from fairmend.data.people import Counts
    from fairmend.measure.population import AuditData
    from fairmend.model.blackbox import BlackBox


Settle: TypeAlias = Callable[[Any, Any, Any], Any]
"""Of audit data, plans made on them, and settings: the plans as all rows want them."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """People counted where their rows are."""

    frame: Frame
    """The distinct cells, with their groups, outcomes and, if counted, inputs."""
    counts: Counts
    groups: dict[str, str]
    inputs: Frame | None
    """The model's inputs in the cells; None if they were not counted."""
    named: bool = True
    """Whether the inputs were named; otherwise they are the columns without another role."""
    audited: AuditData | None = None
    """Where rows are nearly all distinct and inputs are not needed: the whole answer."""
    settle: Settle | None = None
    """Where the inputs are those of a sample: what settles plans on all rows."""


class Engines(Protocol):
    """What the engines do for the rooms."""

    def is_elsewhere(self, X: Any) -> bool:
        """Whether X is a place of rows instead of rows."""

    def reading(self, X: Any) -> AbstractContextManager[None]:
        """What goes wrong while rows are read becomes an error in words."""

    def gather(
        self,
        box: BlackBox,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        pos_label: Hashable = None,
        inputs: bool = True,
        template: Frame | None = None,
    ) -> Gathered:
        """Count what an audit, an explanation or a repair needs."""

    def predict_elsewhere(self, classifier: Any, X: Any, sensitive_features: Any, ids: Any) -> Any:
        """The repaired decisions, in kind."""

    def transform_elsewhere(
        self, classifier: Any, X: Any, sensitive_features: Any, ids: Any
    ) -> Any:
        """The edited inputs, in kind."""


_registered: list[Engines] = []
_importing: list[Callable[[], object]] = []


def register_later(importing: Callable[[], object]) -> None:
    """What to call where no engines are registered yet: an import by which they are."""
    _importing[:] = [importing]


def register(engines: Engines) -> None:
    """Make these the engines in use."""
    _registered[:] = [engines]


def engines() -> Engines:
    """The registered engines."""
    if not _registered:
        _importing[0]()
    return _registered[0]


def is_elsewhere(X: Any) -> bool:
    """Whether X is a place of rows instead of rows; looks at nothing but the type."""
    return engines().is_elsewhere(X)
