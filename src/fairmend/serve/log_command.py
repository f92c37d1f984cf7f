"""``fairmend log``, for the command line to mount."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmend.errors import DataError

if TYPE_CHECKING:
    from fairmend.apply.draw import Drawer
    from fairmend.serve.log import LogKey

__all__ = ["log_app"]

log_app = typer.Typer(
    name="log", help="Check, read and complete a sidecar's decision log.", no_args_is_help=True
)
_LogArgument = Annotated[str, typer.Argument(help="The log: a SQLite file, or postgresql://...")]
_KeyFile = Annotated[
    Path | None, typer.Option(help="The key that the sidecar is given; else in $FAIRMEND_KEY.")
]
_LogKeyFile = Annotated[
    Path | None,
    typer.Option(help="The log's own key, if it has one; else in $FAIRMEND_LOG_KEY."),
]
MOST_CHECKPOINT_BYTES = 1 << 26


@log_app.command("verify")
def verify_log(
    log: _LogArgument,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier: it must still be in the log.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file of checkpoints: each must be of this log.")
    ] = None,
    key_file: _KeyFile = None,
    log_key_file: _LogKeyFile = None,
) -> None:
    """Check the chains of a log: exit 0 if nothing was changed, 1 if something was."""
    from fairmend.data.files import read_small
    from fairmend.serve.log import verify
    from fairmend.serve.log.chain import read_checkpoints

    noted = []
    if checkpoint is not None:
        what = f"--checkpoint {str(checkpoint)!r}"
        content = read_small(checkpoint, MOST_CHECKPOINT_BYTES, what)
        noted = read_checkpoints(content, what)
    verdict = verify(log, _log_key(key_file, log_key_file), head=head, checkpoints=noted)
    for table, count in verdict.rows.items():
        typer.echo(f"{table}: {count:,} rows, head {verdict.heads[table]}")
    if not verdict.holds:
        typer.echo(f"BROKEN  {verdict.broken}", err=True)
        raise typer.Exit(1)
    if verdict.erased:
        typer.echo(f"{verdict.erased:,} rows without content: somebody had it erased.")
    typer.echo("The chain holds.")


@log_app.command("checkpoint")
def checkpoint_log(
    log: _LogArgument, key_file: _KeyFile = None, log_key_file: _LogKeyFile = None
) -> None:
    """Print a signed checkpoint of a log, a line to keep out of reach of others."""
    import json

    from fairmend.serve.log import open_store
    from fairmend.serve.log.writer import refusing

    key = _log_key(key_file, log_key_file)
    with open_store(log) as store, refusing(log):
        typer.echo(json.dumps(key.checkpoint(store.state(key))))


@log_app.command("export")
def export_log(
    log: _LogArgument,
    to: Annotated[Path, typer.Argument(help="The Parquet file to write, NAME.parquet.")],
    table: Annotated[str, typer.Option(help="decisions, outcomes or events.")] = "decisions",
    force: Annotated[bool, typer.Option(help="Overwrite the file.")] = False,
) -> None:
    """Write a table of a log to a Parquet file."""
    from fairmend.serve.log import export

    count = export(log, to, table=table, overwrite=force)
    typer.echo(f"{count:,} rows written to {to}")


@log_app.command("show")
def show_person(
    log: _LogArgument,
    person: Annotated[str, typer.Option(help="The person's id, as in the requests.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    key_file: _KeyFile = None,
) -> None:
    """Print the decisions about one person, with their reasons in plain words."""
    import json

    from fairmend.serve.log.person import decisions_of

    decisions = decisions_of(log, _drawer(key_file).pseudonym(person))
    if as_json:
        content = [each.as_data() for each in decisions]
        typer.echo(json.dumps({"schema": "fairmend.person/1", "decisions": content}, indent=2))
        return
    for each in decisions:
        typer.echo(each.in_words + "\n")
    typer.echo(f"{len(decisions):,} decisions about this person are in the log.")


@log_app.command("erase")
def erase_person(
    log: _LogArgument,
    person: Annotated[str, typer.Option(help="The person's id, as in the requests.")],
    key_file: _KeyFile = None,
    log_key_file: _LogKeyFile = None,
) -> None:
    """Erase the data about one person; the chain can still be verified."""
    from fairmend.serve.log.person import erase

    pseudonym = _drawer(key_file).pseudonym(person)
    erased = erase(log, _log_key(key_file, log_key_file), pseudonym)
    typer.echo(f"{erased['decisions']:,} decisions and {erased['outcomes']:,} outcomes erased.")


@log_app.command("outcomes")
def record_outcomes(
    log: _LogArgument,
    file: Annotated[Path, typer.Argument(help="A table: CSV, Parquet, Arrow or a spreadsheet.")],
    decision: Annotated[
        str, typer.Option(help="The column that holds the decision's id.")
    ] = "decision",
    person: Annotated[
        str | None,
        typer.Option("--id", help="The column that holds the person's id, in its place."),
    ] = None,
    outcome: Annotated[str, typer.Option(help="The column that holds the outcome.")] = "y",
    positive: Annotated[
        str | None, typer.Option(help="The label of a positive outcome; else 1 and 0.")
    ] = None,
    key_file: _KeyFile = None,
    log_key_file: _LogKeyFile = None,
) -> None:
    """Record outcomes from a file; a person's outcome belongs to the last decision."""
    from fairmend.serve.log.outcomes import read_outcomes, record

    key = _log_key(key_file, log_key_file)
    drawer = None if person is None else _drawer(key_file)
    told = read_outcomes(file, decision=decision, person=person, outcome=outcome,
                         positive=positive, drawer=drawer)  # fmt: skip
    done = record(log, key, told, by_person=person is not None)
    typer.echo(f"{done.recorded:,} outcomes recorded, {done.known:,} known already.")
    if done.contradicting:
        typer.echo(f"{done.contradicting:,} contradict an earlier outcome: both are kept, and the "
                   "later one counts.")  # fmt: skip
    if done.unknown:
        typer.echo(f"{done.unknown:,} are about nobody in the log, the first of them in "
                   f"{done.first_unknown}.", err=True)  # fmt: skip


def _drawer(key_file: Path | None) -> Drawer:
    """What makes the pseudonyms of people, by the sidecar's key."""
    from fairmend.apply.draw import Drawer, find_key

    key = find_key("FAIRMEND_KEY", key_file)
    if key is None:
        raise DataError(
            "key", "must be given, as the one that the sidecar is given", "got none",
            "Say --key-file FILE or set FAIRMEND_KEY: people stand in the log by a keyed hash.",
        )  # fmt: skip
    return Drawer(key, "person")


def _log_key(key_file: Path | None, log_key_file: Path | None) -> LogKey:
    from fairmend.apply.draw import find_key
    from fairmend.serve.log import LogKey

    own = LogKey.own("FAIRMEND_LOG_KEY", log_key_file)
    if own is not None:
        return own
    key = find_key("FAIRMEND_KEY", key_file)
    if key is None:
        raise DataError(
            "key", "must be given, as the one that the log was written with", "got none",
            "Say --key-file FILE or set FAIRMEND_KEY; for a log with a key of its own "
            "--log-key-file FILE or FAIRMEND_LOG_KEY.",
        )  # fmt: skip
    return LogKey.derived(key)
