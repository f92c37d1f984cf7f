"""The repair methods there are. Each one registers itself, in the file that defines it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from fairmend.errors import check_choice

if TYPE_CHECKING:
    from fairmend.repair.plan import Plan

MakePlan: TypeAlias = "Callable[..., Plan]"
OPTIONAL = ("level", "cost", "rank")
"""Settings that a method may be unable to follow; cost stands for immutable and one_way too."""


@dataclass(frozen=True)
class Method:
    """A way to make a plan, and the settings it follows."""

    name: str
    help: str
    make: MakePlan
    uses: tuple[str, ...] = OPTIONAL
    """Those of the `OPTIONAL` settings that the method follows; others must keep their default."""
    options: type | None = None
    """A frozen dataclass of further settings (``method_options``); None if there are none."""

    @property
    def is_foreign(self) -> bool:
        """Whether the function comes from outside this package."""
        return self.make.__module__.partition(".")[0] != __name__.partition(".")[0]

    @property
    def option_names(self) -> tuple[str, ...]:
        return () if self.options is None else tuple(one.name for one in fields(self.options))

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Refuse options that the method does not have."""
        names, must = self.option_names, f"must be options of method={self.name!r}"
        for name in given:
            check_choice("method_options", name, names or ["none"], must=must)


_REGISTERED: dict[str, Method] = {}


def repair_method(
    name: str, *, help: str, uses: tuple[str, ...] = OPTIONAL, options: type | None = None
) -> Callable[[MakePlan], MakePlan]:
    """Register a function from a `RepairProblem` to a `Plan` as ``method=name``.

    The function is called only where there is a gap to close.
    """

    def register(make: MakePlan) -> MakePlan:
        _REGISTERED[name] = Method(name, help, make, uses, options)
        return make

    return register


def methods() -> Mapping[str, Method]:
    """All registered methods by name, those of fairmend first, whatever was imported first.

    >>> list(methods())[:4]
    ['least_change', 'order', 'transport', 'paper']
    """
    _import_room()
    ordered = sorted(_REGISTERED.values(), key=lambda one: (one.is_foreign, one.make.__module__))
    return {one.name: one for one in ordered}


@cache
def _import_room() -> None:
    """Import every file of this room, so that its methods are registered."""
    room = import_module("fairmend.repair")
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        import_module(module.name)


def method_of(given: str | Callable[..., Any]) -> Method:
    """A registered method by its name, or a function as a method."""
    if callable(given):
        registered = (method for method in methods().values() if method.make is given)
        own = Method(str(getattr(given, "__name__", given)), "a function of the caller", given)
        return next(registered, own)
    check_choice("method", given, methods(), must=f"must be one of {', '.join(methods())}")
    return methods()[given]
