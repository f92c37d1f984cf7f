"""The result of a search: every candidate with its figures, the best one, and the bound."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend import doors
from fairmend.data.files import refuse_existing, writing
from fairmend.data.naming import GroupNames
from fairmend.data.plain import as_plain
from fairmend.errors import DataError, FairmendWarning, listed, nearest, require
from fairmend.measure.disparity import title_of
from fairmend.measure.result import Audit
from fairmend.measure.wording import share
from fairmend.repair.blind.fit import storable
from fairmend.repair.held import HeldPlan
from fairmend.repair.plan import Plan
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import RepairSettings
from fairmend.repair.telling import telling_inputs
from fairmend.repair.trade_off import TradeOff
from fairmend.report.findings import Provenance
from fairmend.report.verdict import takes_away
from fairmend.search.bound import Bound
from fairmend.search.candidates import Candidate
from fairmend.search.judge import RISK, Figures, width
from fairmend.search.people import Part
from fairmend.tables import TextTable, number, percent, points

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.classifier import RepairedClassifier
    from fairmend.report.html.cards import Card

__all__ = ["Alternative", "Alternatives"]


@dataclass(frozen=True, eq=False)
class Alternative:
    """A candidate with its figures on both parts, and what the tests say of it."""

    candidate: Candidate
    choosing: Figures
    judging: Figures
    place: int | None
    """Its place in the order that was named before judging; None for those not named."""
    reached: bool
    """Whether it was its turn: all before it had passed."""
    passed: bool
    """Whether it is shown to be no worse than the margin allows and to have a smaller gap."""
    equivalent: bool
    """By two one-sided tests at the margin, corrected for how many candidates there are."""

    @property
    def standing(self) -> str:
        """How its measure stands beside the model's own: it may be no worse and better."""
        return "yes" if self.equivalent else "no worse" if self.passed else "no"

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def kind(self) -> str:
        return self.candidate.kind

    @property
    def reads_group(self) -> bool:
        return self.candidate.reads_group

    @property
    def gap(self) -> float:
        """The gap that is left, on the people who judge."""
        return self.judging.gap.gap

    @property
    def why(self) -> str:
        """What became of it, in a few words."""
        if self.kind == "current":
            return "what is compared with"
        if self.reads_group:
            return "reads the group: for comparison"
        if self.passed:
            return "passed"
        before, after = self.choosing, self.judging
        if self.place is not None and not self.reached:
            return "not tested: one before it did not pass"
        if self.place is not None:
            worse = after.performance.p_worse > RISK
            return "not shown to be within the margin" if worse else "gap not shown to be smaller"
        if before.reduction <= 0:
            return "choosing: no smaller gap"
        if before.performance.difference < -before.performance.margin:
            return "choosing: beyond the margin"
        return "choosing: others did better"


@dataclass(frozen=True, eq=False, repr=False)
class Alternatives(doors.Shown):
    """What could be done about a model without retraining it, and how well each would do.

    Candidates were made and chosen on one part of the people ("choosing") and judged once on the
    other ("judging"). All figures are of the people who judge unless they say otherwise.
    """

    candidates: tuple[Alternative, ...]
    """The model as it is comes first."""
    metric: str
    title: str
    measure: str
    margin: float
    relative_margin: bool
    """Whether the margin is a share of the model's own measure, as for profit."""
    trade_off: TradeOff
    bound: Bound | str
    """What no alternative of this kind can do; or in a sentence why that is not known."""
    provenance: Provenance
    audit: Audit
    """The model as it is, on the people who judge."""
    names: GroupNames
    favours_positive: bool
    choosing: Part = field(repr=False)
    settings: RepairSettings = field(repr=False)

    @property
    def current(self) -> Alternative:
        """The model as it is."""
        return self.candidates[0]

    @property
    def named(self) -> tuple[Alternative, ...]:
        """The candidates that were selected for judging, in their order."""
        some = [one for one in self.candidates if one.place is not None]
        return tuple(sorted(some, key=lambda one: one.place or 0))

    @property
    def best(self) -> Alternative | None:
        """The last of those named that passed: least gap, no worse than the margin, reads no group.

        None where none passed.
        """
        passed = [one for one in self.named if one.passed]
        return passed[-1] if passed else None

    @property
    def frontier(self) -> tuple[Alternative, ...]:
        """The candidates that read no group and that no other beats in both gap and measure."""
        some = [one for one in self.candidates if not one.reads_group]
        some.sort(key=lambda one: (-one.judging.performance.value, width(one.judging.gap)))
        frontier, least = [], float("inf")
        for one in some:
            if width(one.judging.gap) < least:
                frontier.append(one)
                least = width(one.judging.gap)
        return tuple(frontier)

    def __getitem__(self, name: str) -> Alternative:
        names = [one.name for one in self.candidates]
        if name not in names:
            must = f"must be one of the {len(names)} that to_frame() lists"
            raise DataError("candidate", must, f"got {name!r}", nearest(name, names))
        return self.candidates[names.index(name)]

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate; figures of the people who judge."""
        pandas = require("pandas", extra="pandas", why="Alternatives.to_frame()")
        frame: pd.DataFrame = pandas.DataFrame([_record(one) for one in self.candidates])
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; what is not known is None."""
        best = self.best
        return {
            "schema": "fairmend.alternatives/1",
            "metric": self.metric,
            "measure": self.measure,
            "margin": self.margin,
            "margin_is_share": self.relative_margin,
            "trade_off": self.trade_off.cut,
            "people": {"choosing": self.provenance.audited, "judging": self.provenance.reported},
            "candidates": [as_plain(_record(one)) for one in self.candidates],
            "named": [one.name for one in self.named],
            "best": None if best is None else best.name,
            "bound": self.bound.gap if isinstance(self.bound, Bound) else None,
            "bound_text": str(self.bound),
            "verdict": self.verdict(),
        }

    # ---------------------------------------------------------------- in words

    @property
    def margin_text(self) -> str:
        """The margin in its unit."""
        if self.relative_margin:
            return f"{100 * self.margin:g} % of {self.measure}"
        unit = "point" if np.isclose(self.margin, 0.01) else "points"
        return f"{100 * self.margin:g} {unit} of {self.measure}"

    def measure_text(self, value: float, *, signed: bool = False) -> str:
        """A value of the measure, or a difference of two, in its unit."""
        if self.relative_margin:
            return number(value, signed=signed)
        return points(value) if signed else percent(value)

    def verdict(self) -> str:
        """The answer in a few sentences."""
        best = self.best
        opening = (
            "No alternative is shown to be better."
            if best is None
            else f"There is one: {best.name}."
        )
        return f"{opening} {' '.join(self.sentences)}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the answer rests on."""
        best, now = self.best, self.current.judging.gap
        who, other = self.names(now.target), self.names(now.baseline)
        sentences = [
            f"The model's gap in {title_of(now.metric)} is {points(now.gap)} points for {who} "
            f"against {other}."
        ]
        if best is None:
            sentences.append(self._why_none())
            sentences.append("That is not proof that there is none.")
            return tuple(sentences)
        after = best.judging
        change, low, high = (
            self.measure_text(value, signed=True)
            for value in (after.performance.difference, after.performance.difference_low,
                          after.performance.difference_high)
        )  # fmt: skip
        sentences += [
            f"The alternative leaves {points(after.gap.gap)} points (95 % interval "
            f"{points(after.gap.low)} to {points(after.gap.high)}).",
            f"It changes {self.measure} by {change} ({low} to {high}); it is shown to be no worse "
            f"than the margin of {self.margin_text} allows.",
            self._what_it_reads(),
            f"{share(after.gain)} of all people gain the decision they want, {share(after.lose)} "
            "lose it.",
        ]
        if after.lose > after.gain:
            sentences.append(takes_away(after.gain))
        return tuple(sentences)

    def _what_it_reads(self) -> str:
        telling = telling_inputs(self.choosing.data)
        if not telling:
            return "It reads no group."
        return f"It reads no group beside the inputs that tell it to the model: {listed(telling)}."

    def _why_none(self) -> str:
        tried = len(self.candidates) - 1
        if not self.named:
            return (f"None of {tried} candidates has a smaller gap on the people they were chosen "
                    "on.")  # fmt: skip
        first = self.named[0]
        return (f"Of {tried} candidates the most promising, “{first.name}”, did not pass on "
                f"the people of the holdout: {first.why}.")  # fmt: skip

    def table(self) -> TextTable:
        """The candidates as a table, by kind and gap."""
        return TextTable(
            f"Alternatives on {self.provenance.reported:,} people who judge; chosen on "
            f"{self.provenance.audited:,} others",
            ("<candidate", "gap", "95 % interval", self.measure, "change", "95 % interval",
             "<equivalent", "changed", "gain", "lose", "<"),
            [
                (
                    one.name,
                    points(one.gap),
                    f"{points(one.judging.gap.low)} to {points(one.judging.gap.high)}",
                    self.measure_text(one.judging.performance.value),
                    self.measure_text(one.judging.performance.difference, signed=True),
                    " to ".join(self.measure_text(end, signed=True) for end in (
                        one.judging.performance.difference_low,
                        one.judging.performance.difference_high)),
                    one.standing,
                    percent(one.judging.changed),
                    percent(one.judging.gain),
                    percent(one.judging.lose),
                    one.why,
                )
                for one in self.candidates
            ],
            [
                f"gap: the widest in {self.metric}, in percentage points",
                f"change: in {self.measure}, beside the model as it is",
                f"equivalent: two one-sided tests at a margin of {self.margin_text}, corrected for "
                "the number of candidates",
                "no worse: shown not to lose the margin; it may be better by more than that",
                "changed, gain, lose: shares of all people; gain and lose the decision they want",
            ],
        )  # fmt: skip

    def __str__(self) -> str:
        parts = (fill(self.verdict(), 100), str(self.table()), fill(str(self.bound), 100))
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        best = self.best
        outcome = "none better shown" if best is None else f"best: {best.name}"
        return f"<Alternatives: {len(self.candidates)} candidates for {self.metric}, {outcome}>"

    def _card(self) -> Card:
        return doors.alternatives_card(self)

    # ---------------------------------------------------------------- to deploy and to file

    def classifier(self, candidate: str | Alternative | None = None) -> RepairedClassifier:
        """The fitted classifier of a candidate, by default of the best, to save and deploy."""
        from fairmend.classifier import RepairedClassifier

        if candidate is None:
            candidate = self.best or self.current
        one = candidate if isinstance(candidate, Alternative) else self[candidate]
        made, data = one.candidate, self.choosing.data
        settings = {name: getattr(made.settings, name) for name in RepairSettings.names()}
        repaired = RepairedClassifier(made.source if made.kind == "model" else made.box, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)  # the dossier says who loses what
            if made.kind in ("model", "cut"):
                data = _as_answered(made, self.choosing)
            repaired.keep_plans(made.box, data, _finished(made, data))
        return repaired

    def to_html(self, *, command: str | None = None) -> str:
        """The dossier: one page to file, which needs no network."""
        return doors.dossier_page(self, command)

    def save_html(
        self,
        path: str | PathLike[str],
        *,
        overwrite: bool = False,
        command: str | None = None,
    ) -> None:
        """Write the dossier as one file."""
        refuse_existing(Path(path), overwrite=overwrite)
        page = self.to_html(command=command)
        with writing(path, overwrite=overwrite) as file:
            file.write(page.encode())


def _record(one: Alternative) -> dict[str, Any]:
    after, performance = one.judging, one.judging.performance
    return {
        "candidate": one.name,
        "kind": one.kind,
        "reads_group": one.reads_group,
        "measure": performance.value,
        "measure_low": performance.low,
        "measure_high": performance.high,
        "difference": performance.difference,
        "difference_low": performance.difference_low,
        "difference_high": performance.difference_high,
        "equivalent": one.equivalent,
        "gap": after.gap.gap,
        "low": after.gap.low,
        "high": after.gap.high,
        "metric": after.gap.metric,
        "target": after.gap.target,
        "baseline": after.gap.baseline,
        "changed": after.changed,
        "gain": after.gain,
        "lose": after.lose,
        "named": one.place,
        "passed": one.passed,
        "why": one.why,
        "choosing_gap": one.choosing.gap.gap,
        "choosing_measure": one.choosing.performance.value,
    }


def _as_answered(made: Candidate, part: Part) -> Any:
    """The people candidates were chosen on, as another model or another cut decides about them."""
    from fairmend.measure.tabulate import tabulate

    given = part.given
    return tabulate(
        made.box,
        given.X,
        given.y,
        sensitive_features=given.sensitive_features,
        sample_weight=given.sample_weight,
        ids=given.ids,
        pos_label=part.data.labels.positive,
    )


def _finished(made: Candidate, data: Any) -> dict[Hashable, Plan]:
    """The plans with what they do to the people they were made on; repairs come so."""
    plans = storable(made.plans if made.finish is None else made.finish())
    if not any(isinstance(plan, HeldPlan) for plan in plans.values()):
        return plans
    now = replace(data, populations=tuple(
        replace(people, decision=plans[group].route(
            data.table.take(people.rows), people.answers).expected_decision(people.answers))
        for group, people in zip(data.groups, data.populations, strict=True)
    ))  # fmt: skip
    finished: dict[Hashable, Plan] = {}
    for group, plan in plans.items():
        other = now.against(group, plan.baseline)
        problem = RepairProblem.read(
            data, made.settings, made.box, target=group, baseline=plan.baseline, other=other
        )
        finished[group] = problem.again(plan)
    return finished
