"""Where scores turn from negative to positive decisions."""

from __future__ import annotations

from fairmend.data.columns import FloatArray
from fairmend.errors import warn
from fairmend.model.answers import Answers


def default_cut(output: str, method: str) -> float | None:
    """Where answers of a kind are cut if nobody says; None where that must be told."""
    if output == "probability":
        return 0.5
    return 0.0 if method == "decision_function" else None


def warn_of_idle_cut(cut: float | None, answers: Answers) -> None:
    """Warn of a threshold under which everybody gets the same decision."""
    score = answers.score
    if cut is None or score is None or not len(score):
        return
    above = score > cut
    if above.all() or not above.any():
        warn(
            f"threshold: every answer is {'greater than' if above.all() else 'at most'} {cut:g}, "
            f"so that everybody has the same decision: the answers go from {score.min():.6g} to "
            f"{score.max():.6g}. Is it meant for scores on another scale?"
        )


def cut_between(score: FloatArray, decision: FloatArray) -> tuple[float, float, float] | None:
    """A round cut above which all decisions are positive, and from where to where it may lie.

    >>> import numpy as np
    >>> cut_between(np.array([0.1, 0.29, 0.42]), np.array([0.0, 0.0, 1.0]))
    (0.4, 0.29, 0.42)
    >>> cut_between(np.array([0.1, 0.29, 0.42]), np.array([0.0, 1.0, 0.0])) is None
    True
    """
    if not 0 < decision.sum() < len(decision):  # where it would decide otherwise nobody knows
        return None
    low, high = float(score[decision == 0].max()), float(score[decision == 1].min())
    if low >= high:
        return None
    for digits in range(16):
        cut = round((low + high) / 2, digits)
        if low <= cut < high:
            return cut, low, high
    return low, low, high
