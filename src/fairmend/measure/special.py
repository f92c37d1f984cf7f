"""SciPy's special functions, imported when first used: they take as long as all of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import scipy.special

    return getattr(scipy.special, name)
