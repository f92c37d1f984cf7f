"""``fairmend explain``: where a gap comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

from fairmend.cli import options as o
from fairmend.cli.model import ModelOptions
from fairmend.cli.output import print_json, show
from fairmend.cli.people import InputOptions, read_people
from fairmend.explain import drivers
from fairmend.explain.drivers import FeatureScore, JointProxy
from fairmend.explain.marginals import Marginal, marginals
from fairmend.measure.disparity import as_disparity
from fairmend.measure.selection import refuse_selected
from fairmend.report.findings import Explanation
from fairmend.tables import TextTable, number, percent

MOST_SHARES, MOST_FEATURES, MOST_PAIRS = 15, 10, 5
"""Lines of the tables."""
_MODELLED = (
    "The gaps are modelled: outcomes by P(Y=1 | x), so that they differ from those of an audit, "
    "which counts."
)
_FIGURES = ("observed", "reference", "counterfactual", "shift")
_OF_PAIRS = ("<feature", "<with", "more than alone", "low", "high")
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
        str, o.option("The gap: {metrics}.", "NAME", "--metric", "--disparity", check=o.a_metric)
    ] = "sp",
    target: Annotated[
        str | None, o.option("The group to explain; by default the worst-off.", "GROUP")
    ] = None,
    reference: o.Reference = "best",
    as_json: o.AsJson = False,
) -> None:
    """Show which inputs a gap rests on, and whether any distribution of them closes it."""
    from fairmend import counterfactual as run

    box = call.box()
    people = read_people(file, columns, box, cells.spelling)
    refuse_selected(people.selection, [metric], columns.without_label)
    result = run(
        box,
        **people.call,
        pos_label=people.positive,
        disparity=metric,
        target=people.as_group(target),
        baseline=None if reference == "best" else people.as_group(reference),
    )
    parts = Parts(marginals(result), drivers.feature_scores(result), drivers.joint_proxies(result))
    if as_json:
        content = {
            "target": result.target_name,
            "baseline": result.baseline_name,
            "status": result.status.name,
            "before": result.before,
            "after": result.after,
            "kl": result.kl,
            "decision_difference": asdict(result.decision_difference),
            "left_out": people.left_out,
            "explanation": Explanation.of(result),
            **asdict(parts),
        }
        print_json("fairmend.explanation/1", content)
        return
    show(result)
    if as_disparity(metric).uses_outcome:
        show(_MODELLED)
    for table in parts.tables(MOST_SHARES, MOST_FEATURES, MOST_PAIRS):
        show("", table)


@dataclass(frozen=True)
class Parts:
    """What the features have to do with a gap."""

    marginals: list[Marginal]
    feature_scores: list[FeatureScore]
    joint_proxies: list[JointProxy]

    def tables(self, shares: int, features: int, pairs: int) -> Iterator[TextTable | str]:
        """The same for people, with at most so many lines."""
        lines = [line for line in self.marginals if line.is_share]
        lines.sort(key=lambda line: -abs(line.shift))
        shifted = [
            (line.feature, line.statistic, percent(line.observed), percent(line.baseline),
             percent(line.counterfactual), f"{100 * line.shift:+.1f}")
            for line in lines[:shares]
        ]  # fmt: skip
        means = [
            (line.feature, number(line.observed), number(line.baseline),
             number(line.counterfactual), number(line.shift, signed=True))
            for line in self.marginals if line.statistic == "mean" and not line.is_share
        ]  # fmt: skip
        if shifted:
            title, headers = "Shares of people, largest shifts first", ("<feature", "<value")
            yield TextTable(title, (*headers, *_FIGURES), shifted)
        if means:
            yield TextTable("Means of numbers", ("<feature", *_FIGURES), means)
        verdict = drivers.verdict_on_features(self.feature_scores)
        yield TextTable(
            f"What the features carry of the gap. {verdict}",
            ("<feature", "of the influence", "low", "high", "of the change", "shift"),
            [
                (one.feature, *map(percent, (one.influence_share, one.low, one.high,
                                             one.share_of_gap, one.shift)))
                for one in self.feature_scores[:features]
            ],
            _LEGEND,
        )  # fmt: skip
        sure = [
            (one.first, one.second, *map(percent, (one.excess, one.low, one.high)))
            for one in self.joint_proxies[:pairs]
            if one.more_than_noise
        ]
        verdict = drivers.verdict_on_pairs(self.joint_proxies)
        if sure:
            yield TextTable("Joint proxies", _OF_PAIRS, sure, (verdict, *_LEGEND_OF_PAIRS))
        elif self.joint_proxies:
            yield f"Joint proxies. {verdict}"
