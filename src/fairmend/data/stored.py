"""Which classes an artifact may hold, and what they are called in files.

A tag never changes, whatever becomes of the class: files of years ago hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Stored:
    """How the objects of a class are written in a file."""

    tag: str
    cls: Any
    names: Mapping[str, str]
    """Attributes whose name in files is another."""
    dropped: frozenset[str]
    """Names of fields in older files that mean nothing any more."""

    @cached_property
    def fields(self) -> dict[str, str]:
        """The name in files of each field, and the attribute that it becomes."""
        named = [field.name for field in fields(self.cls) if field.init]
        return {self.names.get(name, name): name for name in named}

    @cached_property
    def needed(self) -> set[str]:
        """The attributes that every file must give: those without a default."""
        return {
            field.name
            for field in fields(self.cls)
            if field.init and field.default is MISSING and field.default_factory is MISSING
        }


_BY_TAG: dict[str, Stored] = {}
_BY_CLASS: dict[type, Stored] = {}


def stored(
    tag: str, *, names: Mapping[str, str] | None = None, dropped: Iterable[str] = ()
) -> Callable[[Class], Class]:
    """Let artifacts hold the objects of a dataclass, under ``tag``; a decorator.

    The class may be renamed, the tag stays. A field that is renamed keeps its name in files:
    ``names={"attribute": "name in files"}``. A field that is added needs a default, which objects
    in older files get. A field that is removed is listed in ``dropped``.
    """

    def register(cls: Class) -> Class:
        about = Stored(tag, cls, dict(names or {}), frozenset(dropped))
        assert _BY_TAG.get(tag, about).cls.__qualname__ == cls.__qualname__, f"{tag!r} is taken"
        _BY_TAG[tag] = _BY_CLASS[cls] = about
        return cls

    return register


def stored_by_tag(tag: str) -> Stored | None:
    """The class that a file means by a tag; None for a tag that nobody registered."""
    return _BY_TAG.get(tag)


def stored_class(cls: type) -> Stored | None:
    """How objects of just this class are written; None for a class that is not stored."""
    return _BY_CLASS.get(cls)
