"""The paper's two tables, carried inside the package.

Only a few thousand different people-as-bits exist in them (2,688 in Adult, 348 in COMPAS, group
and label included). A file therefore holds those distinct rows once and, for every person, the
number of his or her row: the original order comes back exactly, from a few tens of kilobytes.
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from fairmend.datasets.bunch import Bunch
from fairmend.datasets.derive import ADULT, COMPAS, BinaryTable, Recipe
from fairmend.datasets.frames import Backend, check_backend, frame_of_bits, series

__all__ = [
    "ADULT_SOURCE",
    "COMPAS_SOURCE",
    "load_adult",
    "load_compas",
    "read_table",
    "write_table",
]

ADULT_SOURCE = (
    "Source: Becker, B. and Kohavi, R. (1996), Adult, UCI Machine Learning Repository, "
    "https://doi.org/10.24432/C5XW20. Licence: CC BY 4.0, "
    "https://creativecommons.org/licenses/by/4.0/."
)
COMPAS_SOURCE = (
    "Source: ProPublica (J. Larson, S. Mattu, L. Kirchner, J. Angwin, 2016), data behind "
    "'Machine Bias', https://github.com/propublica/compas-analysis, from public records of "
    "Broward County, Florida. Licence: published by ProPublica without a stated licence; "
    "attribute it to them."
)

_ADULT_TEXT = (
    "Adult, as in the experiments of 'Repairing without Retraining' (Wang, Ustun, Calmon, 2019): "
    "the 32,561 people of adult.data, 16 binary features, groups by sex, y = 1 for an income over "
    f"50,000 dollars a year. {ADULT_SOURCE} Changed: features reduced to yes or no; age, hours, "
    "race, relationship, capital gain and survey weight are not included as such."
)
_COMPAS_TEXT = (
    "COMPAS, as in the experiments of 'Repairing without Retraining' (Wang, Ustun, Calmon, 2019): "
    "the 6,172 people ProPublica kept of its two-year table, 17 binary features, groups white "
    "(Caucasian in the source) and non-white, y = 1 for a new arrest within two years. "
    f"{COMPAS_SOURCE} Changed: filtered, features reduced to yes or no, no names, no dates, no "
    "vendor score."
)


def load_adult(backend: Backend = "pandas") -> Bunch:
    """Load the paper's Adult table: 32,561 people, 16 binary features, groups by sex.

    ``backend`` is the kind of ``X`` (columns of int8) and ``sensitive_features`` (strings):
    ``"pandas"``, ``"polars"``, ``"pyarrow"``, or ``"numpy"`` for plain arrays.

    The share of y = 1 differs between the groups before any model is asked:
    P(Y=1 | Female) = 0.109, P(Y=1 | Male) = 0.306.

    >>> adult = load_adult()
    >>> adult.X.shape, adult.y.dtype, adult.sensitive_features.name
    ((32561, 16), dtype('int8'), 'Sex')
    >>> women = adult.sensitive_features == "Female"
    >>> round(float(adult.y[women].mean()), 3), round(float(adult.y[~women].mean()), 3)
    (0.109, 0.306)
    """
    check_backend(backend, "load_adult")
    return _load(ADULT, _ADULT_TEXT, backend)


def load_compas(backend: Backend = "pandas") -> Bunch:
    """Load the paper's COMPAS table: 6,172 people, 17 binary features, white and non-white.

    ``backend`` is the kind of ``X`` (columns of int8) and ``sensitive_features`` (strings):
    ``"pandas"``, ``"polars"``, ``"pyarrow"``, or ``"numpy"`` for plain arrays.

    Mind that y = 1, a new arrest, is the bad outcome here:
    P(Y=1 | white) = 0.391, P(Y=1 | non-white) = 0.488.

    >>> compas = load_compas(backend="numpy")
    >>> white = compas.sensitive_features == "white"
    >>> round(float(compas.y[white].mean()), 3), round(float(compas.y[~white].mean()), 3)
    (0.391, 0.488)
    """
    check_backend(backend, "load_compas")
    return _load(COMPAS, _COMPAS_TEXT, backend)


def _load(recipe: Recipe, description: str, backend: Backend) -> Bunch:
    table = read_table(files("fairmend.datasets").joinpath(f"{recipe.name}.npz"))
    groups = np.array(recipe.groups)[table.group]
    return Bunch(
        name=recipe.name,
        X=frame_of_bits(table.features, table.feature_names, backend),
        y=table.label.astype(np.int8),
        sensitive_features=series(recipe.sensitive_name, groups, backend),
        feature_names=table.feature_names,
        target_names=recipe.target_names,
        sensitive_name=recipe.sensitive_name,
        description=description,
    )


def read_table(path: Path | Traversable) -> BinaryTable:
    """Read what `write_table` wrote: person i is ``rows[index[i]]``.

    >>> read_table(files("fairmend.datasets").joinpath("compas.npz")).features.shape
    (6172, 17)
    """
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        names = tuple(stored["feature_names"].tolist())
        people = stored["rows"][stored["index"]]
    return BinaryTable(names, features=people[:, :-2], group=people[:, -2], label=people[:, -1])


def write_table(path: Path, table: BinaryTable) -> None:
    """Write distinct rows (features, group, label) and one row number a person; bytes repeat.

    >>> import tempfile
    >>> bits = np.array([[0], [1], [0]], dtype=np.uint8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "three_people.npz"
    ...     write_table(file, BinaryTable(("old",), bits, group=bits[:, 0], label=bits[:, 0]))
    ...     read_table(file).features.ravel().tolist()
    [0, 1, 0]
    """
    people = np.column_stack([table.features, table.group, table.label])
    codes = people @ (1 << np.arange(people.shape[1], dtype=np.int64))
    _, first, index = np.unique(codes, return_index=True, return_inverse=True)
    arrays = {
        "feature_names": np.array(table.feature_names, dtype=np.str_),
        "rows": people[first],
        "index": index.astype(np.uint16),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            # A member made by hand carries no clock and no operating system, unlike np.savez's.
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            with archive.open(member, "w") as stream:
                np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
