"""Inputs of new people against those of the audit."""

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

from fairmend.data.columns import Frame
from fairmend.measure.drift import AuditedInputs, _binned

FALSE_ALERTS = 0.05


def test_distance_and_p_value_are_those_of_the_column_named():
    """One value is too frequent for chance, but few have it; the other column strays by chance."""
    kinds, places = np.meshgrid([0, 1], np.arange(8), indexing="ij")
    table = pd.DataFrame({"kind": kinds.ravel(), "place": places.ravel()})
    people = np.where(table.kind == 0, 996.0, 4.0)
    audited = AuditedInputs(Frame.read(table), people, people)
    here = np.array([12, 4, 9, 5, 11, 6, 2, 8, 3, 0, 0, 0, 0, 0, 0, 0], float)
    moved, alert = audited.most_moved(here, 0, FALSE_ALERTS / 45)
    assert (moved.column, moved.value, alert) == ("place", "0", False)
    by_place = here.reshape(2, 8).sum(0)
    np.testing.assert_allclose(moved.distance, np.abs(by_place / 60 - 1 / 8).sum() / 2)
    np.testing.assert_allclose([moved.before, moved.now], [1 / 8, 15 / 60])
    exact = min(
        fisher_exact([[k, 60 - k], [1000, 7000]], alternative=side).pvalue
        for k in by_place
        for side in ("less", "greater")
    )
    np.testing.assert_allclose(moved.p_value, min(1.0, 2 * exact * 8 * 3), rtol=1e-9)

    here[:8] = [30, 2, 3, 2, 2, 3, 2, 2]
    moved, alert = audited.most_moved(here, 0, FALSE_ALERTS / 45)
    assert (moved.column, moved.value, alert) == ("place", "0", True)
    here[8:] = 10
    moved, alert = audited.most_moved(here, 0, FALSE_ALERTS / 45)
    assert (moved.column, alert) == ("kind", True)
    moved, alert = audited.most_moved(here // 10, 200, FALSE_ALERTS / 45)
    assert (moved.column, alert) == ("row", True)


def test_bins_are_tenths_of_people_and_what_is_missing_is_one():
    column = pd.Series([0.0] * 60 + [*range(1, 31)] + [None] * 10, name="gain")
    encoded = Frame.read(column.drop_duplicates().to_frame()).encoded[0]
    people = np.array([60.0] + [1.0] * 30 + [10.0])
    bins, labels = _binned(encoded, people)
    assert labels == ["0", "1 to 3", "4 to 12", "13 to 21", "from 22", "missing"]
    assert np.bincount(bins, people).tolist() == [60, 3, 9, 9, 9, 10]
    numbers = Frame.read(pd.DataFrame({"age": np.arange(20)})).encoded[0]
    labels = _binned(numbers, np.ones(20))[1]
    assert (labels[0], labels[1], labels[-1]) == ("up to 1", "2 to 3", "from 18")
