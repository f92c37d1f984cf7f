"""The two steps that work on every row, run where the rows are.

`tabulate` counts distinct rows (`tabulate_into` into a file); `map_rows` applies a repair.
Everything between them is small and happens here, whatever the size of the data. `source` says more
about data than its place.
"""

from fairmend.engines import (  # noqa: F401  engines register themselves
    dask_frames,
    duck,
    lazy,
    local,
    paths,
    spark_frames,
    verbs,
)
from fairmend.engines.source import Engine, Source, source
from fairmend.engines.verbs import map_rows, tabulate, tabulate_into
from fairmend.measure import elsewhere

__all__ = ["Engine", "Source", "map_rows", "source", "tabulate", "tabulate_into"]

elsewhere.register(verbs)
