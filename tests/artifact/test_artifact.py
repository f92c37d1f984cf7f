"""The artifact: what is saved comes back to the last bit, and nothing else is ever loaded."""

import contextlib
import hashlib
import io
import json
import re
import socket
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import fairmend
from fairmend import ArtifactError, BlackBox, DataError, FairmendWarning, MissingExtra, RateGap
from fairmend.apply.draw import Drawer
from fairmend.artifact import inspect
from fairmend.artifact.buffers import read_table, write_table
from fairmend.artifact.codec import Encoder
from fairmend.artifact.container import MANIFEST, opened, pack
from fairmend.artifact.frames import StoredColumn, StoredFrame, Tables, _as_numpy, load_frame
from fairmend.classifier import RepairedClassifier
from fairmend.data.columns import Frame
from fairmend.repair.costs import Cost

KEY = bytes(range(32))
N, NEW = 250, 120
"""People a repair is fitted on, and people to come."""

# -------------------------------------------------------------------- people and vendors


def people(n=500, seed=0, groups=("a", "b")):
    """In the later groups incomes are lower, and the vendor's cut refuses more of them."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, len(groups), n)
    income = np.round(rng.normal(3.0 - 0.8 * place, 1.0, n), 1)
    X = pd.DataFrame(
        {"income": income, "member": rng.integers(0, 2, n), "town": rng.choice([0, 1, 2], n)}
    )
    y = (rng.random(n) < 1 / (1 + np.exp(-(income - 2.5)))).astype(int)
    return X, y, np.array(groups)[place]


def as_pandas(rows):
    if isinstance(rows, np.ndarray):
        return pd.DataFrame(rows)
    return rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()


def smooth(rows):
    values = as_pandas(rows).iloc[:, :2].astype(float).to_numpy()
    return 1 / (1 + np.exp(-(values[:, 0] + 0.7 * values[:, 1] - 3.2)))


def coarse(rows):
    """Few values, so that people share scores and some are drawn."""
    return np.round(smooth(rows), 1)


def labels(rows):
    return (smooth(rows) > 0.5).astype(int)


def mixed_people(n=500, seed=0):
    """Every kind of column pandas has, missing values among them."""
    X, y, s = people(n, seed)
    rng = np.random.default_rng(seed + 100)
    day = np.datetime64("2020-01-01") + rng.integers(0, 4, n)
    holes = rng.random(n) < 0.2
    town = pd.Series(rng.choice(["Aix", "Bonn", "Ålborg"], n), dtype="str").mask(holes)
    return (
        X.assign(
            town=town,
            job=pd.Categorical(rng.choice(["x", "y"], n), ["z", "y", "x"], ordered=True),
            since=pd.Series(day.astype("datetime64[us]")).mask(holes),
            zone=pd.Series(day.astype("datetime64[ns]")).dt.tz_localize("Europe/Berlin"),
            cars=pd.Series(rng.integers(0, 3, n), dtype="Int64").mask(holes),
            owns=pd.Series(rng.random(n) < 0.5, dtype="boolean").mask(holes),
            flag=rng.random(n) < 0.5,
            odd=rng.choice(np.array(["t", 1, 2.5, None, True], object), n),
            small=rng.integers(0, 3, n).astype(np.int8),
            arrow=pd.array(rng.integers(0, 2, n), dtype="int64[pyarrow]"),
        ),
        y,
        s,
    )


def mixed_polars(X):
    return pl.DataFrame(
        {
            "income": X.income.to_numpy(),
            "member": X.member.to_numpy(),
            "town": pl.Series(X.town.astype(object).where(X.town.notna(), None).tolist()),
            "job": pl.Series(X.job.astype(str).tolist(), dtype=pl.Categorical),
            "enum": pl.Series(X.job.astype(str).tolist(), dtype=pl.Enum(["x", "y", "z"])),
            "day": pl.Series(X.zone.dt.date.tolist()),
            "since": pl.Series(X.since.to_numpy()),
            "flag": X.flag.to_numpy(),
            "cars": pl.Series(X.cars.astype(object).where(X.cars.notna(), None).tolist()),
            "small": pl.Series(X.small.tolist(), dtype=pl.UInt8),
        }
    )


def mixed_arrow(X):
    frame = mixed_polars(X).to_arrow()
    fee = pa.array([Decimal(int(v)) / 4 for v in X.small], pa.decimal128(5, 2))
    return (
        frame.set_column(3, "job", frame["job"].combine_chunks().cast(pa.string()))
        .set_column(4, "enum", pa.array(X.job.astype(str)).dictionary_encode())
        .append_column("fee", fee)
        .append_column("clock", pa.array(X.small.astype("int32"), pa.time32("s")))
    )


def two_attributes(s, X):
    return {"sex": s, "town": np.where(X.town == 0, "u", "v")}


def far_apart(one, other):
    gap = np.abs(np.asarray(one)[:, None, 0] - np.asarray(other)[None, :, 0])
    return 0.5 * gap


def rounded(n, seed):
    X, y, s = people(n, seed)
    return X.assign(income=X.income.round()), y, s


# Each case: people, container, vendor, and more for fit and use; all the rest are settings.
CASES = {
    "scores": {},
    "numpy": {"container": lambda X: X.to_numpy()},
    "numpy by columns": {"container": lambda X: np.asfortranarray(X.to_numpy(np.float32))},
    "numpy objects": {"container": lambda X: X.astype(object).to_numpy()},
    "polars": {"container": pl.from_pandas},
    "pyarrow": {"container": lambda X: pa.Table.from_pandas(X, preserve_index=False)},
    "labels": {"model": labels, "disparity": "fnr"},
    "ranked by cost": {"model": smooth, "rank": "cost", "disparity": "fpr", "favorable_label": 0},
    "recorded": {"recorded": True},
    "rules": {"immutable": ["town"], "one_way": {"income": "up"}},
    "few edits": {"cost": Cost(kind="l2", weights={"member": 2.0}, max_edits=1)},
    "mixed": {"people": mixed_people, "model": labels, "immutable": ["zone"]},
    "mixed scores": {"people": mixed_people, "model": smooth},
    "mixed polars": {"people": mixed_people, "container": mixed_polars, "immutable": ["day"]},
    "mixed pyarrow": {"people": mixed_people, "container": mixed_arrow},
    "order": {"method": "order"},
    "order, soft": {"method": "order", "soft": True},
    "soft": {"soft": True, "disparity": "fnr"},
    "transport": {"method": "transport", "people": rounded},
    "transport, fair": {
        "method": "transport", "people": rounded,
        "method_options": {"individual_fairness": far_apart},
    },
    "paper": {"method": "paper", "people": rounded},
    "joint": {"disparity": ["fnr", "fpr"]},
    "identity": {"target": "a"},
    "alignment": {"disparity": "da", "level": 0.5},
    "discoveries": {"disparity": "fdr"},
    "four groups": {"groups": ("a", "b", "c", "d"), "reference": "rest"},
    "intersections": {"attributes": two_attributes},
    "weights": {"weighted": True},
    "labels in words": {"words": True},
    "both sides": {"two_sided": True},
}  # fmt: skip
EXPLAINED = ("labels", "mixed", "four groups")
ABOUT = (
    "people", "container", "model", "recorded", "soft", "groups", "attributes", "weighted", "words"
)  # fmt: skip


def data(case, n=N, seed=0):
    about = CASES[case]
    make = about.get("people", people)
    X, y, s = make(n, seed, about["groups"]) if "groups" in about else make(n, seed)
    s = about["attributes"](s, X) if "attributes" in about else s
    X = about.get("container", lambda X: X)(X)
    if about.get("recorded"):
        X = X.assign(said=coarse(X))
    return X, np.array(["no", "yes"])[y] if about.get("words") else y, s


def vendor(case):
    about = CASES[case]
    if about.get("recorded"):
        return "said"
    model = about.get("model", coarse)
    return BlackBox(model, soft=True) if about.get("soft") else model


def fitted(case, **more):
    about = CASES[case]
    settings_ = {name: value for name, value in about.items() if name not in ABOUT}
    if about.get("words"):
        settings_["pos_label"] = "yes"
    X, y, s = data(case)
    weight = np.random.default_rng(1).random(len(y)) if about.get("weighted") else None
    repaired = RepairedClassifier(
        vendor(case), **{"key": KEY, "random_state": 0, **settings_, **more}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        return repaired.fit(X, y, sensitive_features=s, sample_weight=weight)


def spelt(native):
    """A table with its types, as text."""
    if isinstance(native, np.ndarray):
        return repr((native.dtype, native.tolist()))
    if isinstance(native, pl.DataFrame):
        return repr((native.schema, native.rows()))
    if isinstance(native, pa.Table):
        return repr((native.schema.types, native.to_pydict()))
    return repr((native.dtypes.tolist(), native.to_numpy(object).tolist(), native.index.tolist()))


def used(repaired, case):
    """Everything a repair says about new people, to the last bit."""
    X, y, s = data(case, NEW, 7)
    ids = [f"id-{i}" for i in range(NEW)]
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", FairmendWarning)
        patch.setenv("SOURCE_DATE_EPOCH", "0")
        explained = case in EXPLAINED  # which takes most of the time
        report = repaired.report(X, y, sensitive_features=s, explanation=explained).to_dict()
    if "method_options" in CASES[case]:  # a function in them, which the report spells by address
        del report["provenance"]["settings"], report["provenance"]["command"]
    return {
        "predict": repaired.predict(X, sensitive_features=s, ids=ids).tolist(),
        "without ids": repaired.predict(X, sensitive_features=s).tolist(),
        "predict_proba": repaired.predict_proba(X, sensitive_features=s).tolist(),
        "transform": spelt(repaired.transform(X, sensitive_features=s, ids=ids)),
        "report": repr(report),
        "audit": repr(repaired.audit_),
        "plans": [str(plan) for plan in repaired.plans_.values()],
        "kinds": [type(plan).__name__ for plan in repaired.plans_.values()],
        "classes": repr((repaired.classes_, repaired.n_features_in_)),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def saved(folder):
    """Every case fitted and saved, with what it says."""
    said = {}
    for case in CASES:
        repaired = fitted(case)
        repaired.save(folder / f"{case}.fairmend")
        said[case] = used(repaired, case)
    return said


IN_ANOTHER_PROCESS = """
import json, sys
sys.path.insert(0, {tests!r})
import test_artifact as t
for case in t.CASES:
    loaded = t.fairmend.load({folder!r} + "/" + case + ".fairmend", t.vendor(case), key=t.KEY)
    print(json.dumps([case, t.used(loaded, case)]))
    t.fitted(case).save({folder!r} + "/" + case + ".again")
"""


@pytest.fixture(scope="module")
def elsewhere(saved, folder):
    """What another process says after loading, and the same fits saved by it."""
    code = IN_ANOTHER_PROCESS.format(tests=str(Path(__file__).parent), folder=str(folder))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_another_process_loads_what_was_saved_to_the_last_bit(case, saved, elsewhere):
    assert elsewhere[case] == json.loads(json.dumps(saved[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_fit_in_another_process_gives_the_same_bytes(case, elsewhere, folder):
    one, other = (folder / f"{case}.{end}" for end in ("fairmend", "again"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_the_cases_show_something(saved):
    assert {kind for case in CASES for kind in saved[case]["kinds"]} == {
        "FlipPlan", "JointPlan", "OrderPlan", "ShiftPlan", "SoftPlan", "CouplingPlan",
        "IdentityPlan",
    }  # fmt: skip
    assert len(saved["four groups"]["plans"]) > 1
    for case in set(CASES) - {"identity"}:
        X, _, _ = data(case, NEW, 7)
        assert saved[case]["transform"] != spelt(X), case


# -------------------------------------------------------------------- key, model, settings


@pytest.fixture(scope="module")
def good(folder):
    fitted("scores").save(folder / "good.fairmend")
    return folder / "good.fairmend"


def new_people(case="scores"):
    X, _, s = data(case, NEW, 7)
    return X, {"sensitive_features": s}


def test_the_key_is_not_inside_and_without_it_nobody_is_drawn(good):
    inside = b"".join(members(good).values())
    assert KEY not in inside
    assert KEY.hex().encode() not in inside
    X, who = new_people()
    loaded = fairmend.load(good, coarse)
    with pytest.raises(DataError, match=r"key: must be given to draw .* loaded without it"):
        loaded.predict(X, **who)
    # the law needs no key
    assert loaded.positive_chance(X, **who).shape == (NEW,)


def test_another_key_is_told_by_its_fingerprint(good):
    mine, other = (Drawer(key).fingerprint for key in (KEY, bytes(32)))
    with pytest.raises(ArtifactError, match=f"fingerprint {mine}; got one with .* {other}"):
        fairmend.load(good, coarse, key=bytes(32))
    with pytest.raises(DataError, match="32 bytes"):
        fairmend.load(good, coarse, key=b"short")


def test_a_key_made_from_a_seed_cannot_be_found_by_trying_seeds(tmp_path):
    repaired = fitted("scores", key=None, random_state=77)
    repaired.save(tmp_path / "one")
    inside = b"".join(members(tmp_path / "one").values())
    assert repaired.key_ not in inside
    assert Drawer(repaired.key_).fingerprint.encode() not in inside
    about = inspect(tmp_path / "one").about
    assert (about.key_fingerprint, about.settings["random_state"]) == (None, None)
    loaded = fairmend.load(tmp_path / "one", coarse, key=repaired.key_)
    X, who = new_people()
    assert np.array_equal(loaded.predict(X, **who), repaired.predict(X, **who))


def test_a_model_that_changed_its_mind_is_refused(good):
    def moved(rows):
        return np.round(smooth(rows) + 0.1, 1)

    with pytest.raises(ArtifactError, match=r"answers [\d]+ of \d+ probe rows differently"):
        fairmend.load(good, moved)
    assert fairmend.load(good, moved, check_model=False).model is moved
    with pytest.raises(ArtifactError, match=r"answers (\d+) of \1 probe rows differently"):
        fairmend.load(good, BlackBox(labels, output="label"))


def test_a_model_that_differs_in_the_last_bits_is_the_same_model(tmp_path):
    fitted("ranked by cost").save(tmp_path / "one")
    assert fairmend.load(tmp_path / "one", lambda rows: smooth(rows) + 1e-12).plans_


def test_a_repair_that_asks_its_model_needs_one_that_can_be_asked(good):
    with pytest.raises(ArtifactError, match="must be loaded with a model that can be queried"):
        fairmend.load(good, "said")


def test_without_a_model_plans_can_be_read_and_answers_not(good):
    loaded = fairmend.load(good)
    X, who = new_people()
    assert loaded.plan_.status.closed
    for use in (loaded.predict, loaded.predict_proba, loaded.transform):
        with pytest.raises(ArtifactError, match=r"model: must be given .*load\(path, model\)"):
            use(X, **who)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["paper", "identity", "recorded"])
def test_a_plan_that_needs_no_answers_transforms_without_a_model(case, saved, folder):
    loaded = fairmend.load(folder / f"{case}.fairmend", key=KEY)
    X, who = new_people(case)
    ids = [f"id-{i}" for i in range(NEW)]
    assert spelt(loaded.transform(X, ids=ids, **who)) == saved[case]["transform"]


def test_a_wrapped_model_is_read_as_it_was_in_fit(good, tmp_path):
    """A batch of 0s and 1s alone must still be read as probabilities."""
    X, y, s = people()
    loaded = fairmend.load(good, BlackBox(coarse), key=KEY)
    assert loaded.box_.output == "probability"
    model = LogisticRegression().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        repaired = RepairedClassifier(model, "fnr", key=KEY).fit(X, y, sensitive_features=s)
    repaired.save(tmp_path / "two")
    again = fairmend.load(tmp_path / "two", model, key=KEY)
    assert np.array_equal(
        again.predict_proba(X, sensitive_features=s),
        repaired.predict_proba(X, sensitive_features=s),
    )


def test_other_columns_and_containers_are_refused_at_use(good):
    loaded = fairmend.load(good, coarse, key=KEY)
    X, who = new_people()
    with pytest.raises(DataError, match="'town' is missing"):
        loaded.predict(X.drop(columns="town"), **who)
    with pytest.raises(DataError, match="must come as in fit, in a pandas DataFrame"):
        loaded.predict(pl.from_pandas(X), **who)


def test_a_loaded_repair_can_be_saved_again_byte_for_byte(good, tmp_path):
    fairmend.load(good, coarse, key=KEY).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == good.read_bytes()


@pytest.mark.parametrize("given", [{"model": coarse}, {"key": KEY}])
def test_a_repair_loaded_without_model_or_key_is_not_saved_again(good, tmp_path, given):
    with pytest.raises(ArtifactError, match="must have its model and its key"):
        fairmend.load(good, **given).save(tmp_path / "again")


def test_names_that_are_numbers_and_the_callers_row_labels(tmp_path):
    X, y, s = people()
    X = X.set_axis([0, 1, 2], axis=1).set_axis([f"row {i}" for i in range(len(X))], axis=0)
    repaired = RepairedClassifier(coarse, key=KEY, one_way={0: "up"})
    repaired.fit(X, y, sensitive_features=s).save(tmp_path / "one")
    assert b"row 1" not in b"".join(members(tmp_path / "one").values())
    loaded = fairmend.load(tmp_path / "one", coarse, key=KEY)
    one, other = (each.transform(X, sensitive_features=s) for each in (repaired, loaded))
    pd.testing.assert_frame_equal(one, other)


NUMPY = {
    "target": {"target": np.int64(1)},
    "reference": {"reference": np.int64(0)},
    "favorable_label": {"favorable_label": np.int64(1)},
    "pos_label": {"pos_label": np.int64(1)},
    "level": {"level": np.float32(0.5)},
    "do_no_harm": {"do_no_harm": np.bool_(True)},
    "random_state": {"random_state": np.int64(3)},
    "weights": {"cost": Cost(weights={"income": np.float64(2.0)})},
    "method_options": {"method": "paper", "method_options": {"max_iter": np.int64(100)}},
    "an array": {"immutable": np.array(["member"])},
    "an index": {"immutable": pd.Index(["member"])},
    "a set": {"immutable": {"member"}},
}


@pytest.mark.parametrize("what", NUMPY)
def test_settings_of_numpy_s_types_load_as_python_s(what, tmp_path):
    X, y, s = people()
    group = (s == "b").astype(int)
    repaired = RepairedClassifier(coarse, key=KEY, **NUMPY[what])
    repaired.fit(X, y, sensitive_features=group).save(tmp_path / "one")
    loaded = fairmend.load(tmp_path / "one", coarse, key=KEY)
    one, other = (each.transform(X, sensitive_features=group) for each in (repaired, loaded))
    pd.testing.assert_frame_equal(one, other)
    assert "np." not in str(inspect(tmp_path / "one").to_dict()["settings"])


def test_a_setting_of_another_type_is_not_stored_so_that_nothing_loads_it(tmp_path):
    repaired = fitted("scores", do_no_harm=1)
    with pytest.raises(ArtifactError, match=r"the repair: must have settings .* 'do_no_harm': 1"):
        repaired.save(tmp_path / "one")


def test_names_and_labels_that_cannot_be_stored_are_named(tmp_path):
    X, y, s = people()
    twofold = X.set_axis(pd.MultiIndex.from_product([["X"], X.columns]), axis=1)
    for rows, outcome, positive, message in (
        (twofold, y, None, r"^X column \('X', 'income'\): must be named by text .* type tuple"),
        (X, np.where(y == 1, b"yes", b"no"), b"yes", "^y: must hold numbers, .* got b'no'"),
    ):
        repaired = RepairedClassifier(coarse, key=KEY, pos_label=positive)
        repaired.fit(rows, outcome, sensitive_features=s)
        with pytest.raises(ArtifactError, match=message):
            repaired.save(tmp_path / "one")


def test_the_time_is_the_callers(tmp_path):
    repaired = fitted("scores")
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    repaired.save(tmp_path / "one", created=at)
    repaired.save(tmp_path / "two", created="2026-03-01T12:00:00+00:00")
    assert inspect(tmp_path / "one").created == "2026-03-01T12:00:00+00:00"
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with pytest.raises(DataError, match="created: must be a datetime"):
        repaired.save(tmp_path / "three", created="yesterday")
    with pytest.raises(DataError, match="must not exist yet"):
        repaired.save(tmp_path / "one")
    repaired.save(tmp_path / "one", overwrite=True)
    assert inspect(tmp_path / "one").created is None


def my_cost(one, other):
    return np.abs(np.asarray(one, float)[:, None] - np.asarray(other, float)[None]).sum(axis=2)


def never(one, other):
    return np.zeros((len(one), len(other)), bool)


OMISSION = RateGap("for", rate=lambda h, y: (1 - h) * y, given=lambda h, y: 1 - h)
CODE = {
    "cost": ({"cost": my_cost}, r"^cost: must be data .* got the function 'my_cost'\. Use 'l1'"),
    "cost.kind": ({"cost": Cost(kind=my_cost)}, r"^cost\.kind: must be data .* 'my_cost'"),
    "cost.forbidden": ({"cost": Cost(forbidden=never)}, r"^cost\.forbidden: .* 'never'"),
    "groups_from": ({"groups_from": lambda X: X["town"]}, r"^groups_from: must be data"),
    "disparity": ({"disparity": OMISSION}, r"^disparity: must be data .* Use sp, fnr"),
    "outcome_model": (
        {"outcome_model": DecisionTreeClassifier(max_depth=2), "rank": "outcome"},
        r"^outcome_model: must be 'auto', .* the plan of 'b' asks a DecisionTreeClassifier",
    ),
}


@pytest.mark.parametrize("what", CODE)
def test_code_is_named_and_refused(what, tmp_path):
    settings_, message = CODE[what]
    repaired = fitted("scores", **settings_)
    with pytest.raises(ArtifactError, match=message):
        repaired.save(tmp_path / "one")
    assert not list(tmp_path.iterdir())


def test_a_model_of_outcomes_that_no_plan_asks_is_left_out_and_can_be_set_again(tmp_path):
    own = LogisticRegression()
    repaired = fitted("scores", outcome_model=own)
    repaired.save(tmp_path / "one")
    loaded = fairmend.load(tmp_path / "one", coarse, key=KEY)
    with pytest.raises(ArtifactError, match="LogisticRegression: must be given again"):
        used(loaded, "scores")
    assert used(loaded.set_params(outcome_model=own), "scores") == used(repaired, "scores")


def test_a_ranking_by_products_of_inputs_is_stored_as_numbers(tmp_path):
    """Y follows the product of two inputs; the model gives labels only, so P(Y=1 | x) ranks."""
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(1_500, 2)), rng.choice(["a", "b"], 1_500)
    X[s == "b", 0] -= 0.5
    y = (rng.random(1_500) < 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1]))).astype(int)

    def labels(rows):
        return (np.asarray(rows)[:, 0] > 0).astype(int)

    repaired = RepairedClassifier(labels, key=KEY, random_state=0).fit(X, y, sensitive_features=s)
    fitted_model = repaired.plan_.ranking.outcome.fitted
    assert fitted_model.kind == "l2 logistic regression with pairs of inputs"
    repaired.save(tmp_path / "one")
    loaded = fairmend.load(tmp_path / "one", labels, key=KEY)
    new, group = rng.normal(size=(200, 2)), np.full(200, "b")
    table = fitted_model.predict(Frame.read(new))
    assert loaded.plan_.ranking.outcome.fitted.predict(Frame.read(new)).tolist() == table.tolist()
    before, after = (
        one.positive_chance(new, sensitive_features=group) for one in (repaired, loaded)
    )
    assert before.tolist() == after.tolist()


@pytest.mark.slow
def test_a_distance_between_people_is_needed_in_fit_alone(saved, folder):
    loaded = fairmend.load(folder / "transport, fair.fairmend", coarse, key=KEY)
    X, y, s = data("transport, fair")
    with pytest.raises(ArtifactError, match="far_apart: must be given again"):
        loaded.frontier(X, y, sensitive_features=s, levels=[0.5])


class Subclass(pd.DataFrame):
    pass


def test_columns_that_cannot_be_stored_are_named():
    periods = pd.DataFrame({"when": pd.period_range("2020-01", periods=3, freq="M")})
    odd = pd.DataFrame({"what": pd.Series([object()], dtype=object)})
    numpy_scalars = pd.DataFrame({"n": pd.Series([np.int8(1)], dtype=object)})
    for frame, message in (
        (periods, r"X column 'when': .* got 'extension<pandas.period"),
        (odd, "X column 'what': must be data"),
        (numpy_scalars, "X column 'n': must be a plain Python value"),
        (Subclass({"a": [1]}), "got a Subclass"),
        (pa.table({"l": [[1]]}), "X column 'l': must be of a type"),
    ):
        with pytest.raises(ArtifactError, match=message):
            Encoder().encode(Frame.read(frame), "table")


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
@pytest.mark.parametrize(
    ("dtype", "number", "good"),
    [
        ("date32[day]", 2**31 - 1, False), ("timestamp[us]", 2**62, False),
        ("timestamp[s]", -(2**62), False), ("time64[ns]", 2**62, False), ("time32[s]", -1, False),
        ("duration[s]", 2**62, False), ("date32[day]", 2932896, True),
        ("timestamp[us]", 253402300799999999, True), ("timestamp[ns]", 2**63 - 1, True),
    ],
)  # fmt: skip
def test_dates_beyond_the_calendar_are_refused_before_polars_panics(kind, dtype, number, good):
    place = StoredFrame(kind, ("when",), (StoredColumn(dtype, dtype_of(kind, dtype)),), 1, 0)
    plain = np.array([number], "<i4" if dtype.startswith(("date32", "time32")) else "<i8")
    tables = Tables(None, lambda at, types, rows: read_table("t", plain.tobytes(), types, 1), *"ab")
    if good:
        assert len(load_frame(place, tables)) == 1
    else:
        with pytest.raises((ArtifactError, pa.ArrowInvalid), match=r"years 1 to 9999|range"):
            load_frame(place, tables)


def dtype_of(kind, dtype):
    return f"{dtype}[pyarrow]" if kind == "pandas" else ""


def test_text_of_a_fixed_width_takes_no_more_memory_than_a_file_may():
    values = read_table("t", write_table({"": pa.array(["a"] * 5)}), {"": pa.string()}, 5)[""]
    assert _as_numpy(values, "<U7").tolist() == ["a"] * 5
    with pytest.raises(ArtifactError, match="<U99999999"):
        _as_numpy(values, "<U99999999")


def test_an_unfitted_repair_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        RepairedClassifier(coarse).save(tmp_path / "one")


def test_without_arrow_the_pip_line(monkeypatch, good):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairmend\[artifact\]'"):
        fairmend.load(good, coarse)


# -------------------------------------------------------------------- the manifest


def test_the_manifest_says_what_is_inside(good):
    manifest = inspect(good)
    repaired = fitted("scores")
    about = manifest.about
    assert (about.metric, about.method, about.container) == ("sp", "least_change", "pandas")
    assert [(c.name, c.dtype) for c in about.columns] == [
        ("income", "float64"), ("member", "int64"), ("town", "int64")
    ]  # fmt: skip
    assert about.groups == ("a", "b")
    assert about.plans[0].outlook == repaired.plan_.outlook
    X, y, s = data("scores", NEW, 7)
    report = repaired.report(X, y, sensitive_features=s)
    assert about.audit_sha256 == report.provenance.audit_data
    assert about.settings["level"] == 1.0
    assert about.model.output == "probability"
    content = members(good)
    for member in manifest.members:
        assert hashlib.sha256(content[member.name]).hexdigest() == member.sha256
        assert len(content[member.name]) == member.size
    assert manifest.libraries["pandas"] == pd.__version__
    plain = json.loads(json.dumps(manifest.to_dict(), allow_nan=False))
    assert plain["schema"] == "fairmend.artifact/1"
    assert plain["plans"][0]["status"] == "CLOSED"
    text = str(manifest)
    assert "Repair of sp by least_change" in text
    assert Drawer(KEY).fingerprint in text


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_manifest_can_be_shown(case, saved, folder):
    manifest = inspect(folder / f"{case}.fairmend")
    assert json.dumps(manifest.to_dict(), allow_nan=False)
    assert manifest.about.metric in str(manifest)


# -------------------------------------------------------------------- tampering: the tools


def members(path):
    with opened(path) as box:
        return {name: box.unpack(name) for name in box.sizes}


def packed(content):
    file = io.BytesIO()
    pack(file, content)
    return file.getvalue()


def with_manifest(content, change):
    found = json.loads(content[MANIFEST])
    change(found)
    return {**content, MANIFEST: json.dumps(found).encode()}


def sealed(content):
    """Sizes and hashes in the manifest made to fit: what a careful forger would do."""

    def change(manifest):
        manifest["members"]["of"] = [
            {"$": "Member", "name": name, "size": len(one),
             "sha256": hashlib.sha256(one).hexdigest()}
            for name, one in content.items() if name != MANIFEST
        ]  # fmt: skip

    return with_manifest(content, change)


def with_body(content, change):
    found = json.loads(content["repair.json"])
    change(found)
    return sealed({**content, "repair.json": json.dumps(found).encode()})


def raw_zip(content, *, prefix=b"", suffix=b"", comment=b"", count=None, gap=b"", **one):
    """A zip by hand; ``one`` changes the marks of the last member."""
    out, directory, entries = io.BytesIO(prefix), io.BytesIO(), list(content.items())
    out.seek(0, 2)
    for place, (name, body) in enumerate(entries):
        marks = {"flags": 0, "method": 8, "outer": (0o100644) << 16, "extra": b"", "date": 33}
        marks |= one if place == len(entries) - 1 else {}
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        small = deflate.compress(body) + deflate.flush()
        crc, size = marks.get("crc", zlib.crc32(body)), marks.get("size", len(body))
        common = (20, marks["flags"], marks["method"], 0, marks["date"], crc, len(small), size)
        spelt_, extra = name.encode(), marks["extra"]
        start = marks.get("start", out.tell())
        local = (*common[:-1], marks.get("local_size", size), len(spelt_), len(extra))
        out.write(struct.pack("<4s5H3L2H", b"PK\3\4", *local) + spelt_ + extra + small)
        out.write(gap if place == 0 else b"")
        directory.write(
            struct.pack("<4s6H3L5H2L", b"PK\1\2", 3 << 8 | 20, *common, len(spelt_), len(extra),
                        0, 0, 0, marks["outer"], start) + spelt_ + extra
        )  # fmt: skip
    start, length = out.tell(), len(directory.getvalue())
    n = len(entries) if count is None else count
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, n, n, length, start, len(comment))
    return out.getvalue() + directory.getvalue() + end + comment + suffix


def foreign(content):
    """The same members, written by somebody else."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, one in content.items():
            archive.writestr(name, one)
    return file.getvalue()


def first_of(tree, tag):
    """The first object of a kind in a body, depth first."""
    if isinstance(tree, dict):
        if tree.get("$") == tag:
            return tree
        tree = list(tree.values())
    for one in tree if isinstance(tree, list) else []:
        found = first_of(one, tag)
        if found is not None:
            return found
    return None


def set_first(tag, **fields):
    def change(body):
        first_of(body, tag).update(fields)

    return change


def as_model(**told):
    """The same repair of a model that was told something else, in both places that say so."""
    change = set_first("ModelSettings", **told)
    return lambda content: packed(with_body(with_manifest(content, change), change))


def nested(depth):
    return b"[" * depth + b"]" * depth


def with_table(content, make):
    """The first table, a column of numbers, replaced by other bytes."""
    name = "tables/0000.bin"
    return sealed({**content, name: make(content[name])})


def to_shape(*shape):
    def change(body):
        first_of(body, "array")["shape"] = list(shape)

    return change


def noise(n):
    return np.random.default_rng(0).bytes(n)


def many_values():
    numbers = np.random.default_rng(0).integers(0, 100_000, 450_000)
    return json.dumps(numbers.tolist()).encode()


def newer(manifest):
    manifest.update(format=7, fairmend="3.2.1", shape="another")


def put(name, value):
    def change(manifest):
        manifest[name] = value

    return change


def repeated(content):
    """The last two members under one name, everything else as we write it."""
    names = list(content)
    one = raw_zip(content)
    return one.replace(names[-1].encode(), names[-2].encode())


def fewer_rows(body):
    """The audit data's table, without most of the rows its groups point at."""
    body["data"]["table"] = body["plans"]["of"][0]["of"][1]["donors"]["table"]


def rename(body):
    first_of(body["probe"], "StoredFrame")["names"]["of"][0] = "wage"


# -------------------------------------------------------------------- tampering: the artifacts

ZEROS = bytes(60 << 20)
EXTRA = {"tables/9999.bin": b"0123"}
TAMPERED = {
    # the file
    "nothing": (lambda c: b"", "must begin as a zip does"),
    "text": (lambda c: b"not an artifact at all, but long enough to be one", "must begin as a zip"),
    "pickle": (lambda c: b"\x80\x04\x95" + bytes(100), "must begin as a zip does"),
    "garbage before": (lambda c: b"#!/bin/sh\n" + packed(c), "must begin as a zip does"),
    "a zip before": (lambda c: packed({"a.json": b"{}"}) + packed(c), "must end with its"),
    "garbage behind": (lambda c: packed(c) + b"\0", "must end with its directory"),
    "cut short": (lambda c: packed(c)[:-100], "must end with its directory"),
    "a comment": (lambda c: raw_zip(c, comment=b"hello"), "must end with its directory"),
    "a gap": (lambda c: raw_zip(c, gap=b"hidden"), "what stands before"),
    "overlap": (lambda c: raw_zip(c, start=0), "as fairmend writes it"),
    "too many members": (lambda c: raw_zip(c, count=60_000), "must have at most 10,000 members"),
    "too few entries": (lambda c: raw_zip(c, count=99), "as fairmend writes it"),
    "by another zip writer": (foreign, "must hold its members, one behind the other"),
    "the same name twice": (repeated, "must name every member once"),
    "encrypted": (lambda c: raw_zip(c, flags=1), "what stands before"),
    "streamed": (lambda c: raw_zip(c, flags=8), "what stands before"),
    "packed oddly": (lambda c: raw_zip(c, method=12), "must be stored or deflated"),
    "another date": (lambda c: raw_zip(c, date=40), "what stands before"),
    "extra fields": (lambda c: raw_zip(c, extra=b"\1\0\0\0"), "what stands before"),
    "a symbolic link": (lambda c: raw_zip(c, outer=0o120777 << 16), "has other marks"),
    "out of itself": (lambda c: packed({**c, "../x.json": b"{}"}), "must hold only what"),
    "from the root": (lambda c: packed({**c, "/etc/x.json": b"{}"}), "must hold only what"),
    "a drive": (lambda c: packed({**c, "c:x.json": b"{}"}), "must hold only what"),
    "code": (lambda c: packed({**c, "run.py": b"{}"}), "must hold only what fairmend writes"),
    "two directories": (lambda c: raw_zip(c, local_size=1), "what stands before"),
    "a wrong checksum": (lambda c: raw_zip(c, crc=1), "must have the checksums it declares"),
    # sizes
    "a bomb": (lambda c: raw_zip({**c, **{"tables/9999.bin": ZEROS}}), "by more than 100 to 1"),
    "a hidden bomb": (
        lambda c: raw_zip({**c, "tables/0000.bin": ZEROS, "tables/0001.bin": ZEROS},
                          size=100), "tables/0000.bin' declares 62,914,560 bytes"),
    "larger than declared": (
        lambda c: raw_zip({MANIFEST: ZEROS}, size=4_000), "declares 4,000 bytes"),
    "smaller than declared": (
        lambda c: raw_zip({MANIFEST: c[MANIFEST]}, size=len(c[MANIFEST]) + 1), "ends elsewhere"),
    "terabytes": (lambda c: raw_zip(c, size=2**32 - 2), "by more than 100 to 1"),
    # the manifest
    "no manifest": (lambda c: packed({k: c[k] for k in list(c)[1:]}), "must begin with its manif"),
    "a newer format": (
        lambda c: packed(with_manifest(c, newer)),
        "must be of format 2 .* it is of format 7. Install fairmend 3.2.1 or newer"),
    "no format": (lambda c: packed(with_manifest(c, put("format", "1"))), "says its format"),
    "an old format": (
        lambda c: packed(with_manifest({k.replace(".bin", ".parquet"): v for k, v in c.items()},
                                       put("format", 1))),
        "must be of format 2 .* it is of format 1. It was made by an older fairmend"),
    "one entry too many": (lambda c: packed(with_manifest(c, put("more", 1))), "entries 'more'"),
    "a wrong type": (lambda c: packed(with_manifest(c, put("created", 5))), "of the right types"),
    "an odd value": (lambda c: packed(with_manifest(c, put("created", []))), "says not what it is"),
    "a key twice": (
        lambda c: packed({**c, MANIFEST: c[MANIFEST].replace(b"{", b'{"format":1,', 1)}),
        "a key is there twice"),
    "not a number": (
        lambda c: packed({**c, MANIFEST: c[MANIFEST].replace(b'"created":null', b'"created":NaN')}),
        "it holds NaN"),
    "infinity": (
        lambda c: packed({**c, MANIFEST: c[MANIFEST].replace(b'null', b'-Infinity', 1)}),
        "it holds -Infinity"),
    "a number beyond all": (
        lambda c: packed({**c, MANIFEST: c[MANIFEST].replace(b'null', b'-1e999', 1)}),
        "it holds -1e999"),
    "not JSON": (lambda c: packed({**c, MANIFEST: noise(500)}), "must be plain JSON; it is not"),
    "a digit too many": (
        lambda c: packed({**c, MANIFEST: b'{"format":1' + b"7" * 5_000 + b"}"}), "plain JSON"),
    "nested deeply": (
        lambda c: raw_zip({MANIFEST: nested(5_000) + b" " + noise(3_000).hex().encode()}),
        "it is nested too deeply"),
    "very many values": (lambda c: packed({**c, MANIFEST: many_values()}), "about 450,000 values"),
    "another hash": (
        lambda c: packed({**c, "repair.json": c["repair.json"].replace(b"income", b"outcom")}),
        "the sha256 of 'repair.json' is another"),
    "another table": (
        lambda c: packed({**c, "tables/0001.bin": c["tables/0001.bin"][:-1] + b"2"}),
        "the sha256 of 'tables/0001.bin' is another"),
    "another size": (
        lambda c: packed({**c, "repair.json": c["repair.json"] + b" "}), "it holds others"),
    "an unlisted member": (lambda c: packed({**c, **EXTRA}), "it holds others"),
    "a missing member": (
        lambda c: packed({k: c[k] for k in list(c)[:-1]}), "must hold the members that its mani"),
    "another order": (
        lambda c: packed({MANIFEST: c[MANIFEST], **{k: c[k] for k in list(c)[:0:-1]}}),
        "must hold the members that its manifest lists, in this order"),
    "no repair": (
        lambda c: packed(sealed({MANIFEST: c[MANIFEST], **EXTRA})), "must hold a repair and its"),
    "a lie about itself": (
        lambda c: packed(with_manifest(c, lambda m: m["about"].update(metric="fnr"))),
        "must hold what its manifest describes"),
    "an unknown kind of answers": (as_model(output="guess"), "ModelSettings.output outside"),
    "a threshold nobody passes": (
        as_model(threshold={"$": "float", "is": "nan"}), "ModelSettings.threshold outside"),
    "batches of nobody": (as_model(batch_size=0), "ModelSettings.batch_size outside"),
    "an address": (
        as_model(column="https://127.0.0.1:9/invocations", recorded=True),
        "must name a column of recorded predictions"),
    # the repair, with hashes that fit
    "one label for both": (
        lambda c: packed(with_body(c, set_first("Labels", positive=0))),
        "Labels whose parts do not fit together"),
    "a label unlike itself": (
        lambda c: packed(with_body(c, set_first("Labels", positive={"$": "float", "is": "nan"}))),
        "Labels.positive outside its limits"),
    "an unknown class": (
        lambda c: packed(with_body(c, put("plans", {"$": "os.system", "is": "id"}))),
        "got 'os.system'"),
    "a class found by name": (
        lambda c: packed(with_body(c, put("plans", {"$": "scalar", "tag": "x", "text": "y"}))),
        "got 'scalar'"),
    "other fields": (
        lambda c: packed(with_body(c, set_first("Cut", more=1))), r"got Cut\.more"),
    "text for a number": (
        lambda c: packed(with_body(c, set_first("Cut", first="high"))), "Cut.first outside"),
    "another choice": (
        lambda c: packed(with_body(c, set_first("Ranking", rank="luck"))), "Ranking.rank outs"),
    "an unknown status": (
        lambda c: packed(with_body(c, set_first("PlanStatus", **{"is": "PERFECT"}))), "'PERFECT'"),
    "no repair in it": (
        lambda c: packed(sealed({**c, "repair.json": b"null"})), "something else than a repair"),
    "a deep repair": (
        lambda c: raw_zip(sealed({**c, "repair.json":
                                  nested(9_000) + noise(5_000).hex().encode()})),
        "it is nested too deeply"),
    "a table that is not there": (
        lambda c: packed(with_body(c, set_first("array", table=4_000))), "got 'array' of"),
    "a negative table": (
        lambda c: packed(with_body(c, set_first("array", table=-1))), "for a number of rows"),
    "another shape": (lambda c: packed(with_body(c, to_shape(7))), "must hold 7 rows"),
    "a huge shape": (lambda c: packed(with_body(c, to_shape(10**6, 10**6))), "it ends after"),
    "another dtype": (
        lambda c: packed(with_body(c, set_first("array", dtype="object"))), "an array of 'object'"),
    "rows elsewhere": (
        lambda c: packed(with_body(c, fewer_rows)), "AuditData whose parts do not"),
    "a mass too many": (
        lambda c: packed(with_body(c, lambda b: first_of(b, "Population").update(
            mass=first_of(b, "Tally")["people"]))), "Population.mass outside its limits"),
    "a plan for strangers": (
        lambda c: packed(with_body(c, lambda b: first_of(b["plans"], "FlipPlan").update(
            target="z"))), "Body whose parts do not fit together"),
    "a column twice": (
        lambda c: packed(with_body(c, set_first("StoredFrame", names={
            "$": "tuple", "of": ["income", "income", "town"]}))), "names a column twice"),
    "other columns": (
        lambda c: packed(with_body(c, rename)), "tables of different columns"),
    "another container": (
        lambda c: packed(with_body(c, set_first("StoredFrame", kind="polars"))),
        "different columns|of other types|different types"),
    "an unknown type": (
        lambda c: packed(with_body(c, set_first("StoredColumn", type="python_object"))),
        "got 'python_object'"),
    "a table nobody needs": (
        lambda c: packed(sealed({**c, f"tables/{len(c) - 2:04d}.bin": c["repair.json"]})),
        "tables that nothing refers to"),
    # tables, with hashes that fit
    "no numbers": (lambda c: packed(with_table(c, lambda v: b"")), "it ends after 0 bytes"),
    "half a table": (lambda c: packed(with_table(c, lambda v: v[:40])), "it ends after 40 bytes"),
    "a number too many": (
        lambda c: packed(with_table(c, lambda v: v + v[:8])), "it goes on for 8 bytes"),
    "odd bytes behind": (lambda c: packed(with_table(c, lambda v: v + b"0")), "it goes on for 1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def tampered(good, folder):
    content = members(good)
    place = folder / "tampered"
    place.mkdir()
    for number, (make, _) in enumerate(TAMPERED.values()):
        (place / str(number)).write_bytes(make(content))
    return place


@pytest.mark.parametrize("how", TAMPERED)
def test_a_tampered_artifact_is_refused(how, tampered):
    number, message = list(TAMPERED).index(how), TAMPERED[how][1]
    with pytest.raises(ArtifactError, match=message):
        fairmend.load(tampered / str(number), coarse, key=KEY)


NAN, FAR = float("nan"), 1e308


def number(value):
    """A number as a body spells it."""
    return value if np.isfinite(value) else {"$": "float", "is": str(value)}


def in_body(tag, **fields):
    return lambda content: with_body(content, set_first(tag, **fields))


def in_array(tag, field, change):
    """Other numbers in the array of a field, wherever it is."""

    def forge(content):
        array = first_of(json.loads(content["repair.json"]), tag)[field]
        name = f"tables/{array['table']:04d}.bin"
        dtype = {"float64": "<f8", "int64": "<i8"}[array["dtype"]]
        values = np.frombuffer(content[name], dtype).reshape(array["shape"]).copy()
        change(values)
        return sealed({**content, name: values.tobytes()})

    return forge


def to(value, at=0):
    def change(values):
        values.flat[at] = value

    return change


def doubled(values):
    values *= 2


def backwards(values):
    values[:] = values[::-1].copy()


def setting(name, value):
    def change(body):
        pair = next(pair for pair in body["settings"]["of"] if pair[0] == name)
        pair[1] = value

    return lambda content: with_body(content, change)


def several(*values):
    return {"$": "tuple", "of": list(values)}


# Each: the case, the forgery, and what the refusal says.
FORGED = {
    **{
        f"{field} {value}": ("scores", in_array("Population", field, to(value)), f"{field} outside")
        for field in ("mass", "decision", "outcome") for value in (NAN, -5, FAR)
        if (field, value) != ("outcome", NAN)
    },
    "an outcome not known": (  # as all of them are where nobody told any
        "scores", in_array("Population", "outcome", to(NAN)), "AuditData whose parts"),
    "masses of two": ("scores", in_array("Population", "mass", doubled), "mass outside"),
    "a score nan": ("scores", in_array("Population", "score", to(NAN)), "score outside"),
    "a score inf": ("scores", in_array("Population", "score", to(np.inf)), "score outside"),
    "a probability of 1e308": (
        "scores", in_array("Population", "score", to(FAR)), "probabilities beyond 0 and 1"),
    "half a decision": (
        "scores", in_array("Population", "decision", to(0.5)), "decisions between yes and no"),
    "a row before the first": ("scores", in_array("Population", "rows", to(-1)), "rows outside"),
    "a row behind the last": (
        "scores", in_array("Population", "rows", to(10**6, -1)), "AuditData whose parts"),
    "rows in disorder": ("scores", in_array("Population", "rows", backwards), "rows outside"),
    "minus a person": ("scores", in_array("Tally", "people", to(-1)), "Tally.people outside"),
    "a weight of 1e308": ("weights", in_array("Tally", "weight", to(FAR)), "Tally.weight outside"),
    "one group": ("scores", in_body("AuditData", groups=several("a")), "AuditData whose parts"),
    "a group without a name": (
        "scores", in_body("AuditData", groups=several("a", None)), "AuditData.groups outside"),
    "recorded answers": ("scores", in_body("AuditData", recorded=True), "another kind of model"),
    **{
        f"a cut, {field} {value}": (
            "scores", in_body("Cut", **{field: number(value)}), f"Cut.{field} outside")
        for field, value in (("first", NAN), ("second", NAN), ("chance", NAN), ("chance", 7),
                             ("chance", -5))
    },
    "half a decision to turn": ("scores", in_body("Ranking", turned=0.5), "Ranking.turned outside"),
    "the other decision to turn": ("scores", in_body("Ranking", turned=1.0), "FlipPlan whose"),
    "a ranking without its model": (
        "scores", in_body("Ranking", rank="outcome"), "Ranking whose parts"),
    "a ranking without scores": (
        "labels", in_body("Ranking", rank="score"), "a ranking by scores that there are not"),
    "a rate of nan": ("scores", in_body("RealisedGap", rate=number(NAN)), "RealisedGap.rate"),
    "an edit of nothing": ("scores", in_body("_Axis", weight=0.0), "_Axis.weight outside"),
    "no scale": ("scores", in_body("_Axis", scale=0.0), "_Axis.scale outside"),
    "closed by nan": ("scores", in_body("Outlook", gap_after=number(NAN),
                                        by_metric=several()), "FlipPlan whose parts"),
    "closed by far": ("scores", in_body("Outlook", gap_after=0.5, by_metric=several()),
                      "FlipPlan whose parts"),
    "more than everybody": ("scores", in_body("Outlook", edited=7.0), "Outlook.edited outside"),
    "a p-value of 3": ("scores", in_body("Gap", p_value=3.0), "Gap.p_value outside"),
    "minus people": ("scores", in_body("GroupSummary", n=-5), "GroupSummary.n outside"),
    "surer than sure": ("scores", in_body("Audit", confidence=2.0), "Audit.confidence outside"),
    "gaps of strangers": ("scores", in_body("Gap", target="z"), "Audit whose parts"),
    "no fingerprint": (
        "scores", lambda c: with_body(c, put("fingerprint", "x")), "Body.fingerprint outside"),
    **{
        f"{name} = {value!r}": ("scores", setting(name, value), message)
        for name, value, message in (
            ("level", 7, "level must lie between 0 and 1"),
            ("level", number(NAN), "level must lie between 0 and 1"),
            ("method", "os:system", "Body whose parts"),
            ("rank", "luck", "another type for 'rank'"),
            ("unknown_group", "guess", "another type for 'unknown_group'"),
            ("target", "z", "target must be one of"),
            ("reference", "z", "reference must be one of"),
            ("favorable_label", 5, "favorable_label must be"),
            ("outcome_model", "os:system", "outcome_model must be"),
            ("outcome_model", 5, "another type for 'outcome_model'"),
            ("groups_from", {"$": "not stored", "is": "f"}, "another type for 'groups_from'"),
            ("do_no_harm", 1, "another type for 'do_no_harm'"),
            ("random_state", -1, "random_state must be"),
            ("immutable", several("nobody"), "immutable must name inputs"),
            ("cost", "free", "cost must be"),
            ("disparity", "luck", "metric must be one of"),
        )
    },
    "another method throughout": (
        "scores", lambda c: setting("method", "os:system")(
            with_body(c, lambda b: first_of(b, "FlipPlan").update(method="os:system"))),
        "method must be one of"),
    "knots in disorder": ("order", in_array("OrderPlan", "knots", backwards), "knots outside"),
    "a place nowhere": ("order", in_array("OrderPlan", "place", to(10**6)), "OrderPlan whose"),
    "a shift to nan": ("order, soft", in_body("ShiftPlan", low_shift=number(NAN)), "low_shift"),
    "a price of 1e308": ("soft", in_body("SoftPlan", high_price=FAR), "high_price outside"),
    "a soft chance of 7": ("soft", in_body("SoftPlan", chance=7), "SoftPlan.chance outside"),
    "a law of two": (
        "transport", in_array("CouplingPlan", "probability", to(0.0)), "CouplingPlan whose parts"),
    "a law of nan": (
        "transport", in_array("CouplingPlan", "probability", to(NAN)), "probability outside"),
    "a turn of 7": ("joint", in_array("JointPlan", "chance", to(7.0)), "JointPlan.chance outside"),
    "a slope of nan": ("labels", in_array("Logistic", "slope", to(NAN)), "Logistic.slope outside"),
    "a slope of 1e308": ("labels", in_array("Logistic", "slope", to(FAR)), "Logistic.slope"),
    "an intercept of inf": (
        "labels", in_body("Logistic", intercept=number(np.inf)), "Logistic.intercept outside"),
    "numbers for text": (
        "mixed", lambda c: with_body(c, set_first_named("_Axis", "town", values=several())),
        "costs of text as if it were numbers"),
    "half of a letter": (
        "scores", in_body("AuditData", attribute="\ud800"), "half of a letter"),
}  # fmt: skip


def set_first_named(tag, name, **fields):
    """The first object of a kind that is about a column."""

    def change(tree):
        if isinstance(tree, dict) and (tree.get("$"), tree.get("name")) == (tag, name):
            tree.update(fields)
        for one in tree.values() if isinstance(tree, dict) else tree:
            if isinstance(one, dict | list):
                change(one)

    return change


@pytest.mark.slow
@pytest.mark.parametrize("what", FORGED)
def test_a_forged_value_is_refused_by_its_name(what, saved, folder, tmp_path):
    """The hashes fit: what the value may be is asked as in fit."""
    case, forge, message = FORGED[what]
    (tmp_path / "forged").write_bytes(packed(forge(members(folder / f"{case}.fairmend"))))
    with pytest.raises(ArtifactError, match=message):
        fairmend.load(tmp_path / "forged", vendor(case), check_model=False)


def test_a_fit_of_figures_that_make_no_sense_is_refused():
    """The question that load asks of a file is asked of what fit has made."""

    def careless(problem):
        plan = fairmend.repair.least_change.least_change(problem)
        return replace(plan, cut=replace(plan.cut, chance=NAN))

    with pytest.raises(DataError, match=r"method='careless': .* Cut\.chance outside its limits"):
        fitted("scores", method=careless)


@pytest.mark.parametrize("recorded", [True, False])
def test_no_address_in_an_artifact_is_ever_asked(good, recorded, tmp_path):
    """Whoever forged it would be sent the probe's rows in load, and people's in predict."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/invocations"
        forged = as_model(column=address, recorded=recorded)(members(good))
        (tmp_path / "forged").write_bytes(forged)
        with pytest.raises(ArtifactError, match="must name a column of recorded predictions"):
            fairmend.load(tmp_path / "forged")
        with pytest.raises(TimeoutError):
            server.accept()


LIMITED = """
import json, resource, sys
sys.path.insert(0, {tests!r})
import test_artifact as t
t.fairmend.load({good!r}, t.coarse)  # everything that is imported is there now
def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what)) << 10
limit = memory("VmSize:") + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = memory("VmHWM:")
said = []
for number in range(len(t.TAMPERED)):
    try:
        t.fairmend.load({place!r} + "/" + str(number), t.coarse)
        said.append("loaded")
    except t.ArtifactError as error:
        said.append(str(error))
print(json.dumps([said, memory("VmHWM:") - before]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and limits the address space")
def test_no_tampered_artifact_takes_a_hundred_megabytes_to_refuse(tampered, good):
    code = LIMITED.format(tests=str(Path(__file__).parent), good=str(good), place=str(tampered))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    said, more = json.loads(done.stdout)
    assert more < 100 << 20
    for how, text in zip(TAMPERED, said, strict=True):
        assert re.search(TAMPERED[how][1], text), how


# -------------------------------------------------------------------- any damage at all


PLACES = st.integers(0, 10**6)
FLIPS = st.lists(st.tuples(PLACES, st.integers(1, 255)), max_size=3)


def flipped(content, flips):
    changed = bytearray(content)
    for at, bits in flips:
        changed[at % len(changed)] ^= bits
    return bytes(changed)


@given(flips=FLIPS, end=st.none() | PLACES)
@settings(max_examples=100, deadline=None)
def test_flipped_and_missing_bytes_are_noticed(good, flips, end):
    whole = good.read_bytes()
    damaged = flipped(whole, flips)[: None if end is None else end % len(whole)]
    path = good.with_name("damaged")
    path.write_bytes(damaged)
    try:
        loaded = fairmend.load(path, coarse, key=KEY)
    except ArtifactError:
        assert damaged != whole
        return
    loaded.save(path, overwrite=True)
    assert path.read_bytes() == whole


def nodes(tree, path=()):
    yield path
    for key, one in (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    ):
        yield from nodes(one, (*path, key))


ODD = st.sampled_from([
    None, True, False, 0, 1, -1, 7, 10**30, 0.5, -1e300, "", "x", "town", "datetime64[ns]", [], {},
    {"$": "box"}, {"$": "array", "dtype": "float64", "shape": [0], "table": 0},
    {"$": "float", "is": "nan"}, {"$": "tuple", "of": []}, {"$": "tuple", "of": [1]},
    {"$": "timedelta", "is": [10**12, 0, 0]}, {"$": "date", "is": "0000-00-00"},
    {"$": "rate", "is": "sp"}, {"$": "dict", "of": [[1]]}, {"$": "dict", "of": [[[], 1]]},
    {"$": "not stored", "is": "x"}, {"$": "missing", "is": "NAType"},
])  # fmt: skip


@pytest.mark.slow
@given(place=PLACES, odd=ODD)
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("case", ["scores", "mixed", "transport"])
def test_a_repair_with_any_value_replaced_loads_or_is_refused(case, saved, folder, place, odd):
    """With hashes that fit: the reader, not the hash, must notice what makes no sense."""
    content = members(folder / f"{case}.fairmend")
    body = json.loads(content["repair.json"])
    every = list(nodes(body))[1:]
    path = every[place % len(every)]
    at = body
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    target = folder / "forged"
    target.write_bytes(packed(sealed({**content, "repair.json": json.dumps(body).encode()})))
    with contextlib.suppress(ArtifactError):
        assert fairmend.load(target, vendor(case), check_model=False).data_.n > 0


@pytest.fixture(scope="module")
def forgery():
    from scripts import loaded  # this module is also run by itself, in no package

    with loaded("_forged") as found:
        yield found.forged


@pytest.fixture(scope="module")
def forgers(forgery, folder):
    """A forger of each kind of artifact, made when first asked for."""
    made = {}

    def forger(kind):
        if kind not in made:
            place = folder / f"forger of {kind}"
            place.mkdir()
            forgery.fitted(kind).save(place / "whole")
            made[kind] = forgery.Forger(place / "whole", forgery.model_of(kind))
        return made[kind]

    return forger


SWEPT = ("least_change by score", "order", "transport", "mixed columns", "mixed columns in Polars")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SWEPT)
@given(member=PLACES, flips=FLIPS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_byte_changed_by_a_forger_is_refused_or_does_no_harm(forgers, kind, member, flips):
    """A sample of experiments/forged.py: hashes and description fit."""
    forger = forgers(kind)
    name = list(forger.members)[member % len(forger.members)]
    found = forger.judged({name: flipped(forger.members[name], flips)}, turn=member)
    assert found in ("refused", "sound")


def test_what_packs_just_beyond_the_limit_is_stored_and_read(tmp_path):
    """A zip's deflate is six bytes shorter than zlib's: both sides must mean the same."""
    path, name = tmp_path / "packed", "tables/0000.bin"
    noise = np.random.default_rng(0).bytes(200)
    for zeros in range(28_000, 34_000, 100):  # from below 100 to 1 to beyond it
        content = noise + bytes(zeros)
        with path.open("wb") as file:
            pack(file, {MANIFEST: b"{}", name: content})
        with opened(path) as container:
            assert container.unpack(name) == content


@pytest.mark.parametrize("given", [b"repaired", 7, None])
@pytest.mark.parametrize("read", [fairmend.load, inspect])
def test_what_is_no_path_is_told(read, given):
    got = f"artifact: must be the path of a file; got {type(given).__name__}. Pass its name."
    with pytest.raises(ArtifactError, match=got):
        read(given)
