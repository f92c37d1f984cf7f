"""The library's errors and warnings with options in the place of Python's arguments."""

from __future__ import annotations

import re
import shlex

from fairmend.errors import FairmendError, InputError, ModelError

_LIKEWISE = (
    "model", "threshold", "soft", "metric", "method", "target", "reference", "level", "immutable",
    "one_way", "max_edits", "blind", "two_sided", "rank", "do_no_harm", "require_significant",
    "unknown_group", "confidence", "margin",
)  # fmt: skip
OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in _LIKEWISE},
    "X": "the file",
    "y": "--label",
    "sensitive_features": "--group",
    "sample_weight": "--weight",
    "ids": "--id",
    "pos_label": "--positive",
    "words": "--positive-decision",
    "output": "--answers",
    "disparity": "--metric",
    "baseline": "--reference",
    "favorable_label": "--favourable",
    "random_state": "--seed",
    "key": "--key-file",
    "overwrite": "--force",
    "cost weights": "--cost",
}
"""The option that sets an argument of the library."""
_NOT_FOR_A_MODEL = {
    "words": "Name a function that turns its words into these.",
    "random": "If it is random on purpose, record its answers once, and name their column with "
    "--predictions.",
}
"""What to do about a model that is queried, where an argument has no option, or one for recorded
answers alone."""
_PLACEHOLDERS = {"threshold": "NUMBER", "words": "WORD", "key": "FILE"}
_CALL = re.compile(r"(?:BlackBox|fairmend\.load)\((?:model|path), ((?:[^()]|\([^()]*\))*)\)")
_NAMES = "|".join(OPTIONS)
_BARE = "|".join(name for name in OPTIONS if "_" in name or len(name) == 1 or name == "immutable")
_ARGUMENT = re.compile(
    r"(?<!['\w.-])"
    rf"(?:(?:pass (?=\w+=None))?({_NAMES})=('[^']*'|\([^()]*\)|\.\.\.|[\w.]*\w)?"
    rf"|({_BARE})(?!['\w(]))"
)
"""An argument with its value, or its name in a sentence; in quotes it is somebody's column."""


def in_options(error: FairmendError) -> str:
    """An error of the library in the words of the command line.

    >>> error = FairmendError("y", "must have two values", "got 3", "Pass pos_label='yes'.")
    >>> print(in_options(error))
    --label: must have two values; got 3. Pass --positive yes.
    """
    what, quote, name = error.what.partition("'")
    if what in ("X column ", "sensitive_features "):
        what = "column "
    elif what == "X ":  # files that are not there
        what = "files "
    else:
        what = OPTIONS.get(what, text_in_options(what))
    fix = _what_to_type(error) if isinstance(error, InputError) else error.fix
    if isinstance(error, ModelError):
        for argument, instead in _NOT_FOR_A_MODEL.items():
            fix = instead if f"{argument}=" in fix else fix
    rest = text_in_options(f"{error.must}; {error.got}. {fix}")
    return f"{what}{quote}{name}: {rest}"


def text_in_options(text: str) -> str:
    """A text with options for the arguments in it.

    >>> text_in_options("Say BlackBox(model, output='score', threshold=...), or soft=True.")
    'Say --answers score --threshold NUMBER, or --soft.'
    """
    text = _CALL.sub(lambda call: call[1].replace(", ", " ").replace("model", "model=..."), text)
    return _ARGUMENT.sub(_option, text)


def _option(argument: re.Match[str]) -> str:
    name, value, bare = argument.groups()
    if bare is not None:
        return OPTIONS[bare]
    if value in (None, "True"):
        return OPTIONS[name]
    if value == "None":
        return f"leave {OPTIONS[name]} out"
    if value == "..." or value.startswith("("):
        value = _PLACEHOLDERS.get(name, name.upper())
    return f"{OPTIONS[name]} {value.strip(chr(39))}"


def _what_to_type(error: InputError) -> str:
    """The options that say what a doubtful column is."""
    typed = shlex.quote(error.column)
    if error.reason == "identifier":
        return f"Say --id {typed} or --ignore {typed}; if the model does read it, --not-id {typed}."
    return f"Say --ignore {typed}; if the model does read it, name all inputs with --input."
