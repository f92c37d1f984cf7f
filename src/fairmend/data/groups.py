"""Whose group is this: the one reader of groups, for columns and for single people.

An audit reads groups from columns (`read_groups`). Afterwards new people are placed among the
audited groups by a `GroupReader`: the same rules hold for arrays, files, engines and requests. A
label stands for a group if it is equal to it, or reads like it: 1, 1.0, True and ``"1"`` are one
label, blanks around text and the two ways to write an accent do not matter. Of several attributes
the labels are joined: ``("F", True)`` is of the group ``"F & 1"``. A missing or empty label is an
opt-out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from fairmend.data.columns import (
    BoolArray,
    Encoded,
    Frame,
    IntArray,
    check_known,
    distinct_rows,
    encode,
    is_missing,
    object_array,
    read_column,
    scalar,
)
from fairmend.data.given import as_array, as_column, as_frame, check_order
from fairmend.data.naming import JOINER
from fairmend.errors import check, check_length, listed, warn

WHAT = "sensitive_features"
MAX_GROUPS = 500
RESERVED = ("best", "rest")
"""No group's label: as a reference they mean the best-off group and all others together."""
_RARE, _LONG = 0.1, 5
"""Of two labels one slip apart: the people of the rarer beside the other's, and letters in both."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?", re.ASCII)
UNKNOWN, OPTED_OUT = -1, -2
"""The place of people in no audited group, and of people without a label."""


# -------------------------------------------------------------------- labels


def as_label(value: Hashable) -> Hashable:
    """A label without blanks around it, in Unicode's NFC form, so that no two groups print alike.

    Text of blanks alone stays what it is.

    >>> as_label("F "), as_label(1), as_label(" ")
    ('F', 1, ' ')
    """
    if not isinstance(value, str):
        return value
    return unicodedata.normalize("NFC", value.strip()) or value


def alike(people: Mapping[str, int]) -> list[tuple[str, str]]:
    """Labels that may be one group in two spellings, the rarer of each pair first.

    They differ in case and blanks alone, or the rarer of two words is one slip from the other.

    >>> alike({"female": 900, "Female": 50, "femael": 3, "18-24": 9, "18-25": 90})
    [('Female', 'female'), ('femael', 'female')]
    """
    found = []
    by_size = sorted(people, key=lambda label: (-people[label], label))
    for place, rarer in enumerate(by_size):
        for usual in by_size[:place]:
            one, other = (" ".join(label.casefold().split()) for label in (rarer, usual))
            is_rare = people[rarer] < _RARE * people[usual]
            if one == other or (is_rare and _is_slip(one, other)):
                found.append((rarer, usual))
                break
    return found


def _is_slip(one: str, other: str) -> bool:
    """Whether words differ by one letter, or by two neighbours that changed places."""
    if min(len(one), len(other)) < _LONG or any(map(str.isdigit, one + other)):
        return False
    for _ in range(2):  # without what both begin with, then without what both end with
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
        )
        one, other = one[same:][::-1], other[same:][::-1]
    return max(len(one), len(other)) == 1 or (len(one) == 2 and one == other[::-1])


def group_of(labels: Iterable[Hashable]) -> Hashable:
    """The group of people with these labels, one per attribute.

    Numbers that are equal are spelt alike: a column of whole numbers comes as floats as soon as
    one entry is missing.

    >>> [group_of(labels) for labels in (["F"], ("F", 1), ("F", 1.0), ("F", True), ("F", 1.5))]
    ['F', 'F & 1', 'F & 1', 'F & 1', 'F & 1.5']
    """
    labels = list(labels)
    return labels[0] if len(labels) == 1 else JOINER.join(map(_spelling, labels))


def _spelling(label: Hashable) -> str:
    whole = isinstance(label, int | float) and label % 1 == 0
    return str(int(label)) if whole else str(label)  # type: ignore[call-overload]


def _as_value(label: Hashable) -> Hashable:
    """Text that reads like a number or a truth value as such, however a file spells it.

    >>> _as_value("1.0"), _as_value("TRUE"), _as_value("01")
    (1.0, True, '01')
    """
    word = label.lower() if isinstance(label, str) else ""
    if word in ("true", "false"):
        return word == "true"
    return float(word) if _NUMBER.fullmatch(word) else label


# -------------------------------------------------------------------- new people


class Membership(NamedTuple):
    """For each person the place among the audited groups, -1 for none, and who opted out."""

    place: IntArray
    opted_out: BoolArray
    first_unknown: str = ""
    """The label of the first person of no audited group."""

    @classmethod
    def everybody(cls, n: int) -> Membership:
        """All people in one place, where nobody's group is read."""
        return cls(np.zeros(n, np.int64), np.zeros(n, bool))

    @property
    def unknown(self) -> BoolArray:
        """Who has a label that is no audited group."""
        return (self.place < 0) & ~self.opted_out


class GroupReader:
    """Finds people's places among the audited groups.

    >>> reader = GroupReader((0, 1))
    >>> [reader.place([label]) for label in (1, 1.0, "1", "1.0", True, " 1", 7, None)]
    [1, 1, 1, 1, 1, 1, -1, -2]
    >>> GroupReader(("F & 0", "F & 1")).place(["F ", True])
    1
    """

    def __init__(self, groups: Sequence[Hashable]) -> None:
        self._places: dict[Hashable, int] = {}
        # a group keeps its own label, even if another one reads the same
        for read in (scalar, as_label, str, _spelling):
            for place, group in enumerate(groups):
                self._places.setdefault(read(group), place)

    def place(self, labels: Sequence[Any]) -> int:
        """One person's place by the labels of all attributes; `UNKNOWN` or `OPTED_OUT` if none."""
        if not all(isinstance(label, Hashable) for label in labels):
            return UNKNOWN
        plain = [scalar(label) for label in labels]
        if any(is_missing(label) for label in plain):
            return OPTED_OUT
        read = [as_label(label) for label in plain]
        spellings = (group_of(plain), group_of(read), group_of(map(_as_value, read)))
        for label in (*spellings, *map(_spelling, spellings)):
            if label in self._places:
                return self._places[label]
        return OPTED_OUT if "" in plain else UNKNOWN

    def read(self, given: Any, frame: Frame) -> Membership:
        """Everybody's place, from columns given as to an audit."""
        check_order({"X": frame.native, WHAT: given})
        encoded = []
        for name, column in group_columns(given, frame):
            what = f"{WHAT} {name!r}"
            check_length(what, column, len(frame), "X")
            encoded.append(encode(column, what))
        alike = distinct_rows(encoded)
        labels = [[part.values[part.codes[row]] for part in encoded] for row in alike.first]
        places = np.array([self.place(one) for one in labels], np.int64)
        place = places[alike.inverse]
        unknown = alike.inverse[place == UNKNOWN]
        first = labels[unknown[0]] if len(unknown) else ()
        return Membership(
            np.maximum(place, UNKNOWN), place == OPTED_OUT, JOINER.join(map(str, first))
        )


# -------------------------------------------------------------------- people of an audit


def read_groups(
    given: Any, frame: Frame | None, n: int
) -> tuple[IntArray, tuple[Hashable, ...], str]:
    """Each person's place among the groups, the groups, and the name of the attribute."""
    parts = group_columns(given, frame)
    encoded = [_read_attribute(name, column, n) for name, column in parts]
    if len(encoded) == 1:
        member, groups = encoded[0].codes, tuple(scalar(value) for value in encoded[0].values)
    else:
        alike = distinct_rows(encoded)
        member = alike.inverse
        groups = tuple(
            group_of(scalar(part.values[part.codes[row]]) for part in encoded)
            for row in alike.first
        )
    _check_groups(groups)
    return member.astype(np.int64, copy=False), groups, JOINER.join(name for name, _ in parts)


def _check_groups(groups: Sequence[Hashable]) -> None:
    n, distinct = len(groups), len(set(map(str, groups)))
    must, got = f"must name 2 to {MAX_GROUPS} groups", f"got {n:,} distinct values"
    fix = "Is it an id or a number? Bin it, or merge small groups."
    check(n <= MAX_GROUPS, WHAT, must, got, fix)
    must, got = "must name at least two groups", f"everybody is {groups[0]!r}"
    check(n >= 2, WHAT, must, got, "A gap needs two groups: audit both together.")
    must = "must have labels that read differently"
    got = f"among {listed(groups)} two print the same"
    check(distinct == n, WHAT, must, got, "Use one type for all labels, or rename them.")
    reserved = [label for label in RESERVED if label in groups]
    must, got = "must not call a group 'best' or 'rest'", f"got {listed(reserved)}"
    fix = "These mean the best-off group and all others together: rename it."
    check(not reserved, WHAT, must, got, fix)


def group_columns(given: Any, frame: Frame | None) -> list[tuple[str, Any]]:
    """Each attribute's name and its column; ``given`` may name columns of X."""
    if isinstance(given, str):
        return [(given, read_column(given, frame, WHAT))]
    if isinstance(given, Mapping):
        columns = [
            (str(name), read_column(values, frame, f"{WHAT} {str(name)!r}"))
            for name, values in given.items()
        ]
    elif frame is not None and are_names(given, frame):
        columns = [(name, frame.column(name, WHAT)) for name in given]
    elif (table := as_frame(given, WHAT)) is not None:
        columns = [(str(name), table.get_column(name)) for name in table.columns]
    else:
        array = as_array(given, WHAT)
        if getattr(array, "ndim", 1) == 2:
            columns = [(f"s{j}", array[:, j]) for j in range(array.shape[1])]
        else:
            name = getattr(given, "name", None)
            columns = [("group" if name in (None, "") else str(name), as_column(array, WHAT))]
    check(columns, WHAT, "must have at least one column", "got none", "Pass one label per person.")
    return columns


def named_groups(given: Any, frame: Frame) -> list[str]:
    """The columns of X that are named as groups."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        return [name for name in given.values() if isinstance(name, str)]
    return list(given) if are_names(given, frame) else []


def are_names(given: Any, frame: Frame) -> bool:
    """Whether a list of texts names columns of X; a list as long as X holds people's labels."""
    if not isinstance(given, list | tuple) or len(given) == len(frame):
        return False
    return all(isinstance(name, str) for name in given) and not set(given).isdisjoint(frame.names)


def _read_attribute(name: str, column: Any, n: int) -> Encoded:
    what = f"{WHAT} {name!r}"
    check_length(what, column, n)
    encoded = encode(column, what)
    check_known(encoded, what, "Leave these people out, or name them, e.g. 'unknown'.")
    return _merge_spellings(encoded, what)


def _merge_spellings(encoded: Encoded, what: str) -> Encoded:
    """Labels as `as_label` has them, with a warning where that changes any."""
    labels = [scalar(value) for value in encoded.values]
    odd = [label for label in labels if as_label(label) != label]
    if not odd:
        return encoded
    alike = encode(object_array([*map(as_label, labels)]), what)
    warn(
        f"{what}: {listed(odd)} {'is' if len(odd) == 1 else 'are'} read as "
        f"{listed(dict.fromkeys(map(as_label, odd)))}: blanks around a label and the two ways to "
        "write an accent do not make another group"
    )
    return Encoded(alike.codes[encoded.codes], alike.values)
