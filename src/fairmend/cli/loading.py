"""A repair from its artifact, ready for new people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from fairmend.cli.output import say
from fairmend.cli.people import ModelCall
from fairmend.errors import DataError
from fairmend.model.cut import default_cut

if TYPE_CHECKING:
    from fairmend.artifact.manifest import ModelSettings
    from fairmend.classifier import RepairedClassifier

__all__ = ["check_chance", "drawn_share", "find_key", "group_columns", "load_repair"]

KEY_VARIABLE = "FAIRMEND_KEY"


def load_repair(path: str, call: ModelCall, key: bytes | None = None) -> RepairedClassifier:
    """The repair beside its model; how to read the model's answers the repair knows itself."""
    from fairmend.artifact import inspect, load

    call.refuse_idle()
    about = inspect(path).about
    if key is not None and about.key_fingerprint is None:
        say("note: the repair was made without --key-file, so nobody can check that this is the "
            "key people were drawn with before")  # fmt: skip
    if not call.given and not about.model.recorded:
        raise typer.BadParameter(
            "this repair was fitted on a model that can be asked: name it with --model MODEL"
        )
    _refuse_other_reading(call, about.model)
    return load(path, key=key) if not call.given else load(path, call.source(), key=key)


def _refuse_other_reading(call: ModelCall, fitted: ModelSettings) -> None:
    """A repair is calibrated for the decisions it was fitted on: no other reading will do."""
    kind = "label" if fitted.output == "auto" else fitted.output
    if call.answers not in ("auto", kind):
        raise DataError(
            "output",
            f"must be {kind}, as in the repair",
            f"got {call.answers!r}",
            "Leave it out: the artifact knows. For another reading repair anew.",
        )
    cut = fitted.threshold
    if cut is None and not fitted.soft:
        cut = default_cut(kind, fitted.asked_by)
    if call.threshold is not None and call.threshold != cut:
        raise DataError(
            "threshold",
            f"must be left out: the repair reads {'probabilities' if fitted.soft else 'labels'}"
            if cut is None
            else f"must be {cut:g}, as in the repair, whose edits are made for that cut",
            f"got {call.threshold:g}",
            "Leave it out: the artifact knows. For another cut repair anew.",
        )


def find_key(file: str | None) -> bytes | None:
    """The secret for draws: from a file, else from the environment, else none."""
    from fairmend.apply.draw import read_key

    if file is not None:
        return read_key(file=file)
    return read_key(env=KEY_VARIABLE) if KEY_VARIABLE in os.environ else None


def drawn_share(mended: RepairedClassifier) -> float:
    """The largest share of a group whose edit is left to a draw; 1 where decisions are chances."""
    if mended.box_.soft:
        return 1.0
    return max((plan.outlook.randomised for plan in mended.plans_.values()), default=0.0)


def check_chance(path: str, mended: RepairedClassifier, id_: str | None) -> None:
    """Say before long work what it will need where something is left to chance."""
    from fairmend.artifact import inspect

    share = 100 * drawn_share(mended)
    if share == 0:
        return
    if mended.key_ is not None:
        if id_ is None:
            say("note: without --id, people with equal rows share one draw")
        return
    said = f"{share:.1f} %" if share >= 0.05 else "less than 0.1 %"
    known = inspect(path).about.key_fingerprint
    raise DataError(
        "--key-file",
        f"must be given: this repair leaves {said} of a group to a draw",
        f"got none, and {KEY_VARIABLE} is not set",
        "Make a key once with fairmend key FILE, and keep it."
        if known is None
        else f"Give the key the repair was made with, of fingerprint {known}: no other will do.",
    )


def group_columns(mended: RepairedClassifier, names: Sequence[str]) -> list[str]:
    """The columns the groups came from, if the file has columns of these names."""
    attribute = mended.data_.attribute
    for found in ([attribute], attribute.split(" & ")):
        if set(found) <= set(names):
            return found
    raise DataError(
        "--group",
        "must name the columns with people's groups",
        f"the file has none called {attribute!r}, as in the audit",
        "Name the column, once per attribute.",
    )
