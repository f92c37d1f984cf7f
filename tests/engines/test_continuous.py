"""Rows that are nearly all distinct: exact audits, and a reference set with a stated error."""

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend import engines
from fairmend.engines import continuous
from fairmend.engines.continuous import Scored, thin

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

INPUTS = [f"v{j}" for j in range(4)]


def vendor(rows):
    return 1 / (1 + np.exp(-(np.asarray(rows[INPUTS], float) @ [1.0, 0.6, -0.4, 0.2] - 0.3)))


def make_people(n, seed):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) - 0.4 * (group == "a")[:, None] * np.array([1, 1, 0, 0])
    frame = pd.DataFrame(X, columns=INPUTS)
    chance = 0.7 * vendor(frame) + 0.15
    return frame.assign(
        group=group,
        y=(rng.random(n) < chance).astype(np.int64),
        w=rng.integers(1, 5, n) / 4,
        score=vendor(frame),
        id=np.arange(n),
    )


@pytest.fixture(scope="module")
def people():
    return make_people(20_000, 0)


@pytest.fixture
def path(people, tmp_path, monkeypatch):
    """A file that is large for these limits."""
    monkeypatch.setattr(continuous, "EXACT_ROWS", 5_000)
    monkeypatch.setattr(continuous, "NEAR", 500)
    monkeypatch.setattr(continuous, "FAR", 4_000)
    monkeypatch.setattr(continuous, "_PROBE", 2_000)
    people.to_parquet(tmp_path / "people.parquet", index=False)
    return tmp_path / "people.parquet"


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("recorded", [False, True])
def test_the_audit_is_exact(people, path, weight, recorded):
    model = "score" if recorded else vendor
    place = path if recorded else engines.source(path, inputs=INPUTS)
    found = fairmend.audit(model, place, "y", sensitive_features="group", sample_weight=weight)
    expected = fairmend.audit(
        people["score"] if recorded else vendor,
        people[INPUTS],
        people["y"],
        sensitive_features=people["group"],
        sample_weight=None if weight is None else people[weight],
    )
    # sums of many floats, in another order
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-9)
    pd.testing.assert_frame_equal(found.groups_to_frame(), expected.groups_to_frame(), rtol=1e-9)


def test_thinning_keeps_totals_and_its_word(people):
    scored = Scored(
        kind=(2 * (people["group"] == "b") + people["y"]).to_numpy(),
        decision=(people["score"] > 0.5).to_numpy().astype(np.int8),
        score=people["score"].to_numpy(),
        weight=people["w"].to_numpy(),
        records=None,
    )
    kept = thin(scored, 0.5)
    assert len(kept.rows) == len(np.unique(kept.rows))
    assert kept.people.sum() == len(people)
    stratum = scored.kind * 2 + scored.decision
    for one in range(8):
        inside = stratum[kept.rows] == one
        mine = np.flatnonzero(stratum == one)
        assert kept.people[inside].sum() == len(mine)
        # quarters: every sum is exact
        assert kept.weight[inside].sum() == people["w"].to_numpy()[mine].sum()
        # wherever the threshold is, the count beyond it is off by less than is stated
        for threshold in np.linspace(0.05, 0.95, 19):
            true = (scored.score[mine] > threshold).mean()
            seen = kept.people[inside] @ (scored.score[kept.rows[inside]] > threshold)
            assert abs(seen / len(mine) - true) <= kept.error


def test_thinned_rows_nearest_the_cut_are_all_there(people, monkeypatch):
    monkeypatch.setattr(continuous, "NEAR", 300)
    monkeypatch.setattr(continuous, "FAR", 8_000)
    score = people["score"].to_numpy()
    decision = (score > 0.5).astype(np.int8)
    kept = thin(Scored(np.zeros(len(people), int), decision, score, None, None), 0.5)
    for side in (0, 1):
        at = np.flatnonzero(decision == side)
        nearest = at[np.argsort(np.abs(score[at] - 0.5))[:300]]
        assert set(nearest) <= set(kept.rows)


def test_a_repair_from_the_reference_set_holds_on_new_people(path, tmp_path):
    repaired = fairmend.RepairedClassifier(vendor, "sp", random_state=0)
    with pytest.warns(fairmend.FairmendWarning, match=r"most of them distinct.*off by at most"):
        repaired.fit(engines.source(path, inputs=INPUTS), "y", sensitive_features="group")
    assert repaired.data_.n == 20_000
    assert len(repaired.data_.table) < 12_000
    assert repaired.plan_.outlook.unreachable == 0
    new = make_people(20_000, 1)
    new.to_parquet(tmp_path / "new.parquet", index=False)
    said = repaired.predict(tmp_path / "new.parquet", sensitive_features="group", ids="id")
    after = fairmend.audit(said, None, new["y"], sensitive_features=new["group"], metrics=["sp"])
    before = fairmend.audit(vendor, new[INPUTS], new["y"], sensitive_features=new["group"])
    assert abs(before["sp", "a"].gap) > 0.1
    assert after.gaps[0].low < 0 < after.gaps[0].high  # within the noise of new people


def test_few_distinct_rows_are_not_thinned(tmp_path, people, monkeypatch):
    monkeypatch.setattr(continuous, "EXACT_ROWS", 100)
    monkeypatch.setattr(continuous, "_PROBE", 2_000)
    rounded = people.assign(**{name: people[name].round(0) for name in INPUTS})
    rounded.to_parquet(tmp_path / "few.parquet", index=False)
    place = engines.source(tmp_path / "few.parquet", inputs=INPUTS)
    found = fairmend.tabulate(vendor, place, "y", sensitive_features="group")
    wanted = fairmend.tabulate(
        vendor, rounded[INPUTS], rounded["y"], sensitive_features=rounded["group"]
    )
    for group in found.groups:
        np.testing.assert_array_equal(found[group].tally.people, wanted[group].tally.people)
