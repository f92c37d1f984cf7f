"""``fairmend key``: a secret for people's draws."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.output import print_json, say
from fairmend.errors import DataError


def key(
    file: Annotated[str, typer.Argument(help="Where to write it.", metavar="FILE")],
    as_json: o.AsJson = False,
) -> None:
    """Make the secret that people's draws depend on, in a file only you can read.

    It is never overwritten: with another key, people would be drawn anew.
    """
    from fairmend.apply.draw import Drawer, random_key
    from fairmend.data.files import writing

    if os.path.lexists(file):
        raise DataError(
            f"output {file!r}",
            "must not exist yet",
            "there is such a file",
            "Choose another name: a key is never overwritten. Repairs made with the old key need "
            "the old key.",
        )
    secret = random_key()
    before = os.umask(0o077)
    try:
        with writing(Path(file)) as out:
            out.write(secret.hex().encode() + b"\n")
    finally:
        os.umask(before)
    fingerprint = Drawer(secret).fingerprint
    if as_json:
        print_json("fairmend.key/1", {"file": file, "fingerprint": fingerprint})
    else:
        say(f"wrote {file}, a key with fingerprint {fingerprint}; keep it, and keep it secret")
