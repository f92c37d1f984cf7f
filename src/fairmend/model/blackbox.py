"""The black box: the only place that calls the model and reads its answers.

A model is anything with ``predict_proba``, ``decision_function`` or ``predict``, a plain callable,
an address it is served at, the name of a column of recorded predictions, or the predictions
themselves. It is never cloned, never refitted, and queried once per distinct row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Any, Literal, NoReturn, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import (
    BoolArray,
    Encoded,
    FloatArray,
    Frame,
    as_numbers,
    encode,
    scalar,
    series_array,
)
from fairmend.data.given import (
    as_array,
    as_column,
    as_frame,
    container_name,
    is_reordered,
    row_labels,
)
from fairmend.data.outcomes import Labels
from fairmend.data.rows import spread
from fairmend.data.threads import all_threads
from fairmend.errors import (
    DataError,
    ModelError,
    check,
    check_between,
    check_choice,
    check_length,
    check_whole,
    foreign_code,
    in_a_line,
    listed,
    nearest,
    warn,
)
from fairmend.model.answers import SAME_ANSWER, Answers, differ
from fairmend.model.cut import cut_between, default_cut
from fairmend.model.foreign import find_call, input_names, unusable
from fairmend.progress import progress

RECORDED = "model (recorded predictions)"
Output = Literal["auto", "label", "probability", "score"]

# Rows queried a second time, in reverse order: the answers must be the same.
RECHECKED = 32

# So many scores are not sorted to be read.
_MANY = 10_000

# Methods whose answers are about the model's classes_, in their order.
_BY_CLASSES = ("predict_proba", "decision_function")


class BlackBox:
    """A model and how to read it.

    Parameters
    ----------
    model
        An object with ``predict_proba``, ``decision_function`` or ``predict`` (looked for in this
        order; only ``predict`` for ``output="label"``), a callable taking rows, the address of a
        served model (see `RemoteModel`), the name of a column of X with recorded predictions, or an
        array of recorded predictions.
    output
        How to read the answers: ``"label"`` (the two values of y, or 0/1, where 1 is positive),
        ``"probability"`` of the positive label, or any real ``"score"``, higher where the positive
        label is more likely. ``"auto"`` decides by the method and the values. It never guesses a
        threshold: it requires one. It is settled by the first answers that are more than labels.
    threshold
        The decision is positive where the answer is greater than this. Default 0.5 for
        probabilities and 0 for ``decision_function``; a tie then goes to the first of the model's
        ``classes_``, as in scikit-learn.
    words
        The model's two answers, negative and positive, if they differ from the labels of y:
        ``("decline", "approve")`` with outcomes ``"no"`` and ``"yes"``.
    soft
        Use the probability itself as the decision: h(x) in [0, 1].
    random
        The model may answer the same row differently each time. Otherwise up to 32 rows are
        queried twice: a changed answer is an error. Where another method is used with the default
        threshold, ``predict`` is queried too. If it decides otherwise, the cut that explains its
        decisions about all rows is used, with a warning; if there is none, that is an error.
    batch_size
        Rows per call.
    inputs
        The columns of X that are the model's inputs; all others are ignored. By default those that
        the model names itself (``feature_names_in_``, or the signature of an MLflow model), or else
        every column without another role. For recorded predictions: the columns that a repair may
        edit.

    Notes
    -----
    Where the model has ``classes_``, its two columns of probabilities and the sign of its
    ``decision_function`` are read by them, so that they are about the positive label of y.

    Examples
    --------
    >>> import numpy as np
    >>> box = BlackBox(lambda rows: rows[:, 0] * 100, threshold=50)
    >>> box.query(Frame.read(np.array([[0.2], [0.9]])), Labels(0, 1)).decision.tolist()
    [0.0, 1.0]

    """

    def __init__(
        self,
        model: Any,
        *,
        output: Output = "auto",
        threshold: float | None = None,
        words: tuple[Hashable, Hashable] | None = None,
        soft: bool = False,
        random: bool = False,
        batch_size: int = 50_000,
        inputs: Sequence[str] | None = None,
    ) -> None:
        check_choice("output", output, get_args(Output), "Leave it out to tell by the values.")
        if threshold is not None:
            fix = "A decision is positive where the answer is greater than it."
            check_between("threshold", threshold, fix=fix)
        check_whole("batch_size", batch_size, 1, "It is the number of rows per call.")
        two = isinstance(words, tuple | list) and len(words) == 2 and words[0] != words[1]
        must = "must be the model's two answers, negative and positive"
        fix = "For example words=('decline', 'approve')."
        check(words is None or two, "words", must, f"got {words!r}", fix)
        distinct = 0 if isinstance(inputs, str) else len(set(inputs or ()))
        fix = "For example inputs=['age', 'income']."
        once = inputs is None or len(inputs) == distinct > 0
        check(once, "inputs", "must be a list of columns of X, each once", f"got {inputs!r}", fix)
        got = "got a BlackBox in a BlackBox"
        check(not isinstance(model, BlackBox), "model", "must be the model itself", got)
        if isinstance(model, str) and model.startswith(("http://", "https://")):
            from fairmend.model.remote import RemoteModel

            model = RemoteModel(model)
        self.model = model
        self.threshold = threshold
        self.words = None if words is None else (words[0], words[1])
        self.soft = soft
        self.random = random
        self.batch_size = batch_size
        self.inputs = None if inputs is None else tuple(inputs)
        self.vouched: tuple[str, ...] = ()
        """Columns that are inputs although they look like something else."""
        self.column = model if isinstance(model, str) else None
        self._method, self._call = find_call(model, label=output == "label")
        self.output: Output = output
        if output == "auto" and self._method == "decision_function":
            self.output = "score"
        elif output == "auto" and (soft or self._method == "predict_proba"):
            self.output = "probability"
        self._check_settings_agree()

    def _check_settings_agree(self) -> None:
        cut, one = self.threshold, "Leave one of them out."
        if self.soft:
            got = f"got soft=True and threshold={cut!r}"
            check(cut is None, "soft", "must be left out where there is a threshold", got, one)
            must = "must be left out unless the answers are probabilities"
            got = f"got soft=True and {self.output}s from {self._method}"
            check(self.output == "probability", "soft", must, got, "Leave soft=True out.")
        if self.words is not None:
            got = f"got words={self.words!r} and a threshold or soft decisions"
            must = "must be left out where the answers are numbers"
            check(not self.soft and cut is None, "words", must, got, one)
        if cut is not None:
            must = "must be left out where the answers are labels"
            got = f"got output='label' and threshold={cut!r}"
            check(self.output != "label", "threshold", must, got, one)
            if self.output == "probability":
                fix = "If the answers are scores, say output='score'."
                check_between("threshold", cut, 0, 1, fix)

    @classmethod
    def of(cls, model: Any) -> BlackBox:
        """The model as a black box; one that is already wrapped keeps its settings."""
        return model if isinstance(model, cls) else cls(model)

    def settled(self) -> BlackBox:
        """The model once it has answered: what has only ever given labels is read as labels.

        So one odd answer later is an error, and does not change how all others are read.
        """
        if self.output != "auto":
            return self
        box = copy(self)
        box.output = "label"
        return box

    def __repr__(self) -> str:
        return f"BlackBox({type(self.model).__name__}, answers by {self._method})"

    # ---------------------------------------------------------------- inputs

    def inputs_among(self, names: Sequence[str], *, named: bool = True) -> tuple[str, ...] | None:
        """The inputs among the columns of X, as given or as the model names them; None if neither.

        Columns of an array have no names that a model could mean (``named=False``). A model whose
        names are all unknown here takes its columns by place.
        """
        what, inputs = "inputs", self.inputs
        if inputs is None:
            what, inputs = "X", input_names(self.model) if named else None
            if inputs is None or set(inputs).isdisjoint(names):
                return None
        missing = [name for name in inputs if name not in names]
        if missing:
            every = "must have every input of the model as a column"
            must = every if what == "X" else "must name columns of X"
            raise DataError(
                what, must, f"there is no {listed(missing)}", nearest(missing[0], names)
            )
        return inputs

    # ---------------------------------------------------------------- recorded predictions

    def recorded(self, frame: Frame | None, n: int) -> Encoded | None:
        """The recorded predictions, one per person; None for a model that must be queried."""
        if self._call is not None:
            return None
        if self.column is None:
            column = as_column(self.model, RECORDED)
        elif frame is None:
            got = f"got the name {self.column!r} and X=None"
            raise DataError("model", "must name a column of X", got, "Pass the table.")
        else:
            column = frame.column(self.column, "model")
        check_length(RECORDED, column, n)
        return encode(column, f"model ({self._method})")

    # ---------------------------------------------------------------- querying

    @property
    def can_query(self) -> bool:
        """Whether it answers about new rows; recorded predictions do not."""
        return self._call is not None

    @property
    def cut(self) -> float:
        """Where scores turn from negative to positive decisions."""
        default = default_cut(self.output, self._method)
        return self.threshold if self.threshold is not None else default or 0.0

    def query(self, rows: Frame, labels: Labels, *, trusted: bool = False) -> Answers:
        """Put every row to the model, in batches, and check what comes back.

        A model that is ``trusted``, because it has been audited, is not queried twice.
        """
        raw = self._query_all(rows, labels)
        try:
            various = _nearly_all_differ(raw)
            column = Encoded(np.arange(len(raw)), raw) if various else encode(raw)
        except DataError as error:
            self._fail(error.must, error.got, error.fix)
        answers = self.interpret(column, labels)
        answers = answers if various else answers.take(column.codes)
        if not (self.random or trusted):
            self._recheck(rows, raw, labels)
            answers = self._as_predict_decides(rows, answers, labels)
        return answers

    def _query_all(self, rows: Frame, labels: Labels) -> NDArray[Any]:
        parts = []
        with progress("querying the model", len(rows)) as advance:
            for start in range(0, len(rows), self.batch_size):
                # A copy: a model that scribbles on its input must not touch ours.
                batch = rows.slice(start, start + self.batch_size)
                parts.append(self._query(batch, labels))
                advance(len(batch))
        return np.concatenate(parts)

    def _query(self, rows: Frame, labels: Labels) -> NDArray[Any]:
        assert self._call is not None

        def complain(error: BaseException) -> ModelError:
            return ModelError(
                f"model ({self._method})",
                f"must answer {len(rows):,} rows given as {container_name(rows.native)}",
                f"it raised {in_a_line(error)}",
                "Call it on a few rows by hand: it must take them as they are passed here.",
            )

        with all_threads(), foreign_code(complain):
            raw = self._call(rows.native)
            self._refuse_another_order(raw, rows)
            array = self._as_array(raw)
        answers = self._for_positive(array, labels)
        if answers.ndim != 1:
            self._fail(
                "must give one answer per row, or two class probabilities from predict_proba",
                f"got answers of shape {answers.shape} for {len(rows):,} rows",
                "fairmend repairs binary classifiers: pass a function that returns P(positive).",
            )
        if len(answers) != len(rows):
            got = f"got {len(answers):,} answers for {len(rows):,} rows"
            self._fail("must give one answer per row", got, "Does it drop or add rows?")
        return answers

    def _refuse_another_order(self, raw: Any, rows: Frame) -> None:
        """A model may sort its answers, and say so by their index: nobody here reads that."""
        own, given = row_labels(raw), row_labels(rows.native)
        if own is None:
            return
        numbers, places = np.asarray(own), np.arange(len(rows))
        if given is not None:
            reordered = is_reordered(own, given)
        else:  # the rows are numbered from 0 on, if at all
            whole = numbers.dtype.kind in "iu" and len(numbers) == len(places)
            reordered = whole and (numbers != places).any() and (np.sort(numbers) == places).all()
        if reordered:
            self._fail(
                "must answer in the order of the rows",
                "the index of its answers is that of the rows in another order",
                "Return answers.loc[rows.index].",
            )

    def _as_array(self, raw: Any) -> NDArray[Any]:
        """What the model returned, whatever container it came in."""
        try:
            frame = as_frame(raw, "the answer")
            answers: Any = as_array(raw, "the answer") if frame is None else frame.to_numpy()
            if isinstance(answers, nw.Series):
                words = answers.dtype in (nw.Categorical, nw.Enum)
                answers = series_array(answers.cast(nw.String) if words else answers)
        except DataError as error:
            self._fail("must return one answer per row", error.got, "Return an array or a list.")
        one_column = answers.ndim == 2 and answers.shape[1] == 1
        return np.asarray(answers[:, 0] if one_column else answers)

    def _for_positive(self, answers: NDArray[Any], labels: Labels) -> NDArray[Any]:
        """Class probabilities and signed scores, turned to speak for the positive label."""
        if self._method not in _BY_CLASSES:
            return answers
        place = self._place_of_positive(labels)
        if self._method == "predict_proba" and answers.ndim == 2 and answers.shape[1] == 2:
            return answers[:, place]
        numbers = as_numbers(answers)
        if place == 1 or numbers is None:  # one answer per row is that of the second class
            return answers
        return 1 - numbers if self._method == "predict_proba" else -numbers

    def _place_of_positive(self, labels: Labels) -> int:
        """Where the positive label stands in the model's classes_; 1 if it has none."""
        with foreign_code(unusable):
            classes = getattr(self.model, "classes_", None)
            if classes is None:
                return 1
            classes = [scalar(value) for value in classes]
        word = self._positive_among(set(classes), labels)
        if len(classes) != 2 or word is None:
            own = f"{labels.negative!r} and {labels.positive!r}"
            self._fail(
                f"must have the labels of y, {own}, as its classes",
                f"its classes_ are {listed(classes)}",
                "Give y in the model's own labels, or pass a function that returns P(positive).",
            )
        return classes.index(word)

    # ---------------------------------------------------------------- reading

    def interpret(self, column: Encoded, labels: Labels) -> Answers:
        """Read each distinct answer, an entry of ``column.values``.

        It becomes a decision and, where it is more than a label, a score.
        """
        if column.has_missing:
            got = f"got {scalar(column.values[-1])!r} for {self._share(column, column.missing)}"
            must = "must answer every row"
            fix = "Are values missing that it cannot take? Leave out rows it has no answer for."
            if not self.can_query:
                must = "must hold a prediction for everybody"
                fix = "Correct it, or leave out people whom the model did not answer."
            self._fail(must, got, fix)
        word = None
        if len(column.values) <= 2:
            word = self._positive_among({scalar(value) for value in column.values}, labels)
        numbers = as_numbers(column.values)
        output = self.output
        if output == "auto":
            output = self._kind_of(word, numbers)
            if output != "label":
                self.output = output  # settled: a later batch of 0s and 1s is read the same way
        if output == "label":
            if word is None:
                self._fail_on_labels(column, labels, numbers)
            return Answers(np.array([float(scalar(v) == word) for v in column.values]), None)
        if numbers is None:
            self._fail_on_labels(column, labels, numbers)
        return self._decide(numbers, column, output, labels)

    def _positive_among(self, words: set[Hashable], labels: Labels) -> Hashable:
        """Which of these answers means positive; None if they are foreign."""
        if self.words is None:
            return labels.positive_among(words)
        return self.words[1] if words <= set(self.words) else None

    def _kind_of(self, word: Hashable, numbers: FloatArray | None) -> Output:
        if self.threshold is not None:
            return "score"
        if word is not None or numbers is None:
            return "label"
        if len(numbers) <= 2 and set(numbers) <= {0.0, 1.0}:  # 0 and 1, where y holds one of them
            return "label"
        return "probability" if _are_probabilities(numbers).all() else "score"

    def _decide(
        self, numbers: FloatArray, column: Encoded, output: Output, labels: Labels
    ) -> Answers:
        infinite = ~np.isfinite(numbers)
        if infinite.any():
            share = self._share(column, infinite[column.codes])
            self._fail(
                "must answer with finite numbers",
                f"got {numbers[np.argmax(infinite)]} for {share}",
                "Look at the inputs of those rows, or bound its answers.",
            )
        if output == "probability":
            inside = _are_probabilities(numbers)
            if not inside.all():
                share = self._share(column, ~inside[column.codes])
                self._fail(
                    "must give probabilities between 0 and 1",
                    f"got {numbers[np.argmin(inside)]:.6g} for {share}",
                    "If these are scores, say BlackBox(model, output='score', threshold=...).",
                )
            numbers = np.clip(numbers, 0.0, 1.0)
        if self.soft:
            return Answers(numbers, numbers)
        if self.threshold is not None:
            return Answers((numbers > self.threshold).astype(np.float64), numbers)
        cut = default_cut(output, self._method)
        if cut is None:
            outside = ~_are_probabilities(numbers)[column.codes]
            few = 0 < outside.mean() < 0.5  # then they were meant as probabilities
            slips = f", {self._share(column, outside)} outside 0 to 1" if few else ""
            self._fail(
                "must come with a threshold when it gives scores",
                f"got scores from {numbers.min():.6g} to {numbers.max():.6g}{slips}",
                "Say BlackBox(model, threshold=...): above it the decision is positive.",
            )
        first_class = self._method in _BY_CLASSES and self._place_of_positive(labels) == 0
        positive = numbers >= cut if first_class else numbers > cut
        return Answers(positive.astype(np.float64), numbers)

    # ---------------------------------------------------------------- trust, but verify

    def _recheck(self, rows: Frame, raw: NDArray[Any], labels: Labels) -> None:
        """Query a few rows again, in another order: the answers must be the same."""
        chosen = spread(len(rows), RECHECKED)[::-1]
        before, again = raw[chosen], self._query_all(rows.take(chosen), labels)
        floats = before.dtype.kind == again.dtype.kind == "f"
        changed = differ(before, again) if floats else np.asarray(before != again)
        if changed.any():
            at = int(np.argmax(changed))
            self._fail(
                "must give the same answer when queried about the same row again",
                f"it changed {int(changed.sum())} of {len(chosen)}, "
                f"one from {scalar(before[at])!r} to {scalar(again[at])!r}",
                "If it is random on purpose, say BlackBox(model, random=True).",
            )

    def _as_predict_decides(self, rows: Frame, answers: Answers, labels: Labels) -> Answers:
        """The cut that explains the model's own predict(), where that is not the default one."""
        score, cut = answers.score, default_cut(self.output, self._method)
        cut_by_default = self.threshold is None and not self.soft
        has_predict = self._method in _BY_CLASSES and hasattr(self.model, "predict")
        if not (cut_by_default and has_predict):
            return answers
        assert score is not None
        assert cut is not None
        by_label = BlackBox(
            self.model, output="label", words=self.words, random=True, batch_size=self.batch_size
        )
        nearest_to_cut = np.argsort(np.abs(score - cut), kind="stable")[:RECHECKED]
        chosen = np.union1d(spread(len(rows), RECHECKED), nearest_to_cut)
        try:
            decision = by_label.query(rows.take(chosen), labels).decision
            differs = (decision != answers.decision[chosen]) & (score[chosen] != cut)
            if not differs.any():
                return answers
            cuts = cut_between(score, by_label.query(rows, labels).decision)
        except ModelError:
            return answers  # we do not use predict, and what we use worked
        if cuts is None:
            raise ModelError(
                "model (predict)",
                f"must decide as {self._method} > {cut:g} does, or the cut must be given",
                f"it differs on {int(differs.sum())} of {len(chosen)} rows, and no other cut "
                f"explains what it decides about all {len(rows):,}",
                "Say BlackBox(model, threshold=...), or output='label' to use what predict says.",
            )
        self.threshold, low, high = cuts
        warn(
            f"model (predict) decides as {self._method} > {self.threshold:g} does, not > {cut:g}: "
            f"that cut is used. Any from {low:.6g} to below {high:.6g} explains its decisions on "
            f"these {len(rows):,} rows; if you know it, say BlackBox(model, threshold=...)."
        )
        return Answers((score > self.threshold).astype(np.float64), score)

    # ---------------------------------------------------------------- errors

    def _fail(self, must: str, got: str, fix: str) -> NoReturn:
        """A model that is queried fails; recorded predictions are data."""
        kind = ModelError if self.can_query else DataError
        raise kind(f"model ({self._method})", must, got, fix)

    def _fail_on_labels(
        self, column: Encoded, labels: Labels, numbers: FloatArray | None
    ) -> NoReturn:
        own = f"the labels of y, {labels.negative!r} and {labels.positive!r}"
        fix = "Translate its answers into these."
        if len(column.values) <= 2:
            fix = "If these are its words, say BlackBox(model, words=(negative, positive))."
        if self.words is not None:
            own, fix = f"{self.words[0]!r} or {self.words[1]!r}, its words", "Check its answers."
        elif numbers is None:
            if self.output in ("probability", "score") or self.threshold is not None:
                own, fix = "numbers", "If these are labels, leave output= and threshold= out."
            elif labels.positive_among({0, 1}) == 1 != labels.positive:
                own += ", or with 0 and 1"
        elif self.output == "label":
            fix = "If these are probabilities or scores, leave output='label' out."
        else:
            fix = f"If 1 means {labels.positive!r}, say BlackBox(model, output='probability')."
        self._fail(f"must answer with {own}", f"got {listed(map(scalar, column.values))}", fix)

    def _share(self, column: Encoded, which: BoolArray) -> str:
        unit = "distinct rows" if self.can_query else "entries"
        return f"{int(which.sum()):,} of {len(column.codes):,} {unit}"


def _nearly_all_differ(raw: NDArray[Any]) -> bool:
    """Whether many scores are known, and so various that each may stand for itself.

    To sort them takes longer than to score; no reader needs them in order, or each only once.
    """
    if raw.dtype.kind != "f" or len(raw) < _MANY or np.isnan(raw).any():
        return False
    return len(np.unique(raw[:RECHECKED])) == RECHECKED


def _are_probabilities(numbers: FloatArray) -> BoolArray:
    """Between 0 and 1, but for what rounding to single precision does to them."""
    return (numbers >= -SAME_ANSWER) & (numbers <= 1 + SAME_ANSWER)
