"""Continuous rows on clusters: exact audits, and one sample however the rows are cut."""

import numpy as np
import pandas as pd
import pytest
from lending import lender, make_lending

import fairmend
from fairmend import engines
from fairmend.engines import continuous, summary

INPUTS = ["amount", "income", "age", "grade"]


def on_spark(*more):
    return pytest.param("spark", *more, marks=pytest.mark.slow)


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


@pytest.fixture(scope="module")
def people():
    return make_lending(8_000)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Tables of a few thousand rows are large."""
    monkeypatch.setattr(continuous, "EXACT_ROWS", 5_000)
    monkeypatch.setattr(continuous, "_PROBE", 2_000)
    monkeypatch.setattr(summary, "SAMPLE", 4_000)


def place_of(put, engine, people):
    return engines.source(put(engine, people), inputs=INPUTS)


@pytest.mark.parametrize(("engine", "weight"), [("dask", None), ("dask", "w"), on_spark("w")])
def test_the_audit_is_exact(put, engine, people, weight):
    found = fairmend.audit(
        lender(), place_of(put, engine, people), "repaid", sensitive_features="sex",
        sample_weight=weight,
    )  # fmt: skip
    expected = fairmend.audit(
        lender(), people[INPUTS], people["repaid"], sensitive_features=people["sex"],
        sample_weight=None if weight is None else people[weight],
    )  # fmt: skip
    # sums of weights differ by rounding only
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-12, atol=1e-14)
    groups, wanted = found.groups_to_frame(), expected.groups_to_frame()
    # ties among scores that agree in 12 binary digits: far fewer than one pair in 4,096
    np.testing.assert_allclose(groups["auc"], wanted["auc"], rtol=0, atol=1 / 4_096)
    others = [name for name in wanted if name != "auc"]
    pd.testing.assert_frame_equal(groups[others], wanted[others], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", ["dask"])
def test_recorded_predictions_are_counted_where_they_are(put, engine, people):
    found = fairmend.audit("decided", put(engine, people), "repaid", sensitive_features="sex")
    expected = fairmend.audit(
        people["decided"], None, people["repaid"], sensitive_features=people["sex"]
    )
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-12, atol=1e-14)


def summarised(people, cuts):
    """The sample that a tree of parts cut there makes."""
    outcome, group = people["repaid"].to_numpy(), (people["sex"] == "m").to_numpy().astype(int)
    about = people[["sex", "repaid"]].drop_duplicates().sort_values(["sex", "repaid"])
    reader = continuous.Reader(
        box=fairmend.BlackBox(lender()), labels=None, kinds=np.arange(4, dtype=np.int16),
        about=continuous.Frame.read(about.reset_index(drop=True)), inputs=tuple(INPUTS),
        weight="w", container="pandas",
    )  # fmt: skip
    share = summary.shares(np.bincount(2 * group + outcome).astype(float), np.arange(4))
    work = summary.Summarise(reader, (*INPUTS, "sex", "repaid"), share)
    parts = [work(people.iloc[a:b]) for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    return work.merge([work.merge(parts[:2]), *parts[2:]])


def test_the_sample_is_the_same_however_rows_are_cut(people):
    shuffled = people.sample(frac=1, random_state=0)
    first, second = summarised(people, [7, 4_000, 9_000]), summarised(shuffled, [6_000])
    columns = [*INPUTS, "sex", "repaid"]
    with pytest.warns(fairmend.FairmendWarning, match="a sample of 4,026 rows"):
        there, here = (summary.sampled(one, columns) for one in (first, second))
    pd.testing.assert_frame_equal(there.frame.native, here.frame.native)
    np.testing.assert_array_equal(there.people, here.people)
    np.testing.assert_allclose(there.weight, here.weight, rtol=1e-12)
    # each group, outcome and decision has its exact total
    own = here.frame.native.assign(people=here.people, weight=here.weight)
    own["decided"] = (lender()(own) > 0.5).astype(int)
    kinds = ["sex", "repaid", "decided"]
    totals = people.groupby(kinds).agg(people=("w", "size"), weight=("w", "sum"))
    np.testing.assert_allclose(own.groupby(kinds)[["people", "weight"]].sum(), totals, rtol=1e-12)


def left_by(repaired, people, outcome, **groups):
    """The realised gap of women against men, counted person by person in memory."""
    chance = repaired.positive_chance(people[INPUTS], **groups)
    rate = {sex: np.mean(1 - chance[(people["sex"] == sex) & outcome]) for sex in ("f", "m")}
    return rate["f"] - rate["m"]


def labels(rows, scored=lender()):  # noqa: B008  the model travels inside
    return (scored(rows) > 0.5).astype(int)


@pytest.mark.parametrize(
    ("engine", "model", "settings"),
    [
        ("dask", lender(), {}),
        ("dask", lender(), {"rank": "cost", "level": 0.5}),
        ("dask", labels, {"do_no_harm": True}),
        pytest.param("dask", lender(), {"blind": True}, marks=pytest.mark.slow),
        on_spark(lender(), {}),
    ],
)
@pytest.mark.filterwarnings("ignore:For the gap in")
def test_a_repair_of_a_sample_is_settled_on_all_rows(put, engine, people, model, settings):
    repaired = fairmend.RepairedClassifier(model, "fnr", random_state=0, **settings)
    with pytest.warns(fairmend.FairmendWarning, match="represented by a sample of"):
        repaired.fit(place_of(put, engine, people), "repaid", sensitive_features="sex")
    assert len(repaired.data_.table) < 5_000
    plan, outcome = repaired.plans_["f"], people["repaid"] == 1
    groups = {} if repaired.blind else {"sensitive_features": people["sex"]}
    before = fairmend.audit(
        lender(), people[INPUTS], people["repaid"], sensitive_features=people["sex"]
    )["fnr", "f"].gap
    left = left_by(repaired, people, outcome, **groups)
    assert plan.outlook.gap_before == pytest.approx(before, abs=1e-12)
    assert plan.outlook.gap_after == pytest.approx(left, abs=1e-12)
    aim = before * (1 - repaired.level)
    # one person of the smaller denominator: a blind rule draws nobody
    assert abs(left - aim) <= 1 / min(outcome[people["sex"] == s].sum() for s in ("f", "m"))
    assert plan.status.closed
