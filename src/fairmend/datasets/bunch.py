"""What a loader hands over: the inputs, the outcomes, the groups, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, repr=False, eq=False)
class Bunch:
    """One data set; every field is read as an attribute or as an item.

    The fields cannot be reassigned. The arrays and frames in them are made afresh for every
    call of a loader, so they are the caller's own to change.

    The fields:
        name: what the data set is called.
        X: the inputs, n rows, as a frame of the chosen backend (or a 2-D array).
        y: the outcomes in {0, 1}, shape (n,).
        sensitive_features: the group of every person, as a series of the chosen backend.
        feature_names: the columns of ``X`` in order.
        target_names: what ``y == 0`` and ``y == 1`` stand for.
        sensitive_name: what the groups are groups of. Arrow columns and NumPy arrays cannot
            carry a name themselves.
        description: what the table holds, who made it, under which licence.

    >>> from fairmend.datasets import load_adult
    >>> adult = load_adult(backend="numpy")
    >>> adult.X.shape == adult["X"].shape == (32561, 16)
    True
    >>> sorted(dict(adult))[:3]
    ['X', 'description', 'feature_names']
    """

    name: str
    X: Any
    y: NDArray[np.int8]
    sensitive_features: Any
    feature_names: tuple[str, ...]
    target_names: tuple[str, str]
    sensitive_name: str
    description: str

    def keys(self) -> tuple[str, ...]:
        """Name the fields; with item access this makes ``dict(bunch)`` work."""
        return tuple(field.name for field in fields(self))

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        groups, counts = np.unique(
            np.asarray(self.sensitive_features, dtype=str), return_counts=True
        )
        sizes = ", ".join(
            f"{group} {count:,}" for group, count in zip(groups.tolist(), counts, strict=True)
        )
        return (
            f"Bunch({self.name!r}: {self.y.size:,} people x {len(self.feature_names)} features, "
            f"{100 * self.y.mean():.0f} % of y is 1, {self.sensitive_name}: {sizes})"
        )
