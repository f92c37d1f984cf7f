"""The embedded tables: the paper's own, row for row, in every backend."""

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmend.datasets import load_adult, load_compas
from fairmend.datasets.raw import find_adult, find_compas, read_adult, read_compas
from fairmend.errors import DataError, MissingExtra

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
needs_shared_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the paper's and the raw tables are not on this machine"
)

EACH = pytest.mark.parametrize(
    ("load", "people", "features", "distinct", "distinct_people"),
    # Distinct rows: by features alone, and with group and label.
    [(load_adult, 32_561, 16, 1_267, 2_688), (load_compas, 6_172, 17, 137, 348)],
    ids=["adult", "compas"],
)


@EACH
def test_counts(load, people, features, distinct, distinct_people):
    table = load()
    assert table.X.shape == (people, features)
    assert table.y.shape == (people,)
    assert list(table.X.columns) == list(table.feature_names)
    assert table.X.drop_duplicates().shape[0] == distinct
    everything = table.X.assign(s=table.sensitive_features, y=table.y)
    assert everything.drop_duplicates().shape[0] == distinct_people


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (
            load_adult,
            {("Female", 0): 9_592, ("Female", 1): 1_179, ("Male", 0): 15_128, ("Male", 1): 6_662},
        ),
        (
            load_compas,
            {
                ("non-white", 0): 2_082,
                ("non-white", 1): 1_987,
                ("white", 0): 1_281,
                ("white", 1): 822,
            },
        ),
    ],
    ids=["adult", "compas"],
)
def test_groups_and_labels(load, expected):
    table = load()
    counted = pd.Series(table.y).groupby(table.sensitive_features).value_counts()
    assert counted.to_dict() == expected


@needs_shared_data
@pytest.mark.parametrize(
    ("load", "file", "label", "group"),
    [
        (load_adult, "adult_proxy_data.csv", "IncomeOver50K", "Sex"),
        (load_compas, "compas_proxy_data.csv", "arrest", "race"),
    ],
    ids=["adult", "compas"],
)
def test_equals_the_papers_table_in_its_order(load, file, label, group):
    paper = pd.read_csv(SHARED / file)
    table = load()
    pd.testing.assert_frame_equal(
        table.X, paper.drop(columns=[label, group]).astype(np.int8), check_dtype=True
    )
    np.testing.assert_array_equal(table.y, (paper[label] == 1).astype(np.int8))
    assert table.y.dtype == np.int8
    assert table.sensitive_features.name == group
    assert table.sensitive_features.tolist() == paper[group].tolist()


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "embed_datasets", ROOT / "scripts" / "embed_datasets.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@needs_shared_data
def test_derivation_from_the_raw_files_equals_what_is_embedded(script):
    compas, adult = script.COMPAS, script.ADULT
    raw = read_compas(find_compas(SHARED), only=compas.raw_columns)
    for recipe, derived, embedded in [
        (adult, adult.derive(read_adult(find_adult(SHARED))), load_adult("numpy")),
        (compas, compas.derive(raw), load_compas("numpy")),
    ]:
        assert derived.feature_names == embedded.feature_names
        np.testing.assert_array_equal(derived.features, embedded.X)
        np.testing.assert_array_equal(derived.label, embedded.y)
        groups = np.array(recipe.info.groups)[derived.group]
        np.testing.assert_array_equal(groups, embedded.sensitive_features)


@needs_shared_data
def test_script_writes_the_embedded_contents_and_repeats_its_bytes(script, tmp_path):
    for attempt in ("first", "second"):
        (tmp_path / attempt).mkdir()
        script.main([str(SHARED), str(tmp_path / attempt)])
    for name in ("adult.npz", "compas.npz"):
        first = (tmp_path / "first" / name).read_bytes()
        assert first == (tmp_path / "second" / name).read_bytes()
        # Another zlib may pack the same contents into other bytes, so contents are compared.
        embedded = np.load(ROOT / "src" / "fairmend" / "datasets" / name, allow_pickle=False)
        written = np.load(tmp_path / "first" / name, allow_pickle=False)
        assert embedded.files == written.files
        for member in embedded.files:
            np.testing.assert_array_equal(embedded[member], written[member])


@pytest.mark.parametrize("name", ["adult.npz", "compas.npz"])
def test_files_are_small_and_plain(name):
    file = ROOT / "src" / "fairmend" / "datasets" / name
    assert file.stat().st_size < 64 * 1024
    with np.load(file, allow_pickle=False) as stored:
        assert stored["rows"].dtype == np.uint8
        assert stored["index"].dtype == np.uint16
        assert set(np.unique(stored["rows"])) == {0, 1}


@pytest.mark.parametrize("load", [load_adult, load_compas])
def test_backends_hold_the_same_values(load):
    plain, pandas, polars, arrow = map(load, ("numpy", "pandas", "polars", "pyarrow"))
    assert plain.X.dtype == np.int8
    assert (pandas.X.dtypes == np.int8).all()
    assert {str(dtype) for dtype in polars.X.dtypes} == {"Int8"}
    assert {str(field.type) for field in arrow.X.schema} == {"int8"}
    assert pandas.sensitive_features.name == polars.sensitive_features.name == plain.sensitive_name
    np.testing.assert_array_equal(plain.X, pandas.X.to_numpy())
    np.testing.assert_array_equal(plain.X, polars.X.to_numpy())
    np.testing.assert_array_equal(plain.X, arrow.X.to_pandas().to_numpy())
    groups = plain.sensitive_features.tolist()
    assert groups == pandas.sensitive_features.tolist()
    assert groups == polars.sensitive_features.to_list()
    assert groups == arrow.sensitive_features.to_pylist()
    assert repr(plain) == repr(pandas) == repr(polars) == repr(arrow)
    assert len(repr(plain)) < 120


def test_unknown_backend_is_refused():
    with pytest.raises(DataError, match="must be 'pandas', 'polars', 'pyarrow' or 'numpy'"):
        load_adult(backend="duckdb")


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_missing_backend_answers_with_the_pip_line(monkeypatch, backend):
    monkeypatch.setitem(sys.modules, backend, None)  # makes its import fail
    with pytest.raises(MissingExtra, match=rf"fairmend\[{backend}\]"):
        load_compas(backend=backend)
    assert load_compas(backend="numpy").X.shape == (6_172, 17)


def test_bunch_reads_both_ways_and_is_frozen():
    table = load_compas("numpy")
    assert table["X"] is table.X
    assert set(dict(table)) == set(table.keys()) == set(table)
    with pytest.raises(KeyError):
        table["Z"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.y = None


def test_every_call_gives_arrays_of_its_own():
    first = load_compas()
    first.y[:] = 7
    first.X.iloc[:, :] = 7
    second = load_compas()
    assert set(second.y) == {0, 1}
    assert second.X.to_numpy().max() == 1


def test_descriptions_name_source_and_licence():
    assert "CC BY 4.0" in load_adult("numpy").description
    assert "ProPublica" in load_compas("numpy").description


def test_import_brings_no_heavy_package():
    code = (
        "import sys, fairmend.datasets; "
        "print({'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
