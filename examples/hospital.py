"""A hospital buys a model that treats women and men alike, until it is deployed.

    python examples/hospital.py [--folder results/examples]

The model flags patients who are likely to be back within 30 days, so that a nurse follows them up.
The vendor's own population shows equal opportunity: of those who do come back, as many women are
flagged as men. At the hospital that bought it women's records are thinner, and it is so no more.

The patients are simulated: nobody's records are in here. What makes the gap is therefore known, and
one can see whether the explanation finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _telling import gaps_chart, options, say, show, table, title
from sklearn.ensemble import GradientBoostingClassifier

import fairmend
from fairmend.report import plot
from fairmend.tables import percent, points

SEED = 0
FLAGGED_ABOVE = 0.3
"""The vendor's advice: follow up whoever is more likely than this to be back."""
IMMUTABLE = ("age",)
WRITTEN_DOWN = 0.9
"""The share of diagnoses and earlier stays that find their way into a record."""
OF_WOMEN_HERE = 0.65
"""The same for women at the hospital that bought the model."""
UNDER_RECORDED = ("diagnoses", "stays_last_year")


@dataclass(frozen=True, eq=False)
class Patients:
    """Records, who was back within 30 days, and who is a woman."""

    X: Any
    back: Any
    sex: Any

    def part(self, start: int, end: int) -> Patients:
        return Patients(self.X[start:end], self.back[start:end], self.sex[start:end])


@dataclass(frozen=True, eq=False)
class Told:
    """What the example found, for whoever wants to check it."""

    model: fairmend.BlackBox
    at_the_vendor: fairmend.Audit
    at_the_hospital: fairmend.Audit
    explained: fairmend.Counterfactual
    repaired: dict[str, Any]
    """By what the hospital gets from the model: its scores, or labels only."""
    reports: dict[str, Any]
    new: Patients
    charts: tuple[Path, ...]


def simulate(n: int, *, of_women: float, seed: int) -> Patients:
    """Patients whose illness does not depend on their sex; what is written down of it may."""
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.5
    age = np.clip(rng.normal(66, 13, n).round(), 18, 99).astype(int)
    illnesses = rng.poisson(1.0 + 0.03 * np.maximum(age - 45, 0))
    stays = rng.poisson(0.2 + 0.3 * illnesses)
    emergency = (rng.random(n) < 0.3 + 0.05 * np.minimum(illnesses, 8)).astype(int)
    days = 1 + rng.poisson(1.5 + 0.5 * illnesses)
    log_odds = -3.2 + 0.5 * illnesses + 0.4 * stays + 0.4 * emergency
    written = np.where(woman, of_women, WRITTEN_DOWN)
    records = pd.DataFrame(
        {
            "age": age,
            "diagnoses": rng.binomial(illnesses, written),
            "stays_last_year": rng.binomial(stays, written),
            "emergency": emergency,
            "days_in_hospital": days,
        }
    )
    back = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return Patients(records, back, pd.Series(np.where(woman, "women", "men"), name="sex"))


def buy(people: Patients) -> fairmend.BlackBox:
    """The vendor's model, trained where the vendor is. From here on it is only asked."""
    trees = GradientBoostingClassifier(n_estimators=60, subsample=0.5, random_state=SEED)
    return fairmend.BlackBox(trees.fit(people.X, people.back), threshold=FLAGGED_ABOVE)


def tell(folder: Path) -> Told:
    """Audit at the vendor's and here, explain, repair with scores and with labels only, check."""
    elsewhere = simulate(20_000, of_women=WRITTEN_DOWN, seed=SEED + 1)
    here = simulate(20_000, of_women=OF_WOMEN_HERE, seed=SEED + 2)
    audited, new = here.part(0, 12_000), here.part(12_000, 20_000)

    title("1  As sold")
    model = buy(elsewhere.part(0, 8_000))
    at_the_vendor = _audit(model, elsewhere.part(8_000, 20_000))
    say(
        "The patients of this example are simulated. The vendor shows an audit on patients of its "
        "own: of those who come back within 30 days, the model misses as many women as men."
    )
    show(at_the_vendor)

    title("2  As deployed")
    at_the_hospital = _audit(model, audited)
    missed = at_the_hospital["fnr", "women"]
    show(at_the_hospital)
    say(
        f"Here the same model misses {percent(missed.target_rate)} of the women who come back and "
        f"{percent(missed.baseline_rate)} of such men. It has not changed; the records have."
    )

    title("3  Why")
    explained = fairmend.counterfactual(
        model, audited.X, audited.back, sensitive_features=audited.sex, disparity="fnr",
        target="women",
    )  # fmt: skip
    _show_why(explained)

    title("4  The repair")
    asked = {
        "scores": model,
        "labels only": lambda rows: np.asarray(model.model.predict_proba(rows)[:, 1]
                                               > FLAGGED_ABOVE, int),
    }  # fmt: skip
    repaired = {access: _mend(how, audited) for access, how in asked.items()}
    reports = {
        access: one.report(new.X, new.back, sensitive_features=new.sex, holdout=True)
        for access, one in repaired.items()
    }
    _show_repair(repaired, reports)
    charts = _draw(folder, at_the_vendor, at_the_hospital, reports, explained)
    return Told(model, at_the_vendor, at_the_hospital, explained, repaired, reports, new, charts)


def _audit(model: Any, people: Patients) -> fairmend.Audit:
    return fairmend.audit(
        model, people.X, people.back, sensitive_features=people.sex, reference="men"
    )


def _show_why(explained: fairmend.Counterfactual) -> None:
    scores = explained.feature_scores()
    table(
        "What carries the gap",
        ("<feature", "of the gap, alone"),
        [(row.feature, percent(row.share_of_gap)) for row in scores.itertuples()],
    )
    means = explained.marginals().query("statistic == 'mean'")
    table(
        "Means",
        ("<feature", "men", "women", "women, if the gap were closed"),
        [
            (row.feature, *(f"{x:.2f}" for x in (row.baseline, row.observed, row.counterfactual)))
            for row in means.itertuples()
        ],
    )
    say(
        f"{scores.feature[0]} carries most of it. The women would have to look a little iller on "
        "paper, in the very records that we know are thin here: the simulation writes down "
        f"{percent(OF_WOMEN_HERE)} of women's diagnoses and earlier stays, and "
        f"{percent(WRITTEN_DOWN)} of men's."
    )


def _mend(model: Any, people: Patients) -> Any:
    return fairmend.RepairedClassifier(
        model, "fnr", target="women", reference="men", immutable=IMMUTABLE, do_no_harm=True,
        random_state=SEED,
    ).fit(people.X, people.back, sensitive_features=people.sex)  # fmt: skip


def _show_repair(repaired: dict[str, Any], reports: dict[str, Any]) -> None:
    say(
        "A few more women must be flagged: those nearest the vendor's cut. Their records are "
        "edited on the way to the model as little as does it; age stays as it is, nobody loses a "
        "flag, and no man's record is touched. Should the vendor hand out flags alone, without "
        "scores, the same can be done by an estimate of who is likely to be back."
    )
    for access, one in repaired.items():
        show(f"With {access}\n{one.plan_}")
    lines = []
    for access, report in reports.items():
        before, after = (audit["fnr", "women"] for audit in (report.before, report.after))
        women = next(group for group in report.groups if group.group == "women")
        lines.append(
            (
                access,
                percent(before.target_rate),
                percent(after.target_rate),
                percent(after.baseline_rate),
                points(after.gap),
                f"{points(after.low)} to {points(after.high)}",
                percent(women.edited),
                percent(report.accuracy_after),
            )
        )
    table(
        "On 8,000 patients nobody has seen yet: who come back and are missed",
        ("<access", "women before", "after", "men", "gap after", "95 % interval", "women edited",
         "accuracy"),
        lines,
    )  # fmt: skip
    accuracy = next(iter(reports.values())).accuracy_before
    say(
        f"Accuracy was {percent(accuracy)}. The gap is closed as far as patients can tell; the "
        "cause is not. Thin records harm in other ways too, and writing them better is the cure."
    )


def _draw(
    folder: Path,
    at_the_vendor: fairmend.Audit,
    at_the_hospital: fairmend.Audit,
    reports: dict[str, Any],
    explained: fairmend.Counterfactual,
) -> tuple[Path, ...]:
    gaps = {
        "the vendor's patients": at_the_vendor["fnr", "women"],
        "our patients": at_the_hospital["fnr", "women"],
        **{
            f"new patients, repaired with {access}": report.after["fnr", "women"]
            for access, report in reports.items()
        },
    }
    charts = {
        "hospital_gap.svg": gaps_chart(
            gaps,
            "Missed among those who come back: women against men",
            "simulated patients; above 0 the model misses more women",
        ),
        "hospital_features.svg": plot.feature_scores(explained),
    }
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(plot.save(chart, folder / name) for name, chart in charts.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Tell the story and say where its charts are."""
    told = tell(options(__doc__).parse_args(arguments).folder)
    say(f"Charts: {', '.join(path.name for path in told.charts)}.")


if __name__ == "__main__":
    main()
