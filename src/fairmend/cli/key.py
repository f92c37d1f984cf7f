"""``fairmend key``: a secret for people's draws."""

from __future__ import annotations

from typing import Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.output import print_json, say


def key(
    file: Annotated[str, typer.Argument(help="Where to write it.", metavar="FILE")],
    as_json: o.AsJson = False,
) -> None:
    """Make a key, the secret for draws, in a file that only you can read.

    A key is never overwritten: with another key, all draws would change.
    """
    from fairmend.apply.draw import write_key

    fingerprint = write_key(file)
    if as_json:
        print_json("fairmend.key/1", {"file": file, "fingerprint": fingerprint})
    else:
        say(f"wrote {file}, a key with fingerprint {fingerprint}; keep it, and keep it secret")
