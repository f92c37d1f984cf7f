"""COMPAS as sold: nobody outside the vendor has the model, only the scores it gave.

    python examples/compas.py [--file compas-scores-two-years.csv] [--folder results/examples]

ProPublica published the risk scores, from 1 to 10, that people in Broward County, Florida, were
given on arrest, and whether they were arrested again within two years. 5 and above counts as medium
or high risk: here, as flagged. Nobody wants to be flagged, so the favourable decision is the
negative one, and the gap to close is that in false positives: people flagged who were not arrested
again.

With --file, ProPublica's public table (github.com/propublica/compas-analysis), the scores are the
vendor's own. Without it the example runs on the table that comes with fairmend, which has no vendor
score: a logistic regression of ours, cut into ten equal parts, then STANDS IN for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from _telling import dressed, gaps_chart, options, say, show, title
from sklearn.linear_model import LogisticRegression

import fairmend
from fairmend.report import plot
from fairmend.report.plot import BLUE, VERMILION
from fairmend.tables import percent

SEED = 0
SCORE = "decile_score"
FLAGGED_ABOVE = 4
AUDITED = 0.6
"""Of the people; the rest is kept apart."""


@dataclass(frozen=True, eq=False)
class Scored:
    """People with the score they were given, and what the score is."""

    X: Any
    arrested_again: Any
    race: Any
    target: str
    reference: str
    said: str
    immutable: tuple[str, ...]
    one_way: dict[str, str] = field(default_factory=dict)

    def part(self, rows: Any) -> tuple[Any, Any, Any]:
        return self.X.iloc[rows], self.arrested_again[rows], self.race.iloc[rows]


@dataclass(frozen=True, eq=False)
class Told:
    """What the example found, for whoever wants to check it."""

    scored: Scored
    found: fairmend.Audit
    repaired: Any
    report: Any
    new: tuple[Any, Any, Any]
    edited: Any
    """The new people's inputs after the repair."""
    decisions: Any
    charts: tuple[Path, ...]


def as_published(path: Path) -> Scored:
    """The vendor's own scores, of the two largest groups, filtered as ProPublica did."""
    compas = fairmend.datasets.load_compas_raw(path, filtered=True)
    counts = ("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
    target, reference = "African-American", "Caucasian"
    kept = compas.sensitive_features.isin([target, reference]).to_numpy()
    X = compas.X.loc[kept, ["age", "sex", "c_charge_degree", *counts, SCORE]]
    return Scored(
        X.reset_index(drop=True),
        compas.y[kept],
        compas.sensitive_features[kept].reset_index(drop=True),
        target,
        reference,
        "The scores are the vendor's own, from ProPublica's table.",
        immutable=("age", "sex"),
        one_way=dict.fromkeys(counts, "down"),
    )


def stand_in() -> Scored:
    """The embedded table with a score of ours, learnt on people who are then left out."""
    compas = fairmend.datasets.load_compas()
    order = np.random.default_rng(SEED).permutation(len(compas.y))
    trained, kept = np.split(order, [len(order) // 4])
    model = LogisticRegression(C=100, max_iter=1_000)
    model.fit(compas.X.iloc[trained], compas.y[trained])

    def risk(rows: Any) -> Any:
        return model.predict_proba(compas.X.iloc[rows])[:, 1]

    cuts = np.quantile(risk(trained), np.arange(0.1, 1, 0.1))
    X = compas.X.iloc[kept].reset_index(drop=True)
    return Scored(
        X.assign(**{SCORE: 1 + np.searchsorted(cuts, risk(kept), side="right")}),
        compas.y[kept],
        compas.sensitive_features.iloc[kept].reset_index(drop=True),
        "non-white",
        "white",
        "There is no vendor score in the table that comes with fairmend. A logistic regression of "
        "ours, cut into ten equal parts, stands in for it: read what follows as a picture of the "
        "method, not of COMPAS. With --file the scores are the vendor's.",
        immutable=("female", "age_leq_24", "age_25_to_45", "age_geq_46"),
    )


def tell(folder: Path, file: Path | None = None) -> Told:
    """Audit the scores, repair the decisions made by them, and look at what that does."""
    scored = stand_in() if file is None else as_published(file)
    order = np.random.default_rng(SEED + 1).permutation(len(scored.race))
    audited, new = (scored.part(p) for p in np.split(order, [int(AUDITED * len(order))]))
    vendor = fairmend.BlackBox(SCORE, output="score", threshold=FLAGGED_ABOVE)

    title("1  As sold: an audit of recorded scores")
    say(scored.said)
    X, y, race = audited
    found = fairmend.audit(vendor, X, y, sensitive_features=race, reference=scored.reference)
    show(found)
    worst = found["fpr", scored.target]
    say(
        f"Of those who were not arrested again, {percent(worst.target_rate)} of {scored.target} "
        f"people were flagged, and {percent(worst.baseline_rate)} of {scored.reference} people."
    )

    title("2  What carries it")
    explained = fairmend.counterfactual(
        vendor, X, y, sensitive_features=race, disparity="fpr", target=scored.target
    )
    show(explained)

    title("3  The repair")
    repaired = fairmend.RepairedClassifier(
        vendor, "fpr", target=scored.target, reference=scored.reference, favorable_label=0,
        do_no_harm=True, immutable=scored.immutable, one_way=scored.one_way, random_state=SEED,
    ).fit(X, y, sensitive_features=race)  # fmt: skip
    say(
        "Nobody can query the model about a row that nobody has had, so people are moved to rows "
        "on record that were not flagged. A score of ten values puts many people exactly at the "
        "threshold: these are decided by a draw of their own, the same whenever they are asked for."
    )
    show(repaired.plan_)

    title("4  New people")
    X, y, race = new
    report = repaired.report(X, y, sensitive_features=race, holdout=True)
    show(report)
    bases = [percent(group.base_rate) for group in report.before.groups]
    say(
        "The gap in false positives is closed and others are not: as long as the shares of people "
        f"arrested again differ ({' and '.join(bases)}), no score short of a perfect one can have "
        "all of these gaps at 0. To choose which is to matter is not the software's business. Nor "
        "can any table say how far arrests tell what people did, and how far whom the police went "
        "to look for."
    )
    decisions = repaired.predict(X, sensitive_features=race, ids=X.index)
    edited = repaired.transform(X, sensitive_features=race, ids=X.index)
    charts = _draw(folder, scored, found, report, explained)
    return Told(scored, found, repaired, report, new, edited, decisions, charts)


def _draw(
    folder: Path, scored: Scored, found: fairmend.Audit, report: Any,
    explained: fairmend.Counterfactual,
) -> tuple[Path, ...]:  # fmt: skip
    whose = "the vendor's scores" if scored.one_way else "a stand-in for the vendor's scores"
    groups = [scored.target, scored.reference]
    shares = pd.crosstab(scored.race, scored.X[SCORE], normalize="index")
    bars = (
        alt.Chart(
            alt.Data(
                values=[
                    {"score": int(score), "group": group, "share": float(share)}
                    for group in groups
                    for score, share in shares.loc[group].items()
                ]
            )
        )
        .mark_bar()
        .encode(
            x=alt.X("score:O", title="score", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("group:N", sort=groups),
            y=alt.Y("share:Q", title="share of the group", axis=alt.Axis(format=".0%")),
            color=alt.Color(
                "group:N",
                scale=alt.Scale(domain=groups, range=[VERMILION, BLUE]),
                legend=alt.Legend(title=None, orient="top"),
            ),
        )
        .properties(width=460, height=220)
    )
    gaps = {
        f"{metric}, {when}": audit[metric, scored.target]
        for metric in ("fpr", "fnr", "fdr")
        for when, audit in (("as it is", report.before), ("repaired", report.after))
    }
    charts = {
        "compas_scores.svg": dressed(
            bars, "Who is given which score", f"{whose}; {FLAGGED_ABOVE + 1} and above is flagged"
        ),
        "compas_gap.svg": gaps_chart(
            {"fpr, audited people": found["fpr", scored.target], **gaps},
            f"{scored.target} against {scored.reference}: one gap closed, others moved",
            f"{whose}; new people but for the first line",
        ),
        "compas_features.svg": plot.feature_scores(explained),
        "compas_inputs.svg": plot.marginals(explained),
    }
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(plot.save(chart, folder / name) for name, chart in charts.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Tell the story and say where its charts are."""
    parser = options(__doc__)
    parser.add_argument("--file", type=Path, help="compas-scores-two-years.csv, or its folder")
    chosen = parser.parse_args(arguments)
    told = tell(chosen.folder, chosen.file)
    say(f"Charts: {', '.join(path.name for path in told.charts)}.")


if __name__ == "__main__":
    main()
