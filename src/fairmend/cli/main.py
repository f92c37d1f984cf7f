"""The command line: audit, explain and repair a model from files, without writing Python.

One file a command; this one puts them together. Figures go to standard output; messages and
progress to standard error. `fairmend.cli.output.Code` has the exit codes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from fairmend.cli.alternatives import alternatives
from fairmend.cli.apply import apply
from fairmend.cli.audit import audit
from fairmend.cli.columns import columns
from fairmend.cli.demo import demo
from fairmend.cli.endings import Code, guarded
from fairmend.cli.explain import explain
from fairmend.cli.inspect import inspect
from fairmend.cli.key import key
from fairmend.cli.options import filled, with_groups
from fairmend.cli.output import note, show
from fairmend.cli.repair import repair
from fairmend.cli.report import report
from fairmend.cli.reproduce import reproduce
from fairmend.cli.studio import studio
from fairmend.config import (
    NAMED_BY_PEOPLE,
    WORTH_A_NOTICE,
    Option,
    SettingsError,
    find_settings,
    settle,
)
from fairmend.serve.command import serve
from fairmend.serve.log_command import log_app


class Plain:
    """Help that says of switches only what they do, and names what is registered."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Switches, --help among them, lose the <bool> that typer writes behind them."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill in names; help may be cut short by its reader, as by head."""
        for parameter in self.params:  # type: ignore[attr-defined]
            vars(parameter)["help"] = filled(getattr(parameter, "help", None) or "")
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        except SystemExit:  # all that rich says of it
            sys.exit(Code.NO_READER)


class PlainGroup(Plain, TyperGroup):
    """A group of commands."""


class PlainCommand(Plain, TyperCommand):
    """A command, which looks first at what a settings file wants of it."""

    def invoke(self, ctx: Any) -> Any:
        if isinstance(ctx.obj, FoundSettings):
            guarded(_look_at_settings)(ctx)
        return super().invoke(ctx)


app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 a gap is beyond --fail-on or was not closed, 2 wrong usage, "
    "3 bad data, 4 the model failed, 5 the artifact was refused, 130 interrupted, 141 the reader "
    "of the output is gone.",
)


# A further command is a plain function in a file of its own, and a word here.
COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__: with_groups(command)
    for command in (
        demo, columns, audit, explain, repair, apply, report, alternatives, inspect, key, serve,
        studio, reproduce,
    )
}  # fmt: skip
for name, command in COMMANDS.items():
    paragraphs = (command.__doc__ or "").split("\n\n")  # a line each, for screens of any width
    text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    app.command(name, cls=PlainCommand, help=text)(guarded(command))

for info in log_app.registered_commands:
    assert info.callback is not None
    info.callback, info.cls = guarded(info.callback), PlainCommand
app.add_typer(log_app, cls=PlainGroup)


def _version(wanted: bool) -> None:
    if wanted:
        from fairmend._version import __version__

        show(f"fairmend {__version__}")
        raise typer.Exit


@app.callback()
@guarded
def settings(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            help="Settings; by default fairmend.toml, or \\[tool.fairmend] in pyproject.toml.",
            metavar="FILE",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Audit, explain and repair a black-box classifier that treats groups differently."""
    where, content = find_settings(config)
    flags = {name: options_of(command) for name, command in COMMANDS.items()}
    options = {name: {flag: o for flag, (_, o) in own.items()} for name, own in flags.items()}
    if config is None and content:
        context.obj = FoundSettings(where, {
            (command, flags[command][flag][0]): flag
            for command, values in settle(where, content, options, {}).items()
            for flag in values if options[command][flag].variable not in os.environ
        })  # fmt: skip
    context.default_map = {
        name: {flags[name][flag][0]: value for flag, value in values.items()}
        for name, values in settle(where, content, options).items()
    }


@dataclass(frozen=True)
class FoundSettings:
    """A settings file that nobody named."""

    where: str
    flags: dict[tuple[str, str], str]
    """The flags it sets, by command and parameter."""


def _look_at_settings(context: Any) -> None:
    """Refuse a model that only a found file names; say what else of weight comes from it."""
    settings: FoundSettings = context.obj
    flags = [
        flag
        for (command, parameter), flag in settings.flags.items()
        if command == context.info_name
        and getattr(context.get_parameter_source(parameter), "name", "") == "DEFAULT_MAP"
    ]
    for flag in flags:
        if flag in NAMED_BY_PEOPLE:
            raise SettingsError(
                f"{settings.where}: {flag}",
                "must be named by whoever runs it, as a model runs code or is sent people's data",
                "it stands in a file that was found in the current folder",
                f"Say --{flag}, or, if you trust that file, fairmend --config {settings.where} "
                f"{context.info_name} ....",
            )
    notable = [f"--{flag}" for flag in flags if flag in WORTH_A_NOTICE]
    if notable:
        note(f"{' and '.join(notable)} from {settings.where} in the current folder")


def options_of(command: Callable[..., None]) -> dict[str, tuple[str, Option]]:
    """A command's options by their long flags, each with the parameter it sets."""
    options = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        kind, *notes = get_args(parameter.annotation)
        for info in notes:
            if isinstance(info, OptionInfo):
                # in an annotation, the first flag stands where a default would
                names = [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str)]
                flags = [flag for flag in names if flag.startswith("--")] or [parameter.name]
                flag = flags[0].split("/")[0].removeprefix("--").replace("_", "-")
                hint = str if Path in get_args(kind) else kind  # a file names a path by text
                mark = "=" if "=" in (info.metavar or "") else ":"
                option = Option(flag, hint, getattr(info.callback, "check", None), mark=mark)
                options[flag] = (parameter.name, option)
    return options


@guarded
def main() -> None:
    """Run the command line."""
    app(prog_name="fairmend")
