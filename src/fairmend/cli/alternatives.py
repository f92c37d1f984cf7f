"""``fairmend alternatives``: was there a less discriminatory alternative?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import typer

from fairmend.cli import options as o
from fairmend.cli.audit import gate
from fairmend.cli.model import ModelOptions
from fairmend.cli.output import check_output, command_line, print_result, say
from fairmend.cli.people import InputOptions, is_many, read_people, same_value
from fairmend.measure.selection import refuse_selected

_search_option = partial(o.option, panel="The search")
_MEASURES = ("worth", "accuracy", "balanced_accuracy", "auc")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What to search for."""

    metric: Annotated[
        list[str],
        _search_option(
            "The gap to narrow: {metrics}; of several the widest counts.", "NAME", check=o.a_metric
        ),
    ] = field(default_factory=lambda: ["sp"])
    measure: Annotated[
        str,
        _search_option(
            "The performance to keep: worth (wrong decisions, weighed as the model's own decisions "
            "imply), accuracy, balanced_accuracy, auc, a column with the profit of a positive "
            "decision about each person, or the costs of both errors as "
            "false_positive=1,false_negative=5.",
            "NAME",
        ),
    ] = "worth"
    margin: Annotated[
        float,
        _search_option(
            "How much worse the measure may be: 0.005 is half a point; for a column, a share of "
            "its mean.",
            "NUMBER",
        ),
    ] = 0.005
    models: Annotated[
        list[str],
        _search_option(
            "Another model that the vendor offers: its name, and a column with its answers or the "
            "model itself; may be repeated.",
            "NAME=MODEL",
        ),
    ] = field(default_factory=list)
    immutable: Annotated[
        list[str],
        _search_option("An input that no alternative may change; may be repeated.", "COLUMN"),
    ] = field(default_factory=list)
    reference: o.Reference = "best"
    favourable: o.Favourable = None
    holdout: o.Holdout = None
    holdout_share: o.HoldoutShare = 0.5
    seed: o.Seed = 0

    def amount(self) -> str | None:
        """The column of amounts, where the measure is one."""
        named = self.measure in _MEASURES or "=" in self.measure
        return None if named else self.measure

    def read_measure(self) -> Any:
        """The measure as the library takes it."""
        if "=" not in self.measure:
            return self.measure
        form = "false_positive=COST,false_negative=COST"
        return o.read_pairs("--measure", form, self.measure.replace(" ", "").split(","), float)

    def read_models(self) -> dict[str, str]:
        """The other models by name, as they were typed."""
        return o.read_pairs(
            "--models", "NAME=COLUMN or NAME=MODEL", self.models, str, at_first=True
        )


def alternatives(
    file: o.File,
    columns: InputOptions,
    cells: o.CellAndWordOptions,
    call: ModelOptions,
    how: SearchOptions,
    output: Annotated[
        str | None, o.output_option("Write the dossier here, in HTML.", "FILE", "--output", "-o")
    ] = None,
    save: Annotated[
        str | None,
        o.output_option("Write the artifact of the best alternative here.", "FILE", "--save"),
    ] = None,
    fail_if_better: Annotated[
        bool,
        o.output_option(
            "Exit with 1 if an equivalent, less discriminatory alternative is shown.",
            None,
            "--fail-if-better",
        ),
    ] = False,
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Search for an alternative that performs as well and has a smaller gap, without retraining.

    Candidates are made and chosen on one part of the people and judged once on the other.
    """
    from fairmend.model.modelfile import load_model, model_kind
    from fairmend.report.findings import now
    from fairmend.search import alternatives as run

    for flag, path in (("--output", output), ("--save", save)):
        if path is not None:
            others = (file, how.holdout, output if flag == "--save" else None)
            check_output(flag, path, *others, force=force)
    for name, path in (("FILE", file), ("--holdout", how.holdout)):
        if path is not None and is_many(path):
            raise typer.BadParameter(
                "must be one file for a search: its people are read into memory", param_hint=name
            )
    measure, amount, typed = how.read_measure(), how.amount(), how.read_models()
    recorded = [value for value in typed.values() if not _is_model(value, model_kind)]
    beside = list(dict.fromkeys([*recorded, *([amount] if amount is not None else [])]))
    box = call.box()
    columns = _apart(columns, beside, box.column)
    if columns.label is None:
        raise typer.BadParameter(
            "must be given: whether an alternative performs as well needs outcomes",
            param_hint="--label",
        )
    people = read_people(file, columns, box, cells.spelling, beside=beside)
    refuse_selected(people.selection, how.metric, columns.without_label)
    holdout: Any = how.holdout_share
    if how.holdout is not None:
        types = {name: kind for name, kind in people.call["X"].schema.items()
                 if name not in beside}  # fmt: skip
        judges = read_people(how.holdout, columns, box, cells.spelling, types=types, beside=beside)
        holdout = judges.call | {"ids": judges.ids}
    search = run(
        box,
        **people.call,
        disparity=how.metric if len(how.metric) > 1 else how.metric[0],
        measure=measure,
        margin=how.margin,
        models={
            name: value if value in recorded else load_model(value, trust=call.trust)
            for name, value in typed.items()
        },
        immutable=how.immutable,
        holdout=holdout,
        ids=people.ids,
        reference=people.as_group(how.reference),
        favorable_label=same_value(people.values[columns.label], how.favourable),
        pos_label=people.positive,
        random_state=how.seed,
    )
    best = search.best
    if output is not None:
        search.save_html(output, overwrite=force, command=command_line())
        say(f"wrote {output}")
    if save is not None and best is not None:
        shown = search.classifier(best)
        shown.spelling_ = cells.spelling
        shown.save(save, created=now(), overwrite=force)
        say(f"wrote {save}")
    elif save is not None:
        say(f"no alternative is shown: {save} is not written")
    print_result(search, {"left_out": people.left_out, "dossier": output}, as_json=as_json)
    better = [] if best is None else [f"there is a less discriminatory alternative: {best.name}"]
    gate(better if fail_if_better else [])


def _apart(columns: InputOptions, beside: Iterable[str], answers: str | None) -> InputOptions:
    """The columns of the people, where some are no inputs anyway: these may be ignored as well."""
    used: dict[str | None, str] = {
        columns.label: "--label",
        columns.weight: "--weight",
        columns.id: "--id",
        answers: "--predictions",
    }
    used |= dict.fromkeys(columns.group, "--group")
    for name in beside:
        if name in used:
            raise typer.BadParameter(
                f"must be other columns than {used[name]}; got {name!r} for both",
                param_hint="--models, --measure",
            )
    return replace(columns, ignore=[name for name in columns.ignore if name not in set(beside)])


def _is_model(text: str, model_kind: Any) -> bool:
    """Whether a text names a model rather than a column: a file, an address, or module:object."""
    return text.startswith(("http://", "https://")) or text.endswith((".skops", ".onnx")) or (
        ":" in text and model_kind(text) == "module")  # fmt: skip
