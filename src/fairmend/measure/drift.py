"""How far the inputs of new people are from those of the audit."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Moved"]


@dataclass(frozen=True)
class Moved:
    """How one column of a day's people differs from the audit."""

    column: str
    value: str
    """The value, or range of values, whose share changed most."""
    before: float
    """Its share in the audit."""
    now: float
    distance: float
    """Total variation: the share of people who would have to have another value."""
    p_value: float
    """Of this column, corrected for all that were looked at."""
