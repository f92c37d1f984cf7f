"""The options that several commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from fairmend.config import SettingsError
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, nearest
from fairmend.measure.disparity import as_disparity
from fairmend.model.protocols import NAMES as PROTOCOLS

METHODS = ("least_change", "order", "transport", "paper")
COLUMNS, MODEL, OUTPUT, REPAIR = "Columns", "The model", "Output", "The repair"


def checked(check: Callable[[str], object]) -> Callable[..., Any]:
    """Look at what was typed before anything is read; `check_of` holds settings to the same."""

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


def one_of(*values: str) -> Callable[..., Any]:
    """Nothing but these may be typed."""

    def check(entry: str) -> None:
        if entry not in values:
            near = nearest(entry, values)
            raise DataError(
                "option",
                f"must be {values[0]} or {values[1]}"
                if len(values) == 2
                else f"must be one of {', '.join(values)}",
                f"got {entry!r}",
                "Choose one of these." if near.startswith("Known") else near,
            )

    return checked(check)


def check_of(callback: Callable[..., Any] | None) -> Callable[[str], object] | None:
    """What an option's values are held to; None if any text will do."""
    return getattr(callback, "check", None)


def a_name(text: str) -> None:
    """What a column can be called."""
    if not text.strip() or not text.isprintable():
        raise DataError("option", "must be a name", f"got {text!r}", "Leave it out for the usual.")


def a_metric(name: str) -> None:
    """A metric by its short name."""
    try:
        as_disparity(name)
    except DataError as error:
        must = error.must.removesuffix(", or a Disparity")
        raise DataError(error.what, must, error.got, error.fix) from None


File = Annotated[
    str,
    typer.Argument(
        help="CSV, Parquet, Arrow or a spreadsheet; - reads standard input. A folder or a pattern "
        "in quotes stands for many files, whose rows stay where they are.",
        metavar="FILE",
    ),
]
Artifact = Annotated[
    str, typer.Argument(help="The file that fairmend repair has written.", metavar="ARTIFACT")
]

Label = Annotated[
    str | None,
    typer.Option(
        help="What really happened. Without it the decisions alone are compared.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
Group = Annotated[
    list[str],
    typer.Option(
        help="The group of each person; repeat it for intersections.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
KnownGroup = Annotated[
    list[str] | None,
    typer.Option(
        help="The group of each person, if it is called otherwise than in the artifact.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="The value of the label that counts as positive; without a label, of the recorded "
        "decisions.",
        metavar="VALUE",
        rich_help_panel=COLUMNS,
    ),
]
PositiveDecision = Annotated[
    str | None,
    typer.Option(
        help="The word of recorded decisions that counts as positive, where they are not in the "
        "words of the label: approve, say, beside outcomes yes and no.",
        metavar="WORD",
        rich_help_panel=COLUMNS,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        help="How many people each row stands for.", metavar="COLUMN", rich_help_panel=COLUMNS
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="Who it is; never an input. Where people have several rows, intervals and tests of "
        "audit and repair are by person.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="An input of the model; repeat it. By default those the model names, else all columns "
        "that are nothing else.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="No input of the model; may be repeated.", metavar="COLUMN", rich_help_panel=COLUMNS
    ),
]
NotId = Annotated[
    list[str] | None,
    typer.Option(
        help="An input of the model although it looks like an id: no two people share a value.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="What stands for a missing value in any column, beside an empty cell; may be "
        "repeated. Among numbers NA, null, - and the like do so anyway.",
        metavar="TEXT",
        rich_help_panel=COLUMNS,
    ),
]


Decimal = Annotated[
    str | None,
    typer.Option(
        help="The decimal mark of a CSV's numbers: a comma, as in 1.598,84, or a point, which also "
        "says that what looks like numbers with a comma are words.",
        metavar="MARK",
        callback=one_of(".", ","),
        rich_help_panel=COLUMNS,
    ),
]
Thousands = Annotated[
    str | None,
    typer.Option(
        help="The mark between thousands in a CSV: , as in 3,392.88, or . ' _ or a blank.",
        metavar="MARK",
        rich_help_panel=COLUMNS,
    ),
]
Currency = Annotated[
    str | None,
    typer.Option(
        help="The sign before or after amounts in a CSV, e.g. '$' or EUR.",
        metavar="SIGN",
        rich_help_panel=COLUMNS,
    ),
]
Percent = Annotated[
    bool,
    typer.Option(
        "--percent",
        help="Numbers with a percent sign in a CSV are read as such: 12.5% is 0.125.",
        rich_help_panel=COLUMNS,
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Option(
        help="A column of a CSV that holds words, although most of them look like numbers; may be "
        "repeated.",
        metavar="COLUMN",
        rich_help_panel=COLUMNS,
    ),
]


def spelling(
    missing: list[str] | None,
    decimal: str | None,
    thousands: str | None,
    currency: str | None,
    *,
    percent: bool,
    words: list[str] | None = None,
) -> Spelling:
    """What these options say about the cells of a file."""
    lists = tuple(missing or ()), tuple(words or ())
    try:
        return Spelling(lists[0], decimal, thousands, currency, percent, lists[1])
    except DataError as error:
        raise typer.BadParameter(
            f"{error.must}; {error.got}. {error.fix}", param_hint=error.what
        ) from None


Predictions = Annotated[
    str | None,
    typer.Option(
        help="The model's recorded answers, in a scored file.",
        metavar="COLUMN",
        rich_help_panel=MODEL,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="The model itself: package.module:object, FILE.skops, FILE.onnx, or a URL.",
        metavar="MODEL",
        rich_help_panel=MODEL,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Answers greater than this are positive decisions.",
        metavar="NUMBER",
        rich_help_panel=MODEL,
    ),
]
Answers = Annotated[
    str,
    typer.Option(
        help="What the answers are: label, probability, score, or auto.",
        metavar="KIND",
        callback=one_of("label", "probability", "score", "auto"),
        rich_help_panel=MODEL,
    ),
]
Soft = Annotated[
    bool,
    typer.Option(
        "--soft",
        help="Take probabilities themselves as the decisions.",
        rich_help_panel=MODEL,
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        help="A type in a .skops file that may be made; may be repeated.",
        metavar="TYPE",
        rich_help_panel=MODEL,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        help="What the model is handed its rows in: pandas, polars or numpy. By default what it "
        "was fitted on; polars for functions.",
        metavar="KIND",
        callback=one_of("pandas", "polars", "numpy"),
        rich_help_panel=MODEL,
    ),
]

Protocol = Annotated[
    str | None,
    typer.Option(
        help="How a URL is asked, where it does not tell: mlflow, v2 or instances. A token is read "
        "from FAIRMEND_UPSTREAM_TOKEN.",
        metavar="NAME",
        callback=one_of(*PROTOCOLS),
        rich_help_panel=MODEL,
    ),
]

Unknown = Annotated[
    str,
    typer.Option(
        help="What happens to people of a group that was not audited: error, or keep the model's "
        "answer. People without a group always keep it.",
        metavar="POLICY",
        callback=one_of("error", "keep"),
        rich_help_panel=REPAIR,
    ),
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        help="The secret for people's draws, the same for repair and apply; make it once with "
        "fairmend key. Without it: FAIRMEND_KEY.",
        metavar="FILE",
        rich_help_panel=REPAIR,
    ),
]

IsHoldout = Annotated[
    bool | None,
    typer.Option(
        "--is-holdout/--not-holdout",
        help="Declare whether the people reported on were used for fitting the repair. fairmend "
        "cannot check this. Without either, the report says that it is not known.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of text.", rich_help_panel=OUTPUT),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        help="Exit with 1 if a gap is larger, e.g. 'fnr>0.05' or, the same, 'fnr>5%'; may be "
        "repeated.",
        metavar="LIMIT",
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite files that are there.", rich_help_panel=OUTPUT),
]
