"""The paper's two tables, carried inside the package.

Only a few thousand different people-as-bits exist in them (2,688 in Adult, 348 in COMPAS, group
and label included). A file therefore holds those distinct rows once and, for every person, the
number of his or her row: the original order comes back exactly, from a few tens of kilobytes.
``scripts/embed_datasets.py`` makes the files from the raw tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from fairmend.data.containers import Kind
from fairmend.datasets.bunch import Bunch
from fairmend.datasets.frames import check_backend, frame_of_bits, series


@dataclass(frozen=True)
class TableInfo:
    """What the columns of a table mean."""

    name: str
    sensitive_name: str
    groups: tuple[str, str]
    """The groups that 0 and 1 stand for."""
    target_names: tuple[str, str]
    """The labels that 0 and 1 stand for."""


ADULT = TableInfo("adult", "Sex", ("Female", "Male"), ("income <= 50K", "income > 50K"))
COMPAS = TableInfo(
    "compas",
    "race",
    ("non-white", "white"),
    ("no arrest within two years", "arrest within two years"),
)
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


def load_adult(backend: Kind = "pandas") -> Bunch:
    """Load the paper's Adult table: 32,561 people, 16 binary features, groups by sex.

    ``backend`` is the kind of ``X`` (columns of int8) and ``sensitive_features`` (strings):
    ``"pandas"``, ``"polars"``, ``"pyarrow"``, or ``"numpy"`` for plain arrays.

    The share of y = 1 differs between the groups before any model is queried:
    P(Y=1 | Female) = 0.109, P(Y=1 | Male) = 0.306.

    >>> adult = load_adult()
    >>> adult.X.shape, adult.y.dtype, adult.sensitive_features.name
    ((32561, 16), dtype('int8'), 'Sex')
    >>> women = adult.sensitive_features == "Female"
    >>> round(float(adult.y[women].mean()), 3), round(float(adult.y[~women].mean()), 3)
    (0.109, 0.306)
    """
    return _load(ADULT, _ADULT_TEXT, backend)


def load_compas(backend: Kind = "pandas") -> Bunch:
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
    return _load(COMPAS, _COMPAS_TEXT, backend)


def _load(info: TableInfo, description: str, backend: Kind) -> Bunch:
    check_backend(backend, f"load_{info.name}")
    file = files("fairmend.datasets").joinpath(f"{info.name}.npz")
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        names = tuple(stored["feature_names"].tolist())
        people = stored["rows"][stored["index"]]
    *features, group, label = people.T
    return Bunch(
        name=info.name,
        X=frame_of_bits(np.stack(features, axis=1), names, backend),
        y=label.astype(np.int8),
        sensitive_features=series(info.sensitive_name, np.array(info.groups)[group], backend),
        feature_names=names,
        target_names=info.target_names,
        sensitive_name=info.sensitive_name,
        description=description,
    )
