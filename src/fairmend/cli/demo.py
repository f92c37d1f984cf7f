"""``fairmend demo``: the whole walk on embedded data, or a file to try the other commands with."""

from __future__ import annotations

import contextlib
import io
from typing import IO, Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.output import print_json, say

Write = Annotated[
    str | None,
    typer.Option(
        help="Instead write the people, with the model's scores, as a CSV to try with.",
        metavar="FILE",
        rich_help_panel=o.OUTPUT,
    ),
]


def demo(write: Write = None, force: o.Force = False, as_json: o.AsJson = False) -> None:
    """Audit, explain and mend a stand-in vendor model on real data."""
    from fairmend.demo import main as run

    if write is not None:
        from fairmend.files import writing

        with writing(write, overwrite=force) as out:
            people = _scored_file(out)
        if as_json:
            print_json("fairmend.demo/1", {"file": write, "people": people})
        else:
            say(
                f"wrote {write}: {people:,} people of UCI's Adult table, scored by a stand-in model"
            )
    elif as_json:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run()
        print_json("fairmend.demo/1", {"text": printed.getvalue().splitlines()})
    else:
        run()


def _scored_file(out: IO[bytes]) -> int:
    """Every second person of Adult, as a vendor who trained on the others might hand them over."""
    import numpy as np
    import polars as pl
    from sklearn.linear_model import LogisticRegression

    from fairmend.datasets import load_adult

    adult = load_adult()
    inputs = np.asarray(adult.X)
    model = LogisticRegression(C=100, max_iter=1_000).fit(inputs[::2], adult.y[::2])
    score = model.predict_proba(inputs[1::2])[:, 1].round(3)
    names = [str(name) for name in adult.X.columns]
    table = pl.DataFrame(
        {
            "person": [f"P{i:06d}" for i in range(1, 2 * len(score), 2)],
            **{name: inputs[1::2, j] for j, name in enumerate(names)},
            "sex": [str(sex) for sex in np.asarray(adult.sensitive_features)[1::2]],
            "score": score,
            "over_50k": np.asarray(adult.y)[1::2],
        }
    )
    table.write_csv(out)
    return table.height
