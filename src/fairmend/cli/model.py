"""The model, and the repair of it, as they are named on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmend.cli import options as o
from fairmend.cli.output import note
from fairmend.errors import DataError, check, without_secrets
from fairmend.model.cut import default_cut
from fairmend.model.modelfile import model_kind

if TYPE_CHECKING:
    from fairmend.artifact.manifest import ModelSettings
    from fairmend.classifier import RepairedClassifier
    from fairmend.model.blackbox import BlackBox

KEY_VARIABLE = "FAIRMEND_KEY"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model, and how its answers are read."""

    predictions: Annotated[
        str | None, o.model_option("The model's recorded answers, in a scored file.", "COLUMN")
    ] = None
    model: Annotated[
        str | None,
        o.model_option(
            "The model itself: package.module:object, FILE.skops, FILE.onnx, or a URL.", "MODEL"
        ),
    ] = None
    threshold: Annotated[
        float | None, o.model_option("Answers greater than this are positive decisions.", "NUMBER")
    ] = None
    answers: o.Answers = "auto"
    trust: Annotated[
        list[str],
        o.model_option("A type that a .skops file may load; may be repeated.", "TYPE"),
    ] = field(default_factory=list)
    rows: o.Rows = None
    protocol: o.Protocol = None
    soft: bool = field(default=False, init=False)

    @property
    def given(self) -> bool:
        return self.predictions is not None or self.model is not None

    @property
    def name(self) -> str | None:
        """The model or the column, for a record of what was done: without secrets."""
        if self.model is None:
            return self.predictions
        shown = without_secrets(self.model)
        if shown == self.model:
            return shown
        return f"{shown} ({sha256(self.model.encode()).hexdigest()[:12]})"

    def refuse_idle(self) -> None:
        """Refuse options that would change nothing: whoever gives them expects otherwise."""
        kind = None if self.model is None else model_kind(self.model)
        python = kind in ("module", "skops")
        for flag, given, has_effect, need in (
            ("--rows", self.rows, python, "--model package.module:object or FILE.skops"),
            ("--trust", self.trust, kind == "skops", "--model FILE.skops"),
            ("--protocol", self.protocol, kind == "address", "--model URL"),
        ):
            if given and not has_effect:
                raise typer.BadParameter(
                    f"has no effect without {need}. Add that, or leave {flag} out", param_hint=flag
                )

    def source(self) -> Any:
        """The model itself, or the name of the column with its answers."""
        from fairmend.model.modelfile import load_model

        if (self.predictions is None) == (self.model is None):
            got = "neither" if self.model is None else "both"
            raise typer.BadParameter(
                "give either --predictions COLUMN, where the file has the model's answers, or "
                f"--model MODEL; got {got}. fairmend columns FILE lists the columns"
            )
        self.refuse_idle()
        if self.model is None:
            return self.predictions
        return load_model(
            self.model,
            trust=self.trust,
            container=self.rows,  # type: ignore[arg-type]
            protocol=self.protocol,
        )

    def box(self) -> BlackBox:
        """The black box, ready to be queried or read."""
        from fairmend.model.blackbox import BlackBox

        return BlackBox(
            self.source(),
            threshold=self.threshold,
            output=self.answers,  # type: ignore[arg-type]
            soft=self.soft,
        )


@dataclass(frozen=True, kw_only=True)
class SoftModelOptions(ModelOptions):
    """The same, of a model whose probabilities may be its decisions."""

    soft: Annotated[
        bool, o.model_option("Use the probabilities themselves as decisions.", None, "--soft")
    ] = False


# -------------------------------------------------------------------- a repair from its artifact


def load_repair(path: str, call: ModelOptions, key: bytes | None = None) -> RepairedClassifier:
    """The repair beside its model; the artifact knows how to read the model's answers."""
    from fairmend.artifact import inspect, load

    call.refuse_idle()
    about = inspect(path).about
    if key is not None and about.key_fingerprint is None:
        note("the repair was made without --key-file, so nobody can check that this is the key "
             "people were drawn with before")  # fmt: skip
    if not call.given and not about.model.recorded:
        raise typer.BadParameter(
            "this repair was fitted on a model that can be queried: name it with --model MODEL"
        )
    _refuse_other_reading(call, about.model)
    return load(path, call.source() if call.given else None, key=key)


def _refuse_other_reading(call: ModelOptions, fitted: ModelSettings) -> None:
    """A repair is calibrated for the decisions it was fitted on: no other reading will do."""
    kind = "label" if fitted.output == "auto" else fitted.output
    check(
        call.answers in ("auto", kind),
        "output",
        f"must be {kind}, as in the repair",
        f"got {call.answers!r}",
        "Leave it out: the artifact knows. For another reading repair anew.",
    )
    cut = fitted.threshold
    if cut is None and not fitted.soft:
        cut = default_cut(kind, fitted.asked_by)
    check(
        call.threshold is None or call.threshold == cut,
        "threshold",
        f"must be left out: the repair reads {'probabilities' if fitted.soft else 'labels'}"
        if cut is None
        else f"must be {cut:g}, as in the repair, whose edits are made for that cut",
        f"got {call.threshold}",
        "Leave it out: the artifact knows. For another cut repair anew.",
    )


def find_key(file: str | None) -> bytes | None:
    """The secret for draws: from a file, else from the environment, else none."""
    from fairmend.apply.draw import read_key

    if file is not None:
        return read_key(file=file)
    return read_key(env=KEY_VARIABLE) if KEY_VARIABLE in os.environ else None


def randomised_share(repaired: RepairedClassifier) -> float:
    """The largest share of a group that is decided by a draw; 1 where decisions are chances."""
    if repaired.box_.soft:
        return 1.0
    return max((plan.outlook.randomised for plan in repaired.plans_.values()), default=0.0)


def check_draws(path: str, repaired: RepairedClassifier, id_: str | None) -> None:
    """Say before long work what it will need where something is decided by a draw."""
    from fairmend.artifact import inspect

    share = 100 * randomised_share(repaired)
    if share == 0:
        return
    if repaired.key_ is not None:
        if id_ is None:
            note("without --id, people with equal rows share one draw")
        return
    percent = f"{share:.1f} %" if share >= 0.05 else "less than 0.1 %"
    fingerprint = inspect(path).about.key_fingerprint
    raise DataError(
        "--key-file",
        f"must be given: this repair leaves {percent} of a group to a draw",
        f"got none, and {KEY_VARIABLE} is not set",
        "Make a key once with fairmend key FILE, and keep it."
        if fingerprint is None
        else "Give the key the repair was made with, of fingerprint "
        f"{fingerprint}: no other will do.",
    )


def group_columns(repaired: RepairedClassifier, names: Sequence[str]) -> list[str]:
    """The columns the groups came from, if the file has columns of these names."""
    attribute = repaired.data_.attribute
    for columns in ([attribute], attribute.split(" & ")):
        if set(columns) <= set(names):
            return columns
    raise DataError(
        "--group",
        "must name the columns with people's groups",
        f"the file has none called {attribute!r}, as in the audit",
        "Name the column, once per attribute.",
    )
