"""SciPy's special functions, imported when first used: they take as long as all of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import (
        betaincinv,
        expit,
        gammaln,
        logit,
        logsumexp,
        ndtr,
        ndtri,
        rel_entr,
        xlogy,
    )

__all__ = [
    "betaincinv",
    "expit",
    "gammaln",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "rel_entr",
    "xlogy",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import scipy.special

    globals()[name] = getattr(scipy.special, name)
    return globals()[name]
