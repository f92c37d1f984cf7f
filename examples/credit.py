"""A bank enters a new market, and its credit score fails customers over 60.

    python examples/credit.py [--folder results/examples]

The score was built where everybody pays online and a long online history means a reliable payer. In
the new market many customers over 60 pay over the counter: the score has little to go by, and turns
down people who would have repaid. Inputs are mixed: amounts, counts, categories, some missing. What
the bank has verified may not be edited, a history may only grow longer and cleaner, and nobody may
lose an offer.

The customers are simulated: no bank's data are in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from _telling import dressed, gaps_chart, options, say, show, table, title
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fairmend
from fairmend.report import plot
from fairmend.report.plot import BLUE
from fairmend.tables import percent, points

SEED = 0
OLD, YOUNG = "over 60", "to 60"
CATEGORIES = ("work", "housing")
IMMUTABLE = ("age", "income", "work")
"""Who one is, and what the bank has verified."""
ONE_WAY = {"online_months": "up", "late_payments": "down"}
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Customers:
    """What the bank knows, and who repaid."""

    X: Any
    repaid: Any

    @property
    def age_group(self) -> Any:
        return age_group(self.X)

    def part(self, start: int, end: int) -> Customers:
        return Customers(self.X[start:end], self.repaid[start:end])


@dataclass(frozen=True, eq=False)
class Told:
    """What the example found, for whoever wants to check it."""

    model: Any
    found: fairmend.Audit
    repaired: Any
    report: Any
    refusal: str
    frontier: list[dict[str, Any]]
    new: Customers
    edited: Any
    """The new customers' inputs as the repaired score sees them."""
    charts: tuple[Path, ...]


def age_group(X: Any) -> Any:
    """The group is found in the inputs themselves, so that nobody has to pass it along."""
    return pd.Series(np.where(X["age"] > 60, OLD, YOUNG), name="age", index=X.index)


def simulate(n: int, *, over_the_counter: float, seed: int) -> Customers:
    """Customers who repay by their means and habits; of those over 60 some never pay online."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(9, 5.2, n).round(), 19, 92).astype(int)
    old = age > 60
    retired = old & (rng.random(n) < 0.7)
    work = np.where(retired, "retired", rng.choice(["employed", "self-employed"], n, p=[0.8, 0.2]))
    housing = np.where(rng.random(n) < 0.25 + 0.006 * age, "owner", "tenant")
    income = (rng.lognormal(3.4, 0.4, n) * np.where(retired, 0.8, 1.0)).round() * 1_000
    savings = (rng.lognormal(1.6, 1.0, n) * (1 + old)).round() * 500
    reliable = rng.normal(0, 1, n)
    late = rng.poisson(np.exp(-0.6 - 0.8 * reliable))
    online = np.clip((36 + 20 * reliable + rng.normal(0, 12, n)).round(), 0, 96)
    cash = old & (rng.random(n) < over_the_counter)
    online = np.where(cash, rng.choice([np.nan, 0.0, 3.0], n), online)
    log_odds = (
        0.2 + 1.1 * reliable - 0.3 * late + 0.5 * np.log(income / 30_000)
        + 0.25 * np.log1p(savings / 2_000) + 0.3 * (housing == "owner")
    )  # fmt: skip
    X = pd.DataFrame(
        {
            "age": age,
            "work": work,
            "housing": housing,
            "income": income,
            "savings": savings,
            "late_payments": late,
            "online_months": online,
            "years_at_address": rng.poisson(3 + 0.12 * age),
        }
    )
    return Customers(X, (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int))


def build(people: Customers) -> Any:
    """The bank's score, from the market it knows. From here on it is only asked."""
    numbers = [name for name in people.X if name not in CATEGORIES]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), list(CATEGORIES)),
        (SimpleImputer(strategy="constant", fill_value=0), numbers),
    )
    trees = GradientBoostingClassifier(n_estimators=60, subsample=0.5, random_state=SEED)
    return make_pipeline(columns, trees).fit(people.X, people.repaid)


def tell(folder: Path) -> Told:
    """Audit in the new market, explain, repair within rules, and see what it costs whom."""
    model = build(simulate(8_000, over_the_counter=0.05, seed=SEED + 1))
    market = simulate(16_000, over_the_counter=0.4, seed=SEED + 2)
    audited, new = market.part(0, 9_000), market.part(9_000, 16_000)

    title("1  The new market")
    found = fairmend.audit(
        model, audited.X, audited.repaid, sensitive_features=audited.age_group, reference=YOUNG
    )
    say("The customers of this example are simulated. A yes is an offer of credit.")
    show(found)
    missed = found["fnr", OLD]
    say(
        f"Of the customers over 60 who repay, the score turns down {percent(missed.target_rate)}; "
        f"of the others {percent(missed.baseline_rate)}."
    )

    title("2  Why")
    explained = fairmend.counterfactual(
        model, audited.X, audited.repaid, sensitive_features=audited.age_group, disparity="fnr",
        target=OLD,
    )  # fmt: skip
    table(
        "What carries the gap",
        ("<feature", "of the gap, alone"),
        [
            (row.feature, percent(row.share_of_gap))
            for row in explained.feature_scores().head(4).itertuples()
        ],
    )

    title("3  The repair, within the bank's rules")
    repaired = _mender(model, "fnr", OLD).fit(audited.X, audited.repaid)
    say(
        f"Never edited: {', '.join(IMMUTABLE)}. Only one way: "
        f"{', '.join(f'{name} {way}' for name, way in ONE_WAY.items())}. Nobody loses an offer."
    )
    show(repaired.plan_)
    report = repaired.report(new.X, new.repaid, holdout=True)
    say(f"{len(new.repaid):,} new customers:")
    show(report)
    before, after = report.before["fnr", OLD].gap, report.after["fnr", OLD].gap
    say(
        f"The repair closes the gap its audit saw, {100 * repaired.plan_.outlook.gap_before:.1f} "
        f"points. Among the new customers it was {100 * before:.1f}, and {100 * after:+.1f} is "
        "left: two samples of one market differ by as much."
    )
    say(
        "Read the other lines as well. Those over 60 are now turned down less often than the "
        "others, and more of their offers go wrong: for many of them the score knows too little "
        "to tell who repays, and no edit can add that. Equal opportunity is one aim among several."
    )

    title("4  The repair that is refused")
    refusal = _refused(model, audited.part(0, 5_000))
    say(
        "Before the repair more of the younger who would not repay got an offer (fpr). To close "
        "that gap is to take offers away from them, and the bank has said do_no_harm. The answer, "
        f"for 5,000 of the customers: {refusal}"
    )

    title("5  How far to go")
    frontier = repaired.frontier(new.X, new.repaid, levels=LEVELS)
    table(
        "New customers, as more of the gap is closed",
        ("level", "gap", "accuracy", "edited", "gain an offer"),
        [
            (
                percent(point["level"]),
                points(point["gap"]),
                percent(point["accuracy"]),
                percent(point["edited"]),
                percent(point["gained"]),
            )
            for point in frontier
        ],
    )
    edited = repaired.transform(new.X, ids=new.X.index)
    charts = _draw(folder, found, report, explained, frontier)
    return Told(model, found, repaired, report, refusal, frontier, new, edited, charts)


def _mender(model: Any, disparity: str, target: str) -> Any:
    return fairmend.RepairedClassifier(
        model,
        disparity,
        target=target,
        immutable=IMMUTABLE,
        one_way=ONE_WAY,
        cost=fairmend.Cost(weights={"savings": 2.0}),
        groups_from=age_group,
        do_no_harm=True,
        random_state=SEED,
    )


def _refused(model: Any, people: Customers) -> str:
    try:
        _mender(model, "fpr", YOUNG).fit(people.X, people.repaid)
    except fairmend.RepairRefused as refusal:
        return str(refusal)
    return "it was not refused."


def _draw(
    folder: Path,
    found: fairmend.Audit,
    report: Any,
    explained: fairmend.Counterfactual,
    frontier: list[dict[str, Any]],
) -> tuple[Path, ...]:
    gaps = {
        "audited customers": found["fnr", OLD],
        "new customers, score as it is": report.before["fnr", OLD],
        "new customers, score repaired": report.after["fnr", OLD],
    }
    course = (
        alt.Chart(alt.Data(values=frontier))
        .mark_line(point=alt.OverlayMarkDef(filled=True, size=70), color=BLUE)
        .encode(
            x=alt.X("gap:Q", title="gap left, new customers", axis=alt.Axis(format="+~%")),
            y=alt.Y(
                "accuracy:Q",
                title="accuracy, all new customers",
                scale=alt.Scale(zero=False, padding=10),
                axis=alt.Axis(format=".1~%"),
            ),
            order="level:Q",
        )
        .properties(width=420, height=200)
    )
    charts = {
        "credit_gap.svg": gaps_chart(
            gaps,
            "Turned down among those who repay: over 60 against to 60",
            "simulated customers; above 0 the score fails more of those over 60",
        ),
        "credit_features.svg": plot.feature_scores(explained),
        "credit_frontier.svg": dressed(
            course,
            "Accuracy, as more of the gap is closed",
            f"from none of it closed (right) to all of it, in {len(LEVELS)} steps",
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(plot.save(chart, folder / name) for name, chart in charts.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Tell the story and say where its charts are."""
    told = tell(options(__doc__).parse_args(arguments).folder)
    say(f"Charts: {', '.join(path.name for path in told.charts)}.")


if __name__ == "__main__":
    main()
