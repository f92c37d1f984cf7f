"""What an engine's map returned, as a frame that tests can compare."""

import numpy as np
import pandas as pd


def fetched(mapped):
    """A pandas frame in the order of ids, from whatever container an engine answers in."""
    kind = type(mapped).__name__
    if kind == "RecordBatchReader":
        mapped = mapped.read_all().to_pandas()
    elif kind == "LazyFrame":
        mapped = mapped.collect(engine="streaming").to_pandas()
    elif type(mapped).__module__.startswith("dask"):
        mapped = mapped.compute()
    elif type(mapped).__module__.startswith("pyspark"):
        mapped = mapped.toArrow().to_pandas()
    assert isinstance(mapped, pd.DataFrame)
    return mapped.sort_values("id", ignore_index=True)


def assert_same(found, expected, names):
    """The same decisions and, where edited rows are given, the same cells: pairs of both."""
    (decision, edited), (own, rows) = found, expected
    np.testing.assert_array_equal(np.asarray(decision), own)
    if edited is not None:
        for name in names:
            assert list(map(plain, edited[name])) == list(map(plain, rows[name])), name


def plain(value):
    """Numbers as numbers, whatever missing is as None."""
    if pd.isna(value):
        return None
    return value if isinstance(value, str) else float(value)
