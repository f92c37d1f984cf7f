"""The options of the command line, each declared once: its type, its help and what it may hold."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer

from fairmend.cli.output import note
from fairmend.config import SettingsError
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, check, nearest
from fairmend.measure.disparity import as_disparity, metric_choices
from fairmend.model.protocols import protocol_names
from fairmend.repair.methods import methods
from fairmend.repair.settings import RepairSettings

COLUMNS, MODEL, OUTPUT, REPAIR = "Columns", "The model", "Output", "The repair"
HOLDOUT = "Holdout"
T = TypeVar("T")


# -------------------------------------------------------------------- how an option is declared


def option(
    help: str,
    metavar: str | None = None,
    *flags: str,
    panel: str | None = None,
    check: Callable[[str], object] | None = None,
    **more: Any,
) -> Any:
    """An option; ``check`` raises a `DataError` about what it cannot hold."""
    callback = None if check is None else checked(check)
    return typer.Option(
        *flags, help=help, metavar=metavar, callback=callback, rich_help_panel=panel, **more
    )


column_option = partial(option, panel=COLUMNS)
model_option = partial(option, panel=MODEL)
output_option = partial(option, panel=OUTPUT)
repair_option = partial(option, panel=REPAIR)
holdout_option = partial(option, panel=HOLDOUT)


def setting(name: str, metavar: str | None, *flags: str, more: str = "", **checks: Any) -> Any:
    """The option of a setting of a repair, with the help that is written there."""
    return repair_option(f"{RepairSettings.help(name)} {more}".strip(), metavar, *flags, **checks)


def checked(check: Callable[[str], object]) -> Callable[..., Any]:
    """Check what was typed before anything is read; settings files are held to `callback.check`."""

    def callback(option: typer.CallbackParam, given: Any) -> Any:
        for entry in given if isinstance(given, list) else [given]:
            try:
                if entry is not None:
                    check(entry)
            except DataError as error:
                raise SettingsError(option.opts[0], error.must, error.got, error.fix) from None
        return given

    callback.check = check  # type: ignore[attr-defined]
    return callback


def one_of(*values: str) -> Callable[[str], None]:
    """A check that takes nothing but these."""

    def check_entry(entry: str) -> None:
        near = nearest(entry, values)
        several = f"one of {', '.join(values)}"
        check(
            entry in values,
            "option",
            f"must be {' or '.join(values) if len(values) == 2 else several}",
            f"got {entry!r}",
            "Choose one of these." if near.startswith("Known") else near,
        )

    return check_entry


def a_name(text: str) -> None:
    """Check what a column can be called."""
    good = bool(text.strip()) and text.isprintable()
    check(good, "option", "must be a name", f"got {text!r}", "Leave it out for the usual.")


def a_metric(name: str) -> None:
    """Check the short name of a metric."""
    try:
        as_disparity(name)
    except DataError as error:
        raise error.but(must=error.must.removesuffix(", or a Disparity")) from None


def read_pairs(
    flag: str,
    form: str,
    texts: Iterable[str],
    read: Callable[[str], T],
    mark: str = "=",
    *,
    at_first: bool = False,
    fix: str = "",
) -> dict[str, T]:
    """Names with a value each, as in NAME=VALUE, cut at the last ``mark`` or at the first.

    >>> read_pairs("--cost", "COLUMN=NUMBER", ["a=b=0.5"], float)
    {'a=b': 0.5}
    """
    pairs: dict[str, T] = {}
    for text in texts:
        name, _, written = text.partition(mark) if at_first else text.rpartition(mark)
        try:
            value = read(written)
        except ValueError:
            name = ""
        if not (name and written):
            raise typer.BadParameter(f"must read {form}; got {text!r}", param_hint=flag)
        if pairs.setdefault(name, value) != value:
            raise typer.BadParameter(
                f"must name each once; got {pairs[name]} and {value} for {name!r}. {fix}".strip(),
                param_hint=flag,
            )
    return pairs


def registered(kind: str) -> Callable[[str], None]:
    """A check that takes the names that are registered by then: see `_NAMES`."""

    def check_entry(entry: str) -> None:
        one_of(*_NAMES[kind]())(entry)

    return check_entry


_NAMES: dict[str, Callable[[], Sequence[str]]] = {
    "methods": lambda: tuple(methods()),
    "metrics": lambda: [metric_choices()],
    "protocols": protocol_names,
}
"""What may be added from outside the package is looked up when it is needed."""


def filled(help: str) -> str:
    """A help text with the names that are registered when it is shown."""
    for kind, names in _NAMES.items():
        if f"{{{kind}}}" in help:
            help = help.replace(f"{{{kind}}}", ", ".join(names()))
    return help


# -------------------------------------------------------------------- groups of options


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of a dataclass of options are each of these options."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for one in _parameters(command):
        if is_dataclass(one.annotation):
            groups[one.name] = one.annotation
            parameters += _parameters(one.annotation)
        else:
            parameters.append(one.replace(kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{one: given.pop(one) for one in signature(group).parameters})
            for name, group in groups.items()
        }
        command(**given, **made)

    del run.__wrapped__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameters(owner: Any) -> list[Parameter]:
    """Those of a function or a dataclass, with the types and the lists that they begin with."""
    hints = get_type_hints(owner, include_extras=True)
    own = fields(owner) if is_dataclass(owner) else ()
    made = {one.name: one.default_factory() for one in own if callable(one.default_factory)}
    return [
        one.replace(annotation=hints[one.name], default=made.get(one.name, one.default))
        for one in signature(owner).parameters.values()
    ]


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """How the cells of a file are written."""

    missing: Annotated[
        list[str],
        column_option(
            "Text that stands for a missing value, beside an empty cell; may be repeated. In "
            "columns of numbers NA, null, - and the like always do.",
            "TEXT",
        ),
    ] = field(default_factory=list)
    decimal: Annotated[
        str | None,
        column_option(
            "The decimal mark of numbers in a CSV: a comma, as in 1.598,84, or a point; with "
            "a point, numbers with a comma are words.",
            "MARK",
            check=one_of(".", ","),
        ),
    ] = None
    thousands: Annotated[
        str | None,
        column_option(
            "The mark between thousands in a CSV: , as in 3,392.88, or . ' _ or a blank.", "MARK"
        ),
    ] = None
    currency: Annotated[
        str | None,
        column_option("The sign before or after amounts in a CSV, e.g. '$' or EUR.", "SIGN"),
    ] = None
    percent: Annotated[
        bool,
        column_option(
            "Read numbers with a percent sign in a CSV as shares: 12.5% is 0.125.",
            None,
            "--percent",
        ),
    ] = False

    @property
    def spelling(self) -> Spelling:
        """The same, as readers of files take it."""
        given: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        try:
            return Spelling(**given | lists)
        except DataError as error:
            raise typer.BadParameter(
                f"{error.must}; {error.got}. {error.fix}", param_hint=error.what
            ) from None

    def over(self, fitted: Spelling) -> Spelling:
        """Cells as the file of the repair had them, but for what was said otherwise here."""
        said = {name: value for name, value in asdict(self.spelling).items() if value}
        spelling = replace(fitted, **said)
        instead = [
            flag
            for flag, name in fitted.options()
            if getattr(spelling, name) != getattr(fitted, name)
        ]
        kept = [flag for flag, name in fitted.options() if name not in said]
        if kept:
            note(f"cells are read as in the file of the repair: {' '.join(kept)}")
        if instead:
            now = " ".join(flag for flag, name in spelling.options() if name in said)
            then = " ".join(instead)
            note(f"the file of the repair was read with {then}; this one with {now} alone")
        return spelling


@dataclass(frozen=True, kw_only=True)
class CellAndWordOptions(CellOptions):
    """The same, with columns whose words look like numbers."""

    words: Annotated[
        list[str],
        column_option(
            "A column of a CSV that holds words, although most of them look like numbers; may be "
            "repeated.",
            "COLUMN",
        ),
    ] = field(default_factory=list)


# -------------------------------------------------------------------- options of several commands

File: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="CSV, Parquet, Arrow or a spreadsheet; - reads standard input. A folder, or a pattern "
        "in quotes, stands for many files, which are not read into memory.",
        metavar="FILE",
    ),
]
Artifact: TypeAlias = Annotated[
    str, typer.Argument(help="The file that fairmend repair has written.", metavar="ARTIFACT")
]
Label: TypeAlias = Annotated[
    str | None,
    column_option(
        "The outcome: what really happened. Without it, only decisions are compared.",
        "COLUMN",
        "--label",
    ),
]
KnownGroup: TypeAlias = Annotated[
    list[str] | None,
    column_option(
        "The group of each person, if the column has another name than in the artifact.", "COLUMN"
    ),
]
Weight: TypeAlias = Annotated[
    str | None, column_option("How many people each row stands for.", "COLUMN")
]
Id: TypeAlias = Annotated[
    str | None,
    column_option(
        "The person's id; never an input. If people have several rows, the intervals and tests of "
        "audit and repair are by person.",
        "COLUMN",
        "--id",
    ),
]
Answers: TypeAlias = Annotated[
    str,
    model_option(
        "What the answers are: label, probability, score, or auto.",
        "KIND",
        check=one_of("label", "probability", "score", "auto"),
    ),
]
Rows: TypeAlias = Annotated[
    str | None,
    model_option(
        "The container in which the model gets its rows: pandas, polars or numpy. By default the "
        "one it was fitted on; polars for functions.",
        "KIND",
        check=one_of("pandas", "polars", "numpy"),
    ),
]
Protocol: TypeAlias = Annotated[
    str | None,
    model_option(
        "The protocol of a URL, if the URL does not show it: {protocols}. A token is read from "
        "FAIRMEND_UPSTREAM_TOKEN.",
        "NAME",
        check=registered("protocols"),
    ),
]
Reference: TypeAlias = Annotated[
    str, option("Compare with: best, rest, or the name of a group.", "GROUP")
]
Favourable: TypeAlias = Annotated[
    str | None,
    column_option(
        "The decision that people want; by default the positive value of the label.", "VALUE"
    ),
]
Holdout: TypeAlias = Annotated[
    str | None,
    holdout_option("The people of this file are the holdout; none of them may be in FILE.", "FILE"),
]
HoldoutShare: TypeAlias = Annotated[
    float,
    holdout_option(
        "Without --holdout: the share of FILE's people to hold out, drawn by --seed within each "
        "group and outcome.",
        "SHARE",
    ),
]
Seed: TypeAlias = Annotated[int, holdout_option("Seed of the split and the folds.", "N", min=0)]
UnknownGroup: TypeAlias = Annotated[
    str, setting("unknown_group", "POLICY", check=one_of("error", "keep"))
]
KeyFile: TypeAlias = Annotated[
    str | None,
    repair_option(
        "The secret for random draws, the same for repair and apply; make it once with fairmend "
        "key. By default the variable FAIRMEND_KEY.",
        "FILE",
    ),
]
IsHoldout: TypeAlias = Annotated[
    bool | None,
    output_option(
        "Declare whether the people reported on were used for fitting the repair. fairmend cannot "
        "check this. Without either, the report says that it is not known.",
        None,
        "--is-holdout/--not-holdout",
        show_default=False,
    ),
]
Page: TypeAlias = Annotated[
    str | None, output_option("Write the page here, in HTML.", "FILE", "--output", "-o")
]
AsJson: TypeAlias = Annotated[bool, output_option("Print JSON instead of text.", None, "--json")]
FailOn: TypeAlias = Annotated[
    list[str] | None,
    output_option(
        "Exit with 1 if a gap is larger, e.g. 'fnr>0.05' or, the same, 'fnr>5%'; may be repeated.",
        "LIMIT",
    ),
]
Force: TypeAlias = Annotated[bool, output_option("Overwrite existing files.", None, "--force")]
