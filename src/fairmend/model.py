"""The black box: the only place that calls it, and the only place that reads its answers.

A model is anything with ``predict_proba``, ``decision_function`` or ``predict``, a plain callable,
the name of a column of recorded predictions, or the predictions themselves. It is never cloned,
never refitted, and asked once per distinct row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.columns import FloatArray, Frame, is_missing, scalar
from fairmend.errors import DataError, ModelError, listed
from fairmend.progress import progress

__all__ = ["Answers", "BlackBox", "Labels"]

Output = Literal["auto", "label", "probability", "score"]
_OUTPUTS = ("auto", "label", "probability", "score")

# Rows put to the model a second time, in reverse order, to see whether it stands by its answers.
RECHECKED = 32
# A batch's composition may move the last bits of a float; a changed mind moves more than this.
SAME_ANSWER = 1e-6


@dataclass(frozen=True)
class Labels:
    """The two values of the outcome; ``positive`` is the one the rates are about."""

    negative: Hashable
    positive: Hashable

    @classmethod
    def of(cls, values: Sequence[Hashable], pos_label: Hashable = None) -> Labels:
        """Find out which is which, or say what is missing.

        >>> Labels.of([-1, 1]).positive
        1
        >>> Labels.of(["good", "bad"], pos_label="good").negative
        'bad'
        """
        if len(values) > 2:
            raise DataError(
                "y",
                "must have two values",
                f"got {len(values):,}: {listed(values)}",
                "Make it binary first, e.g. y == 'yes'.",
            )
        if pos_label is not None and pos_label not in values:
            raise DataError(
                "pos_label",
                "must be one of the values of y",
                f"got {pos_label!r} where y holds {listed(values)}",
                "Name the value that counts as positive.",
            )
        if len(values) < 2:
            raise DataError(
                "y",
                "must have two values",
                f"everybody has {values[0]!r}",
                "Error rates need both outcomes in the data.",
            )
        if pos_label is None:
            if set(values) not in ({0, 1}, {-1, 1}):
                raise DataError(
                    "pos_label",
                    "must say which value of y counts as positive when they are not 0/1 or -1/1",
                    f"y holds {listed(values)}",
                    f"Pass pos_label={values[-1]!r} or pos_label={values[0]!r}.",
                )
            pos_label = max(values)  # type: ignore[type-var]
        (negative,) = (value for value in values if value != pos_label)
        return cls(negative, pos_label)


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model said about each row it was asked about."""

    decision: FloatArray
    """h(x): 0 or 1, or the probability of deciding 1 where decisions are soft."""
    score: FloatArray | None
    """What it ranks by; None for a model that gives labels only."""

    def take(self, rows: NDArray[Any]) -> Answers:
        return Answers(self.decision[rows], None if self.score is None else self.score[rows])


class BlackBox:
    """A model and how to read it.

    Parameters
    ----------
    model
        An object with ``predict_proba``, ``decision_function`` or ``predict`` (looked for in this
        order), a callable taking rows, the name of a column of X with recorded predictions, or an
        array of recorded predictions.
    output
        How to read the answers: ``"label"`` (the two values of y, or 0/1), ``"probability"`` of the
        positive label, or any real ``"score"``. ``"auto"`` tells by the values, and asks for a
        threshold rather than guess one.
    threshold
        The decision is positive where the answer is greater than this. Default 0.5 for
        probabilities and 0 for ``decision_function``.
    soft
        Take the probability itself as the decision: h(x) in [0, 1].
    random
        The model may answer the same row differently each time; otherwise some rows are put to it
        twice and a changed answer is an error.
    batch_size
        Rows per call.

    >>> import numpy as np
    >>> box = BlackBox(lambda rows: rows[:, 0] * 100, threshold=50)
    >>> box.ask(Frame.read(np.array([[0.2], [0.9]])), Labels(0, 1)).decision.tolist()
    [0.0, 1.0]

    """

    def __init__(
        self,
        model: Any,
        *,
        output: Output = "auto",
        threshold: float | None = None,
        soft: bool = False,
        random: bool = False,
        batch_size: int = 50_000,
    ) -> None:
        if output not in _OUTPUTS:
            raise DataError(
                "output",
                f"must be one of {listed(_OUTPUTS)}",
                f"got {output!r}",
                "Leave it out to tell by the values.",
            )
        if threshold is not None and not np.isfinite(threshold):
            raise DataError(
                "threshold",
                "must be a finite number",
                f"got {threshold!r}",
                "A decision is positive where the answer is greater than it.",
            )
        if batch_size < 1:
            raise DataError(
                "batch_size",
                "must be at least 1",
                f"got {batch_size!r}",
                "It is the number of rows per call.",
            )
        if soft and threshold is not None:
            raise DataError(
                "soft",
                "must be False where a threshold makes decisions hard",
                f"got soft=True and threshold={threshold!r}",
                "Leave one of them out.",
            )
        if soft and output in ("label", "score"):
            raise DataError(
                "soft",
                "needs probabilities",
                f"got output={output!r}",
                "Leave soft out, or give a model of probabilities.",
            )
        if isinstance(model, BlackBox):
            raise DataError(
                "model",
                "must be the model itself",
                "got a BlackBox in a BlackBox",
                "Wrap the model once.",
            )
        self.model = model
        self.output: Output = output
        self.threshold = threshold
        self.soft = soft
        self.random = random
        self.batch_size = batch_size
        self.column = model if isinstance(model, str) else None
        self._method, self._call = self._find_call(model)

    @classmethod
    def of(cls, model: Any) -> BlackBox:
        """The model as a black box; one that is already wrapped keeps its settings."""
        return model if isinstance(model, cls) else cls(model)

    def __repr__(self) -> str:
        return f"BlackBox({type(self.model).__name__}, answers by {self._method})"

    @staticmethod
    def _find_call(model: Any) -> tuple[str, Callable[[Any], Any] | None]:
        if isinstance(model, str):
            return f"column {model!r}", None
        if isinstance(model, type):
            raise DataError(
                "model",
                "must be a fitted model",
                f"got the class {model.__name__}",
                "Pass an instance that has been fitted.",
            )
        for method in ("predict_proba", "decision_function", "predict"):
            if hasattr(model, method):
                return method, getattr(model, method)
        if callable(model):
            return "call", model
        if model is None or not hasattr(model, "__len__") or isinstance(model, dict):
            raise DataError(
                "model",
                "must have predict_proba, decision_function or predict, be callable, "
                "name a column of predictions, or be the predictions",
                f"got {type(model).__name__}",
                "Wrap the vendor's call in a function that takes rows and returns answers.",
            )
        return "recorded predictions", None

    # ---------------------------------------------------------------- recorded predictions

    def recorded(self, frame: Frame | None, n: int) -> Any:
        """The recorded predictions, one a person; None for a model that must be asked."""
        if self._call is not None:
            return None
        if self.column is not None:
            if frame is None:
                raise DataError(
                    "model", "names a column of X", "got X=None", "Pass the file's table."
                )
            return frame.column(self.column, "model")
        series = nw.from_native(self.model, series_only=True, pass_through=True)
        values = series if isinstance(series, nw.Series) else np.asarray(self.model)
        if getattr(values, "ndim", 1) != 1 or len(values) != n:
            raise DataError(
                "model",
                "as recorded predictions must have one a person",
                f"got shape {values.shape} for {n:,} people",
                "Pass one label, probability or score a row of X.",
            )
        return values

    # ---------------------------------------------------------------- asking

    def ask(self, rows: Frame, labels: Labels) -> Answers:
        """Put every row to the model, in batches, and check what comes back."""
        raw = self._ask_all(rows, labels)
        answers = self.interpret(raw, labels, numeric_score=self._method == "decision_function")
        if not self.random:
            self._recheck(rows, raw, labels)
        if self._method == "predict_proba" and self.threshold is None and not self.soft:
            self._check_against_predict(rows, answers, labels)
        return answers

    def _ask_all(self, rows: Frame, labels: Labels) -> NDArray[Any]:
        parts = []
        with progress("asking the model", len(rows)) as advance:
            for start in range(0, len(rows), self.batch_size):
                whole = len(rows) <= self.batch_size
                batch = rows if whole else rows.slice(start, start + self.batch_size)
                parts.append(self._ask(batch, labels))
                advance(len(batch))
        return np.concatenate(parts)

    def _ask(self, rows: Frame, labels: Labels) -> NDArray[Any]:
        assert self._call is not None
        try:
            raw = self._call(rows.native)
        except Exception as error:
            raise ModelError(
                f"model ({self._method})",
                f"must answer {len(rows):,} rows given as {type(rows.native).__name__}",
                f"it raised {type(error).__name__}: {str(error).strip() or 'no message'}",
                "Call it on a few rows of X by hand: it must take X as it is passed here.",
            ) from error
        answers = self._one_answer_a_row(raw, labels)
        if len(answers) != len(rows):
            raise ModelError(
                f"model ({self._method})",
                "must give one answer a row",
                f"got {len(answers):,} answers for {len(rows):,} rows",
                "Does it drop or add rows?",
            )
        return answers

    def _one_answer_a_row(self, raw: Any, labels: Labels) -> NDArray[Any]:
        answers = np.asarray(raw)
        if answers.ndim == 2 and answers.shape[1] == 1:
            answers = answers[:, 0]
        if answers.ndim == 2 and self._method == "predict_proba" and answers.shape[1] == 2:
            return answers[:, self._positive_column(labels)]
        if answers.ndim != 1:
            raise ModelError(
                f"model ({self._method})",
                "must give one answer a row, or two class probabilities from predict_proba",
                f"got an array of shape {answers.shape}",
                "fairmend mends binary classifiers: pass a function that returns P(positive).",
            )
        return answers

    def _positive_column(self, labels: Labels) -> int:
        classes = [scalar(value) for value in getattr(self.model, "classes_", ())]
        if labels.positive in classes:
            return classes.index(labels.positive)
        if not classes or set(classes) in ({0, 1}, {-1, 1}):
            return 1
        raise ModelError(
            "model (predict_proba)",
            f"must know the label {labels.positive!r}",
            f"its classes_ are {listed(classes)}",
            "Give y in the model's own labels, or pass a function that returns P(positive).",
        )

    # ---------------------------------------------------------------- reading

    def interpret(
        self, raw: NDArray[Any], labels: Labels, *, numeric_score: bool = False
    ) -> Answers:
        """Read raw answers as decisions and, where they are more than labels, scores."""
        output: str = "score" if numeric_score and self.output == "auto" else self.output
        as_labels = self._labels_as_numbers(raw, labels)
        if output == "auto":
            output = self._tell(raw, as_labels, labels)
        if output == "label":
            if as_labels is None:
                raise self._not_labels(raw, labels)
            return Answers(as_labels, None)
        score = self._finite_numbers(raw)
        if output == "probability":
            outside = (score < 0) | (score > 1)
            if outside.any():
                raise ModelError(
                    f"model ({self._method})",
                    "must give probabilities between 0 and 1",
                    f"got {score[np.argmax(outside)]:.6g}",
                    "If these are scores, say BlackBox(model, output='score', threshold=...).",
                )
            if self.soft:
                return Answers(score, score)
        elif self.soft:
            raise ModelError(
                f"model ({self._method})",
                "must give probabilities for soft decisions",
                "got scores",
                "Leave soft out and give a threshold.",
            )
        threshold = self.threshold
        if threshold is None:
            threshold = 0.0 if numeric_score else 0.5
            if output == "score" and not numeric_score:
                raise ModelError(
                    f"model ({self._method})",
                    "must come with a threshold when it gives scores",
                    f"got scores from {score.min():.6g} to {score.max():.6g}",
                    "Say BlackBox(model, threshold=...): above it the decision is positive.",
                )
        return Answers((score > threshold).astype(np.float64), score)

    def _tell(self, raw: NDArray[Any], as_labels: FloatArray | None, labels: Labels) -> str:
        if as_labels is not None and self.threshold is None:
            return "label"
        if raw.dtype.kind not in "biuf":
            try:
                raw = raw.astype(np.float64)
            except (TypeError, ValueError):
                raise self._not_labels(raw, labels) from None
        if self.threshold is not None:
            return "score"
        with np.errstate(invalid="ignore"):
            inside = bool(np.all((raw >= 0) & (raw <= 1) | np.isnan(raw)))
        return "probability" if inside or self._method == "predict_proba" else "score"

    @staticmethod
    def _labels_as_numbers(raw: NDArray[Any], labels: Labels) -> FloatArray | None:
        """Raw answers as 0.0 and 1.0 if each is a label of y, or each is 0 or 1; else None."""
        values = (
            np.unique(raw) if raw.dtype.kind != "O" else np.array(list(dict.fromkeys(raw)), "O")
        )
        if len(values) > 2 or any(is_missing(scalar(v)) for v in values):
            return None
        found = {scalar(value) for value in values}
        for negative, positive in ((labels.negative, labels.positive), (0, 1)):
            if found <= {negative, positive}:
                return np.asarray(raw == positive, np.float64)
        return None

    def _finite_numbers(self, raw: NDArray[Any]) -> FloatArray:
        try:
            numbers = np.asarray(raw, np.float64)
        except (TypeError, ValueError):
            raise ModelError(
                f"model ({self._method})",
                "must answer with numbers",
                f"got {type(raw[0]).__name__} {scalar(raw[0])!r}",
                "Pass a function that returns labels, probabilities or scores.",
            ) from None
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            raise ModelError(
                f"model ({self._method})",
                "must answer with finite numbers",
                f"got {numbers[np.argmax(wrong)]} for {int(wrong.sum()):,} of {len(raw):,} rows",
                "Look at the inputs of those rows: are values missing that it cannot take?",
            )
        return numbers

    def _not_labels(self, raw: NDArray[Any], labels: Labels) -> ModelError:
        values = list(dict.fromkeys(scalar(value) for value in raw))
        return ModelError(
            f"model ({self._method})",
            f"must answer with the labels of y, {labels.negative!r} and {labels.positive!r}, "
            "or with 0 and 1",
            f"got {listed(values)}",
            "Translate its answers, or give pos_label in its terms.",
        )

    # ---------------------------------------------------------------- trust, but verify

    def _recheck(self, rows: Frame, raw: NDArray[Any], labels: Labels) -> None:
        """Ask again about a few rows, in another order: the answers must be the same."""
        chosen = np.unique(np.linspace(0, len(rows) - 1, RECHECKED).astype(np.int64))[::-1]
        again, before = self._ask(rows.take(chosen), labels), raw[chosen]
        if before.dtype.kind == "f" and again.dtype.kind == "f":
            changed = ~np.isclose(before, again, rtol=0, atol=SAME_ANSWER, equal_nan=True)
        else:
            changed = np.asarray(before != again)
        if changed.any():
            at = int(np.argmax(changed))
            raise ModelError(
                f"model ({self._method})",
                "must give the same answer when asked about the same row again",
                f"it changed {int(changed.sum())} of {len(chosen)}, "
                f"one from {scalar(before[at])!r} to {scalar(again[at])!r}",
                "If it is random on purpose, say BlackBox(model, random=True).",
            )

    def _check_against_predict(self, rows: Frame, answers: Answers, labels: Labels) -> None:
        """A vendor's predict() may cut elsewhere than at one half: then its cut must be told."""
        predict = getattr(self.model, "predict", None)
        if predict is None:
            return
        chosen = np.unique(np.linspace(0, len(rows) - 1, RECHECKED).astype(np.int64))
        try:
            said = self._labels_as_numbers(np.asarray(predict(rows.take(chosen).native)), labels)
        except Exception:
            return  # predict_proba is what we use, and it worked
        if said is None:
            return
        differs = (said != answers.decision[chosen]) & (answers.score[chosen] != 0.5)  # type: ignore[index]
        if differs.any():
            raise ModelError(
                "model (predict)",
                "must decide as predict_proba > 0.5 does, or the cut must be told",
                f"it differs on {int(differs.sum())} of {len(chosen)} rows",
                "Say BlackBox(model, threshold=...), or pass model.predict to use its labels.",
            )
