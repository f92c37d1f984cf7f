"""Classes found by name: one file of a folder each, or a package of somebody else's."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from fairmend.errors import check_choice

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes that register themselves when their file is imported.

    A class of name NAME is in the file NAME.py of ``package``. Another distribution declares an
    entry point NAME in ``group``, or its module is imported before the name is used.
    """

    def __init__(self, what: str, package: str, group: str) -> None:
        self.what, self.package, self.group = what, package, group
        self._classes: dict[str, type[T]] = {}

    def add(self, name: str, cls: type[T]) -> None:
        self._classes[name] = cls

    def names(self) -> tuple[str, ...]:
        """Every name there is; nothing is imported."""
        folder = import_module(self.package).__path__
        files = (module.name for module in pkgutil.iter_modules(folder))
        elsewhere = (entry.name for entry in entry_points(group=self.group))
        return tuple(sorted({*files, *elsewhere, *self._classes}))

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._classes:
            check_choice(self.what, name, self.names())
            declared = entry_points(group=self.group, name=name)
            for entry in declared:
                entry.load()
            if not declared:
                import_module(f"{self.package}.{name}")
        return self._classes[name]


PROTOCOLS: Registry[Any] = Registry("protocol", "fairmend.model.protocols", "fairmend.protocols")
