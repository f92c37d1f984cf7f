"""What happened, as a value whose text can be shown to people."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """What happened; the value is what to tell people."""

    CLOSED = "The gap is closed."
    PARTLY = "The gap is closed to the level asked for."
    NOTHING_TO_DO = "There is no gap to close: the counterfactual is what is observed."
    IRRECONCILABLE = (
        "No distribution over these inputs, with outcomes as estimated, closes the gap: this one "
        "narrows it. Possible reasons: P(Y | X) differs between the groups, the target group lacks "
        "inputs that the reference group has, or equal inputs get different decisions. More or "
        "other inputs may help."
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


class PlanStatus(Enum):
    """What a plan achieves on the audit data; the value is what to tell people."""

    CLOSED = "The realised gap is closed on the audit data."
    PARTLY = "The realised gap is closed to the level asked for on the audit data."
    IDENTITY = "The target group is not worse off in the audit data: nobody is edited."
    REMAINS = (
        "The plan was carried out, but the gap people experience is not closed. Calibrate on the "
        "realised gap, or allow more edits."
    )
    WIDER = (
        "The gap that people experience is wider than before: do not use this plan. Either it was "
        "not calibrated on the realised gap, or the groups in the reference are repaired too and "
        "these edits cannot follow. Calibrate on the realised gap, or name a reference group."
    )
    UNREACHABLE = (
        "The allowed edits cannot close the gap at any sensible price: this is the smallest that "
        "they leave. Allow more edits, or lower the level."
    )
    INFEASIBLE = (
        "These gaps cannot all be closed at once, by the outcomes estimated from the audit data: "
        "of the repairs tried this leaves the least. Drop a metric, or try a lower level."
    )

    @property
    def closed(self) -> bool:
        return self in (PlanStatus.CLOSED, PlanStatus.PARTLY)
