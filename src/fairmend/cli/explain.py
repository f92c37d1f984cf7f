"""``fairmend explain``: where a gap comes from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fairmend.cli import options as o
from fairmend.cli.model import ModelOptions
from fairmend.cli.output import print_json, show
from fairmend.cli.people import InputOptions, read_people
from fairmend.measure.disparity import as_disparity
from fairmend.measure.selection import refuse_selected

MOST_SHARES, MOST_FEATURES, MOST_PAIRS = 15, 10, 5
"""Lines of the tables."""
_MODELLED = (
    "The gaps are modelled: outcomes by P(Y=1 | x), so that they differ from those of an audit, "
    "which counts."
)
_LEGEND = (
    "of the influence: what the feature explains, alone, of how much each person adds to the gap",
    "of the change: the part that comes about if this feature alone moves to the counterfactual",
    "shift: how many people have another value of it there",
    "low, high: a 95 % interval of the influence, for all features at once",
)
_LEGEND_OF_PAIRS = (
    "more than alone: what the pair explains beyond the better of the two",
    "low, high: a 95 % interval of that, for all pairs at once",
)


def explain(
    file: o.File,
    columns: InputOptions,
    cells: o.CellAndWordOptions,
    call: ModelOptions,
    metric: Annotated[
        str,
        o.option("The gap: {metrics}.", "NAME", "--metric", "--disparity", check=o.a_metric),
    ] = "sp",
    target: Annotated[
        str | None, o.option("The group to explain; by default the worst-off.", "GROUP")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Show which inputs of a group its gap rests on, and whether they can close it."""
    from fairmend import counterfactual as run
    from fairmend.explain import drivers as explaining
    from fairmend.explain.marginals import marginals as find_marginals

    box = call.box()
    people = read_people(file, columns, box, cells.spelling)
    refuse_selected(people.selection, [metric], columns.without_label)
    found = run(
        box,
        **people.call,
        pos_label=people.positive,
        disparity=metric,
        target=people.as_group(target),
    )
    marginals = find_marginals(found)
    scores, pairs = explaining.feature_scores(found), explaining.joint_proxies(found)
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
            "joint_proxies": [asdict(pair) for pair in pairs],
        }
        print_json("fairmend.explanation/1", content)
    else:
        show(found)
        if as_disparity(metric).uses_outcome:
            show(_MODELLED)
        show("")
        _print_tables(marginals, scores)
        _print_pairs(pairs)


def _print_tables(marginals: Any, scores: Any) -> None:
    from fairmend.explain.drivers import verdict_on_features
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
            show(TextTable(title, headers, lines), end="\n\n")
    carried = [
        (
            score.feature,
            percent(score.influence_share),
            percent(score.low),
            percent(score.high),
            percent(score.share_of_gap),
            percent(score.shift),
        )
        for score in scores[:MOST_FEATURES]
    ]
    headers_of_scores = ("<feature", "of the influence", "low", "high", "of the change", "shift")
    title = f"What the features carry of the gap. {verdict_on_features(scores)}"
    show(TextTable(title, headers_of_scores, carried, _LEGEND))


def _print_pairs(pairs: Any) -> None:
    """The pairs that add more than noise, or that none does."""
    from fairmend.explain.drivers import verdict_on_pairs
    from fairmend.tables import TextTable, percent

    sure = [
        (pair.first, pair.second, percent(pair.excess), percent(pair.low), percent(pair.high))
        for pair in pairs[:MOST_PAIRS]
        if pair.more_than_noise
    ]
    headers = ("<feature", "<with", "more than alone", "low", "high")
    title = f"Joint proxies. {verdict_on_pairs(pairs)}"
    if sure:
        show("", TextTable(title, headers, sure, _LEGEND_OF_PAIRS))
    elif pairs:
        show("", title)
