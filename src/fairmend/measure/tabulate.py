"""The data, checked once and counted once.

What people have (frames, arrays, column names) is read in `fairmend.data`. ``tabulate`` queries the
model about the distinct rows and counts people per group, row and outcome.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairmend.data.columns import Distinct, Encoded, FloatArray, Frame, IntArray, number
from fairmend.data.outcomes import Labels
from fairmend.data.people import Records, read_records
from fairmend.errors import DataError, check, listed
from fairmend.measure.elsewhere import Settle, engines, is_elsewhere
from fairmend.measure.inputs import PeopleOnRows, find_doubts, find_leak, object_to
from fairmend.measure.population import AuditData, ByPerson, Population, Tally
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.model.cut import warn_of_idle_cut


def tabulate(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    ids: Any = None,
    pos_label: Hashable = None,
    inputs: bool = True,
    template: Frame | None = None,
    unlabelled: Labels | None = None,
) -> AuditData:
    """Check the data, query the model once per distinct row, and count.

    ``inputs=False`` leaves the inputs untabulated when predictions were recorded: an audit needs
    only decisions, outcomes and groups. With ``unlabelled`` y may be None as well: decisions are
    then read by these labels. ``ids`` say which rows are the same person's. X may be elsewhere: a
    path, a lazy, Dask or Spark frame (see `fairmend.engines`), with columns given by name.
    ``template`` is a table of inputs seen before: the new ones are its columns and, from elsewhere,
    come in its container and types.

    Without named inputs, every column that has no other role is one; those that look like something
    else are refused (see `fairmend.measure.inputs`).

    >>> import numpy as np
    >>> X = np.array([[0], [1], [1], [0]])
    >>> data = tabulate(lambda rows: rows[:, 0], X, [0, 1, 0, 0], sensitive_features=list("aabb"))
    >>> data.groups, data["b"].decision.tolist(), data["b"].mass.tolist()
    (('a', 'b'), [0.0, 1.0], [0.5, 0.5])
    """
    return tabulate_to_repair(
        model, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight, ids=ids,
        pos_label=pos_label, inputs=inputs, template=template, unlabelled=unlabelled,
    )[0]  # fmt: skip


def tabulate_to_repair(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    ids: Any = None,
    pos_label: Hashable = None,
    inputs: bool = True,
    template: Frame | None = None,
    unlabelled: Labels | None = None,
) -> tuple[AuditData, Settle | None]:
    """The same; and where only a sample of the rows was read, what settles plans on all of them."""
    box, settle = BlackBox.of(model), None
    if is_elsewhere(X):
        must, got = "must be left out where X is not in memory", f"got {type(X).__name__} as X"
        fix = (
            "Rows elsewhere are counted one person each: read them into a frame to audit people "
            "who have several."
        )
        check(ids is None, "ids", must, got, fix)
        with engines().reading(X):
            gathered = engines().gather(
                box, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight,
                pos_label=pos_label, inputs=inputs, template=template,
            )  # fmt: skip
        if gathered.audited is not None:
            return gathered.audited, None
        settle = gathered.settle
        frame: Frame | None = gathered.frame
        named = gathered.named
        cells = read_records(
            frame, y, sensitive_features=gathered.groups, pos_label=pos_label, predicted=box.column,
            counts=gathered.counts,
        )  # fmt: skip
        records = replace(cells, inputs=gathered.inputs)
    else:
        frame = None if X is None else Frame.read(X)
        names = _named_inputs(frame, box, template, y)
        named = names is not None
        records = read_records(
            frame, y, sensitive_features=sensitive_features, sample_weight=sample_weight, ids=ids,
            pos_label=pos_label, predicted=box.column, unlabelled=unlabelled, input_names=names,
            predictions=None if box.can_query else box.model,
        )  # fmt: skip
    counted = _count(
        box, frame, records, inputs=inputs, named=named, has_template=template is not None
    )
    return counted, settle


def _count(
    box: BlackBox,
    frame: Frame | None,
    records: Records,
    *,
    inputs: bool,
    named: bool,
    has_template: bool,
) -> AuditData:
    """Query the model and count; inputs that were neither seen before nor ``named`` are doubted."""
    predictions = box.recorded(frame, len(records))
    everybody, kept = len(records), records.weighing
    if kept is not None:  # as if the others had been left out
        records = records.take(kept)
        if predictions is not None:
            predictions = replace(predictions, codes=predictions.codes[kept])
    table, answers, row, size = _answered(box, frame, records, predictions, inputs=inputs)
    warn_of_idle_cut(box.threshold, answers)
    if table is not None and not has_template:
        people = PeopleOnRows(
            n=len(records) if records.counts is None else round(records.counts.people.sum()),
            row=row,
            outcome=records.outcome if records.outcome_known else None,
            group=records.group,
        )
        find = find_doubts if inputs and not named else find_leak
        doubts = find(table, people, answers, box, records.labels)
        object_to(doubts, table.names, box, named=named, only_warn=named or table.is_array)
    populations = tuple(
        Population.counted(
            tally,
            answers.decision[rows],
            outcome_known=records.outcome_known,
            score=None if answers.score is None else answers.score[rows],
            rows=rows,
        )
        for tally, rows in _tallies(records, row, size)
    )
    single = records.counts is None
    return AuditData(
        groups=records.groups,
        populations=populations,
        labels=records.labels,
        attribute=records.attribute,
        table=table,
        person_row=_spread(row, kept, everybody) if single else None,
        person_group=_spread(records.group, kept, everybody) if single else None,
        outcome_known=records.outcome_known,
        recorded=predictions is not None,
    )


def _answered(
    box: BlackBox,
    frame: Frame | None,
    records: Records,
    predictions: Encoded | None,
    *,
    inputs: bool,
) -> tuple[Frame | None, Answers, IntArray, int]:
    """The distinct rows, what the model says about each, each entry's row, and how many there are.

    Without ``inputs``, distinct predictions are the rows where there are recorded ones.
    """
    if predictions is None:
        if records.inputs is None:
            got = "got None" if frame is None else f"got no columns but {listed(frame.names)}"
            fix = "Pass the table the model reads."
            raise DataError("X", "must hold the model's inputs", got, fix)
        alike = records.inputs.distinct()
        table = records.inputs.take(alike.first)
        answers = box.query(table, records.labels)
        row, size = alike.inverse, len(alike.first)
    else:
        table = None
        row, size = predictions.codes.astype(np.int64, copy=False), len(predictions.values)
        answers = box.interpret(predictions, records.labels)
        if inputs and records.inputs is not None:
            alike = with_predictions(records.inputs, predictions)
            table = records.inputs.take(alike.first)
            answers = answers.take(predictions.codes[alike.first])
            row, size = alike.inverse, len(alike.first)
    return table, answers, row, size


def _named_inputs(
    frame: Frame | None, box: BlackBox, template: Frame | None, y: Any
) -> Sequence[str] | None:
    """The inputs as in fit, as in BlackBox, or as the model names them; None without names."""
    if frame is None:
        return None
    if template is not None:
        return template.names
    named = box.inputs_among(frame.names, named=not frame.is_array)
    if named is not None and isinstance(y, str) and y in named:
        fix = "Name another column; if the model does read what really happened, pass y as values."
        raise DataError("y", "must not be an input of the model", f"{y!r} is one", fix)
    return named


def _spread(values: IntArray, kept: IntArray | None, n: int) -> IntArray:
    """Values of those kept among all n; -1 for the others."""
    if kept is None:
        return values
    spread = np.full(n, -1, np.int64)
    spread[kept] = values
    return spread


def with_predictions(inputs: Frame, predictions: Encoded) -> Distinct:
    """Distinct pairs of inputs and recorded prediction."""
    alike = inputs.distinct()
    key = alike.inverse * len(predictions.values) + predictions.codes
    return number(key, len(alike.first) * len(predictions.values))


def _tallies(records: Records, row: IntArray, size: int) -> list[tuple[Tally, IntArray]]:
    """Count people and weights by group, distinct row and outcome."""
    groups = len(records.groups)
    cell = (records.group * size + row) * 2 + records.outcome
    if groups * size * 2 > max(4 * len(cell), 1 << 20):  # most are empty: number the full ones
        full = number(cell // 2, groups * size)
        pairs = cell[full.first] // 2
        cell, shape = full.inverse * 2 + records.outcome, (len(pairs), 2)
    else:
        pairs, shape = None, (groups * size, 2)
    cells = shape[0] * 2

    def summed(weight: FloatArray | None) -> FloatArray:
        return np.bincount(cell, weight, cells).astype(np.float64).reshape(shape)

    counts = records.counts
    people = weight = squared = summed(None if counts is None else counts.people)
    if counts is not None:
        if counts.weight is not counts.people:
            weight, squared = summed(counts.weight), summed(counts.squared)
    elif records.weight is not None:
        weight, squared = summed(records.weight), summed(records.weight**2)
    if pairs is None:
        pairs = np.flatnonzero(people.any(axis=1))
        people, weight, squared = people[pairs], weight[pairs], squared[pairs]
    ends = np.searchsorted(pairs, np.arange(groups + 1) * size)
    by_person = _persons(records, row, size, pairs, ends)
    return [
        (Tally(people[a:b], weight[a:b], squared[a:b], by_person=whose), pairs[a:b] - group * size)
        for group, ((a, b), whose) in enumerate(zip(pairwise(ends), by_person, strict=True))
    ]


def _persons(
    records: Records, row: IntArray, size: int, pairs: IntArray, ends: IntArray
) -> list[ByPerson | None]:
    """For each group whose rows are whose; None if nobody has several.

    ``pairs`` are those of group and row that occur, sorted; a group's lie between two of ``ends``.
    """
    groups = range(len(records.groups))
    person = records.person
    if person is None or np.bincount(person).max() < 2:
        return [None for _ in groups]
    weight = np.ones(len(person)) if records.weight is None else records.weight
    place = np.searchsorted(pairs, records.group * size + row) - ends[records.group]
    cell = 2 * place + records.outcome
    own = (np.flatnonzero(records.group == group) for group in groups)
    return [ByPerson.of(person[rows], cell[rows], weight[rows]) for rows in own]
