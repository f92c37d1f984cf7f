"""The door to the command line: ``fairmend``, or ``python -m fairmend``."""

from __future__ import annotations

import sys

from fairmend.cli.streams import prepare
from fairmend.errors import MissingExtra, require


def main() -> None:
    """Start the command line, or say how to install it."""
    prepare()
    try:
        require("typer", extra="cli", why="the command line")
    except MissingExtra as error:
        print(f"fairmend: {error}", file=sys.stderr)
        sys.exit(2)
    from fairmend.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
