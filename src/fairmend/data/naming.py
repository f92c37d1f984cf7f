"""What people read for a group: the one place where labels become names.

A label such as ``yes`` or ``1`` means nothing in a sentence, so it is shown with its attribute:
``afam = yes``. Data frames, JSON and arguments keep the labels as they are.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fairmend.errors import plain_text

JOINER = " & "
"""Between the labels of an intersection, and between the names of its attributes."""
_CODE = re.compile(r"yes|no|true|false|-?\d+(\.0+)?")
_LETTERS = (frozenset("yn"), frozenset("tf"))
"""Letters that are codes only beside each other: F and M are no answers to a question."""


@dataclass(frozen=True)
class GroupNames:
    """The names of the groups of one attribute, or of an intersection.

    >>> names = GroupNames("afam", ("no", "yes"))
    >>> names("yes"), names("rest")
    ('afam = yes', 'the rest')
    >>> both = GroupNames("afam & sex", ("no & F", "yes & F", "yes & M"))
    >>> both("yes & F"), GroupNames("sex", ("F", "M"))("F")
    ('afam = yes, sex = F', 'F')
    """

    attribute: str = ""
    groups: tuple[Hashable, ...] = ()

    def pair(self, target: Hashable, baseline: Hashable) -> tuple[str, str]:
        return self(target), self(baseline)

    def __call__(self, group: Hashable) -> str:
        """One group; "rest" is no label, and line breaks in a label stay out of sentences."""
        if group == "rest":
            return "the rest"
        labels = self._labels(group)
        if not self._coded:
            return _line(group)
        if len(labels) != len(self._attributes):
            return f"{_line(self.attribute)} = {_line(group)}"
        pairs = zip(self._attributes, labels, strict=True)
        return ", ".join(f"{_line(attribute)} = {_line(label)}" for attribute, label in pairs)

    @cached_property
    def _attributes(self) -> list[str]:
        return self.attribute.split(JOINER)

    def _labels(self, group: Hashable) -> list[str]:
        return str(group).split(JOINER) if len(self._attributes) > 1 else [str(group)]

    @cached_property
    def _coded(self) -> bool:
        """Whether some attribute has labels that need its name to be understood."""
        if not self.attribute:
            return False
        lines = [self._labels(group) for group in self.groups]
        whole = [labels for labels in lines if len(labels) == len(self._attributes)]
        return any(_are_codes(column) for column in zip(*whole, strict=True))


def shown(known_as: tuple[str, str], target: Hashable, baseline: Hashable) -> tuple[str, str]:
    """The names of a target and a reference group; their labels where no names are known."""
    plain = GroupNames()
    return known_as[0] or plain(target), known_as[1] or plain(baseline)


def _are_codes(labels: Sequence[str]) -> bool:
    values = {label.strip().lower() for label in labels}
    return any(map(_CODE.fullmatch, values)) or any(pair <= values for pair in _LETTERS)


def _line(text: Hashable) -> str:
    return plain_text(" ".join(str(text).splitlines()))
