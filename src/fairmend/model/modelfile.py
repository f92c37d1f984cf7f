"""The model, from what people type: an import path, a file, or an address.

package.module:object     anything importable from here: a fitted estimator, a function
model.skops               a scikit-learn model saved with skops, only of types that are trusted
model.onnx                a model in ONNX, run by onnxruntime
https://...               a model that answers over HTTP
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from fairmend.data.containers import as_kind
from fairmend.errors import (
    MOST_OF_AN_ERROR,
    DataError,
    ModelError,
    foreign_code,
    in_a_line,
    listed,
    plain_text,
    require,
)
from fairmend.model.foreign import input_names, unusable
from fairmend.model.onnxfile import OnnxModel, broken_file

if TYPE_CHECKING:
    import polars as pl

Container = Literal["pandas", "polars", "numpy"]


def load_model(
    source: str,
    *,
    trust: Sequence[str] = (),
    container: Container | None = None,
    protocol: str | None = None,
) -> Any:
    """A model that `fairmend.BlackBox` takes.

    ``trust`` names types inside a skops file that may be made. ``container`` is what the model is
    handed its rows in: without it, pandas for an estimator that was fitted on named columns, NumPy
    for one that was not, and Polars for functions. ``protocol`` is how an address is queried where
    its path does not show it; ``FAIRMEND_UPSTREAM_TOKEN`` is sent along as a bearer token.
    """
    kind = model_kind(source)
    if kind == "address":
        from fairmend.model.remote import RemoteModel

        token = os.environ.get("FAIRMEND_UPSTREAM_TOKEN")
        try:
            return RemoteModel(source, protocol=protocol, token=token)
        except DataError as error:
            raise ModelError("--model", *error.args[1:]) from None
    if kind == "onnx":
        return OnnxModel(_existing(source))
    model = _from_skops(source, trust) if kind == "skops" else _imported(source)
    return _InContainer.around(model, container)


def model_kind(source: str) -> Literal["address", "onnx", "skops", "module"]:
    """What a model is named by.

    >>> model_kind("vendor:model"), model_kind("https://vendor.example/score?version=2")
    ('module', 'address')
    """
    if source.startswith(("http://", "https://")):
        return "address"
    if source.endswith(".onnx"):
        return "onnx"
    return "skops" if source.endswith(".skops") else "module"


# -------------------------------------------------------------------- Python


def _imported(path: str) -> Any:
    """An object by its import path; the current folder counts."""
    module, _, name = path.partition(":")
    if not name or "/" in module:
        _refuse(
            "must read package.module:object, or name a .skops or .onnx file or a URL",
            f"got {path!r}",
            "Example: --model vendor:model for the object model in vendor.py.",
        )

    def complain(error: BaseException) -> ModelError:
        plain = isinstance(error, ImportError | AttributeError)
        reason = plain_text(str(error), MOST_OF_AN_ERROR) if plain else in_a_line(error)
        fix = "Check the path, and run from the folder that holds the module."
        return ModelError("--model", "must be importable", f"{path!r} is not: {reason}", fix)

    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        with foreign_code(complain):
            model: Any = importlib.import_module(module)
            for part in name.split("."):
                model = getattr(model, part)
    finally:
        if here in sys.path:  # a module may have changed it
            sys.path.remove(here)
    if isinstance(model, str):  # which would be read as the name of a column
        _refuse("must be a model", f"{path!r} is text", "Name the object that answers.")
    return model


def _refuse(must: str, got: str, fix: str) -> NoReturn:
    raise ModelError("--model", must, got, fix)


@dataclass(frozen=True)
class _InContainer:
    """Somebody's model, handed its rows in the container it expects."""

    model: Any
    container: Container

    @classmethod
    def around(cls, model: Any, container: Container | None) -> Any:
        with foreign_code(unusable):
            estimator = hasattr(model, "predict")
        if container is None:
            named = input_names(model) is not None
            container = ("pandas" if named else "numpy") if estimator else "polars"
        if isinstance(model, type) or container == "polars":
            return model  # a class is refused by BlackBox, which says why
        if container == "pandas":
            require(
                "pandas", extra="pandas", why="calling a model that was fitted on named columns"
            )
        wrapped = cls(model, container)
        return wrapped if estimator else wrapped._call(model)

    def __getattr__(self, name: str) -> Any:
        """What the model has, this has; its methods get their rows converted."""
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(self.model, name)
        return self._call(attribute) if name in _QUERIED else attribute

    def _call(self, ask: Callable[[Any], Any]) -> Callable[[pl.DataFrame], Any]:
        def asked(rows: pl.DataFrame) -> Any:
            return ask(as_kind(rows, self.container))

        return asked


_QUERIED = ("predict", "predict_proba", "decision_function")


# -------------------------------------------------------------------- skops


def _existing(source: str) -> Path:
    path = Path(source)
    if not path.is_file():
        _refuse("must be a file that exists", f"there is no {source!r}", "Check the name.")
    return path


def _from_skops(source: str, trust: Sequence[str]) -> Any:
    """A skops file may name any type: those that skops does not know are only made if trusted."""
    path = _existing(source)
    skops = require("skops.io", extra="skops", why="a model in a .skops file")
    broken = partial(broken_file, source, "skops")
    with foreign_code(broken):
        foreign = skops.get_untrusted_types(file=path)
    refused = [name for name in foreign if name not in trust]
    if refused:
        fix = f"If you trust its source: {' '.join(f'--trust {name}' for name in refused)}."
        got = f"it also holds {listed(refused)}"
        raise ModelError(f"model {source!r}", "must hold only types that are trusted", got, fix)
    with foreign_code(broken):
        return skops.load(path, trusted=list(foreign))
