"""Values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

from fairmend.data.columns import scalar


def as_plain(value: Any) -> Any:
    """What is not known is None, a status its name, a label that JSON does not know text.

    >>> from datetime import date
    >>> as_plain({"gap": float("nan"), 7: (1, date(2024, 2, 29))})
    {'gap': None, '7': [1, '2024-02-29']}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): as_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(entry) for entry in value]
    value = scalar(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Enum):
        return value.name
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
