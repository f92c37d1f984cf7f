"""From the raw tables to the paper's binary ones: the rules, written once.

A rule looks at the text columns of a raw table and answers true or false for every person.
A recipe is the rules of one data set in the order of the paper's columns. The embedded files are
made with these recipes, and the tests hold them against the paper's own tables row for row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ADULT", "COMPAS", "BinaryTable", "Recipe", "TextColumns", "propublica_filter"]

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


def propublica_filter(table: TextColumns) -> Answers:
    """Say whom ProPublica kept: people whose score belongs to the arrest it is compared with.

    Kept: |days_b_screening_arrest| <= 30, is_recid not -1, charge degree not O, score not N/A.

    >>> propublica_filter({"days_b_screening_arrest": ["-1", "31", None], "is_recid": ["0"] * 3,
    ...                    "c_charge_degree": ["F"] * 3, "score_text": ["Low"] * 3}).tolist()
    [True, False, False]
    """
    near = _between("days_b_screening_arrest", -30, 30)(table)
    traced = ~_between("is_recid", -1, -1)(table)
    jailable = ~_one_of("c_charge_degree", "O")(table)
    # Some copies were saved by tools that turn N/A into an empty cell.
    scored = ~_one_of("score_text", "N/A", "")(table)
    return near & traced & jailable & scored


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """A table of zeros and ones: features (n, d), group (n,) and label (n,), all uint8.

    >>> bits = np.array([[0, 1], [1, 1], [0, 1]], dtype=np.uint8)
    >>> BinaryTable(("a", "b"), bits, group=bits[:, 0], label=bits[:, 1]).features.shape
    (3, 2)
    """

    feature_names: tuple[str, ...]
    features: NDArray[np.uint8]
    group: NDArray[np.uint8]
    label: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one raw table becomes a binary one, and what its columns mean.

    The fields:
        name: what the data set is called.
        raw_columns: the columns the rules look at; nothing else needs to be read.
        features: the rule of every feature, in the paper's order.
        sensitive_name: what the groups are groups of.
        groups: the group a person belongs to, by the answer of ``in_second_group``.
        in_second_group: true for ``groups[1]``.
        target_names: what the label's 0 and 1 stand for.
        positive: true where the label is 1.
        keep: true for the people who stay in the table.

    >>> COMPAS.sensitive_name, COMPAS.groups, len(COMPAS.features)
    ('race', ('non-white', 'white'), 17)
    """

    name: str
    raw_columns: tuple[str, ...]
    features: Mapping[str, Rule]
    sensitive_name: str
    groups: tuple[str, str]
    in_second_group: Rule
    target_names: tuple[str, str]
    positive: Rule
    keep: Rule

    def derive(self, raw: TextColumns) -> BinaryTable:
        """Apply every rule to every kept person; the order of people stays as it is.

        >>> COMPAS.derive({name: [] for name in COMPAS.raw_columns}).features.shape
        (0, 17)
        """
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
    name="adult",
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
    sensitive_name="Sex",
    groups=("Female", "Male"),
    in_second_group=_one_of("sex", "Male"),
    target_names=("income <= 50K", "income > 50K"),
    positive=_one_of("income", ">50K"),
    keep=lambda table: np.ones(len(table["income"]), dtype=np.bool_),
)

COMPAS = Recipe(
    name="compas",
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
    sensitive_name="race",
    groups=("non-white", "white"),
    in_second_group=_one_of("race", "Caucasian"),
    target_names=("no arrest within two years", "arrest within two years"),
    positive=_between("two_year_recid", 1, 1),
    keep=propublica_filter,
)
