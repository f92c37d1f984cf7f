"""Values as JSON has them, and results read back from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

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


def from_plain(kind: Any, value: Any) -> Any:
    """What `as_plain` has made plain, as the type that it was; a float that is None is not known.

    Keys that are no fields are left out, and fields that are not there take their default.

    >>> from_plain(tuple[float, ...], [1, None]), from_plain(bool | None, None)
    ((1, nan), None)
    """
    origin, within = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return from_plain(within[0], value)
    if value is None:
        return math.nan if kind is float else None
    if origin in (Union, UnionType):
        return from_plain(next(one for one in within if one is not NoneType), value)
    if origin in (tuple, list):
        same = len(within) == 1 or within[-1] is Ellipsis
        kinds = [within[0]] * len(value) if same else within
        return origin(from_plain(one, entry) for one, entry in zip(kinds, value, strict=True))
    if origin is dict:
        return {key: from_plain(within[1], entry) for key, entry in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind, include_extras=True)
        names = [one.name for one in fields(kind) if one.name in value]
        return kind(**{name: from_plain(hints[name], value[name]) for name in names})
    return value
