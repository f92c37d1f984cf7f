"""Repair without the group: one rule for everybody, judged on people it has not seen.

    python experiments/blind.py [--splits 20] [--jobs 2]

The model, the splits and the hard rows are those of repair.py. The rule is fitted on the audit part
with groups and applied to the holdout without them, by

    scores        the model's probabilities are known
    labels        the model gives labels only
    raise         scores, and nobody may lose a favourable decision
    words         scores, and the rule is a short list of conditions

Raw Adult with boosting, by sex and by all races, is added where its file is there; the model reads
sex and race, the rule does not. Prints tables and writes results/blind.json; about seven minutes
on two cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _shared import (
    MEAN_ABS,
    METRICS,
    Check,
    Gap,
    Part,
    Record,
    Split,
    arguments_of,
    fitted,
    gap_between,
    members,
    parts,
    run_all,
    run_as_script,
    split,
    statuses,
    summaries,
    verdict,
    write_json,
)
from mixed import RAW_ADULT, Remembering, raw_adult, vendor

from fairmend import BlackBox
from fairmend.classifier import RepairedClassifier
from fairmend.repair.blind.rule import BlindPlan, BlindRule
from fairmend.tables import UNKNOWN, TextTable
from repair import FAVOURABLE, ROWS

WAYS = {"scores": "scores", "labels": "labels only", "raise": "scores, raise only",
        "words": "scores, in words"}  # fmt: skip
"""What the rule is given, whether anybody may lose a decision, and whether it can be read."""
RACE = "race"
"""The experiment of all races."""
REFERENCE = "White"
"""The largest group: the best off of five may be a small one by luck."""
RAW_SPLITS, RACE_SPLITS = 10, 5
"""At most so many of raw Adult, by sex and by race: a split takes a minute."""


# -------------------------------------------------------------------- what is asked


class Row(NamedTuple):
    """Whose gap in what: a line of the table for each way."""

    data: str
    metric: str
    target: str

    @property
    def name(self) -> str:
        return f"{self.data} {self.metric}"


EMBEDDED = tuple(Row(row.data, row.metric, row.target) for row in ROWS if not row.soft)
RAW = (Row("raw adult", "sp", "Female"), Row("raw adult", "fnr", "Female"))
RACE_METRICS = ("sp", "fnr")


class Bounds(NamedTuple):
    """What a row must show, as set before any of this was measured."""

    gap: float
    """The absolute mean gap."""
    accuracy: float | None = None
    lost: float | None = None
    """Accuracy below the model's, where the bound is on that."""


BOUNDS = {
    "adult sp": Bounds(0.008, 0.775),
    "adult fnr": Bounds(0.024, 0.811),
    "adult fpr": Bounds(0.006, 0.799),
    "compas sp": Bounds(0.020, 0.571),
    "compas fnr": Bounds(0.035, 0.566),
    "compas fpr": Bounds(0.025, 0.609),
    "raw adult sp": Bounds(0.010, lost=0.024),
    "raw adult fnr": Bounds(0.020, lost=0.002),
}
LABELS_BEHIND = 0.005
"""Accuracy that labels only may lose beside scores."""
WORDS_BEHIND = 0.012
"""Accuracy that a rule in words may lose beside the unrestricted one, on Adult."""
FLOORS = 2
"""By race: the mean absolute gap, in what a rule without any true gap shows."""


# -------------------------------------------------------------------- one split


def repaired(metric: str, way: str, split: Split, **settings: Any) -> RepairedClassifier:
    """The blind repair of one gap, fitted on the audit part."""
    box = BlackBox(split.model.predict if way == "labels" else split.model)
    mended = RepairedClassifier(
        box, metric, blind=True, do_no_harm=way == "raise", words=way == "words",
        random_state=split.seed, **settings,
    )  # fmt: skip
    return fitted(mended, split.audit)


class Seen(NamedTuple):
    """The holdout's decisions, the model's own and the rule's."""

    before: np.ndarray
    after: np.ndarray


def look(mended: RepairedClassifier, split: Split) -> Seen:
    """Put the holdout through the rule without groups, and hold it to what it promises."""
    X = split.holdout.X
    before = np.asarray(split.model.predict(X)) == 1
    after = mended.predict(X) == 1
    # equal inputs, equal answers: as many distinct rows with their decision as without
    rows = X.assign(**{"decided": after})
    assert len(rows.drop_duplicates()) == len(X.drop_duplicates()), "equals are decided otherwise"
    some = X.iloc[::10]  # each edit is worked out anew
    edited = np.asarray(split.model.predict(mended.transform(some))) == 1
    assert (edited == after[::10]).all(), "predict and transform tell different stories"
    kept = rule_of(mended).protected
    if kept is not None:
        assert (after == before)[before == kept].all(), "somebody lost a favourable decision"
    return Seen(before, after)


def rule_of(mended: RepairedClassifier) -> BlindRule:
    """The rule that all plans share."""
    plan = next(iter(mended.plans_.values()))
    assert isinstance(plan, BlindPlan)
    return plan.rule


def people_line(seen: Seen, split: Split, target: Any) -> Record:
    """Accuracy, and who is flipped which way."""
    y, own = split.holdout.y, members(split.holdout, target, None)
    line: Record = {
        f"accuracy_{when}": float((decided == y).mean())
        for when, decided in (("before", seen.before), ("after", seen.after))
    }
    for whose, here in (("target", own), ("other", ~own)):
        line[f"{whose}_up"] = float((seen.after & ~seen.before)[here].mean())
        line[f"{whose}_down"] = float((seen.before & ~seen.after)[here].mean())
    return line


def rule_line(mended: RepairedClassifier) -> Record:
    """What the rule says of itself."""
    rule = rule_of(mended)
    exceptions = 0 if rule.exceptions is None else len(rule.exceptions)
    line = {"cut": rule.trade_off.cut, "proxy_auc": rule.proxy_auc, "exceptions": exceptions}
    if rule.words is not None:
        line["rules"] = len(rule.words.rules)
        line["conditions"] = max((len(one.conditions) for one in rule.words.rules), default=0)
    return line


def gap_line(before: Gap, after: Gap) -> Record:
    """A gap before and after, with its sampling errors."""
    return {
        "gap_before": before.value,
        "gap_after": after.value,
        "holdout_error": after.holdout_error,
        "audit_error": after.audit_error,
    }


def one_run(row: Row, way: str, seed: int, split: Split) -> list[Record]:
    """One row, one way, one split; nothing where the audit finds the group no worse off."""
    started = time.process_time()
    favourable = FAVOURABLE.get(row.data, 1)
    mended = repaired(row.metric, way, split, target=row.target, favorable_label=favourable)
    seconds = time.process_time() - started
    if not mended.plans_:
        return []
    seen, plan = look(mended, split), mended.plans_[row.target]
    gaps = (gap_between(METRICS[row.metric], h, split, target=row.target) for h in seen)
    line = {
        "experiment": way,
        "row": row.name,
        "seed": seed,
        "status": plan.status.name,
        **gap_line(*gaps),
        "gap_on_audit": plan.outlook.gap_after,
        **people_line(seen, split, row.target),
        **rule_line(mended),
        "fit_seconds": seconds,
    }
    return [line]


def one_split(data: str, seed: int) -> list[Record]:
    """Every row of an embedded table on one split, in every way."""
    here = split(data, seed)
    rows = [row for row in EMBEDDED if row.data == data]
    return [line for row in rows for way in WAYS for line in one_run(row, way, seed, here)]


# -------------------------------------------------------------------- raw Adult


class Answering(Remembering):
    """A model that answers from memory, with labels too."""

    def predict(self, rows: Any) -> np.ndarray:
        """The model's labels."""
        return self.classes_[(self.predict_proba(rows)[:, 1] > 0.5).astype(int)]


@lru_cache
def by(path: Path, column: str) -> Part:
    """Raw Adult with one of its columns for groups."""
    people = raw_adult(path)
    return people._replace(s=people.X[column].to_numpy().astype(object))


def raw_split(seed: int, path: Path) -> list[Record]:
    """Boosting on one split of raw Adult: by sex in every way, by race with scores, if at all."""
    train, audit, holdout = parts(by(path, "sex"), seed)
    model = Answering(vendor("boosting", train).model)
    here = Split(model, audit, holdout, seed)
    lines = [
        line
        for row in RAW
        for way in WAYS
        if way != "words"  # its bounds are on the paper's table
        for line in one_run(row, way, seed, here)
    ]
    if seed >= RACE_SPLITS:
        return lines
    _, audit, holdout = parts(by(path, "race"), seed)
    here = Split(model, audit, holdout, seed)
    return [*lines, *(line for metric in RACE_METRICS for line in race_run(metric, seed, here))]


def race_run(metric: str, seed: int, split: Split) -> list[Record]:
    """One rule for all races: a line for each group that the audit found worse off."""
    started = time.process_time()
    mended = repaired(metric, "scores", split, reference=REFERENCE)
    seconds = time.process_time() - started
    if not mended.plans_:
        return []
    seen = look(mended, split)
    lines = []
    for gap in mended.audit_.gaps:
        # a small group has nobody to judge by in some holdouts
        concerned = METRICS[metric].given(seen.before.astype(float), split.holdout.y.astype(float))
        there = np.broadcast_to(concerned, seen.before.shape)[split.holdout.s == gap.target]
        if gap.metric != metric or gap.gap <= 0 or not gap.judged or not there.any():
            continue
        sides = {"target": gap.target, "baseline": gap.baseline}
        gaps = (gap_between(METRICS[metric], h, split, **sides) for h in seen)
        plan = mended.plans_[gap.target]
        lines.append(
            {
                "experiment": RACE,
                "row": f"raw adult {metric}, {gap.target}",
                "seed": seed,
                "status": plan.status.name,
                **gap_line(*gaps),
                "gap_on_audit": plan.outlook.gap_after,
                **people_line(seen, split, gap.target),
                **rule_line(mended),
                "fit_seconds": seconds,
            }
        )
    return lines


def over_closed(lines: Sequence[Record]) -> Record:
    """The mean absolute gap and its floor over the splits whose plans say that it is closed."""
    closed = [line for line in lines if line["status"] == "CLOSED"]
    if not closed:
        return {"closed": 0}
    return {
        "closed": len(closed),
        "closed_abs": float(np.abs([line["gap_after"] for line in closed]).mean()),
        "closed_floor_abs": float(
            MEAN_ABS * np.sqrt([line["holdout_error"] for line in closed]).mean()
        ),
    }


# -------------------------------------------------------------------- judging


def judge(found: Record, scores: Record | None = None) -> list[Check]:
    """The bounds of a row and what came; ``scores`` is the same row where scores are known."""
    if found["experiment"] == RACE:
        if not found["closed"]:
            return []
        times = f" (closed in {found['closed']} of {found['splits']} splits)"
        bound = FLOORS * found["closed_floor_abs"]
        return [Check("mean abs. gap", found["closed_abs"], bound, excuse=times)]
    if found["experiment"] == "raise":
        return []
    if found["experiment"] == "words":
        assert scores is not None
        if not found["row"].startswith("adult"):
            return []
        behind = scores["accuracy_after"] - found["accuracy_after"]
        size = f" ({found['rules']:.1f} rules of up to {found['conditions']:.1f} conditions)"
        return [
            Check("gap", abs(found["gap_after"]), BOUNDS[found["row"]].gap, excuse=size),
            Check("accuracy behind the unrestricted rule", behind, WORDS_BEHIND, excuse=size),
        ]
    bounds = BOUNDS[found["row"]]
    error = found["floor_with_audit"] / found["splits"] ** 0.5
    checks = [
        Check("gap", abs(found["gap_after"]), bounds.gap,
              excuse=f" ({found['gap_after']:+.4f}, itself ±{error:.4f})")
    ]  # fmt: skip
    if found["experiment"] == "labels":
        assert scores is not None
        behind = scores["accuracy_after"] - found["accuracy_after"]
        return [*checks, Check("accuracy behind scores", behind, LABELS_BEHIND)]
    if bounds.accuracy is not None:
        excuse = f" (the model has {found['accuracy_before']:.4f})"
        checks.append(Check("accuracy", found["accuracy_after"], bounds.accuracy, True, excuse))
    if bounds.lost is not None:
        lost = found["accuracy_before"] - found["accuracy_after"]
        checks.append(Check("accuracy lost", lost, bounds.lost))
    return checks


def counted(found: Iterable[Record]) -> list[tuple[Record, list[Check]]]:
    """Every record with its bounds."""
    rows = list(found)
    scores = {one["row"]: one for one in rows if one["experiment"] == "scores"}
    return [(one, judge(one, scores.get(one["row"]))) for one in rows]


def name_of(one: Record) -> str:
    """A row and the way it is repaired, where bounds are listed."""
    return f"{one['row']}, blind, {WAYS.get(one['experiment'], 'all races')}"


# -------------------------------------------------------------------- tables


def two_groups_table(found: Sequence[Record]) -> TextTable:
    """Two groups: the embedded tables, and raw Adult by sex."""
    most = max((one["splits"] for one in found if one["experiment"] in WAYS), default=0)
    return TextTable(
        f"Blind repair of two groups over {most} splits, raw Adult over fewer",
        (
            "<row", "<given", "splits", "gap", "after", "sd", "floor", "accuracy", "after",
            "target up", "down", "others up", "down", "cut", "proxy AUC", "fit s", "<ended",
            "<bounds",
        ),
        [
            (
                one["row"],
                WAYS[one["experiment"]],
                f"{one['splits']}",
                f"{one['gap_before']:+.4f}",
                f"{one['gap_after']:+.4f}",
                f"{one['sd']:.4f}",
                f"{one['floor_sd']:.4f}",
                *_people(one),
                statuses(one),
                verdict(checks),
            )
            for one, checks in counted(found)
            if one["experiment"] in WAYS
        ],
    )  # fmt: skip


def races_table(found: Sequence[Record]) -> TextTable:
    """Five races, one rule for all."""
    most = max(one["splits"] for one in found if one["experiment"] == RACE)
    return TextTable(
        f"Blind repair of all races on raw Adult, against {REFERENCE}, over {most} splits",
        (
            "<metric, group", "worse off in", "gap", "after", "sd", "floor", "mean abs",
            f"{FLOORS} floors", "accuracy", "after", "target up", "down", "others up", "down",
            "cut", "proxy AUC", "fit s", "<ended", "<bounds",
        ),
        [
            (
                one["row"].removeprefix("raw adult "),
                f"{one['splits']} of {most}",
                f"{one['gap_before']:+.4f}",
                f"{one['gap_after']:+.4f}",
                f"{one['sd']:.4f}",
                f"{one['floor_sd']:.4f}",
                *(
                    (f"{one['closed_abs']:.4f}", f"{FLOORS * one['closed_floor_abs']:.4f}")
                    if one["closed"]
                    else (UNKNOWN, UNKNOWN)
                ),
                *_people(one),
                statuses(one),
                verdict(checks),
            )
            for one, checks in counted(found)
            if one["experiment"] == RACE
        ],
    )  # fmt: skip


def _people(one: Record) -> tuple[str, ...]:
    shares = ("target_up", "target_down", "other_up", "other_down")
    return (
        *(f"{one[f'accuracy_{when}']:.4f}" for when in ("before", "after")),
        *(f"{100 * one[share]:.1f} %" for share in shares),
        f"{one['cut']:.3f}",
        f"{one['proxy_auc']:.3f}",
        f"{one['fit_seconds']:.2f}",
    )


NOTES = """\
gap: target's rate minus the others', before and after, mean over splits. sd: over splits. floor:
the sd that a rule with no true gap shows from the holdout's sampling alone. up, down: share of the
group whose decision is flipped to 1 and to 0. cut: the P(Y=1 | x) at which the model's own
decisions change; it sets the price of a flip. proxy AUC: how well the inputs that the rule may read
predict the group, cross-fitted. fit s: seconds of processor time. In every split the rule was
applied without groups, equal inputs got equal decisions, and raise only took no favourable decision
away.
"""


def tables(found: Record) -> list[TextTable]:
    """Two groups; all races where the raw file is there."""
    rows = found["rows"]
    races = [races_table(rows)] if any(one["experiment"] == RACE for one in rows) else []
    return [two_groups_table(rows), *races]


def run(splits: int, jobs: int, raw: Path = RAW_ADULT) -> Record:
    """Every row on every split; raw Adult where its file is there."""
    todo: list[Any] = [
        (one_split, (data, seed)) for data in ("adult", "compas") for seed in range(splits)
    ]
    if raw.exists():
        some = range(min(splits, RAW_SPLITS))
        todo = [*((raw_split, (seed, raw)) for seed in some), *todo]
    lines = run_all(todo, jobs)
    races = sorted({line["row"] for line in lines if line["experiment"] == RACE}, key=_race_order)
    order = [*(row.name for row in (*EMBEDDED, *RAW)), *races]
    lines.sort(key=lambda line: order.index(line["row"]))
    rows = summaries(lines)
    for one in rows:
        if one["experiment"] == RACE:
            one.update(over_closed([line for line in lines if line["row"] == one["row"]]))
    found: Record = {"splits": splits, "rows": rows}
    return found if raw.exists() else found | {"left_out": f"there is no {raw.name}"}


def _race_order(row: str) -> tuple[int, str]:
    """By metric as listed, then by group."""
    metric, group = row.removeprefix("raw adult ").split(", ")
    return RACE_METRICS.index(metric), group


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print, write."""
    options = arguments_of(__doc__, arguments, "blind.json")
    found = run(options.splits, options.jobs)
    write_json(options.out, found)
    print(*tables(found), NOTES, found.get("left_out", f"written to {options.out}"), sep="\n\n")
    return 0


if __name__ == "__main__":
    run_as_script(main)
