"""The command line: audit and explain a model from a file, without writing Python.

Figures go to standard output; messages and progress to standard error. Exit codes: 0 done, 1 a
``--fail-on`` threshold was crossed, 2 wrong usage, 3 bad data, 4 the model failed, 130 interrupted.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmend.errors import DataError, FairmendError, MissingExtra, ModelError

if TYPE_CHECKING:
    from fairmend.audit import Audit

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Audit, explain and mend a black-box classifier that treats groups differently.",
)

OK, CROSSED, USAGE, BAD_DATA, MODEL_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130

File = Annotated[str, typer.Argument(help="CSV, Parquet or Arrow file; - for standard input.")]
Label = Annotated[str, typer.Option(help="Column with what really happened.")]
Group = Annotated[
    list[str], typer.Option(help="Column with the group; repeat it for intersections.")
]
Predictions = Annotated[
    str | None, typer.Option(help="Column with the model's recorded answers (a scored file).")
]
ModelPath = Annotated[
    str | None, typer.Option(help="The model itself, as package.module:object (fitted).")
]
Threshold = Annotated[
    float | None, typer.Option(help="Answers greater than this are positive decisions.")
]
Positive = Annotated[str | None, typer.Option(help="The value of the label that is positive.")]
Weight = Annotated[str | None, typer.Option(help="Column with people's weights.")]
Ignore = Annotated[
    list[str] | None, typer.Option(help="Column that is no input of the model; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def main() -> None:
    """Run the command line and turn every failure into one line and an exit code."""
    try:
        app(standalone_mode=True)
    except ModelError as error:
        _stop(error, MODEL_FAILED)
    except MissingExtra as error:
        _stop(error, USAGE)
    except FairmendError as error:
        _stop(error, BAD_DATA)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)


def _stop(error: FairmendError, code: int) -> None:
    print(f"fairmend: {error}", file=sys.stderr)
    sys.exit(code)


@app.command()
def demo() -> None:
    """Audit a stand-in vendor model on embedded real data and explain its gap."""
    from fairmend.demo import main as run

    run()


@app.command()
def audit(
    file: File,
    label: Label,
    group: Group,
    predictions: Predictions = None,
    model: ModelPath = None,
    threshold: Threshold = None,
    soft: Annotated[
        bool, typer.Option(help="Take probabilities themselves as the decisions.")
    ] = False,
    positive: Positive = None,
    weight: Weight = None,
    ignore: Ignore = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="sp, fnr, fpr, fdr or da; may be repeated.")
    ] = None,
    reference: Annotated[
        str, typer.Option(help="best, rest, or the group to compare with.")
    ] = "best",
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(help="Exit 1 if a gap is larger, e.g. 'fnr>0.05'; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare how the model treats the groups, with confidence intervals."""
    from fairmend import audit as run_audit

    limits = [_read_limit(text) for text in fail_on or []]
    table, settings = _read(
        file, label, group, predictions=predictions, model=model, threshold=threshold, soft=soft,
        positive=positive, weight=weight, ignore=ignore or [],
    )  # fmt: skip
    wanted = list(
        dict.fromkeys([*(metric or ("sp", "fnr", "fpr", "fdr")), *(m for m, _ in limits)])
    )
    result = run_audit(
        settings.pop("box"), table, label, **settings,
        metrics=wanted, reference=_as_group(table, group, reference), confidence=confidence,
    )  # fmt: skip
    print(json.dumps(result.to_dict(), indent=2) if as_json else result)
    crossed = _crossed(result, limits)
    for line in crossed:
        print(line, file=sys.stderr)
    if crossed:
        sys.exit(CROSSED)


@app.command()
def explain(
    file: File,
    label: Label,
    group: Group,
    disparity: Annotated[str, typer.Option(help="sp, fnr, fpr, fdr or da.")] = "sp",
    target: Annotated[
        str | None, typer.Option(help="The group to explain; default: the worst-off.")
    ] = None,
    predictions: Predictions = None,
    model: ModelPath = None,
    threshold: Threshold = None,
    positive: Positive = None,
    weight: Weight = None,
    ignore: Ignore = None,
    as_json: AsJson = False,
) -> None:
    """Show which part of a group's inputs drives a gap: its counterfactual distribution."""
    from fairmend import counterfactual as run_counterfactual
    from fairmend import explain as explaining
    from fairmend.tables import TextTable, percent

    table, settings = _read(
        file, label, group, predictions=predictions, model=model, threshold=threshold, soft=False,
        positive=positive, weight=weight, ignore=ignore or [],
    )  # fmt: skip
    found = run_counterfactual(
        settings.pop("box"), table, label, **settings,
        disparity=disparity, target=_as_group(table, group, target),
    )  # fmt: skip
    marginals = explaining.marginals(found)
    scores = explaining.feature_scores(found)
    if as_json:
        print(json.dumps(_explained(found, marginals, scores), indent=2))
        return
    print(found, end="\n\n")
    shown = [line for line in marginals if line.is_share]
    shown.sort(key=lambda line: -abs(line.shift))
    print(
        TextTable(
            "Shares of people, largest shifts first",
            ("<feature", "<value", "observed", "baseline", "counterfactual", "shift"),
            [
                (
                    line.feature,
                    line.statistic,
                    percent(line.observed),
                    percent(line.baseline),
                    percent(line.counterfactual),
                    f"{100 * line.shift:+.1f}",
                )
                for line in shown[:15]
            ],
        )
    )
    print()
    print(
        TextTable(
            "What the features carry of the gap",
            ("<feature", "of the influence", "of the change", "shift"),
            [
                (
                    score.feature,
                    percent(score.influence_share),
                    percent(score.share_of_gap),
                    percent(score.shift),
                )
                for score in scores[:10]
            ],
        )
    )


def _explained(found: Any, marginals: Any, scores: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "schema": "fairmend.explanation/1",
        "target": found.target_name,
        "baseline": found.baseline_name,
        "status": found.status.name,
        "before": found.before,
        "after": found.after,
        "kl": found.kl,
        "marginals": [asdict(line) for line in marginals],
        "feature_scores": [asdict(score) for score in scores],
    }


# -------------------------------------------------------------------- reading the call


def _read(
    file: str,
    label: str,
    group: list[str],
    *,
    predictions: str | None,
    model: str | None,
    threshold: float | None,
    soft: bool,
    positive: str | None,
    weight: str | None,
    ignore: list[str],
) -> tuple[Any, dict[str, Any]]:
    """The table and the arguments that audit and counterfactual share."""
    from fairmend.model import BlackBox
    from fairmend.tablefile import read_table

    if (predictions is None) == (model is None):
        raise typer.BadParameter("give either --predictions COLUMN or --model MODULE:OBJECT")
    table = read_table(file)
    for name in ignore:
        if name not in table.columns:
            raise DataError("--ignore", "must name a column of the file", f"got {name!r}",
                            f"Columns: {', '.join(table.columns)}.")  # fmt: skip
    table = table.drop(ignore)
    box = BlackBox(
        predictions if predictions is not None else _load_model(str(model)),
        threshold=threshold,
        soft=soft,
    )
    settings = {
        "box": box,
        "sensitive_features": group,
        "sample_weight": weight,
        "pos_label": _as_value(table, label, positive),
    }
    return table, settings


def _load_model(path: str) -> Any:
    """An object by its import path."""
    module, _, name = path.partition(":")
    if not name:
        raise typer.BadParameter("--model must read package.module:object", param_hint="--model")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ModelError(
            "--model", "must be importable", f"{path!r} is not: {error}",
            "Check the path, and run from the folder that holds the module.",
        ) from None  # fmt: skip
    return found


def _as_value(table: Any, column: str, text: str | None) -> Any:
    """A value typed on the command line, as the column holds it."""
    if text is None or column not in table.columns:
        return text
    for value in table[column].unique().to_list():
        if str(value) == text:
            return value
    return text


def _as_group(table: Any, group: list[str], text: str | None) -> Any:
    """A group typed on the command line; intersections are named as they print."""
    if text in ("best", "rest") or len(group) != 1:
        return text
    return _as_value(table, group[0], text)


def _read_limit(text: str) -> tuple[str, float]:
    parts = re.fullmatch(r"\s*(\w+)\s*>\s*([0-9.]+)\s*(%?)\s*", text)
    if not parts:
        raise typer.BadParameter(
            f"must read METRIC>LIMIT, e.g. 'fnr>0.05'; got {text!r}", param_hint="--fail-on"
        )
    limit = float(parts[2]) / (100 if parts[3] else 1)
    return parts[1].lower(), limit


def _crossed(result: Audit, limits: list[tuple[str, float]]) -> list[str]:
    """One line per gap beyond its limit, in either direction."""
    return [
        f"{gap.metric}: the gap of {gap.target} against {gap.baseline} is "
        f"{100 * gap.gap:+.1f} points, beyond {100 * limit:g}"
        for metric, limit in limits
        for gap in result.gaps
        if gap.metric == metric and gap.judged and abs(gap.gap) > limit
    ]
