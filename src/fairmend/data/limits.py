"""What the fields of a class may hold, declared where they are.

A field's annotation gives its type and, with `typing.Annotated`, its limits: functions of the
value that return whether it is within. What several fields must agree on is checked by a method
``agrees`` of the class. `fit` and `load` check everything they make by the same function, `fault`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from fairmend.data.columns import FloatArray, IntArray, is_missing, scalar

MOST = sys.float_info.max
LARGE = 1e100
"""Sums and products of a few such numbers are still finite."""


# -------------------------------------------------------------------- limits


@dataclass(frozen=True)
class Between:
    """Numbers from ``low`` to ``high``; nan only where it may stand for what is not known.

    >>> Between(0, 1)(np.array([0.5, 1.0])), Between(0, 1)(float("nan"))
    (True, False)
    """

    low: float
    high: float
    nan: bool = False

    def __call__(self, value: Any) -> bool:
        if isinstance(value, np.ndarray):
            within = (value >= self.low) & (value <= self.high)
            return bool((within | np.isnan(value) if self.nan else within).all())
        return bool(self.low <= value <= self.high or (self.nan and is_missing(value)))


def flat(array: Any) -> bool:
    """Whether an array has one dimension."""
    return bool(array.ndim == 1)


def by_outcome(array: Any) -> bool:
    """Whether an array has a column for each of the two outcomes."""
    return bool(array.ndim == 2 and array.shape[1] == 2)


def sums_to_one(array: Any) -> bool:
    """Whether masses are those of a distribution."""
    return abs(float(array.sum()) - 1) < 1e-6


def rising(array: Any) -> bool:
    """Whether each entry is larger than the one before."""
    return bool((array[1:] > array[:-1]).all())


def single(value: Any) -> bool:
    """Whether it is a plain value of a column, not several of them."""
    return isinstance(value, Hashable) and not isinstance(value, tuple | frozenset)


def label(value: Any) -> bool:
    """Whether it can name a group: a missing value is not even equal to itself."""
    return single(value) and not is_missing(value)


Chance: TypeAlias = Annotated[float, Between(0, 1)]
Chances: TypeAlias = Annotated[FloatArray, flat, Between(0, 1)]
Coefficients: TypeAlias = Annotated[FloatArray, flat, Between(-LARGE, LARGE)]
Count: TypeAlias = Annotated[int, Between(0, 1 << 53)]
Figure: TypeAlias = Annotated[float, Between(-MOST, MOST, nan=True)]
"""A number that may not be known."""
Finite: TypeAlias = Annotated[float, Between(-LARGE, LARGE)]
Label: TypeAlias = Annotated[Hashable, label]
Places: TypeAlias = Annotated[IntArray, flat, Between(0, 1 << 40)]
Positive: TypeAlias = Annotated[float, Between(sys.float_info.min, LARGE)]
Scores: TypeAlias = Annotated[FloatArray, flat, Between(-MOST, MOST)]
"""What a model ranks by."""
Share: TypeAlias = Annotated[float, Between(0, 1, nan=True)]
"""A part of the whole, where it is known."""
Side: TypeAlias = Annotated[float, {0, 1}.__contains__]
"""A decision, 0 or 1."""
Value: TypeAlias = Annotated[Any, single]


# -------------------------------------------------------------------- what several fields agree on


def alike(*parts: Any) -> bool:
    """Whether those that are there have one length."""
    return len({len(part) for part in parts if part is not None}) <= 1


def inside(place: IntArray, size: int) -> bool:
    """Whether all places are those of rows; that none is negative is a limit of its own."""
    return len(place) == 0 or int(place.max()) < size


# -------------------------------------------------------------------- the question


def fault(one: Any) -> str | None:
    """What is wrong with an object, in a few words; None if nothing is."""
    cls: type = type(one)
    values = {name: getattr(one, name) for name in hints_of(cls)}
    return field_fault(cls, values) or disagreement(one)


def field_fault(cls: type, values: Mapping[str, Any]) -> str | None:
    """Which of the fields that a class is made with is not what it must be."""
    hints = hints_of(cls)
    wrong = (name for name, value in values.items() if not fits(value, hints[name]))
    return next((f"{cls.__name__}.{name} outside its limits" for name in wrong), None)


def disagreement(one: Any) -> str | None:
    """Whether the fields of an object contradict each other."""
    agrees: Callable[[], bool] = getattr(one, "agrees", lambda: True)
    return None if agrees() else f"{type(one).__name__} whose parts do not fit together"


def faults(*objects: Any) -> Iterator[str]:
    """What is wrong with objects of this package, and with all they are made of, each once."""
    return _faults(objects, set())


def _faults(objects: Sequence[Any], seen: set[int]) -> Iterator[str]:
    for one in objects:
        if isinstance(one, tuple | list):
            yield from _faults(one, seen)
        elif is_dataclass(one) and type(one).__module__.startswith("fairmend."):
            if id(one) in seen:
                continue
            seen.add(id(one))
            wrong = fault(one)
            if wrong is not None:
                yield wrong
            cls: type = type(one)
            yield from _faults([getattr(one, name) for name in hints_of(cls)], seen)


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """The annotations of the fields a class is made with."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls) if field.init}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotation's type and within its limits.

    >>> fits((1.0, 2.0), tuple[float, ...]), fits(None, str | None), fits("up", Literal["down"])
    (True, True, False)
    """
    return _test(hint)(value)


Test: TypeAlias = Callable[[Any], bool]


@cache
def _test(hint: Any) -> Test:
    """An annotation as a function of the value; put together once, as files hold many values."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        tests = (_test(inner[0]), *hint.__metadata__)
        return lambda value: all(test(scalar(value)) for test in tests)
    if origin in (Union, types.UnionType):
        either = [*map(_test, inner)]
        return lambda value: any(test(value) for test in either)
    if origin is Literal:
        choices = {(type(one), one) for one in inner}
        return lambda value: isinstance(value, Hashable) and (type(value), value) in choices
    if origin is Callable:
        return callable
    if origin is not None:
        return _test_entries(origin, inner)
    if hint is Any:
        return lambda value: True
    kinds = {float: (float, int), int: (int,)}.get(hint)
    if kinds is not None:
        return lambda value: isinstance(one := scalar(value), kinds) and not isinstance(one, bool)
    return lambda value: isinstance(scalar(value), hint)


def _test_entries(origin: Any, inner: tuple[Any, ...]) -> Test:
    """Whether it is a container of that kind, and each entry of the right type."""
    if origin is np.ndarray:
        kind = get_args(inner[1])[0]
        return lambda value: isinstance(value, np.ndarray) and issubclass(value.dtype.type, kind)
    tests = [_test(one) for one in inner if one is not ...]
    first = tests[0]
    if origin in (dict, Mapping):
        last = tests[1]
        return lambda value: (
            isinstance(value, Mapping) and all(first(k) and last(v) for k, v in value.items())
        )
    if origin in (Sequence, list):
        return lambda value: isinstance(value, tuple | list) and all(map(first, value))
    if inner[1:] == (...,):
        return lambda value: isinstance(value, tuple) and all(map(first, value))
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(tests)
        and all(test(one) for test, one in zip(tests, value, strict=True))
    )
