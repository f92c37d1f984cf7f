"""Where rows are, when they are not in memory, and which engine reads them there.

An engine is one file with two verbs:

    tabulate(source, columns, weight, small)   cells: the distinct values of columns, and sums
    map_rows(source, job, out)                 the rows with what the job adds or edits

and ``names(data)``, the columns there are. Nothing is registered: `find` tells engines apart by
what the data is.
"""

from __future__ import annotations

import glob
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from fairmend.data.columns import as_frame
from fairmend.data.containers import Kind
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, listed, nearest

if TYPE_CHECKING:
    from fairmend.engines.csvs import Typed
    from fairmend.engines.job import Job
    from fairmend.engines.small import Counted, Suppression

__all__ = ["Engine", "Source", "find", "is_elsewhere", "source"]

SmallCells = Literal["drop", "merge"]

_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv", ".txt")
_SUFFIXES = (*_PARQUET, *_CSV, ".csv.gz", ".tsv.gz")
# The beginning of a type's module, and the engine that reads it.
_ENGINES = {
    "polars.lazyframe": "lazy",
    "duckdb": "duck",
    "_duckdb": "duck",
    "dask.dataframe": "dask_frames",
    "pyspark.sql": "spark_frames",
}


class Engine(Protocol):
    """What the file of an engine offers."""

    def names(self, source: Source) -> list[str]:
        """The columns, in their order."""

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        """A frame in memory: distinct values, and the sums of `fairmend.engines.cells`.

        No cell of it has fewer people than ``small`` says.
        """

    def map_rows(self, source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
        """The rows after the job, lazily where the engine is lazy, or written to ``out``."""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows somewhere else, and how they may be read."""

    data: Any
    engine_name: str
    inputs: tuple[str, ...] | None = None
    suppress_below: int = 1
    memory_limit: str = "1GB"
    temp_directory: str | None = None
    small_cells: SmallCells = "drop"
    left_over: bool = False
    """Whether the inputs are what was left, and nobody named them."""
    spelling: Spelling = field(default_factory=Spelling)
    """How the cells of CSV files are written."""
    texts: tuple[str, ...] = ()
    """Columns of CSV files that stay text, such as ids."""

    @cached_property
    def typed(self) -> Typed | None:
        """CSV files on this machine as Parquet; None where the data is something else."""
        from fairmend.engines.csvs import typed

        if self.engine_name != "paths" or not are_csv(self.data) or "://" in self.data[0]:
            return None
        return typed(self.data, self.spelling, self.texts, self.temp_directory)

    @property
    def files(self) -> tuple[str, ...]:
        """The files to read: of CSV, their copies in Parquet."""
        return self.data if self.typed is None else tuple(self.typed.parquet.values())

    def use(
        self,
        numbers: Sequence[str],
        labels: Sequence[str] = (),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Complain about columns of CSV files that are mostly numbers and cannot be read so."""
        if self.typed is not None:
            self.typed.findings.use(numbers, labels, tell, self._told)

    @cached_property
    def _told(self) -> set[str]:
        """Columns of which a note was told."""
        return set()

    @property
    def engine(self) -> Engine:
        module = importlib.import_module(f"fairmend.engines.{self.engine_name}")
        return cast(Engine, module)

    @property
    def kind(self) -> Kind:
        """The container in which the model sees rows."""
        return "polars" if self.engine_name == "lazy" else "pandas"

    @cached_property
    def names(self) -> list[str]:
        """The columns, in their order."""
        names = self.engine.names(self)
        if self.engine_name in ("paths", "spark_frames"):
            _refuse_twins(names)
        return names

    def column(self, name: Any, what: str) -> str:
        """The name of one column, checked: data elsewhere is spoken of by name."""
        if not isinstance(name, str):
            raise DataError(
                what,
                "must name a column of X where X is not in memory",
                "got None" if name is None else f"got a {type(name).__name__}",
                "Write it into the table, and pass the column's name.",
            )
        known = self.names
        if name not in known:
            raise DataError(
                what, "must name a column of X", f"{name!r} is not one", nearest(name, known)
            )
        return name

    def columns(self, given: Any, what: str) -> dict[str, str]:
        """Several names, as a mapping that no length can be mistaken for labels of people."""
        if isinstance(given, str):
            given = [given]
        if isinstance(given, Mapping):
            return {str(key): self.column(name, what) for key, name in given.items()}
        if not isinstance(given, list | tuple):
            self.column(given, what)
        return {self.column(name, what): name for name in given}


def _refuse_twins(names: Sequence[str]) -> None:
    """Complain about names that DuckDB and Spark take for one."""
    spelt: dict[str, list[str]] = {}
    for name in names:
        spelt.setdefault(name.lower(), []).append(name)
    for alike in spelt.values():
        if len(alike) > 1:
            raise DataError(
                "X", "must have columns whose names differ by more than capitals",
                f"got {listed(alike)}", "Rename one of them.",
            )  # fmt: skip


def source(
    data: Any,
    *,
    inputs: Sequence[str] | None = None,
    suppress_below: int = 1,
    small_cells: SmallCells = "drop",
    memory_limit: str = "1GB",
    temp_directory: str | os.PathLike[str] | None = None,
    spelling: Spelling | None = None,
    texts: Sequence[str] = (),
) -> Source:
    """Say more about rows elsewhere than their place; pass the result as X.

    Parameters
    ----------
    data
        A path or glob of Parquet or CSV, a lazy Polars frame, a DuckDB relation, a Dask or Spark
        frame, the name of a table that DuckDB's default connection or Spark knows, or a frame in
        memory.
    inputs
        The columns that are the model's inputs. By default the model's ``feature_names_in_``, or
        every column that is not named otherwise.
    suppress_below
        Cells of fewer people than this do not leave the engine; a warning says how many people
        they were.
    small_cells
        What becomes of these people. ``"drop"``: they are no part of the result. ``"merge"``: they
        are counted with their own group, outcome and prediction, but with the inputs of the larger
        cell that shares most with them; only groups, outcomes and predictions that occur together
        for too few people are dropped.
    memory_limit, temp_directory
        For DuckDB, which spills to the folder what exceeds the limit. Of CSV files, copies in
        Parquet are kept there as long as they are read.
    spelling, texts
        For CSV files: how their cells are written (`fairmend.data.spelling.Spelling`), and columns
        that stay text, such as ids.

    """
    found = find(data)
    name = "local" if found is None else found.engine_name
    if found is None and as_frame(data, "X") is None:
        raise DataError(
            "X", "must have named columns: a frame, or a place of rows",
            f"got a {type(data).__name__}", "Make it a frame, e.g. pandas.DataFrame(X).",
        )  # fmt: skip
    if not isinstance(suppress_below, int) or suppress_below < 1:
        raise DataError(
            "suppress_below", "must be a whole number of people, at least 1",
            f"got {suppress_below!r}", "1 suppresses nothing; 10 is usual in statistics offices.",
        )  # fmt: skip
    if small_cells not in ("drop", "merge"):
        raise DataError(
            "small_cells", "must be 'drop' or 'merge'", f"got {small_cells!r}",
            "The one leaves people out, the other counts them with the inputs of larger cells.",
        )  # fmt: skip
    return Source(
        data if found is None else found.data,
        name,
        None if inputs is None else tuple(inputs),
        suppress_below,
        memory_limit,
        None if temp_directory is None else str(temp_directory),
        small_cells,
        spelling=spelling or Spelling(),
        texts=tuple(texts),
    )


def is_elsewhere(X: Any) -> bool:
    """Whether X is a place of rows instead of rows; looks at nothing but the type.

    >>> is_elsewhere("decisions.parquet"), is_elsewhere([[1, 2]])
    (True, False)
    """
    return isinstance(X, str | os.PathLike | Source) or _engine_of(X) is not None


def find(X: Any) -> Source | None:
    """The place of rows that X is; None for rows in memory."""
    if isinstance(X, Source):
        return X
    if isinstance(X, os.PathLike) or (isinstance(X, str) and _looks_like_files(X)):
        return Source(tuple(files(str(X))), "paths")
    if isinstance(X, str):
        table = _named_table(X)
        return Source(table, _engine_of(table) or "")
    name = _engine_of(X)
    return None if name is None else Source(X, name)


def _engine_of(X: Any) -> str | None:
    module = type(X).__module__
    for beginning, name in _ENGINES.items():
        if module.split(".")[0] == beginning or module.startswith(f"{beginning}."):
            return name
    return None


def _looks_like_files(name: str) -> bool:
    return (
        name.lower().endswith(_SUFFIXES)
        or any(mark in name for mark in "*?[/\\")
        or os.path.exists(name)
    )


def files(name: str) -> list[str]:
    """The files of a path, a folder or a glob, in order of their names."""
    if "://" in name:
        return [name]
    if os.path.isfile(name):  # brackets in it are part of its name
        found = [name]
    elif os.path.isdir(name):
        found = [
            os.path.join(name, each)
            for each in os.listdir(name)
            if each.lower().endswith(_SUFFIXES) and not each.startswith((".", "_"))
        ]
    else:
        found = [
            each
            for each in glob.glob(name, recursive=True)
            if not os.path.isdir(each)  # what is no file either is told of where it is read
        ]
    if not found:
        folder = os.path.isdir(name)
        raise DataError(
            f"X {name!r}",
            "must be a path or a glob of Parquet or CSV files",
            "the folder holds none" if folder else "there is no such file",
            f"Files in folders inside it are named by a pattern, e.g. {name}/**/*.csv."
            if folder
            else "Check the name, and from where it is seen.",
        )
    return sorted(found)


def is_csv(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(_CSV)


def are_csv(files: Sequence[str]) -> bool:
    """Whether files are CSV, by their suffixes; all are of one format."""
    csv = [is_csv(name) for name in files]
    if any(csv) and not all(csv):
        raise DataError(
            "X", "must be files of one format", "got Parquet and CSV together",
            "Name those of one format, e.g. with *.parquet.",
        )  # fmt: skip
    return all(csv)


def _named_table(name: str) -> Any:
    """A table by its name, where DuckDB's default connection or Spark's session knows it."""
    duckdb, pyspark = sys.modules.get("duckdb"), sys.modules.get("pyspark.sql")
    known: dict[str, list[str]] = {}
    if duckdb is not None:
        try:
            return duckdb.table(name)
        except duckdb.Error:
            known["DuckDB's default connection"] = [
                row[0] for row in duckdb.sql("SHOW TABLES").fetchall()
            ]
    session = None if pyspark is None else pyspark.SparkSession.getActiveSession()
    if session is not None:
        if session.catalog.tableExists(name):
            return session.table(name)
        known["Spark's active session"] = [table.name for table in session.catalog.listTables()]
    tables = [table for names in known.values() for table in names]
    looked = " or ".join(where for where, has in known.items() if has)
    raise DataError(
        "X",
        "must be a table: a 2-D array, a frame, a path or glob of Parquet or CSV files, or the "
        "name of a table that DuckDB or Spark knows",
        f"got {name!r}, which is none of these{f', and no table of {looked}' if looked else ''}",
        f"{nearest(name, tables) + ' ' if tables else ''}For a table of a DuckDB connection of "
        "yours pass connection.table(name).",
    )
