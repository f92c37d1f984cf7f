"""A repair as a server uses it, against the classifier: the same edits in every container."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import fairmend
import vendors
from fairmend.data.columns import Frame
from fairmend.model.remote import cells
from fairmend.serve.repairer import Repairer

TYPES = {
    "pandas": lambda X: X,
    "categories": lambda X: X.astype({"place": "category"}),
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "numpy": lambda X: X.drop(columns="place").to_numpy(),
}


def vendor(native):
    rows = cells(Frame.read(native))
    return [1 / (1 + np.exp(-(r[0] / 20 + 1.5 * r[1] + 0.5 * r[2] - 3.5))) for r in rows]


@pytest.mark.parametrize(
    ("method", "kind"), [*(("least_change", kind) for kind in TYPES), ("transport", "pandas")]
)
def test_laws_and_draws_are_the_classifiers(method, kind):
    if method == "transport":
        pytest.importorskip("ot", reason="transport needs POT")
    X, y, group = vendors.people(1_500)
    X["place"] = np.where(X.urban == 1, "town", "village")
    new, _, their = vendors.people(150, seed=7)
    new["place"] = np.where(new.urban == 1, "town", "country")  # a value not seen in the audit
    if method == "transport":
        X, new = X.drop(columns="place"), new.drop(columns="place")
    convert, ids = TYPES[kind], [f"person {i}" for i in range(150)]
    fitted = fairmend.RepairedClassifier(vendor, "fnr", method=method, random_state=0)
    fitted.fit(convert(X), y, sensitive_features=group)
    expected = fitted.transform(convert(new), sensitive_features=their, ids=ids)
    decisions = fitted.predict(convert(new), sensitive_features=their, ids=ids)

    repairer = Repairer(fitted, "0" * 64, ("group", "id"))
    assert [repairer.group([f" {label} "]) for label in set(their)] == list(set(their))
    rows = [tuple(row) for row in cells(Frame.read(convert(new)))]
    said = repairer.read(vendor(convert(new)))
    found = []
    for row, each, label, person in zip(rows, said, their, ids, strict=True):
        there = None
        place = repairer.plan_place(repairer.group([label]))
        if place is not None:
            [law] = repairer.find_laws(place, [row], [each])
            assert repairer.law(place, row, each) is law
            there = repairer.destination(law, row, person)
        found.append(row if there is None else there)
    assert found == [tuple(row) for row in cells(Frame.read(expected))]
    assert any(a != b for a, b in zip(found, rows, strict=True))
    after = repairer.read(vendor(repairer.schema.frame(found).native))
    decided = [repairer.decide(e, r, p) for e, r, p in zip(after, rows, ids, strict=True)]
    assert decided == decisions.tolist()
