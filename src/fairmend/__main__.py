"""The door to the command line: ``fairmend``, or ``python -m fairmend``."""

from __future__ import annotations

import sys

from fairmend.errors import MissingExtra, require


def main() -> None:
    """Start the command line, or say how to install it."""
    try:
        require("typer", extra="cli", why="the command line")
    except MissingExtra as error:
        print(f"fairmend: {error}", file=sys.stderr)
        sys.exit(2)
    from fairmend.cli import main as run

    run()


if __name__ == "__main__":
    main()
