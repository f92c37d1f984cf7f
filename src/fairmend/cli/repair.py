"""``fairmend repair``: repair a model, and report what that does on a holdout."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmend.cli import options as o
from fairmend.cli.audit import (
    gate,
    over_the_limit,
    read_limit,
    tell_backwards,
    tell_small_reference,
)
from fairmend.cli.elsewhere import find_people, is_many, refuse_repeated_ids
from fairmend.cli.loading import drawn_share, find_key
from fairmend.cli.output import (
    print_json,
    refuse_one_place_for_two,
    refuse_unwritable,
    say,
    show,
)
from fairmend.cli.people import Columns, ModelCall, People, read_people, same_value
from fairmend.cli.shortfall import Rule, find_shortfalls, first_metric, settings_of
from fairmend.cli.streams import figures, is_open
from fairmend.errors import DataError, without_secrets
from fairmend.measure.disparity import metric_choices
from fairmend.measure.selection import refuse_selected

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fairmend.cli.elsewhere import AnyPeople
    from fairmend.model.blackbox import BlackBox

Metric = Annotated[
    list[str] | None,
    typer.Option(
        help=f"The gap to close: {metric_choices()}; repeat it to close several together. "
        r"\[default: sp]",
        metavar="NAME",
        callback=o.checked(o.a_metric),
        rich_help_panel=o.REPAIR,
        show_default=False,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="least_change, order, transport or paper.",
        metavar="NAME",
        callback=o.one_of(*o.METHODS),
        rich_help_panel=o.REPAIR,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="The group to mend; by default every group that fares worse.",
        metavar="GROUP",
        rich_help_panel=o.REPAIR,
    ),
]
Reference = Annotated[
    str,
    typer.Option(
        help="Compare with: best, rest, or the name of a group.",
        metavar="GROUP",
        rich_help_panel=o.REPAIR,
    ),
]
Immutable = Annotated[
    list[str] | None,
    typer.Option(
        help="An input that is never edited; may be repeated. Groups never are.",
        metavar="COLUMN",
        rich_help_panel=o.REPAIR,
    ),
]
OneWay = Annotated[
    list[str] | None,
    typer.Option(
        help="An input that may only rise or fall, e.g. age:up; may be repeated.",
        metavar="COLUMN:WAY",
        rich_help_panel=o.REPAIR,
    ),
]
MaxEdits = Annotated[
    int | None,
    typer.Option(
        help="At most so many inputs of a person are edited.",
        metavar="N",
        rich_help_panel=o.REPAIR,
    ),
]
Level = Annotated[
    float,
    typer.Option(
        help="How much of the gap to close, 0 to 1.", metavar="SHARE", rich_help_panel=o.REPAIR
    ),
]
Favourable = Annotated[
    str | None,
    typer.Option(
        help="The decision people want; by default the positive label.",
        metavar="VALUE",
        rich_help_panel=o.REPAIR,
    ),
]
TwoSided = Annotated[
    bool,
    typer.Option(
        "--two-sided",
        help="Let the reference move as well: all groups come to one rate.",
        rich_help_panel=o.REPAIR,
    ),
]
DoNoHarm = Annotated[
    bool,
    typer.Option(
        "--do-no-harm",
        help="Refuse a repair that takes favourable decisions away.",
        rich_help_panel=o.REPAIR,
    ),
]
Significant = Annotated[
    bool,
    typer.Option(
        "--require-significant",
        help="Refuse to repair a gap that may be chance.",
        rich_help_panel=o.REPAIR,
    ),
]
AllowPartial = Annotated[
    bool,
    typer.Option(
        "--allow-partial",
        help="Exit with 0 although a gap was not closed.",
        rich_help_panel=o.OUTPUT,
    ),
]
Holdout = Annotated[
    str | None,
    typer.Option(
        help="Report on the people of this file; see to it that none of them is in FILE.",
        metavar="FILE",
        rich_help_panel="Holdout",
    ),
]
HoldoutShare = Annotated[
    float,
    typer.Option(
        help="Without --holdout: the share of FILE's people to keep apart and report on; drawn by "
        "--seed within each group and outcome.",
        metavar="SHARE",
        rich_help_panel="Holdout",
    ),
]
Seed = Annotated[
    int,
    typer.Option(help="Of the split and the folds.", metavar="N", min=0, rich_help_panel="Holdout"),
]
Output = Annotated[
    str,
    typer.Option("--output", "-o", help="The artifact.", metavar="FILE", rich_help_panel=o.OUTPUT),
]
ReportFile = Annotated[
    str | None,
    typer.Option(
        "--report",
        help="The report, in HTML; by default beside the artifact.",
        metavar="FILE",
        rich_help_panel=o.OUTPUT,
    ),
]


def _check_is_holdout(is_holdout: bool | None, holdout: str | None) -> None:
    if is_holdout is not None and holdout is None:
        raise typer.BadParameter(
            "is for --holdout FILE; without it the people reported on are a holdout",
            param_hint="--is-holdout",
        )


def repair(
    file: o.File,
    group: o.Group,
    label: o.Label = None,
    predictions: o.Predictions = None,
    model: o.Model = None,
    threshold: o.Threshold = None,
    answers: o.Answers = "auto",
    soft: o.Soft = False,
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
    thousands: o.Thousands = None,
    currency: o.Currency = None,
    percent: o.Percent = False,
    words: o.Words = None,
    metric: Metric = None,
    method: Method = "least_change",
    target: Target = None,
    reference: Reference = "best",
    immutable: Immutable = None,
    one_way: OneWay = None,
    max_edits: MaxEdits = None,
    level: Level = 1.0,
    two_sided: TwoSided = False,
    favourable: Favourable = None,
    do_no_harm: DoNoHarm = False,
    require_significant: Significant = False,
    key_file: o.KeyFile = None,
    holdout: Holdout = None,
    holdout_share: HoldoutShare = 0.3,
    seed: Seed = 0,
    is_holdout: o.IsHoldout = None,
    output: Output = "repair.fairmend",
    report: ReportFile = None,
    fail_on: o.FailOn = None,
    allow_partial: AllowPartial = False,
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Repair the model: write an artifact to apply, and a report on a holdout.

    The model is not changed. The artifact says whose inputs to edit before the model sees them.
    Exits with 1 if a gap could not be closed; artifact and report are written all the same.
    """
    from fairmend.classifier import RepairedClassifier
    from fairmend.report.findings import now

    limits = [read_limit(text) for text in fail_on or []]
    rules = [
        *(Rule("--immutable", name) for name in immutable or ()),
        *(Rule("--one-way", direction) for direction in _read_directions(one_way or ())),
        *(Rule("--max-edits", most) for most in [max_edits] if most is not None),
    ]
    _check_is_holdout(is_holdout, holdout)
    refuse_one_place_for_two("--output", output, file, holdout, key_file)
    refuse_unwritable(output, force=force)
    page = report if report is not None else str(Path(output).with_suffix(".html"))
    refuse_one_place_for_two("--report", page, output, file, holdout, key_file)
    refuse_unwritable(page, force=force)
    call = ModelCall(predictions, model, threshold, answers, soft, trust or (), rows, protocol)
    box = call.box()
    columns = Columns(
        group, label, positive, weight, id_, input_ or (), ignore or (),
        o.spelling(missing, decimal, thousands, currency, percent=percent, words=words),
        positive_decision, not_id=not_id or (),
    )  # fmt: skip
    people, audited, reported = _everybody(file, columns, box, holdout, (holdout_share, seed))
    which = holdout or f"{100 * holdout_share:g} % of {file}, held out by seed {seed}"
    refuse_selected(people.selection, metric or ["sp"], columns.without_label)
    never = [name for name in group if name in people.input_names]
    _refuse_groups(rules, [name for name in group if name not in never])
    key = find_key(key_file)
    settings: dict[str, Any] = {
        "pos_label": people.positive,
        "disparity": _one_or_several(metric or ["sp"]),
        "method": method,
        "target": people.as_group(target),
        "reference": people.as_group(reference),
        "level": level,
        "two_sided": two_sided,
        "favorable_label": _favourable(people, box, favourable),
        "do_no_harm": do_no_harm,
        "require_significant": require_significant,
        "key": key,
        "random_state": seed,
    }
    mended = RepairedClassifier(box, **settings, **settings_of(rules, never)).fit(
        **audited.call, ids=audited.ids
    )
    if mended.audit_.rows is not None:
        say(f"note: {mended.audit_.who}: tests and the plan's interval are by person; the report "
            "counts rows, and its intervals take each for a person of its own")  # fmt: skip
    tell_backwards(mended.audit_, people.positive)
    tell_small_reference(
        mended.audit_, reference, {plan.baseline for plan in mended.plans_.values()}
    )
    shortfalls = find_shortfalls(mended, rules, never, audited)
    order = mended.audit_.worst_first(first_metric(mended))
    result = mended.report(
        **reported.call,
        frontier=True,
        command=f"{command_line()}  # reported on {which}",
        holdout=True if holdout is None else is_holdout,
        left_out=(people if holdout is None else reported).left_out,
    )
    mended.save(output, created=now(), overwrite=force)
    say(f"wrote {output}")
    result.save_html(page, overwrite=force)
    say(f"wrote {page}")
    crossed = over_the_limit(result.after, limits)
    if not is_open(figures()):
        say("note: standard output is closed: the figures are in the report alone")
    elif as_json:
        content = {
            "artifact": output,
            "report": page,
            "holdout": {"people": len(reported), "which": which},
            "left_out": people.left_out,
            "not_closed": [shortfall.to_dict() for shortfall in shortfalls],
            "results": result.to_dict(),
            "crossed": crossed,
        }
        print_json("fairmend.repair/1", content)
    else:
        plans = sorted(mended.plans_.values(), key=lambda plan: order.index(plan.target))
        nobody = "No group fares worse than the reference: nobody is edited."
        for part in (*shortfalls, *plans, *([] if plans else [nobody])):
            show(part, end="\n\n")
        show(f"On {len(reported):,} people{_SEEN[result.holdout]} ({which}):", end="\n\n")
        show(result)
    if key is None and drawn_share(mended) > 0:
        say("note: without --key-file no artifact can tell later whether apply has the right key; "
            "make one first with fairmend key FILE")  # fmt: skip
    not_closed = [line for shortfall in shortfalls for line in shortfall.headlines]
    way_out = ["--allow-partial makes a repair like that end with 0"] if not_closed else []
    gate([*crossed, *([] if allow_partial else not_closed + way_out)])


def _refuse_groups(rules: Sequence[Rule], groups: Sequence[str]) -> None:
    """A rule about a group that is no input can do nothing, and need not."""
    for rule in rules:
        name = rule.value[0] if isinstance(rule.value, tuple) else rule.value
        if name in groups:
            raise DataError(
                rule.flag,
                "must name inputs of the model",
                f"got {name!r}, which is a --group",
                "Leave it out: groups are never edited.",
            )


_SEEN = {
    True: " the repair has not seen",
    False: " the repair was fitted on",
    None: ", whom the repair should not have seen",
}


def _favourable(people: AnyPeople, box: BlackBox, text: str | None) -> Any:
    """The decision people want, as the labels have it."""
    if people.outcome is not None:
        return same_value(people.outcome, text)
    words = list(map(str, box.words or (0, 1)))
    return words.index(text) if text in words else text


def _one_or_several(names: list[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else names


def _read_directions(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Columns with the way each may go; one that may only rise and only fall is said otherwise."""
    found = sorted(set(map(_read_direction, texts)))
    for (name, _), (following, _) in pairwise(found):
        if name == following:
            raise typer.BadParameter(
                f"must give one way a column; got up and down for {name!r}. A column that must not "
                f"change is --immutable {shlex.quote(name)}",
                param_hint="--one-way",
            )
    return found


def _read_direction(text: str) -> tuple[str, str]:
    """A column and the way it may go.

    >>> _read_direction("age: at entry:up")
    ('age: at entry', 'up')
    """
    name, _, way = text.rpartition(":")
    if not name or way not in ("up", "down"):
        raise typer.BadParameter(
            f"must read COLUMN:up or COLUMN:down; got {text!r}", param_hint="--one-way"
        )
    return name, way


def _everybody(
    file: str, columns: Columns, box: BlackBox, holdout: str | None, kept_apart: tuple[float, int]
) -> tuple[AnyPeople, AnyPeople, AnyPeople]:
    """All people, those to audit, and those to report on."""
    if not is_many(file):
        people = read_people(file, columns, box)
        if holdout is None:
            return people, *_split(people, *kept_apart)
        return people, people, read_people(holdout, columns, box, like=people.inputs)
    if holdout is None:
        raise typer.BadParameter(
            "must name a holdout where FILE is many files", param_hint="--holdout"
        )
    found = find_people(file, columns, box)
    refuse_repeated_ids(found)
    return found, found, find_people(holdout, columns, box)


def _split(people: People, share: float, seed: int) -> tuple[People, People]:
    """Those to audit and those to keep apart, the share taken within each group and outcome.

    All rows of a person go the same way, that of the first.
    """
    import numpy as np

    if not 0 < share < 1:
        raise typer.BadParameter("must lie between 0 and 1", param_hint="--holdout-share")
    first, person = _persons(people)
    cell = _cells(people)[first]
    order = np.random.default_rng(seed).permutation(len(cell))
    place = np.empty(len(cell), np.int64)  # each person's place within their cell
    by_cell = order[np.argsort(cell[order], kind="stable")]
    sizes = np.bincount(cell)
    place[by_cell] = np.concatenate([np.arange(size) for size in sizes])
    apart = (place < np.round(share * sizes)[cell])[person]
    if apart.all() or not apart.any():
        raise DataError(
            "--holdout-share",
            "must leave people to fit on and people to report on",
            f"{share:g} of {len(cell):,} people leaves {'none' if apart.all() else 'all'} to fit",
            "Choose a share near 0.3, or name a file with others with --holdout.",
        )
    return people.take(np.flatnonzero(~apart)), people.take(np.flatnonzero(apart))


def _persons(people: People) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A row of each person, and for each row whose it is."""
    import numpy as np

    from fairmend.data.ids import number_people

    everybody = np.arange(len(people))
    person = everybody if people.ids is None else number_people(people.ids)
    numbers, first = np.unique(person, return_index=True)
    return (first, person) if len(numbers) < len(people) else (everybody, everybody)


def _cells(people: People) -> NDArray[np.int64]:
    import polars as pl

    columns = [*people.groups.values()]
    if people.outcome is not None:
        columns.append(people.outcome)
    frame = pl.DataFrame([column.alias(str(j)) for j, column in enumerate(columns)])
    return frame.select(pl.struct(pl.all()).rank("dense") - 1).to_series().cast(pl.Int64).to_numpy()


def command_line() -> str:
    """The call as it could be typed again; what an address may hold of secrets is left out."""
    return shlex.join(["fairmend", *map(without_secrets, sys.argv[1:])])
