"""The raw tables, mixed types and missing values included, from a file or from OpenML."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import BoolArray, is_missing
from fairmend.data.containers import Kind
from fairmend.datasets.bunch import Bunch
from fairmend.datasets.embedded import ADULT, ADULT_SOURCE, COMPAS, COMPAS_SOURCE, TableInfo
from fairmend.datasets.frames import check_backend, frame_of_columns, series, typed
from fairmend.errors import DataError, check, check_columns, require

ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country", "income"),
)
_ADULT_NUMBERS = (
    *("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
)

# Nothing here tells how likely anybody is to be arrested; it only tells who they are.
_COMPAS_IDENTITIES = frozenset(
    {
        *("id", "name", "first", "last", "dob"),
        *("c_case_number", "r_case_number", "vr_case_number"),
    }
)

_FILTERED_BY = (
    *("race", "two_year_recid", "days_b_screening_arrest", "is_recid", "c_charge_degree"),
    "score_text",
)
_OPENML_ADULT = 1590

_Columns = dict[str, list[str | None]]


def load_adult_raw(path: str | os.PathLike[str] | None = None, backend: Kind = "pandas") -> Bunch:
    r"""Load UCI Adult as it was published: 14 mixed-type columns, ``?`` read as missing.

    ``path`` is ``adult.data`` or ``adult.test``, or a folder that holds one of them. Without it
    the two are fetched together (48,842 people) from OpenML by scikit-learn, which keeps a copy
    in its own data folder. ``backend`` is the kind of ``X`` and ``sensitive_features``;
    ``"numpy"`` gives an object array.

    y = 1[income > 50K]; sensitive_features = sex, which stays a column of ``X`` as well.

    >>> import pathlib, tempfile
    >>> line = "41, ?, 12345, HS-grad, 9, Divorced, ?, Unmarried, White, Female, 0, 0, 38, ?, >50K."
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "adult.test"
    ...     _ = file.write_text(f"|1x3 Cross validator\n{line}\n")
    ...     adult = load_adult_raw(file, backend="numpy")
    >>> adult.X[0, :3].tolist(), adult.y.tolist()
    ([41, None, 12345], [1])
    """
    check_backend(backend, "load_adult_raw")
    columns = _fetch_adult() if path is None else read_adult(find_adult(path))
    y = _as_label(columns.pop("income"), {"<=50K": 0, ">50K": 1}, "Adult's income")
    for name in _ADULT_NUMBERS:
        stray = next((value for value in typed(columns[name]) if isinstance(value, str)), None)
        fix = "Use adult.data or adult.test as UCI publishes them, without a header line."
        what, got = f"Adult's column {name!r}", f"got {stray!r}"
        check(stray is None, what, "must hold numbers", got, fix)
    text = f"UCI Adult, 14 columns of mixed types, '?' read as missing. {ADULT_SOURCE}"
    table = replace(ADULT, name="adult (raw)", sensitive_name="sex")
    return _bunch(table, columns, y, text, backend)


def load_compas_raw(
    path: str | os.PathLike[str] | None = None, backend: Kind = "pandas", *, filtered: bool = False
) -> Bunch:
    r"""Load ProPublica's two-year table as it was published, without who the people are.

    ``path`` is ``compas-scores-two-years.csv`` (or ``compas_two_years.csv``), or its folder; it
    has to be given, as the versions we know on OpenML are shortened or recoded. ``backend`` is the
    kind of ``X`` and ``sensitive_features``; ``"numpy"`` gives an object array. ``filtered``
    keeps only the people ProPublica compared, 6,172 of 7,214 (`propublica_filter`).

    y = two_year_recid; sensitive_features = race, which stays a column of ``X`` as well. Names,
    dates of birth and case numbers are never read. Columns that already know the outcome
    (``is_recid``, and those that begin with ``r_`` or ``vr_``) are read: keep them from a model.

    >>> import pathlib, tempfile
    >>> text = "name,race,age,priors_count,priors_count,two_year_recid\nN. N.,Other,31,2,7,1\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "compas-scores-two-years.csv"
    ...     _ = file.write_text(text)
    ...     compas = load_compas_raw(file, backend="numpy")
    >>> compas.feature_names, compas.X.tolist(), compas.y.tolist()
    (('race', 'age', 'priors_count'), [['Other', 31, 2]], [1])
    """
    check_backend(backend, "load_compas_raw")
    if path is None:
        fix = (
            "Download compas-scores-two-years.csv from "
            "https://github.com/propublica/compas-analysis, or use load_compas() for the paper's "
            "binary version, which comes with fairmend."
        )
        raise DataError("load_compas_raw(path=...)", "must be given", "got None", fix)
    columns = read_compas(find_compas(path))
    _demand(columns, _FILTERED_BY if filtered else ("race", "two_year_recid"), path)
    if filtered:
        kept = propublica_filter(columns)
        columns = {name: list(compress(values, kept)) for name, values in columns.items()}
    y = _as_label(columns.pop("two_year_recid"), {"0": 0, "1": 1}, "COMPAS's two_year_recid")
    text = f"ProPublica's two-year COMPAS table, identities left out. {COMPAS_SOURCE}"
    return _bunch(replace(COMPAS, name="compas (raw)"), columns, y, text, backend)


def _bunch(
    table: TableInfo, columns: _Columns, y: NDArray[np.int8], description: str, backend: Kind
) -> Bunch:
    """All columns are inputs, that of the groups too."""
    return Bunch(
        name=table.name,
        X=frame_of_columns({name: typed(values) for name, values in columns.items()}, backend),
        y=y,
        sensitive_features=series(table.sensitive_name, columns[table.sensitive_name], backend),
        feature_names=tuple(columns),
        target_names=table.target_names,
        sensitive_name=table.sensitive_name,
        description=description,
    )


def propublica_filter(columns: Mapping[str, Sequence[str | None]]) -> BoolArray:
    """Whom ProPublica kept: people whose score belongs to the arrest it is compared with.

    Kept: |days_b_screening_arrest| <= 30, is_recid not -1, charge degree not O, score not N/A.

    >>> propublica_filter({"days_b_screening_arrest": ["-1", "31", None], "is_recid": ["0"] * 3,
    ...                    "c_charge_degree": ["F"] * 3, "score_text": ["Low"] * 3}).tolist()
    [True, False, False]
    """

    def numbers(name: str) -> NDArray[np.float64]:
        return np.array([np.nan if cell is None else float(cell) for cell in columns[name]])

    # Some copies were saved by tools that turn N/A into an empty cell.
    scored = np.array([cell not in (None, "N/A") for cell in columns["score_text"]])
    jailable = np.array([cell != "O" for cell in columns["c_charge_degree"]])
    near = np.abs(numbers("days_b_screening_arrest")) <= 30
    return np.asarray(near & (numbers("is_recid") != -1) & jailable & scored)


def find_adult(path: str | os.PathLike[str]) -> Path:
    """Take the file itself, or adult.data (else adult.test) in a folder."""
    return _locate(path, ("adult.data", "adult.test"))


def find_compas(path: str | os.PathLike[str]) -> Path:
    """Take the file itself, or the two-year table in a folder, under either of its names."""
    return _locate(path, ("compas_two_years.csv", "compas-scores-two-years.csv"))


def read_adult(path: Path) -> _Columns:
    """Read adult.data or adult.test into 15 columns of text, ``None`` for ``?``.

    The comment on the first line of adult.test, its full stop after every label, and empty lines
    are passed over.
    """
    columns: _Columns = {name: [] for name in ADULT_COLUMNS}
    with path.open(encoding="utf-8", newline="") as stream:
        for cells in csv.reader(stream, skipinitialspace=True):
            if not cells or cells[0].startswith("|"):
                continue
            must = f"must have {len(ADULT_COLUMNS)} values a line"
            got = f"got {len(cells)} after {len(columns['age']):,} people"
            fix = "Use adult.data or adult.test as UCI publishes them."
            check(len(cells) == len(ADULT_COLUMNS), path.name, must, got, fix)
            cells[-1] = cells[-1].rstrip(". ")
            for name, cell in zip(ADULT_COLUMNS, cells, strict=True):
                columns[name].append(_present(cell))
    return columns


def read_compas(path: Path, only: Iterable[str] | None = None) -> _Columns:
    """Read ProPublica's two-year table into columns of text, ``None`` where a cell is empty.

    The published file names ``decile_score`` and ``priors_count`` twice: the first of each counts.
    Columns that identify a person are not read; with ``only``, nothing but those columns is.
    """
    with path.open(encoding="utf-8-sig", newline="") as stream:
        lines = csv.reader(stream)
        header = next(lines, [])
        wanted = set(header) - _COMPAS_IDENTITIES if only is None else set(only)
        _demand(header, wanted, path)
        places = {name: header.index(name) for name in dict.fromkeys(header) if name in wanted}
        columns: _Columns = {name: [] for name in places}
        for cells in lines:
            if not cells:
                continue
            must = f"must have {len(header)} values a line, as its header has"
            got = f"got {len(cells)} on line {lines.line_num:,}"
            fix = "Use the file as ProPublica publishes it."
            check(len(cells) == len(header), path.name, must, got, fix)
            for name, place in places.items():
                columns[name].append(_present(cells[place]))
    return columns


def _present(cell: str) -> str | None:
    text = cell.strip()
    return None if text in {"", "?"} else text


def _locate(path: str | os.PathLike[str], names: Sequence[str]) -> Path:
    """Take the file itself, or the first of the known names in a folder."""
    given = Path(path)
    candidates = [given / name for name in names] if given.is_dir() else [given]
    files = [candidate for candidate in candidates if candidate.is_file()]
    must = f"must be a file or a folder that holds {' or '.join(names)}"
    check(files, f"path {str(given)!r}", must, "it is neither", "Check the path.")
    return files[0]


def _demand(present: Iterable[str], needed: Iterable[str], path: str | os.PathLike[str]) -> None:
    fix = "Use compas-scores-two-years.csv as ProPublica publishes it."
    check_columns(Path(path).name, present, sorted(needed), fix, of="ProPublica's two-year table")


def _as_label(values: Sequence[str | None], codes: dict[str, int], what: str) -> NDArray[np.int8]:
    stray = next((value for value in values if value not in codes), "")
    must = f"must be {' or '.join(codes)} for everybody"
    check(stray == "", what, must, f"got {stray!r}", "Use the table as it was published.")
    return np.array([codes[value] for value in values if value is not None], dtype=np.int8)


def _fetch_adult() -> _Columns:
    """Fetch Adult from OpenML, where the file's columns have UCI's names already."""
    why = "load_adult_raw(path=None)"
    require("pandas", extra="pandas", why=why)  # scikit-learn's frames, whatever ours will be
    from sklearn.datasets import fetch_openml

    try:
        fetched = fetch_openml(data_id=_OPENML_ADULT, as_frame=True, n_retries=1)
    except (OSError, ValueError) as error:  # no route, a refusal, or an answer that is no data
        must = "needs OpenML (data set 1590) within reach"
        got = f"got {type(error).__name__}: {error}"
        fix = (
            "Give path=, a copy of adult.data from https://archive.ics.uci.edu/dataset/2/adult, or "
            "use load_adult() for the paper's binary version, which comes with fairmend."
        )
        raise DataError(why, must, got, fix) from error
    columns = {name: _as_text(fetched.data[name]) for name in ADULT_COLUMNS[:-1]}
    return columns | {"income": _as_text(fetched.target)}


def _as_text(values: Sequence[Any]) -> list[str | None]:
    """The cells of a scikit-learn frame as a file has them."""
    return [None if is_missing(value) else _present(str(value)) for value in values]
