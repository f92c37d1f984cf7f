"""What happened, as a value whose text can be shown to people."""

from __future__ import annotations

from enum import Enum

__all__ = ["Status"]


class Status(Enum):
    """What happened; the value is what to tell people."""

    CLOSED = "The gap is closed."
    PARTLY = "The gap is closed to the level asked for."
    NOTHING_TO_DO = "There is no gap to close: the counterfactual is what is observed."
    IRRECONCILABLE = (
        "No distribution over these inputs, with outcomes as estimated, closes the gap: this one "
        "narrows it. Possible reasons: P(Y | X) differs between the groups, the target group lacks "
        "inputs that the baseline has, or equal inputs get different decisions. More or other "
        "inputs may help."
    )
    STOPPED = (
        "The descent stopped before the gap was closed: this is the best it found. Raise max_iter "
        "or step_size, or use method='projection'."
    )
    NOT_FOUND = (
        "No distribution that closes this combination was found, and none is proved impossible. "
        "Give its parts as a list of disparities, or use method='descent'."
    )

    @property
    def closed(self) -> bool:
        return self in (Status.CLOSED, Status.PARTLY, Status.NOTHING_TO_DO)
