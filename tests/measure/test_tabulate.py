"""Tabulation against pandas' group-by, and the invariances a count of people must have."""

import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairmend import BlackBox, DataError, FairmendWarning, Population, tabulate
from fairmend.data.columns import Frame
from fairmend.data.groups import GroupReader
from fairmend.data.outcomes import UNLABELLED
from fairmend.measure.population import pooled

RNG = np.random.default_rng(20240229)
N = 400
X = RNG.integers(0, 4, (N, 3))
Y = RNG.integers(0, 2, N)
SEX = np.array(["Female", "Male", "Other"])[RNG.integers(0, 3, N)]
WEIGHT = RNG.random(N) + 0.1
NAMES = ["age", "job", "debt"]


def decide(rows):
    return (np.asarray(rows)[:, 0] > 1).astype(int)


def rows_of(population, data):
    return np.asarray(data.table.native)[population.rows]


def same(one, other):
    """Whether two tabulations are the same, up to the container of their tables."""
    assert one.groups == other.groups
    assert one.labels == other.labels
    for a, b in zip(one.populations, other.populations, strict=True):
        for field in ("mass", "decision", "outcome", "score", "rows"):
            left, right = getattr(a, field), getattr(b, field)
            assert (left is None) == (right is None)
            if left is not None:
                np.testing.assert_array_equal(left, right)
        for field in ("people", "weight", "squared"):
            np.testing.assert_array_equal(getattr(a.tally, field), getattr(b.tally, field))


def distribution(data):
    """(group, row) -> mass, decision, outcome: what must not depend on how the rows came."""
    return {
        (group, *row): (mass, decision, outcome)
        for group, population in zip(data.groups, data.populations, strict=True)
        for row, mass, decision, outcome in zip(
            rows_of(population, data).tolist(),
            population.mass.tolist(),
            population.decision.tolist(),
            population.outcome.tolist(),
            strict=True,
        )
    }


# -------------------------------------------------------------------- against pandas


@pytest.mark.parametrize("weighted", [False, True])
def test_tabulation_is_a_group_by(weighted):
    weight = WEIGHT if weighted else np.ones(N)
    data = tabulate(
        decide, X, Y, sensitive_features=SEX, sample_weight=WEIGHT if weighted else None
    )
    people = pd.DataFrame(X, columns=NAMES).assign(y=Y, sex=SEX, w=weight, w2=weight**2, one=1)
    for group in data.groups:
        population, table = data[group], people[people.sex == group]
        cells = table.pivot_table(
            index=NAMES, columns="y", values=["one", "w", "w2"], aggfunc="sum", fill_value=0
        )
        np.testing.assert_array_equal(rows_of(population, data), cells.index.to_frame())
        np.testing.assert_array_equal(population.tally.people, cells["one"])
        # sums in another order: a few units in the last place
        np.testing.assert_allclose(population.tally.weight, cells["w"], rtol=1e-13)
        np.testing.assert_allclose(population.tally.squared, cells["w2"], rtol=1e-13)
        total = cells["w"].sum(axis=1)
        np.testing.assert_allclose(population.mass, total / total.sum(), rtol=1e-13)
        np.testing.assert_allclose(population.outcome, cells["w"][1] / total, rtol=1e-13)
        np.testing.assert_array_equal(population.decision, decide(cells.index.to_frame()))
        assert population.n == len(table)
    assert data.n == N


def test_recorded_predictions_are_a_group_by_too():
    recorded = RNG.integers(0, 2, N)
    data = tabulate(recorded, None, Y, sensitive_features=SEX)
    assert data.table is None
    for group in data.groups:
        mine = group == SEX
        seen = pd.crosstab(recorded[mine], Y[mine])
        np.testing.assert_array_equal(data[group].tally.people, seen)
        np.testing.assert_array_equal(data[group].decision, seen.index)


def test_recorded_predictions_may_differ_on_equal_rows():
    recorded = RNG.random(N).round(1)
    data = tabulate(BlackBox(recorded, threshold=0.5), X, Y, sensitive_features=SEX)
    people = pd.DataFrame(X).assign(p=recorded, sex=SEX)
    for group in data.groups:
        population = data[group]
        cells = people[people.sex == group].groupby([0, 1, 2, "p"]).size()
        np.testing.assert_array_equal(rows_of(population, data), cells.index.to_frame()[[0, 1, 2]])
        np.testing.assert_array_equal(population.score, cells.index.get_level_values("p"))
        np.testing.assert_array_equal(population.tally.people.sum(axis=1), cells)


def test_a_million_distinct_scores_in_many_groups():
    rng = np.random.default_rng(1)
    n = 1_000_000
    score, y, group = rng.random(n), rng.integers(0, 2, n), rng.integers(0, 30, n)
    data = tabulate(score, None, y, sensitive_features=group, inputs=False)
    for label in (0, 17):
        mine = group == label
        population = data[label]
        assert population.n == mine.sum()
        np.testing.assert_array_equal(population.score, np.sort(score[mine]))
        np.testing.assert_array_equal(population.outcome, y[mine][np.argsort(score[mine])])
        assert population.mass @ population.decision == pytest.approx((score[mine] > 0.5).mean())


def test_several_attributes_are_their_combinations():
    region = np.where(RNG.integers(0, 2, N), "north", "south")
    expected = pd.Series(Y).groupby([SEX, region]).agg(["mean", "size"])
    for given_as in (
        {"sex": SEX, "region": region},
        pd.DataFrame({"sex": SEX, "region": region}),
        pl.DataFrame({"sex": SEX, "region": region}),
        np.stack([SEX, region], axis=1),
        list(zip(SEX.tolist(), region.tolist(), strict=True)),
    ):
        data = tabulate(decide, X, Y, sensitive_features=given_as)
        assert list(data.groups) == [f"{a} & {b}" for a, b in expected.index]
        for group, (mean, size) in zip(data.groups, expected.to_numpy(), strict=True):
            assert data[group].n == size
            assert data[group].mass @ data[group].outcome == pytest.approx(mean, abs=1e-12)
    assert data.attribute == "s0 & s1"


def test_the_rest_is_everybody_else():
    data = tabulate(decide, X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    rest, others = data.rest("Male"), SEX != "Male"
    assert rest.n == others.sum()
    expected = np.average(Y[others], weights=WEIGHT[others])
    assert rest.mass @ rest.outcome == pytest.approx(expected, abs=1e-12)
    assert tabulate(decide, X, Y, sensitive_features=SEX == "Male").rest(True).n == others.sum()


def test_exact_distributions_have_no_size_to_pool_by():
    exact = Population.of([1, 1], [0, 1], [0.2, 0.4])
    assert pooled([exact]) is exact
    with pytest.raises(DataError, match="an exact distribution, which has no size"):
        pooled([exact, exact])


def test_observed_cells_have_one_outcome_each_and_the_same_rates():
    population = tabulate(decide, X, Y, sensitive_features=SEX, sample_weight=WEIGHT)["Female"]
    cells = population.observed
    assert set(cells.outcome) == {0.0, 1.0}
    assert cells.n == population.n
    for name in ("decision", "outcome"):
        before, after = getattr(population, name), getattr(cells, name)
        assert cells.mass @ after == pytest.approx(population.mass @ before, abs=1e-12)
    exact = Population.of([1, 3], [0, 1], [0.5, 1.0]).observed
    assert exact.mass.tolist() == [0.125, 0.125, 0.75]


# -------------------------------------------------------------------- containers and spellings


def table(make):
    return make({name: X[:, j] for j, name in enumerate(NAMES)})


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_every_container_gives_the_same_data(make):
    frame = table(make)
    expected = tabulate(decide, X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    series = {pd.DataFrame: pd.Series, pl.DataFrame: pl.Series, pa.table: pa.array}[make]
    found = tabulate(
        decide,
        frame,
        series(Y),
        sensitive_features=series(SEX.tolist()),
        sample_weight=series(WEIGHT),
    )
    same(found, expected)
    assert type(found.table.native) is type(frame)
    assert found.table.names == tuple(NAMES)
    np.testing.assert_array_equal(np.asarray(found.table.native), expected.table.native)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_may_be_named(make):
    columns = {name: X[:, j] for j, name in enumerate(NAMES)}
    frame = make({**columns, "repaid": Y, "sex": SEX, "w": WEIGHT})
    asked = []

    def model(rows):
        asked.append(names_of(rows))
        return decide(rows)

    found = tabulate(model, frame, "repaid", sensitive_features="sex", sample_weight="w")
    assert asked[0] == [*NAMES, "sex"]  # the outcome and the weights are no inputs, the group is
    assert found.attribute == "sex"
    expected = tabulate(decide, X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    for group in found.groups:
        np.testing.assert_allclose(found[group].mass, expected[group].mass, rtol=1e-13)
    both = tabulate(model, frame, "repaid", sensitive_features=["sex", "job"])
    assert both.attribute == "sex & job"
    assert both.groups[0] == "Female & 0"


def names_of(rows):
    return list(getattr(rows, "column_names", None) or rows.columns)


def test_a_file_of_predictions_outcomes_and_groups_is_enough():
    recorded = decide(X)
    frame = pl.DataFrame({"p": recorded, "y": Y, "sex": SEX})
    found = tabulate("p", frame, "y", sensitive_features="sex", inputs=False)
    same(found, tabulate(recorded, None, Y, sensitive_features=SEX))
    bare = tabulate("p", frame.drop("sex"), "y", sensitive_features=SEX)
    assert bare.table is None


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (Y.astype(float), (0.0, 1.0)),
        (Y.astype(bool), (False, True)),
        (Y.tolist(), (0, 1)),
        (Y[:, None], (0, 1)),
        (2 * Y - 1, (-1, 1)),
        (pd.Series(Y, dtype="Int64"), (0, 1)),
        (pd.Series(Y == 1, dtype="boolean"), (False, True)),
        (pd.DataFrame({"repaid": Y}), (0, 1)),
        (pl.Series(Y == 1), (False, True)),
        (pa.array(Y), (0, 1)),
    ],
)
def test_y_may_be_spelt_in_many_ways(y, labels):
    found = tabulate(decide, X, y, sensitive_features=SEX)
    assert (found.labels.negative, found.labels.positive) == labels
    expected = tabulate(decide, X, Y, sensitive_features=SEX)
    for group in expected.groups:
        np.testing.assert_array_equal(found[group].outcome, expected[group].outcome)
        np.testing.assert_array_equal(found[group].decision, expected[group].decision)


def test_pos_label_turns_outcome_and_decision_over():
    plain = tabulate(decide, X, Y, sensitive_features=SEX)
    turned = tabulate(decide, X, Y, sensitive_features=SEX, pos_label=0)
    for group in plain.groups:
        np.testing.assert_array_equal(turned[group].decision, 1 - plain[group].decision)
        # one division against another: 1 - a/n and (n-a)/n may differ in the last place
        np.testing.assert_allclose(turned[group].outcome, 1 - plain[group].outcome, atol=1e-15)


@pytest.mark.parametrize(
    ("s", "groups"),
    [
        (SEX.tolist(), ("Female", "Male", "Other")),
        (SEX.astype(object), ("Female", "Male", "Other")),
        (
            pd.Categorical(SEX, categories=["x", "Other", "Male", "Female"]),
            ("Female", "Male", "Other"),
        ),
        (pd.Series(SEX, dtype="category"), ("Female", "Male", "Other")),
        (pl.Series(SEX, dtype=pl.Categorical), ("Female", "Male", "Other")),
        (pa.array(SEX.tolist()).dictionary_encode(), ("Female", "Male", "Other")),
        (SEX == "Male", (False, True)),
        (X[:, 0] / 2, (0.0, 0.5, 1.0, 1.5)),
        (np.array(["", "b"])[Y], ("", "b")),
    ],
)
def test_groups_keep_their_labels_in_order(s, groups):
    data = tabulate(decide, X, Y, sensitive_features=s)
    assert data.groups == groups
    assert [data[group].n for group in groups] == [
        int((np.asarray(s) == group).sum()) for group in groups
    ]


@pytest.mark.parametrize(
    ("s", "name"),
    [
        (pd.Series(SEX, name="sex"), "sex"),
        (pl.Series("sex", SEX), "sex"),
        (pd.Series(SEX, name=0), "0"),
        (pd.Series(SEX), "group"),
        (pl.Series(SEX), "group"),
        ({"sex": SEX}, "sex"),
        (SEX, "group"),
    ],
)
def test_the_attribute_has_a_name_to_print(s, name):
    assert tabulate(decide, X, Y, sensitive_features=s).attribute == name


def test_an_index_means_nothing():
    expected = tabulate(decide, X, Y, sensitive_features=SEX)
    found = tabulate(
        decide,
        table(pd.DataFrame).set_axis(np.zeros(N), axis=0),
        pd.Series(Y, index=np.arange(N)[::-1] + 1),
        sensitive_features=pd.Series(SEX, index=np.full(N, "same")),
    )
    same(found, expected)


def test_missing_inputs_are_one_more_distinct_value():
    holes = np.where(X[:, :1] == 0, np.nan, X[:, :1])
    data = tabulate(lambda rows: np.isnan(rows[:, 0]), holes, Y, sensitive_features=SEX)
    assert len(data.table) == 4
    assert data["Male"].mass @ data["Male"].decision == pytest.approx(
        (X[SEX == "Male", 0] == 0).mean(), abs=1e-12
    )


def test_results_cannot_be_written_to():
    population = tabulate(decide, X, Y, sensitive_features=SEX, sample_weight=WEIGHT)["Male"]
    for array in (population.mass, population.rows, population.tally.weight):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_what_is_passed_is_not_touched():
    x, y, s, w = X.copy(), Y.copy(), SEX.copy(), WEIGHT.copy()
    tabulate(decide, x, y, sensitive_features=s, sample_weight=w)
    for array, before in ((x, X), (y, Y), (s, SEX), (w, WEIGHT)):
        assert array.flags.writeable
        np.testing.assert_array_equal(array, before)


# -------------------------------------------------------------------- invariances


@st.composite
def people(draw):
    n = draw(st.integers(4, 40))

    def column(values):
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    x = np.stack([column(st.integers(0, 2)), column(st.integers(0, 1))], axis=1)
    y, s = column(st.integers(0, 1)), column(st.sampled_from("ab"))
    y[:2], s[:2] = [0, 1], ["a", "b"]
    assume(len({*zip(x[:, 1], y, strict=True)}) > 2)  # a copy of the outcome is warned of
    return x, y, s, column(st.floats(0.01, 100))


def close(one, other):
    left, right = distribution(one), distribution(other)
    assert left.keys() == right.keys()
    np.testing.assert_allclose(
        list(left.values()), [right[key] for key in left], rtol=0, atol=1e-12
    )  # sums in another order, or of other magnitudes


@pytest.mark.filterwarnings("ignore:X column .* if it is the outcome")  # some are so by chance
@settings(max_examples=50)
@given(people(), st.randoms(use_true_random=False))
def test_order_number_and_scale_change_nothing(drawn, random):
    x, y, s, w = drawn
    data = tabulate(decide, x, y, sensitive_features=s, sample_weight=w)
    order = random.sample(range(len(y)), len(y))
    close(
        data,
        tabulate(decide, x[order], y[order], sensitive_features=s[order], sample_weight=w[order]),
    )
    close(data, tabulate(decide, x, y, sensitive_features=s, sample_weight=w * 1e7))
    twice = [np.concatenate([part, part]) for part in (x, y, s, w)]
    close(
        data,
        tabulate(decide, *twice[:2], sensitive_features=twice[2], sample_weight=twice[3]),
    )
    close(
        tabulate(decide, x, y, sensitive_features=s),
        tabulate(decide, x, y, sensitive_features=s, sample_weight=np.full(len(y), 3)),
    )


@pytest.mark.filterwarnings("ignore:X column .* if it is the outcome")  # some are so by chance
@settings(max_examples=25)
@given(people())
def test_a_weight_is_a_number_of_people(drawn):
    x, y, s, w = drawn
    times = 1 + (w % 4).astype(int)
    copies = np.repeat(np.arange(len(y)), times)
    close(
        tabulate(decide, x, y, sensitive_features=s, sample_weight=times),
        tabulate(decide, x[copies], y[copies], sensitive_features=s[copies]),
    )


# -------------------------------------------------------------------- who does not count

ABSENT = RNG.random(N) < 0.3
PRESENT = np.flatnonzero(~ABSENT)
RECORDED = RNG.random(N).round(1)


@pytest.mark.parametrize("weight", [np.ones(N), WEIGHT], ids=["counted", "weighted"])
@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("model", ["asked", "recorded"])
def test_weight_0_is_the_same_as_being_left_out(model, inputs, weight):
    x = X.copy()
    x[ABSENT, 2] += 100 * (np.arange(ABSENT.sum()) % 2)  # some stand on rows of their own
    everybody = tabulate(
        decide if model == "asked" else RECORDED, x, Y, sensitive_features=SEX,
        sample_weight=np.where(ABSENT, 0.0, weight), inputs=inputs,
    )  # fmt: skip
    present = tabulate(
        decide if model == "asked" else RECORDED[PRESENT], x[PRESENT], Y[PRESENT],
        sensitive_features=SEX[PRESENT], sample_weight=weight[PRESENT], inputs=inputs,
    )  # fmt: skip
    assert everybody.n == len(PRESENT)
    for group in present.groups:
        one, other = everybody[group], present[group]
        assert one.n == other.n == (SEX[PRESENT] == group).sum()
        np.testing.assert_array_equal(one.score, other.score)
        np.testing.assert_array_equal(one.tally.squared, other.tally.squared)
    if everybody.table is not None:
        same(everybody, present)
        np.testing.assert_array_equal(everybody.table.native, present.table.native)
        mine = everybody.rows_of_people("Male")
        np.testing.assert_array_equal(mine[PRESENT], present.rows_of_people("Male"))
        assert set(mine[ABSENT]) == {-1}


def test_decisions_are_compared_without_outcomes_whoever_has_weight_0():
    weight = np.arange(N) % 2  # no outcome is told, so none can lack weight
    found = tabulate(
        decide, X, None, sensitive_features=SEX, sample_weight=weight, unlabelled=UNLABELLED
    )
    for group in found.groups:
        here = (group == SEX) & (weight > 0)
        assert found[group].n == here.sum()
        share = found[group].mass @ found[group].decision
        assert share == pytest.approx(decide(X)[here].mean(), abs=1e-12)


# -------------------------------------------------------------------- labels of intersections


@pytest.mark.parametrize("kind", [float, bool, object, "Int64", "category"])
def test_equal_numbers_are_one_label_of_an_intersection(kind):
    """As in a single column: one missing entry turns whole numbers into floats."""
    people = pd.DataFrame({"sex": SEX, "old": Y})
    groups = tabulate(decide, X, Y[::-1], sensitive_features=people).groups
    assert groups == tuple(f"{sex} & {old}" for sex in sorted(set(SEX)) for old in (0, 1))
    other = people.assign(old=people["old"].astype(kind))
    assert tabulate(decide, X, Y[::-1], sensitive_features=other).groups == groups
    read = GroupReader(groups).read(other, Frame.read(X))
    assert [groups[i] for i in read.place] == [
        f"{sex} & {old}" for sex, old in zip(SEX, Y, strict=True)
    ]
    assert not read.opted_out.any()


@pytest.mark.parametrize("what", ["y", "sensitive_features", "sample_weight"])
def test_series_in_another_order_than_x_are_refused(what):
    X = pd.DataFrame({"a": [0, 1, 0, 1]}, index=[7, 3, 5, 1])
    given = {
        "y": pd.Series([0, 1, 1, 0], X.index),
        "sensitive_features": pd.Series(["a", "a", "b", "b"], X.index),
        "sample_weight": pd.Series([1.0, 2.0, 1.0, 2.0], X.index),
    }
    audited = tabulate(lambda rows: rows["a"], X, **given)
    # labels of their own say nothing: rows are told by their place
    others = {name: series.set_axis(list("pqrs")) for name, series in given.items()}
    assert tabulate(lambda rows: rows["a"], X, **others).groups == audited.groups
    given[what] = given[what].sort_index()
    with pytest.raises(DataError, match=f"{what}: must come in the order of X"):
        tabulate(lambda rows: rows["a"], X, **given)


@pytest.mark.parametrize("x", [None, np.array([[0], [1], [0], [1]])])
@pytest.mark.parametrize("what", ["model", "sensitive_features", "sample_weight", "ids"])
def test_series_that_disagree_are_refused_without_an_x_to_order_them(what, x):
    index = [7, 3, 5, 1]
    given = {
        "model": pd.Series([0, 1, 1, 0], index),
        "y": pd.Series([0, 1, 1, 0], index),
        "sensitive_features": pd.Series(["a", "a", "b", "b"], index),
        "sample_weight": pd.Series([1.0, 2.0, 1.0, 2.0], index),
        "ids": pd.Series(["p", "q", "r", "s"], index),
    }
    assert tabulate(X=x, **given).n == 4
    sorted_ = given | {what: given[what].sort_index()}
    with pytest.raises(DataError, match=rf"{what}.*: must come in the order of y; it holds the row "
                       "labels of y in another order"):  # fmt: skip
        tabulate(X=x, **sorted_)
    in_part = given | {what: given[what].set_axis([7, 1, 2, 8])}
    with pytest.raises(DataError, match="2 of its 4 row labels are among those of y"):
        tabulate(X=x, **in_part)


def test_each_column_of_groups_is_held_to_the_order():
    y = pd.Series([0, 1, 1, 0], [7, 3, 5, 1])
    sex, old = pd.Series(list("aabb"), y.index), pd.Series(list("cdcd"), y.index)
    groups = {"sex": sex, "old": old.sort_index()}
    with pytest.raises(DataError, match="sensitive_features: must come in the order of y"):
        tabulate([0, 1, 1, 0], None, y, sensitive_features=groups)


# -------------------------------------------------------------------- groups that print alike


def test_groups_that_print_alike_are_one():
    """Blanks around a label, and the two ways to write an accent."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (400, 3)), rng.integers(0, 2, 400)
    plain = rng.choice(["Zoé", "M"], 400)
    odd = plain.astype(object)
    odd[::3] = [unicodedata.normalize("NFD", s) for s in plain[::3]]
    odd[1::3] = [f" {s}\u00a0" for s in plain[1::3]]
    expected = tabulate(decide, x, y, sensitive_features=plain)
    with pytest.warns(FairmendWarning, match="do not make another group"):
        found = tabulate(decide, x, y, sensitive_features=odd)
    assert found.groups == expected.groups == ("M", "Zoé")
    same(found, expected)
    read = GroupReader(found.groups).read(odd, Frame.read(x))
    np.testing.assert_array_equal(read.place, (plain == "Zoé").astype(int))
    assert not read.opted_out.any()
    # of groups that were audited before they were one, each keeps its own
    read = GroupReader(("F", "F ")).read(["F ", "F", " F"], Frame.read(x[:3]))
    assert read.place.tolist() == [1, 0, 0]
    both = {"a": odd[:2], "b": ["1 ", "2"]}
    reader = GroupReader((f"{plain[0]} & 1", f"{plain[1]} & 2"))
    assert reader.read(both, Frame.read(x[:2])).place.tolist() == [0, 1]
