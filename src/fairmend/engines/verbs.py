"""The two verbs on any engine, and how the rest of the package meets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.apply.batch import refuse_groups
from fairmend.apply.outputs import output_place, save_reader
from fairmend.data.addresses import is_address
from fairmend.data.columns import Frame, encode
from fairmend.data.containers import as_fitted, kind_of
from fairmend.data.people import Counts, read_records
from fairmend.engines import continuous, duck, summary
from fairmend.engines.cells import PEOPLE, SUMS, Cells
from fairmend.engines.job import Job
from fairmend.engines.small import Suppression
from fairmend.engines.source import Engine, Source, find, source
from fairmend.errors import check, check_choice, listed
from fairmend.measure.elsewhere import Gathered

if TYPE_CHECKING:
    from fairmend.classifier import RepairedClassifier
    from fairmend.model.blackbox import BlackBox


def tabulate(
    X: Any,
    columns: Sequence[str],
    *,
    sample_weight: str | None = None,
    keep: Sequence[str] | None = None,
) -> Cells:
    """Count the distinct values of some columns: how many people, with which weight.

    ``X`` is whatever `source` takes. The result is in the order of the columns' values, whatever
    the engine and however the rows were cut into parts. Where the source merges small cells,
    ``keep`` names the columns in which everybody stays what they are; by default those that are
    none of its inputs.

    >>> import pandas as pd
    >>> cells = tabulate(pd.DataFrame({"a": [1, 0, 1], "w": [2.0, 1.0, 3.0]}), ["a"])
    >>> cells.frame.native["a"].tolist(), cells.people.tolist()
    ([0, 1], [1.0, 2.0])
    """
    place = find(X) or source(X)
    _check_columns(place, columns, sample_weight)
    for name in keep or ():
        place.column(name, "keep")
    small = _suppression(place, columns, keep)
    with place.engine.reading(place):
        counted = place.engine.tabulate(place, list(columns), sample_weight, small)
    check(
        len(counted.native) > 0 or counted.left_out == 0,
        "X",
        f"must have a cell of at least {small.below:,} people, fewer do not leave the engine",
        f"got {counted.left_out:,} people, all of them in smaller cells",
        "Choose coarser or fewer inputs, recorded decisions, or a smaller suppress_below.",
    )
    kind = kind_of(place.data) if place.engine.name == "local" else place.engine.kind
    cells = Cells.read(counted.native, columns, kind, weighted=sample_weight is not None)
    counted.warn(counted.left_out + round(float(cells.people.sum())))
    return cells


def _check_columns(place: Source, columns: Sequence[str], weight: str | None) -> None:
    """Names that are there, each once, and free beside what is counted."""
    must, fix = "must name columns of X, each once", "Name the columns to count by."
    once = columns and len(set(columns)) == len(columns)
    check(once, "columns", must, f"got {listed(columns) or 'none'}", fix)
    for name in columns:
        place.column(name, "columns")
        must = "must be called otherwise: counts go by that name"
        check(
            name not in (PEOPLE, *SUMS), f"column {name!r}", must, "got a column of X", "Rename it."
        )
    if weight is not None:
        place.column(weight, "sample_weight")


def _suppression(place: Source, columns: Sequence[str], keep: Sequence[str] | None) -> Suppression:
    """What is to be done about small cells of these columns."""
    if place.small_cells == "drop" or place.suppress_below == 1:
        return Suppression(place.suppress_below)
    if keep is None:
        check(
            place.inputs is not None,
            "keep",
            "must name the columns that stay true when small cells are merged",
            "got None, and the source does not say which columns are inputs",
            "Name groups, outcome and prediction.",
        )
        keep = [name for name in columns if name not in (place.inputs or ())]
    return Suppression(place.suppress_below, tuple(name for name in columns if name in keep))


def tabulate_into(
    out: str | Path, X: Any, columns: Sequence[str], *, sample_weight: str | None = None
) -> int:
    """Count more distinct rows than memory holds into a Parquet file; returns their number.

    For files and DuckDB relations. DuckDB keeps to the source's ``memory_limit`` and spills beyond
    it. The cells come in no particular order.
    """
    place = find(X)
    what = "must be files or a DuckDB relation to be counted into a file"
    fix = "Write it to Parquet first, or use tabulate()."
    there = place is not None and place.engine.name in ("files", "duckdb")
    check(there, "X", what, f"got a {type(X).__name__}", fix)
    assert place is not None
    must = "must be 'drop' where cells are counted into a file"
    fix = "Merging needs all cells in memory: use tabulate()."
    drops = place.small_cells == "drop" or place.suppress_below == 1
    check(drops, "small_cells", must, "got 'merge'", fix)
    _check_columns(place, columns, sample_weight)
    relation = place.data
    if place.are_files:
        relation = duck.relation(place)
    counted = duck.cells(relation, columns, sample_weight, place.suppress_below)
    return save_reader(output_place(out), counted.to_arrow_reader(duck.BATCH_ROWS))


def is_elsewhere(X: Any) -> bool:
    """Whether X is a place of rows instead of rows; looks at nothing but the type.

    >>> is_elsewhere("decisions.parquet"), is_elsewhere([[1, 2]])
    (True, False)
    """
    return isinstance(X, str | PathLike | Source) or Engine.of(X) is not None


def reading(X: Any) -> AbstractContextManager[None]:
    """What goes wrong while rows are read is told by their engine: which file is damaged, say."""
    place = find(X)
    return nullcontext() if place is None else place.engine.reading(place)


def gather(
    box: BlackBox,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
    inputs: bool = True,
    template: Frame | None = None,
) -> Gathered:
    """Count what an audit, an explanation or a repair needs to know of rows elsewhere.

    ``template`` is a table of inputs seen before: the new ones come in its container and types.
    """
    place = find(X)
    assert place is not None
    outcome = place.column(y, "y")
    groups = place.group_columns(sensitive_features)
    weight = None if sample_weight is None else place.column(sample_weight, "sample_weight")
    check(
        box.column is not None or box.can_query,
        "model (recorded predictions)",
        "must name a column of X where X is not in memory",
        "got the predictions themselves",
        "Write them into the table, and pass the column's name.",
    )
    predicted = [] if box.column is None else [place.column(box.column, "model")]
    chosen, named = list[str](), True
    if inputs or not predicted:
        other = {outcome, weight, box.column}
        if predicted:  # a model may read the group; beside answers it only says who is who
            other |= set(groups.values())
        chosen, named = _inputs(place, box, template, other)
    columns = list(dict.fromkeys((*chosen, *groups.values(), *predicted, outcome)))
    numbers = [*chosen, *predicted, outcome, *([] if weight is None else [weight])]
    place.use(numbers, list(groups.values()))
    settle = None
    various = continuous.are_mostly_distinct(place, columns) and (place.are_files or not box.soft)
    about = list(dict.fromkeys((*groups.values(), outcome)))
    keep = (*groups.values(), *predicted, outcome)
    cells = tabulate(place, about if various else columns, sample_weight=weight, keep=keep)
    _check_people(cells, outcome, groups)
    if various:
        if inputs and not named and place.are_files:
            refuse_identifiers(place, chosen, box, round(cells.people.sum()))
        records = read_records(cells.frame, outcome, sensitive_features=groups,
                               pos_label=pos_label, counts=_counts(cells))  # fmt: skip
        reader = continuous.Reader.of(
            place, box, inputs=chosen, small=cells, records=records, weight=weight
        )
        if place.are_files:
            scored = continuous.score_people(
                place, reader, records, round(float(cells.people.sum()))
            )
            if not inputs:
                audited = continuous.audit_scored(scored)
                return Gathered(cells.frame, _counts(cells), groups, None, audited=audited)
            cells = continuous.reference_cells(place, columns, continuous.thin(scored, box.cut))
        else:
            work = summary.Summarise(reader, tuple(columns) if inputs else (),
                                     summary.shares(cells.people, reader.kinds))  # fmt: skip
            whole = place.engine.fold(place, work)
            if not inputs:
                audited = summary.audited(records, whole)
                return Gathered(cells.frame, _counts(cells), groups, None, audited=audited)
            cells = summary.sampled(whole, columns)
            from fairmend.engines.settle import Settler  # and with it the repairs

            settle = Settler(place, reader, records)
    table = cells.frame.select(chosen) if chosen else None
    if template is not None and table is not None:
        table = Frame(as_fitted(table.native, template), template.names)
    return Gathered(cells.frame, _counts(cells), groups, table, named=named, settle=settle)


def _counts(cells: Cells) -> Counts:
    return Counts(cells.people, cells.weight, cells.squared)


def _inputs(
    place: Source, box: BlackBox, template: Frame | None, other: set[str | None]
) -> tuple[list[str], bool]:
    """The model's inputs: as named, as in fit, as the model says, or all that is left.

    And whether anybody named them.
    """
    if place.inputs is not None:
        return [place.column(name, "inputs") for name in place.inputs], not place.left_over
    if template is not None:
        return [place.column(name, "X") for name in template.names], True
    names = place.names
    own = box.inputs_among(names)
    if own is not None:
        return list(own), True
    left = [name for name in names if name not in other]
    got, fix = f"got no columns but {listed(names)}", "Pass the table the model reads."
    check(left, "X", "must hold the model's inputs", got, fix)
    return left, False


def refuse_identifiers(place: Source, inputs: Sequence[str], box: BlackBox, people: int) -> None:
    """Complain about inputs in files that tell who somebody is."""
    from fairmend.measure.inputs import FEW, identifier, object_to

    if people < FEW:
        return
    relation = duck.relation(place)
    asked = [name for name in inputs if name not in box.vouched]
    unique = duck.all_different(relation, asked, people)
    object_to((identifier(name, people) for name in unique), inputs, box)


def _check_people(cells: Cells, outcome: str, groups: Mapping[str, str]) -> None:
    """Outcomes and groups are known for everybody."""
    fixes = {
        outcome: "Leave them out for error rates, which are then over people whose outcome is "
        "known; sp over these says nothing of the others."
    }
    names = {outcome: "y"} | {name: f"sensitive_features {name!r}" for name in groups.values()}
    for name, what in names.items():
        column = encode(cells.frame.column(name), what)
        missing = int(cells.people[column.missing].sum())
        fix = fixes.get(name, "Leave these people out, or name them, e.g. 'unknown'.")
        check(missing == 0, what, "must be known for every person", f"got {missing:,} missing", fix)


# -------------------------------------------------------------------- applying a repair


def map_rows(
    classifier: RepairedClassifier,
    X: Any,
    *,
    sensitive_features: Any = None,
    ids: str | None = None,
    what: str = "predict",
    out: str | Path | None = None,
    column: str = "decision",
    overwrite: bool = False,
    retries: int = 3,
    remember: bool = True,
) -> Any:
    """Apply a fitted repair to every row of X, where the rows are.

    Parameters
    ----------
    classifier
        A fitted `RepairedClassifier`. Its model is queried inside the map, on the workers.
    X
        Whatever `source` takes.
    sensitive_features, ids
        Names of columns. The same person gets the same answer on every engine. Without ids equal
        rows share one draw; a warning says if that may move the rate of a group like the audited.
    what
        ``"predict"`` adds a column of repaired decisions; ``"transform"`` edits the inputs.
    out
        For files, DuckDB and lazy Polars frames: where to write Parquet, a path or an address
        such as ``s3://``. One file gives one file; several give a folder with one each, and a
        second run continues where the first ended.
        Changes of a relation or a lazy frame cannot be detected: there an existing file is an
        error.
    column
        The name of the column of decisions.
    overwrite
        Whether outputs that belong to another repair or input may be replaced.
    retries
        How often a batch is tried again when the model fails, with pauses that double.
    remember
        If inputs have few values, the answers about rows that the audit has seen are taken from it,
        and the model is queried only about new rows. False: about all rows.

    Returns
    -------
    With ``out`` a `WrittenFiles` that says what was written. Otherwise rows in kind: a frame in
    memory, a lazy Polars, Dask or Spark frame; for files and DuckDB a
    ``pyarrow.RecordBatchReader``.

    """
    fix = "The one adds decisions, the other edits inputs."
    check_choice("what", what, ("predict", "transform"), fix)
    place = find(X) or source(X)
    if not isinstance(X, Source):  # which says itself how its cells are written
        place = replace(place, spelling=classifier.spelling_)
    job = Job(
        classifier.fitted_repair,
        what=what,  # type: ignore[arg-type]
        groups=_group_columns(classifier, X, place, sensitive_features),
        ids=None if ids is None else place.column(ids, "ids"),
        column=column,
        retries=retries,
        remember=remember,
    )
    for name in job.repair.table.names:
        place.column(name, "X")
    if ids is None:
        classifier.warn_of_shared_draws_as_audited()
    to = None if out is None else _checked_place(out, place)
    return place.engine.map_rows(place, job, to, overwrite=overwrite)


def _checked_place(out: str | Path, place: Source) -> Path | str:
    """Where to write, if the engine can write there."""
    check(
        place.engine.writes,
        "out",
        f"must be left out for {place.engine.name} frames",
        f"got {'an address' if is_address(out) else 'a path'}",
        "Write what is returned with the engine's own writer.",
    )
    return output_place(out)


def _group_columns(
    classifier: RepairedClassifier, X: Any, place: Source, given: Any
) -> dict[str, str] | Callable[[Any], Any] | None:
    """The columns that hold people's groups, or a function of a batch; None for a blind repair."""
    if classifier.blind:
        refuse_groups(given)
        return None
    groups = classifier.groups_from if given is None else given
    if groups is None:
        groups = classifier._groups(X, None)  # says what is missing
    return groups if callable(groups) else place.group_columns(groups)


def predict_elsewhere(
    classifier: RepairedClassifier, X: Any, sensitive_features: Any, ids: Any
) -> Any:
    """The decisions about rows elsewhere: an array in their order, or a frame of the same kind."""
    mapped = map_rows(classifier, X, sensitive_features=sensitive_features, ids=ids)
    if not _is_reader(mapped):
        return mapped
    parts = [batch.column("decision").to_numpy(zero_copy_only=False) for batch in mapped]
    return np.concatenate([classifier.classes_[:0], *parts])


def transform_elsewhere(
    classifier: RepairedClassifier, X: Any, sensitive_features: Any, ids: Any
) -> Any:
    """The edited inputs of rows elsewhere, in the container of fit, or in a frame of their kind."""
    mapped = map_rows(
        classifier, X, sensitive_features=sensitive_features, ids=ids, what="transform"
    )
    if not _is_reader(mapped):
        return mapped
    return as_fitted(mapped.read_all(), classifier.fitted_repair.table)


def _is_reader(mapped: Any) -> bool:
    return type(mapped).__name__ == "RecordBatchReader"
