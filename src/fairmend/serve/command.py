"""``fairmend serve`` and ``fairmend log``, for the command line to mount."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairmend.errors import require

__all__ = ["log_app", "serve"]

log_app = typer.Typer(name="log", help="Look at a sidecar's decision log.", no_args_is_help=True)


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


@log_app.command("verify")
def verify_log(
    log: Annotated[str, typer.Argument(help="The log.")],
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier: it must still be in the log.")
    ] = None,
) -> None:
    """Follow the chain of a log: exit 0 if nothing was changed, 1 if something was."""
    from fairmend.serve.log import verify

    verdict = verify(log, head=head)
    for table, count in verdict.rows.items():
        typer.echo(f"{table}: {count:,} rows, head {verdict.heads[table]}")
    if not verdict.holds:
        typer.echo(f"BROKEN  {verdict.broken}", err=True)
        raise typer.Exit(1)
    typer.echo("The chain holds.")


@log_app.command("export")
def export_log(
    log: Annotated[str, typer.Argument(help="The log.")],
    to: Annotated[Path, typer.Argument(help="The Parquet file to write, NAME.parquet.")],
    table: Annotated[str, typer.Option(help="decisions, outcomes or events.")] = "decisions",
    force: Annotated[bool, typer.Option(help="Overwrite the file.")] = False,
) -> None:
    """Write a table of a log to a Parquet file."""
    from fairmend.serve.log import export

    count = export(log, to, table=table, overwrite=force)
    typer.echo(f"{count:,} rows written to {to}")
