"""Somebody else's model: the columns it reads, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairmend.errors import DataError, ModelError, check, foreign_code, in_a_line

_METHODS = ("predict_proba", "decision_function", "predict")


def input_names(model: Any) -> tuple[str, ...] | None:
    """The columns a model says it reads; None if it does not say.

    A method speaks for the object it belongs to.
    """
    with foreign_code(unusable):
        model = getattr(model, "__self__", model)
        names = getattr(model, "feature_names_in_", None)
        if names is None:  # MLflow: a signature, where the model was logged with one
            signature = getattr(getattr(model, "metadata", None), "signature", None)
            listing = getattr(getattr(signature, "inputs", None), "input_names", None)
            names = listing() if callable(listing) else ()
            if not all(isinstance(name, str) for name in names):  # tensors go by their place
                return None
        return tuple(str(name) for name in names) or None


def unusable(error: BaseException) -> ModelError:
    """A model whose attributes raise."""
    fix = "Wrap it in a function that takes rows and returns answers."
    return ModelError("model", "must say what it has and can", f"it raised {in_a_line(error)}", fix)


def find_call(model: Any, *, label: bool) -> tuple[str, Callable[[Any], Any] | None]:
    """The name of the way a model answers, and what to call; None for recorded predictions."""
    if isinstance(model, str):
        return f"column {model!r}", None
    got, fix = f"got the class {getattr(model, '__name__', '')}", "Pass a fitted instance."
    check(not isinstance(model, type), "model", "must be a fitted model", got, fix)
    with foreign_code(unusable):
        for method in ("predict",) if label else _METHODS:
            if hasattr(model, method):
                return method, getattr(model, method)
    if callable(model):
        return "call", model
    if model is None or not hasattr(model, "__len__") or isinstance(model, dict):
        must = (
            "must have predict_proba, decision_function or predict, be callable, name a column of "
            "predictions, or be the predictions"
        )
        got = f"got {'None' if model is None else type(model).__name__}"
        fix = "Wrap the vendor's call in a function that takes rows and returns answers."
        raise DataError("model", must, got, fix)
    return "recorded predictions", None
