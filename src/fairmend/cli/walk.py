"""A walk through fairmend on real data: ``python -m fairmend demo``, or ``make demo``.

Needs pandas or Polars beside the package itself, no network, and a few seconds. Where the extra
``report`` is installed it also writes the report as a page, into the folder it is run in.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import Any, Literal

import narwhals as nw
import numpy as np

from fairmend.cli.explain import Parts
from fairmend.datasets import load_adult
from fairmend.errors import MissingExtra, require
from fairmend.explain import drivers
from fairmend.explain.counterfactual import Counterfactual, counterfactual
from fairmend.explain.marginals import marginals
from fairmend.measure.audit import audit
from fairmend.measure.result import Audit
from fairmend.report.report import Report
from fairmend.tables import percent

WIDTH = 100
"""Columns of the terminal the text is laid out for."""
TRAINED, AUDITED = 0.3, 0.5
"""Shares of the people the vendor trains on, and of those we audit on; the rest is the holdout."""
PAGE = "fairmend-demo.html"
COMMAND = "python -m fairmend demo"
MOST_SHOWN = 5
"""Lines of a table of features."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some of the people of the table: inputs, outcomes, groups."""

    X: Any
    y: Any
    sex: Any

    def __len__(self) -> int:
        return len(self.y)


def main() -> None:
    """Audit a stand-in vendor model, explain it, repair it, and look at new people."""
    adult = load_adult(_installed())
    training, audited, holdout = _split(Sample(adult.X, adult.y, adult.sensitive_features))

    _title("fairmend: does a model you cannot open treat groups differently, and why?")
    _say(
        f"The people: {len(adult.y):,} of UCI's Adult census table, which travels with the "
        "package. The question put to the model: does this person earn over 50,000 dollars a "
        "year? Think of a yes as the offer of a loan."
    )

    _title("1  The model")
    model = _vendor_model(training)
    _say(
        f"A logistic regression, trained on {len(training):,} people, stands in for a vendor's "
        "model. It is not told anybody's sex. From here on nobody looks inside: it is only asked "
        "for answers, once per distinct row, and never retrained."
    )

    _title("2  The audit: what is wrong, and how sure are we?")
    result = audit(model, audited.X, audited.y, sensitive_features=audited.sex)
    _show_audit(result, len(audited))

    _title("3  The explanation: which inputs would close the gap?")
    explained = counterfactual(
        model, audited.X, audited.y,
        sensitive_features=audited.sex, disparity="fnr", target="Female", baseline="Male",
    )  # fmt: skip
    _show_counterfactual(explained)

    _title("4  The repair: edit as little as possible, of as few as possible")
    repaired = _repair(model, audited)
    _title("5  The proof: people neither the model nor the repair has seen")
    report = _show_holdout(repaired, holdout)

    _title("6  The page: for those who decide, audit or object")
    _save(report)


def _split(people: Sample) -> tuple[Sample, Sample, Sample]:
    """Those the vendor trains on, those it is audited on, and the holdout: always the same."""
    order = np.random.default_rng(0).permutation(len(people))
    ends = np.round(np.cumsum([TRAINED, AUDITED]) * len(people)).astype(int)
    X, sex = nw.from_native(people.X), nw.from_native(people.sex, series_only=True)
    trained, audited, holdout = (
        Sample(X[part].to_native(), people.y[part], sex[part].to_native())
        for part in np.split(order, ends)
    )
    return trained, audited, holdout


def _installed() -> Literal["pandas", "polars"]:
    """What there is, pandas first; the command line brings Polars."""
    try:
        require("pandas", extra="pandas", why="the demo")
    except MissingExtra:
        return "polars"
    return "pandas"


def _vendor_model(people: Sample) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=100, max_iter=1_000).fit(people.X, people.y)


# -------------------------------------------------------------------- the audit


def _show_audit(result: Audit, people: int) -> None:
    _say(f"On {people:,} people the model has not seen:")
    print(result, end="\n\n")
    worst = result["fnr", "Female"]
    _say(
        f"In words: of the women who do earn over 50,000 dollars the model misses "
        f"{percent(worst.target_rate)}, of such men {percent(worst.baseline_rate)}."
    )


# -------------------------------------------------------------------- the repair

IMMUTABLE = ("Married", "Immigrant", "Age_leq_30")
"""What nobody should be told to change."""


def _repair(model: Any, people: Sample) -> Any:
    from fairmend.classifier import RepairedClassifier

    repaired = RepairedClassifier(
        model, "fnr", immutable=IMMUTABLE, do_no_harm=True, random_state=0
    ).fit(people.X, people.y, sensitive_features=people.sex)
    _say(
        "The women nearest the model's cut get the inputs of the nearest woman it says yes to, "
        "just enough of them to close the gap that people live with. "
        f"{', '.join(IMMUTABLE)} are never edited, nobody loses a yes, and no man's answer changes."
    )
    print(repaired.plan_, end="\n\n")
    return repaired


def _show_holdout(repaired: Any, people: Sample) -> Report:
    report: Report = repaired.report(
        people.X,
        people.y,
        sensitive_features=people.sex,
        frontier=True,
        command=COMMAND,
        holdout=True,
    )
    _say(f"The last {len(people):,} people, before and after:")
    print(report, end="\n\n")
    before, after = report.before["fnr", "Female"], report.after["fnr", "Female"]
    _say(
        f"Of the women who earn over 50,000 dollars the model missed {percent(before.target_rate)} "
        f"and now misses {percent(after.target_rate)}; of such men {percent(after.baseline_rate)}, "
        "as before."
    )
    return report


def _save(report: Report) -> None:
    try:
        path = report.save_html(PAGE, overwrite=True)
    except MissingExtra as error:
        _say(f"No page was written. {error}")
        return
    _say(f"All of it as one page, with a slider over how much of the gap to close: {path}")


# -------------------------------------------------------------------- the explanation


def _show_counterfactual(why: Counterfactual) -> None:
    _say(
        "Among all distributions of the women's inputs under which the model would miss no more "
        "of them than of the men, this is the one closest to what is observed. It is a finding, "
        "not a repair: it shows on which inputs the gap rests."
    )
    _say(f"Is there such a distribution at all? {why.certificate}")
    _say(
        f"And the closest one? {why.status.value} It was {100 * why.before:.1f} points and is "
        f"{abs(100 * why.after):.1f}. (The audit has counted a little more: here it is modelled "
        "from their inputs who of the women earns over 50,000 dollars, because outcomes must "
        "follow the inputs when these change.)"
    )
    scores, pairs = drivers.feature_scores(why), drivers.joint_proxies(why)
    parts = Parts(marginals(why), scores, pairs)
    for table in parts.tables(MOST_SHOWN, MOST_SHOWN, MOST_SHOWN):
        print(table, end="\n\n", flush=True)
    pair = next(one for one in pairs if one.more_than_noise)
    _say(
        f"{scores[0].feature} alone accounts for {percent(scores[0].share_of_gap)} of the gap; "
        f"{pair.first} and {pair.second} together for {percent(pair.share_of_gap)}. Looking at one "
        "feature at a time would miss that."
    )


# -------------------------------------------------------------------- layout


def _title(text: str) -> None:
    print(f"{text}\n{'─' * len(text)}\n", flush=True)


def _say(text: str) -> None:
    tied = text.replace(" %", "\N{NO-BREAK SPACE}%")  # a number and its sign share a line
    print(fill(tied, WIDTH).replace("\N{NO-BREAK SPACE}", " "), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
