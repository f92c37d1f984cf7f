"""``fairmend demo``: the whole walk on embedded data, or a file to try the other commands with."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.output import check_output, print_json, say

if TYPE_CHECKING:
    import polars as pl


def demo(
    write: Annotated[
        str | None,
        o.output_option(
            "Write an example CSV instead: the people with the model's scores.", "FILE"
        ),
    ] = None,
    new: Annotated[
        str | None,
        o.output_option(
            "With --write: every third person goes into this CSV instead, as new people.", "FILE"
        ),
    ] = None,
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Audit, explain and repair a stand-in vendor model on real data."""
    from fairmend.cli.walk import main as run

    if new is not None and write is None:
        raise typer.BadParameter("needs --write FILE", param_hint="--new")
    if write is not None:
        _write(write, new, force=force, as_json=as_json)
    elif as_json:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run()
        print_json("fairmend.demo/1", {"text": printed.getvalue().splitlines()})
    else:
        run()


def _write(file: str, new: str | None, *, force: bool, as_json: bool) -> None:
    import polars as pl

    from fairmend.data.files import writing

    check_output("--write", file, force=force)
    if new is not None:
        check_output("--new", new, file, force=force)
    parts = {file: _scored_people()}
    if new is not None:
        third = pl.int_range(pl.len()) % 3 == 2
        parts = {file: parts[file].filter(~third), new: parts[file].filter(third)}
    for name, people in parts.items():
        with writing(name, overwrite=force) as out:
            people.write_csv(out)
    if as_json:
        written = {"file": file, "people": parts[file].height}
        if new is not None:
            written |= {"new": new, "new_people": parts[new].height}
        print_json("fairmend.demo/1", written)
        return
    for name, people in parts.items():
        say(
            f"wrote {name}: {people.height:,} people of UCI's Adult table, "
            "scored by a stand-in model"
        )


def _scored_people() -> pl.DataFrame:
    """Every second person of Adult, as a vendor who trained on the others might hand them over."""
    import numpy as np
    import polars as pl
    from sklearn.linear_model import LogisticRegression

    from fairmend.datasets import load_adult

    adult = load_adult("polars")
    inputs = adult.X.to_numpy()
    model = LogisticRegression(C=100, max_iter=1_000).fit(inputs[::2], adult.y[::2])
    score = model.predict_proba(inputs[1::2])[:, 1].round(3)
    return pl.DataFrame(
        {
            "person": [f"P{i:06d}" for i in range(1, 2 * len(score), 2)],
            **{name: inputs[1::2, j] for j, name in enumerate(adult.X.columns)},
            "sex": adult.sensitive_features.gather_every(2, 1),
            "score": score,
            "over_50k": np.asarray(adult.y)[1::2],
        }
    )
