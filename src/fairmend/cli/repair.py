"""``fairmend repair``: repair a model, and report what that does on a holdout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from fairmend.cli.model import SoftModelOptions, find_key, randomised_share
from fairmend.cli.output import check_output, command_line, note, print_json, say, show
from fairmend.cli.people import (
    FilePeople,
    InputOptions,
    is_many,
    read_people,
    refuse_repeated_ids,
    same_value,
)
from fairmend.cli.shortfall import Rule, Shortfall, find_shortfalls, settings_of, worst_first
from fairmend.cli.streams import figures, is_open
from fairmend.errors import DataError, check
from fairmend.measure.selection import refuse_selected
from fairmend.repair.settings import RepairSettings
from fairmend.repair.trade_off import ERRORS

if TYPE_CHECKING:
    from fairmend.classifier import RepairedClassifier
    from fairmend.data.spelling import Spelling
    from fairmend.model.blackbox import BlackBox
    from fairmend.report.report import Report

_default = RepairSettings.default
MOST_NAMED = 20
"""Inputs that are listed before the fit."""
MOST_CATEGORIES = 60
"""Of an input; more are counted beside its name."""


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """The settings of a repair; their meaning and defaults are those of `RepairSettings`."""

    metric: Annotated[
        list[str] | None,
        o.repair_option(
            "The gap to close: {metrics}; repeat it to close several together. "
            r"\[default: sp]",
            "NAME",
            check=o.a_metric,
            show_default=False,
        ),
    ] = None
    method: Annotated[
        str,
        o.repair_option("How to find the edits: {methods}.", "NAME", check=o.registered("methods")),
    ] = _default("method")
    target: Annotated[str | None, o.setting("target", "GROUP")] = _default("target")
    reference: Annotated[str, o.setting("reference", "GROUP")] = _default("reference")
    immutable: Annotated[
        list[str], o.setting("immutable", "COLUMN", more="May be repeated. Groups never do.")
    ] = field(default_factory=list)
    one_way: Annotated[
        list[str],
        o.repair_option(
            "An input that may only rise or fall, e.g. age:up; may be repeated.", "COLUMN:WAY"
        ),
    ] = field(default_factory=list)
    max_edits: Annotated[
        int | None, o.repair_option("The most inputs that are edited per person.", "N")
    ] = None
    cost: Annotated[
        list[str],
        o.repair_option(
            "The cost of edits of an input, e.g. income=0.1; by default 1. May be repeated.",
            "COLUMN=NUMBER",
        ),
    ] = field(default_factory=list)
    level: Annotated[float, o.setting("level", "SHARE")] = _default("level")
    blind: Annotated[bool, o.setting("blind", None, "--blind")] = False
    in_words: Annotated[bool, o.setting("words", None, "--in-words")] = False
    two_sided: Annotated[bool, o.setting("two_sided", None, "--two-sided")] = False
    rank: Annotated[
        str | None,
        o.repair_option(
            "Who is edited first: score, outcome or cost. With --blind, what a flip costs: worth "
            "(wrong decisions, weighed as the model's own imply; the default), flips, cost, or the "
            "costs of both errors, e.g. false_positive=1,false_negative=5.",
            "NAME",
        ),
    ] = None
    favourable: o.Favourable = None
    do_no_harm: Annotated[bool, o.setting("do_no_harm", None, "--do-no-harm")] = False
    require_significant: Annotated[
        bool, o.setting("require_significant", None, "--require-significant")
    ] = False
    key_file: o.KeyFile = None

    @property
    def metrics(self) -> list[str]:
        return self.metric or [_default("disparity")]

    def directions(self) -> dict[str, str]:
        """The columns that may only rise or fall."""
        fix = "A column that must not change is --immutable COLUMN."
        form = "COLUMN:up or COLUMN:down"
        return o.read_pairs("--one-way", form, self.one_way, _read_way, ":", fix=fix)

    def weights(self) -> dict[str, float]:
        """The cost of edits of an input, relative to 1."""
        return o.read_pairs("--cost", "COLUMN=NUMBER", self.cost, _read_weight)

    def rules(self) -> list[Rule]:
        """What edits must keep to, as it was typed."""
        return [
            *(Rule("--immutable", name) for name in self.immutable),
            *(Rule("--one-way", direction) for direction in self.directions().items()),
            *(Rule("--max-edits", most) for most in [self.max_edits] if most is not None),
        ]

    def settings(self, people: FilePeople, box: BlackBox, seed: int) -> dict[str, Any]:
        """The settings as the classifier takes them, but for the rules."""
        return {
            "pos_label": people.positive,
            "disparity": self.metrics[0] if len(self.metrics) == 1 else self.metrics,
            "method": self.method,
            "target": people.as_group(self.target),
            "reference": people.as_group(self.reference),
            "level": self.level,
            "blind": self.blind,
            "words": self.in_words,
            "two_sided": self.two_sided,
            "rank": read_rank(self.rank),
            "favorable_label": _favourable(people, box, self.favourable),
            "do_no_harm": self.do_no_harm,
            "require_significant": self.require_significant,
            "key": find_key(self.key_file),
            "random_state": seed,
        }


@dataclass(frozen=True, kw_only=True)
class HoldoutOptions:
    """The people to report on."""

    holdout: o.Holdout = None
    holdout_share: o.HoldoutShare = 0.3
    seed: o.Seed = 0
    is_holdout: o.IsHoldout = None

    def check(self) -> None:
        """Refuse a word about a file that is not there."""
        if self.is_holdout is not None and self.holdout is None:
            raise typer.BadParameter(
                "is for --holdout FILE; without it the people reported on are a holdout",
                param_hint="--is-holdout",
            )

    def name(self, file: str) -> str:
        """Who is reported on."""
        share = f"{100 * self.holdout_share:g} % of {file}, held out by seed {self.seed}"
        return self.holdout or share


def repair(
    file: o.File,
    columns: InputOptions,
    cells: o.CellAndWordOptions,
    call: SoftModelOptions,
    how: RepairOptions,
    holdout: HoldoutOptions,
    output: Annotated[
        str, o.output_option("The artifact.", "FILE", "--output", "-o")
    ] = "repair.fairmend",
    report: Annotated[
        str | None,
        o.output_option("The report, in HTML; by default beside the artifact.", "FILE", "--report"),
    ] = None,
    fail_on: o.FailOn = None,
    allow_partial: Annotated[
        bool, o.output_option("Exit with 0 although a gap was not closed.", None, "--allow-partial")
    ] = False,
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
    rules = how.rules()
    holdout.check()
    taken = (file, holdout.holdout, how.key_file)
    check_output("--output", output, *taken, force=force)
    page = report if report is not None else str(Path(output).with_suffix(".html"))
    check_output("--report", page, output, *taken, force=force)
    box = call.box()
    people, audited, reported = _everybody(file, columns, box, cells.spelling, holdout)
    which = holdout.name(file)
    refuse_selected(people.selection, how.metrics, columns.without_label)
    never = [name for name in columns.group if name in people.input_names]
    _refuse_groups(rules, [name for name in columns.group if name not in never])
    weights = how.weights()
    _note_inputs(people, [*how.immutable, *never], how.directions(), weights)
    settings = how.settings(people, box, holdout.seed) | settings_of(rules, never, weights)
    repaired = RepairedClassifier(box, **settings).fit(**audited.call, ids=audited.ids)
    _tell_about(repaired, people, how.reference)
    shortfalls = find_shortfalls(repaired, rules, never, audited)
    result = repaired.report(
        **reported.call,
        frontier=True,
        command=f"{command_line()}  # reported on {which}",
        holdout=True if holdout.holdout is None else holdout.is_holdout,
        left_out=(people if holdout.holdout is None else reported).left_out,
    )
    repaired.spelling_ = cells.spelling
    repaired.save(output, created=now(), overwrite=force)
    say(f"wrote {output}")
    result.save_html(page, overwrite=force)
    say(f"wrote {page}")
    crossed = over_the_limit(result.after, limits)
    if not is_open(figures()):
        note("standard output is closed: the figures are in the report alone")
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
        _show(repaired, shortfalls, result, f"On {len(reported):,} people", which)
    if settings["key"] is None and randomised_share(repaired) > 0:
        note("without --key-file no artifact can tell later whether apply has the right key; make "
             "one first with fairmend key FILE")  # fmt: skip
    not_closed = [line for shortfall in shortfalls for line in shortfall.headlines]
    way_out = ["--allow-partial makes a repair like that end with 0"] if not_closed else []
    gate([*crossed, *([] if allow_partial else not_closed + way_out)])


def _note_inputs(
    people: FilePeople,
    never: Sequence[str],
    ways: Mapping[str, str],
    weights: Mapping[str, float],
) -> None:
    """Say before long work which inputs may be edited: some of them perhaps should not."""
    categories = _many_categories(people)
    words = [
        f"{name}{f' ({categories[name]:,} categories)' if name in categories else ''}"
        f"{f' ({ways[name]} only)' if name in ways else ''}"
        f"{f' (cost {weights[name]:g})' if name in weights else ''}"
        for name in people.input_names
        if name not in never
    ]
    more = f" and {len(words) - MOST_NAMED:,} more" if len(words) > MOST_NAMED else ""
    say(f"may be edited: {', '.join(words[:MOST_NAMED])}{more}; --immutable COLUMN keeps one as it "
        "is")  # fmt: skip


def _many_categories(people: FilePeople) -> dict[str, int]:
    """Inputs of text with more values than people would list, as dates have in a CSV."""
    import polars as pl

    table = people.call["X"]
    if not isinstance(table, pl.DataFrame):  # many files, which are not in memory
        return {}
    values = {name: table[name].n_unique() for name in people.input_names
              if table.schema[name] == pl.String}  # fmt: skip
    return {name: n for name, n in values.items() if n > MOST_CATEGORIES}


def _tell_about(repaired: RepairedClassifier, people: FilePeople, reference: str) -> None:
    """Say what may mislead about the people a repair was fitted on."""
    audit = repaired.audit_
    if audit.rows is not None:
        note(f"{audit.who}: tests and the plan's interval are by person; the report counts rows, "
             "and its intervals take each for a person of its own")  # fmt: skip
    tell_backwards(audit, people.positive)
    tell_small_reference(audit, reference, {one.baseline for one in repaired.plans_.values()})


_SEEN = {
    True: " the repair has not seen",
    False: " the repair was fitted on",
    None: ", whom the repair should not have seen",
}


def _show(
    repaired: RepairedClassifier,
    shortfalls: Sequence[Shortfall],
    result: Report,
    people: str,
    which: str,
) -> None:
    plans = worst_first(repaired)
    nobody = [] if plans else ["No group is worse off than the reference: nobody is edited."]
    texts = [plan.described(notes=False) for plan in plans]  # the report has the notes
    for part in (*shortfalls, *texts, *nobody):
        show(part, end="\n\n")
    show(f"{people}{_SEEN[result.holdout]} ({which}):", end="\n\n")
    show(result)


# -------------------------------------------------------------------- what was typed


def _refuse_groups(rules: Sequence[Rule], groups: Sequence[str]) -> None:
    """A rule about a group that is no input can do nothing, and need not."""
    for rule in rules:
        name = rule.value[0] if isinstance(rule.value, tuple) else rule.value
        check(
            name not in groups,
            rule.flag,
            "must name inputs of the model",
            f"got {name!r}, which is a --group",
            "Leave it out: groups are never edited.",
        )


def _favourable(people: FilePeople, box: BlackBox, text: str | None) -> Any:
    """The decision people want, as the labels have it."""
    if people.outcome is not None:
        return same_value(people.outcome, text)
    words = list(map(str, box.words or (0, 1)))
    return words.index(text) if text in words else text


def _read_way(text: str) -> str:
    if text not in ("up", "down"):
        raise ValueError(text)
    return text


def _read_weight(text: str) -> float:
    weight = float(text)
    if not 0 < weight < math.inf:
        raise ValueError(text)
    return weight


def read_rank(text: str | None) -> str | dict[str, float] | None:
    """The name of a way to rank people, or the costs of both errors.

    >>> read_rank("flips"), read_rank("false_positive=1,false_negative=5")
    ('flips', {'false_positive': 1.0, 'false_negative': 5.0})
    """
    if text is None or "=" not in text:
        return text
    form = "false_positive=NUMBER,false_negative=NUMBER, both greater than 0"
    costs = o.read_pairs("--rank", form, map(str.strip, text.split(",")), _read_weight)
    if set(costs) != set(ERRORS):
        raise typer.BadParameter(f"must read {form}; got {text!r}", param_hint="--rank")
    return costs


# -------------------------------------------------------------------- whom to audit and report on


def _everybody(
    file: str, columns: InputOptions, box: BlackBox, spelling: Spelling, holdout: HoldoutOptions
) -> tuple[FilePeople, FilePeople, FilePeople]:
    """All people, those to audit, and those to report on."""
    many = is_many(file)
    if many and holdout.holdout is None:
        raise typer.BadParameter(
            "must name a holdout where FILE is many files", param_hint="--holdout"
        )
    people = read_people(file, columns, box, spelling)
    refuse_repeated_ids(people)
    if holdout.holdout is None:
        return people, *_split(people, holdout.holdout_share, holdout.seed)
    types = {} if many else dict(people.call["X"].schema)
    others = read_people(holdout.holdout, columns, box, spelling, types=types, many=many)
    return people, people, others


def _split(people: FilePeople, share: float, seed: int) -> tuple[FilePeople, FilePeople]:
    """Those to audit and the holdout, the share taken within each group and outcome.

    All rows of a person go the same way, that of the first.
    """
    import numpy as np

    from fairmend.data.ids import hold_out_people, number_people

    if not 0 < share < 1:
        must = f"must lie between 0 and 1; got {share:g}. 0.3 is 30 % of the people"
        raise typer.BadParameter(must, param_hint="--holdout-share")
    held = hold_out_people(people.values.values(), share, seed, people.ids)
    if held.all() or not held.any():
        n = len(people) if people.ids is None else len(np.unique(number_people(people.ids)))
        raise DataError(
            "--holdout-share",
            "must leave people to fit on and people to report on",
            f"{share:g} of {n:,} people leaves {'none' if held.all() else 'all'} to fit",
            "Choose a share near 0.3, or name a file with others with --holdout.",
        )
    return people.take(np.flatnonzero(~held)), people.take(np.flatnonzero(held))
