"""What an engine's map returned, as a frame that tests can compare."""

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
