"""What people pass as a table or as a column, taken out of whatever container it is in.

A table is a 2-D NumPy array, a list of rows, or any frame that narwhals reads; a column is a list,
a 1-D array or a series. `Frame` and `encode` in `fairmend.data.columns` make codes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.errors import DataError, check, in_a_line, listed

# -------------------------------------------------------------------- a table


def as_frame(values: Any, what: str) -> nw.DataFrame[Any] | None:
    """Whatever narwhals reads as a table in memory; None for anything else."""
    try:
        frame = nw.from_native(values, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = getattr(values, "column_names", None) or values.columns
        repeated = [name for name, times in Counter(names).items() if times > 1]
        got, fix = f"got more than one {listed(repeated)}", "Rename or drop the copies."
        raise DataError(what, "must have distinct column names", got, fix) from None
    lazy, got = isinstance(frame, nw.LazyFrame), f"got a lazy frame ({type(values).__name__})"
    check(not lazy, what, "must be in memory", got, "Collect it first, e.g. with .collect().")
    return frame if isinstance(frame, nw.DataFrame) else None


def as_matrix(X: Any, what: str) -> NDArray[Any]:
    """A 2-D array from an array or a list of rows."""
    sparse = hasattr(X, "toarray") and hasattr(X, "nnz")
    check(not sparse, what, "must be a dense table", "got a sparse matrix", "Pass X.toarray().")
    _refuse_masked(X, what)
    got, fix = f"got {type(X).__name__}", _how_to_make_a_table(X)
    if not fix:
        try:
            matrix = _untouched(X)
        except ValueError:
            got, fix = "got rows of different lengths", "Give every row the same columns."
        else:
            if matrix.ndim == 2:
                return matrix
            check_rows(matrix.shape != (0,), what)
            got = f"{got} of shape {matrix.shape}" if matrix.ndim else got
            fix = "Pass one row per person, one column per feature."
            if matrix.ndim == 1:
                fix = (
                    "Reshape your data: numpy.reshape(X, (-1, 1)) for one column, [X] for one row."
                )
    must = "must be a table: a 2-D array, or a pandas, Polars or PyArrow frame"
    raise DataError(what, must, got, fix)


def check_rows(n: int, what: str) -> None:
    """Refuse a table without rows."""
    fix = "Check the filter that made it."
    check(n > 0, what, "must have at least one row", "got none", fix)


def _how_to_make_a_table(X: Any) -> str:
    """Advice for what is nearly a table; empty for what NumPy should look at."""
    if isinstance(X, str):
        return "Read the file first, e.g. with pandas.read_csv."
    if isinstance(nw.from_native(X, series_only=True, pass_through=True), nw.Series):
        return "One column? Pass X.to_frame()."
    if hasattr(X, "__arrow_c_array__") or hasattr(X, "__dataframe__"):
        return "Pass pyarrow.table(X)."
    records = isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)
    if records or isinstance(X, Mapping) or getattr(getattr(X, "dtype", None), "names", None):
        return "Pass pandas.DataFrame(X)."
    return ""


def container_name(native: Any) -> str:
    """What a table comes in, with the library it is of.

    >>> container_name(np.zeros((1, 1)))
    'numpy ndarray'
    """
    return f"{type(native).__module__.split('.')[0]} {type(native).__name__}"


# -------------------------------------------------------------------- a column


def as_column(values: Any, what: str) -> Any:
    """A narwhals series or a 1-D array, from values that are one column in any container."""
    frame = as_frame(values, what)
    if frame is not None and len(frame.columns) == 1:
        return frame.get_column(frame.columns[0])
    array = values if frame is not None else as_array(values, what)
    if getattr(array, "ndim", 1) == 2 and array.shape[1] == 1:
        return array[:, 0]
    if frame is not None or getattr(array, "ndim", 1) != 1:
        got = f"got {type(values).__name__} of shape {tuple(array.shape)}"
        raise DataError(what, "must be one column", got, "Pass one value per person.")
    return array


def as_array(values: Any, what: str) -> Any:
    """A narwhals series, or a NumPy array of one or more dimensions; names are not looked up."""
    if type(values).__module__.startswith("pyarrow") and hasattr(values, "dictionary_encode"):
        import pyarrow as pa

        if isinstance(values, pa.Array):  # narwhals knows chunked arrays only
            values = pa.chunked_array([values])
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    _refuse_masked(values, what)
    must, kind = "must hold one value per person", type(values).__name__
    try:
        array = _untouched(values)
    except ValueError:
        got = f"got a {kind} of entries of different lengths"
        raise DataError(what, must, got, "Make all entries single values.") from None
    except Exception as error:  # a tensor on a device, or one that records gradients
        got = f"got a {kind} whose reading raised {in_a_line(error)}"
        raise DataError(what, must, got, "Pass a NumPy array.") from error
    got = "got None" if values is None else f"got a single {kind}"
    fix = "Pass a list, an array, a series or the name of a column of X."
    check(array.ndim > 0, what, must, got, fix)
    return array


def _untouched(values: Any) -> NDArray[Any]:
    """A NumPy array of values that stay what they are: among texts, NumPy makes 1 and nan text."""
    if isinstance(values, list | tuple) and len(values) > 0 and isinstance(values[0], str):
        return np.asarray(values, object)
    array = np.asarray(values)
    from_list = not hasattr(values, "dtype")
    return np.asarray(values, object) if from_list and array.dtype.kind in "US" else array


def _refuse_masked(values: Any, what: str) -> None:
    plain = not isinstance(values, np.ma.MaskedArray)
    got = "got a masked array, whose mask would be lost"
    fix = "Fill it first, e.g. with .filled(...), or leave the masked people out."
    check(plain, what, "must be a plain array", got, fix)


# -------------------------------------------------------------------- in which order its rows are


def check_order(given: Mapping[str, Any]) -> None:
    """Refuse a series with the row labels of X, or of an earlier argument, in another order.

    Rows are matched by their place, as in scikit-learn. Row labels that are all different mean
    nothing; the same labels at other rows mean that one of the two was filtered or sorted.
    """
    labelled = [
        (what, labels)
        for what, values in given.items()
        for part in (values.values() if isinstance(values, Mapping) else [values])
        if (labels := row_labels(part)) is not None
    ]
    for what, own in labelled[1:]:
        first, rows = labelled[0]
        if len(own) != len(rows) or own.equals(rows):
            continue
        shared = int(own.isin(rows).sum())
        if shared == 0:
            continue
        got = f"it holds the row labels of {first} in another order"
        fix = f"Pass it as values.loc[{first}.index]."
        if not is_reordered(own, rows):
            got = (
                f"{shared:,} of its {len(own):,} row labels are among those of {first}, and they "
                "are not the same row by row"
            )
            fix = (
                "Take both from the same rows; if they are in one order all the same, pass it as "
                "values.to_numpy()."
            )
        raise DataError(what, f"must come in the order of {first}", got, fix)


def row_labels(values: Any) -> Any:
    """The index of a pandas object; None for anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") and hasattr(index, "is_unique") else None


def is_reordered(labels: Any, rows: Any) -> bool:
    """Whether row labels are those of the rows, each once, in another order."""
    return bool(
        len(labels) == len(rows)
        and not labels.equals(rows)
        and labels.is_unique
        and rows.is_unique
        and labels.isin(rows).all()
    )
