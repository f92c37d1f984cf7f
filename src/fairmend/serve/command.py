"""``fairmend serve``, for the command line to mount."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairmend.errors import require

__all__ = ["serve"]


def serve(
    artifact: Annotated[Path | None, typer.Argument(help="A saved repair.")] = None,
    upstream: Annotated[str | None, typer.Option(help="The vendor's address.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    mode: Annotated[str | None, typer.Option(help="shadow, repair or off.")] = None,
    basis: Annotated[
        str | None, typer.Option(help="Why decisions may be changed; recorded, needed for repair.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(help="The decision log: a SQLite file, or an address.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where clients are served.")] = None,
    port: Annotated[int | None, typer.Option(help="Their port.")] = None,
    admin_port: Annotated[int | None, typer.Option(help="The operators' port.")] = None,
    group: Annotated[str | None, typer.Option(help="The column that holds the group.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that holds the person's id.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="The secret for draws; else in $FAIRMEND_KEY.")
    ] = None,
) -> None:
    """Serve a repaired model in front of the vendor's address.

    In shadow, the default, clients get the vendor's own answers and the log says what a repair
    would have done.
    """
    for module in ("starlette", "uvicorn", "aiohttp", "msgspec", "prometheus_client"):
        require(module, extra="serve", why="fairmend serve")
    from fairmend.serve.config import read_config
    from fairmend.serve.run import run

    def text(path: Path | None) -> str | None:
        return None if path is None else str(path)

    settings = read_config(
        config, artifact=text(artifact), upstream=upstream, mode=mode, basis=basis, log=log,
        host=host, port=port, admin_port=admin_port, group=group, id=id_column,
        key_file=text(key_file),
    )  # fmt: skip
    run(settings)
