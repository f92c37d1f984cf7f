"""``fairmend explain``: where a gap comes from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from fairmend.cli import options as o
from fairmend.cli.elsewhere import find_people, is_many
from fairmend.cli.output import print_json
from fairmend.cli.people import Columns, ModelCall, read_people
from fairmend.selection import refuse_selected

MOST_SHARES, MOST_FEATURES = 15, 10
"""Lines of the tables."""
_MODELLED = (
    "The gaps are modelled: outcomes by P(Y=1 | x), so that they differ from those of an audit, "
    "which counts."
)
_LEGEND = (
    "of the influence: what the feature explains, alone, of how much each person adds to the gap",
    "of the change: the part that comes about if this feature alone moves to the counterfactual",
    "shift: how many people have another value of it there",
)


def explain(
    file: o.File,
    group: o.Group,
    label: o.Label = None,
    metric: Annotated[
        str,
        typer.Option(
            "--metric", "--disparity", help="The gap: sp, fnr, fpr, fdr or da.", metavar="NAME"
        ),
    ] = "sp",
    target: Annotated[
        str | None,
        typer.Option(help="The group to explain; by default the worst-off.", metavar="GROUP"),
    ] = None,
    predictions: o.Predictions = None,
    model: o.Model = None,
    threshold: o.Threshold = None,
    answers: o.Answers = "auto",
    trust: o.Trust = None,
    rows: o.Rows = None,
    protocol: o.Protocol = None,
    positive: o.Positive = None,
    positive_decision: o.PositiveDecision = None,
    weight: o.Weight = None,
    id_: o.Id = None,
    input_: o.Input = None,
    ignore: o.Ignore = None,
    not_id: o.NotId = None,
    missing: o.Missing = None,
    decimal: o.Decimal = None,
    as_json: o.AsJson = False,
) -> None:
    """Show which inputs of a group its gap rests on, and whether they can close it."""
    from fairmend import counterfactual as run
    from fairmend import explain as explaining

    call = ModelCall(
        predictions, model, threshold, answers, trust=trust or (), rows=rows, protocol=protocol
    )
    box = call.box()
    columns = Columns(
        group, label, positive, weight, id_, input_ or (), ignore or (), missing or (),
        positive_decision, not_id=not_id or (), decimal=decimal,
    )  # fmt: skip
    people = find_people(file, columns, box) if is_many(file) else read_people(file, columns, box)
    refuse_selected(people.selection, [metric], columns.without_label)
    found = run(
        box,
        **people.call,
        pos_label=people.positive,
        disparity=metric,
        target=people.as_group(target),
    )
    marginals = explaining.marginals(found)
    scores = explaining.feature_scores(found)
    if as_json:
        content = {
            "target": found.target_name,
            "baseline": found.baseline_name,
            "status": found.status.name,
            "before": found.before,
            "after": found.after,
            "kl": found.kl,
            "decision_difference": asdict(found.decision_difference),
            "left_out": people.left_out,
            "marginals": [asdict(line) for line in marginals],
            "feature_scores": [asdict(score) for score in scores],
        }
        print_json("fairmend.explanation/1", content)
    else:
        print(found)
        if metric.lower() != "sp":  # which asks for no outcomes
            print(_MODELLED)
        print()
        _print_tables(marginals, scores)


def _print_tables(marginals: Any, scores: Any) -> None:
    from fairmend.tables import TextTable, number, percent

    shown = sorted((line for line in marginals if line.is_share), key=lambda line: -abs(line.shift))
    shares = [
        (
            line.feature,
            line.statistic,
            percent(line.observed),
            percent(line.baseline),
            percent(line.counterfactual),
            f"{100 * line.shift:+.1f}",
        )
        for line in shown[:MOST_SHARES]
    ]
    means = [
        (line.feature, number(line.observed), number(line.baseline), number(line.counterfactual),
         number(line.shift, signed=True))
        for line in marginals if line.statistic == "mean" and not line.is_share
    ]  # fmt: skip
    figures = ("observed", "baseline", "counterfactual", "shift")
    for title, headers, lines in (
        ("Shares of people, largest shifts first", ("<feature", "<value", *figures), shares),
        ("Means of numbers", ("<feature", *figures), means),
    ):
        if lines:
            print(TextTable(title, headers, lines), end="\n\n")
    carried = [
        (
            score.feature,
            percent(score.influence_share),
            percent(score.share_of_gap),
            percent(score.shift),
        )
        for score in scores[:MOST_FEATURES]
    ]
    headers_of_scores = ("<feature", "of the influence", "of the change", "shift")
    title = "What the features carry of the gap"
    print(TextTable(title, headers_of_scores, carried, _LEGEND))
