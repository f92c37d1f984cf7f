"""The raw loaders, on small files of made-up people."""

import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from fairmend.datasets import load_adult_raw, load_compas_raw
from fairmend.datasets.raw import read_compas
from fairmend.errors import DataError

SHARED = Path(__file__).parents[2].parent / "shared" / "data"

ADULT_LINES = [
    "33, Private, 100001, Bachelors, 13, Never-married, Sales, Own-child, White, Female, "
    "0, 0, 40, United-States, <=50K",
    "58, ?, 100002, HS-grad, 9, Widowed, ?, Unmarried, Black, Male, 500, 0, 20, ?, >50K",
    "47, State-gov, 100003, Masters, 14, Divorced, Tech-support, Unmarried, Other, Female, "
    "0, 10, 45, Peru, >50K",
]
ADULT_NAMES = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country"),
]

COMPAS_TEXT = """\
id,name,first,last,sex,dob,age,race,juv_fel_count,decile_score,juv_misd_count,priors_count,\
days_b_screening_arrest,c_case_number,c_charge_degree,is_recid,violent_recid,decile_score,score_text,\
priors_count,two_year_recid
1,A A,A,A,Male,2001-01-01,30,Caucasian,0,3,0,2,-1,X1,F,0,,9,Low,9,0
2,B B,B,B,Female,2001-01-02,41,Other,0,8,1,0,,X2,M,1,,9,High,9,1
3,C C,C,C,Male,2001-01-03,22,Hispanic,1,5,0,6,30,X3,M,1,,9,Medium,9,1
4,D D,D,D,Male,2001-01-04,22,Hispanic,1,5,0,6,31,X4,M,1,,9,Medium,9,1
5,E E,E,E,Male,2001-01-05,22,Hispanic,1,5,0,6,0,X5,O,1,,9,Medium,9,1
6,F F,F,F,Male,2001-01-06,22,Hispanic,1,5,0,6,0,X6,F,-1,,9,Medium,9,0
7,G G,G,G,Male,2001-01-07,22,Hispanic,1,5,0,6,0,X7,F,1,,9,N/A,9,0
"""


@pytest.fixture
def adult_data(tmp_path):
    file = tmp_path / "adult.data"
    file.write_text("\n".join(ADULT_LINES) + "\n\n")
    return file


@pytest.fixture(params=["compas_two_years.csv", "compas-scores-two-years.csv"])
def compas_file(tmp_path, request):
    file = tmp_path / request.param
    file.write_text(COMPAS_TEXT)
    return file


def test_adult_types_missing_values_and_label(adult_data):
    adult = load_adult_raw(adult_data)
    assert list(adult.X.columns) == ADULT_NAMES
    assert adult.y.tolist() == [0, 1, 1]
    assert adult.y.dtype == np.int8
    assert adult.sensitive_features.tolist() == ["Female", "Male", "Female"]
    assert adult.sensitive_features.name == "sex"
    assert adult.X["age"].tolist() == [33, 58, 47]
    assert adult.X["age"].dtype == np.int64
    assert adult.X["workclass"].isna().tolist() == [False, True, False]
    assert adult.X["native-country"][2] == "Peru"


def test_adult_test_format_reads_the_same(tmp_path, adult_data):
    test_file = tmp_path / "adult.test"
    test_file.write_text("|1x3 Cross validator\n" + "".join(f"{x}.\n" for x in ADULT_LINES) + "\n")
    as_data, as_test = load_adult_raw(adult_data), load_adult_raw(test_file)
    pd.testing.assert_frame_equal(as_data.X, as_test.X)
    np.testing.assert_array_equal(as_data.y, as_test.y)


def test_adult_backends(adult_data):
    polars, arrow, plain = (load_adult_raw(adult_data, b) for b in ("polars", "pyarrow", "numpy"))
    assert polars.X["workclass"].to_list() == ["Private", None, "State-gov"]
    assert arrow.X["workclass"].to_pylist() == ["Private", None, "State-gov"]
    assert plain.X[:, 1].tolist() == ["Private", None, "State-gov"]
    assert plain.X[:, 0].tolist() == arrow.X["age"].to_pylist() == [33, 58, 47]


def test_a_folder_will_do(adult_data):
    assert load_adult_raw(adult_data.parent).y.size == 3


def test_a_path_that_is_not_there_says_so(tmp_path):
    with pytest.raises(DataError, match=r"a folder that holds adult\.data or adult\.test"):
        load_adult_raw(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (ADULT_LINES[0].rpartition(",")[0], "15 values a line"),
        (ADULT_LINES[0].replace("<=50K", "rich"), "got 'rich'"),
        (ADULT_LINES[0].replace("<=50K", "?"), "got None"),
        (ADULT_LINES[0].replace("33", "young"), "'age': must hold numbers; got 'young'"),
    ],
)
def test_adult_that_is_not_adult_is_refused(adult_data, line, complaint):
    adult_data.write_text(line + "\n")
    with pytest.raises(DataError, match=complaint):
        load_adult_raw(adult_data)


def test_without_a_path_adult_comes_from_openml(monkeypatch, adult_data):
    from_file = load_adult_raw(adult_data)
    asked = {}

    def fetch_openml(**how):
        asked.update(how)
        data = from_file.X.astype({"sex": "category", "workclass": "category"})
        return SimpleNamespace(data=data, target=pd.Series(["<=50K", ">50K", ">50K"]))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    fetched = load_adult_raw()
    assert asked["data_id"] == 1590
    pd.testing.assert_frame_equal(fetched.X, from_file.X)
    np.testing.assert_array_equal(fetched.y, from_file.y)


def test_openml_out_of_reach_says_what_to_do(monkeypatch):
    def fetch_openml(**_):
        raise URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    with pytest.raises(DataError, match=r"no route to host.*Give path=.*load_adult\(\)"):
        load_adult_raw()


def test_compas_without_a_file_says_where_to_get_one():
    with pytest.raises(DataError, match=r"compas-scores-two-years\.csv.*load_compas\(\)"):
        load_compas_raw()


def test_compas_columns_types_and_first_of_duplicates(compas_file):
    compas = load_compas_raw(compas_file)
    assert list(compas.X.columns) == [
        *("sex", "age", "race", "juv_fel_count", "decile_score", "juv_misd_count"),
        *("priors_count", "days_b_screening_arrest", "c_charge_degree", "is_recid"),
        *("violent_recid", "score_text"),
    ]
    assert compas.X["decile_score"].tolist() == [3, 8, 5, 5, 5, 5, 5]
    assert compas.X["priors_count"].tolist() == [2, 0, 6, 6, 6, 6, 6]
    assert compas.X["days_b_screening_arrest"].isna().sum() == 1
    assert compas.X["violent_recid"].isna().all()
    assert compas.y.tolist() == [0, 1, 1, 1, 1, 0, 0]
    assert compas.sensitive_features.tolist()[:2] == ["Caucasian", "Other"]


def test_compas_filter_drops_each_of_propublicas_reasons(compas_file):
    compas = load_compas_raw(compas_file.parent, backend="polars", filtered=True)
    # Person 2 has no screening date, 4 a late one, 5 an O charge, 6 no trace, 7 no score.
    assert compas.X["age"].to_list() == [30, 22]
    assert compas.y.tolist() == [0, 1]


def test_compas_reader_takes_only_what_it_is_asked_for(compas_file):
    assert set(read_compas(compas_file, only=["age", "sex"])) == {"age", "sex"}
    with pytest.raises(DataError, match="'height' is missing"):
        read_compas(compas_file, only=["age", "height"])


def test_compas_with_a_short_line_is_refused(compas_file):
    compas_file.write_text(COMPAS_TEXT + "8,H H\n")
    with pytest.raises(DataError, match="got 2 on line 9"):
        load_compas_raw(compas_file)


def test_compas_without_its_label_is_refused(tmp_path):
    file = tmp_path / "compas_two_years.csv"
    file.write_text("race,age\nOther,30\n")
    with pytest.raises(DataError, match="'two_year_recid' is missing"):
        load_compas_raw(file)


def test_numpy_backend_needs_no_frame_package(monkeypatch, adult_data, compas_file):
    for package in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    assert load_adult_raw(adult_data, "numpy").X.shape == (3, 14)
    assert load_compas_raw(compas_file, "numpy").X.shape == (7, 12)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the raw tables are not on this machine")
def test_the_published_files():
    assert load_adult_raw(SHARED / "adult.data").X.shape == (32_561, 14)
    test_part = load_adult_raw(SHARED / "adult.test")
    assert test_part.X.shape == (16_281, 14)
    assert int(test_part.y.sum()) == 3_846
    assert load_compas_raw(SHARED).y.size == 7_214
    assert load_compas_raw(SHARED, filtered=True).y.size == 6_172
