"""Where rows are, when they are not in memory, and which engine reads them there.

An engine is one class with two verbs:

    tabulate(source, columns, weight, small)   cells: the distinct values of columns, and sums
    map_rows(source, job, out)                 the rows with what the job adds or edits

It registers itself: a subclass of `Engine` is found by the types that it ``reads``.
"""

from __future__ import annotations

import glob
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from fairmend.data.addresses import is_address, matching
from fairmend.data.containers import Kind
from fairmend.data.given import as_frame
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, check, check_choice, check_whole, listed, nearest

if TYPE_CHECKING:
    from fairmend.engines.csvs import Typed
    from fairmend.engines.job import Job
    from fairmend.engines.small import Counted, Suppression

SmallCells = Literal["drop", "merge"]

_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv", ".txt")
_SUFFIXES = (*_PARQUET, *_CSV, ".csv.gz", ".tsv.gz")


class Fold(Protocol):
    """Work on parts of the rows whose results can be merged, in a tree."""

    @property
    def reads(self) -> list[str]:
        """The columns that it reads."""

    def __call__(self, table: Any) -> Any:
        """The result for some rows; there may be none."""

    def merge(self, parts: Sequence[Any]) -> Any:
        """Results of several parts as one."""


class Engine(ABC):
    """Reads rows of some types where they are; making a subclass registers it."""

    name: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    """Modules whose types it reads; those of packages inside them too."""
    kind: ClassVar[Kind] = "pandas"
    """The container in which the model sees rows."""
    writes: ClassVar[bool] = False
    """Whether `map_rows` writes Parquet itself."""
    ignores_case: ClassVar[bool] = False
    """Whether it takes names for one that differ in capitals alone."""

    registered: ClassVar[dict[str, Engine]] = {}

    def __init_subclass__(cls) -> None:
        Engine.registered[cls.name] = cls()

    @classmethod
    def of(cls, X: Any) -> Engine | None:
        """The engine that reads an object, by its type."""
        module = type(X).__module__
        for engine in cls.registered.values():
            if any(module == name or module.startswith(f"{name}.") for name in engine.reads):
                return engine
        return None

    def names(self, source: Source) -> list[str]:
        """The columns, in their order."""
        return list(source.data.columns)

    @abstractmethod
    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        """A frame in memory: distinct values, and the sums of `fairmend.engines.cells`.

        No cell of it has fewer people than ``small`` allows.
        """

    def reading(self, source: Source) -> AbstractContextManager[None]:
        """While rows are read: what is known to go wrong then becomes an error in words."""
        return nullcontext()

    def distinct(self, source: Source, columns: Sequence[str], most: int) -> tuple[int, float]:
        """How many rows there are, and the share of distinct ones among the first so many.

        An engine that can `fold` says so; others gather distinct rows whatever their number.
        """
        return 0, 0.0

    def fold(self, source: Source, work: Fold) -> Any:
        """What ``work`` makes of every part of the rows where it is, merged in a tree."""
        raise TypeError(f"{self.name} does not fold")

    @abstractmethod
    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        """The rows after the job, lazily where the engine is lazy, or written to ``out``."""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that are stored elsewhere, and how they may be read."""

    data: Any
    engine: Engine
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

    @property
    def are_files(self) -> bool:
        return self.engine.name == "files"

    @cached_property
    def typed(self) -> Typed | None:
        """CSV files on this machine as Parquet; None where the data is something else."""
        from fairmend.engines.csvs import typed

        if not self.are_files or not are_csv(self.data) or is_address(self.data[0]):
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
            self.typed.findings.use(numbers, labels, tell, self._noted)

    @cached_property
    def _noted(self) -> set[str]:
        """Columns of which a note was given."""
        return set()

    @cached_property
    def names(self) -> list[str]:
        """The columns, in their order."""
        names = self.engine.names(self)
        if self.engine.ignores_case:
            _refuse_twins(names)
        return names

    def column(self, name: Any, what: str) -> str:
        """The name of one column, checked: rows that are not in memory have names only."""
        check(
            isinstance(name, str),
            what,
            "must name a column of X where X is not in memory",
            "got None" if name is None else f"got a {type(name).__name__}",
            "Write it into the table, and pass the column's name.",
        )
        if name not in self.names:
            fix = nearest(name, self.names)
            raise DataError(what, "must name a column of X", f"{name!r} is not one", fix)
        return str(name)

    def group_columns(self, given: Any) -> dict[str, str]:
        """The names of sensitive columns, as a mapping that is not mistaken for people's labels."""
        what = "sensitive_features"
        if isinstance(given, str):
            given = [given]
        if isinstance(given, Mapping):
            return {str(key): self.column(name, what) for key, name in given.items()}
        if not isinstance(given, list | tuple):
            self.column(given, what)
        return {self.column(name, what): name for name in given}


def _refuse_twins(names: Sequence[str]) -> None:
    """Complain about names that DuckDB and Spark take for one."""
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(name.lower(), []).append(name)
    twins = next((alike for alike in spellings.values() if len(alike) > 1), ())
    must = "must have columns whose names differ by more than capitals"
    check(not twins, "X", must, f"got {listed(twins)}", "Rename one of them.")


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
    """Describe rows that are stored elsewhere; pass the result as X.

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
        What happens to these people. ``"drop"``: they are not part of the result. ``"merge"``: they
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
    place = find(data)
    if place is None:
        check(
            as_frame(data, "X") is not None,
            "X",
            "must have named columns: a frame, or a place of rows",
            f"got a {type(data).__name__}",
            "Make it a frame, e.g. pandas.DataFrame(X).",
        )
        place = Source(data, Engine.registered["local"])
    fix = "1 suppresses nothing; 10 is usual in statistics offices."
    check_whole("suppress_below", suppress_below, 1, fix, of="people")
    fix = "The one leaves people out, the other counts them with the inputs of larger cells."
    check_choice("small_cells", small_cells, ("drop", "merge"), fix)
    return Source(
        place.data,
        place.engine,
        None if inputs is None else tuple(inputs),
        suppress_below,
        memory_limit,
        None if temp_directory is None else str(temp_directory),
        small_cells,
        spelling=spelling or Spelling(),
        texts=tuple(texts),
    )


def find(X: Any) -> Source | None:
    """The place of rows that X is; None for rows in memory."""
    if isinstance(X, Source):
        return X
    if isinstance(X, os.PathLike) or (isinstance(X, str) and _looks_like_files(X)):
        return Source(tuple(files(str(X))), Engine.registered["files"])
    if isinstance(X, str):
        X = _named_table(X)
    engine = Engine.of(X)
    return None if engine is None else Source(X, engine)


def _looks_like_files(name: str) -> bool:
    return (
        name.lower().endswith(_SUFFIXES)
        or any(mark in name for mark in "*?[/\\")
        or os.path.exists(name)
    )


def files(name: str) -> list[str]:
    """The files of a path, a folder or a glob, in order of their names."""
    if is_address(name):
        paths = matching(name)
        got, fix = f"nothing matches {name!r}", "Check the name, and who may list it."
        check(paths, "X", "must be addresses of Parquet or CSV files", got, fix)
        return paths
    is_folder = os.path.isdir(name)
    if os.path.isfile(name):  # brackets in it are part of its name
        paths = [name]
    elif is_folder:
        paths = [
            os.path.join(name, each)
            for each in os.listdir(name)
            if each.lower().endswith(_SUFFIXES) and not each.startswith((".", "_"))
        ]
    else:  # what is no file either gets an error where it is read
        paths = [each for each in glob.glob(name, recursive=True) if not os.path.isdir(each)]
    check(
        paths,
        f"X {name!r}",
        "must be a path or a glob of Parquet or CSV files",
        "the folder holds none" if is_folder else "there is no such file",
        f"Files in folders inside it are named by a pattern, e.g. {name}/**/*.csv."
        if is_folder
        else "Check the name, and from where it is seen.",
    )
    return sorted(paths)


def damaged(file: str, error: BaseException) -> DataError:
    """The error about a file that cannot be read as what its suffix says."""
    return DataError(
        f"file {file!r}",
        "must be a Parquet or CSV file",
        f"it cannot be read as one: {' '.join(str(error).split())[:200]}",
        "Check that it is complete, and that its suffix tells its format.",
    )


def is_csv(name: str) -> bool:
    """Whether a file is CSV, by its suffix."""
    return name.lower().removesuffix(".gz").endswith(_CSV)


def are_csv(files: Sequence[str]) -> bool:
    """Whether files are CSV, by their suffixes; all are of one format."""
    csv = {is_csv(name) for name in files}
    fix = "Name those of one format, e.g. with *.parquet."
    check(len(csv) == 1, "X", "must be files of one format", "got Parquet and CSV together", fix)
    return csv == {True}


def _named_table(name: str) -> Any:
    """A table by its name, where DuckDB's default connection or Spark's session knows it."""
    duckdb, pyspark = sys.modules.get("duckdb"), sys.modules.get("pyspark.sql")
    tables: dict[str, list[str]] = {}
    if duckdb is not None:
        try:
            return duckdb.table(name)
        except duckdb.Error:
            every = duckdb.sql("SHOW TABLES").fetchall()
            tables["DuckDB's default connection"] = [row[0] for row in every]
    session = None if pyspark is None else pyspark.SparkSession.getActiveSession()
    if session is not None:
        if session.catalog.tableExists(name):
            return session.table(name)
        tables["Spark's active session"] = [table.name for table in session.catalog.listTables()]
    every = [table for names in tables.values() for table in names]
    looked = " or ".join(where for where, names in tables.items() if names)
    raise DataError(
        "X",
        "must be a table: a 2-D array, a frame, a path or glob of Parquet or CSV files, or the "
        "name of a table that DuckDB or Spark knows",
        f"got {name!r}, which is none of these{f', and no table of {looked}' if looked else ''}",
        f"{nearest(name, every) + ' ' if every else ''}For a table of a DuckDB connection of "
        "yours pass connection.table(name).",
    )
