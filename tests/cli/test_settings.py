"""Settings from flags, environment and file; screens and completion."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from fairmend.cli.main import COMMANDS, options_of
from fairmend.repair.methods import methods

from .conftest import NAMED, environment, process

SETTINGS = """
label = "approved?"
positive = "yes"
group = ["sex"]
predictions = "score"
missing = "n/a"

[audit]
metric = ["fnr"]
"""


def metrics(done):
    assert done.code == 0, done.err
    return [gap["metric"] for gap in json.loads(done.out)["gaps"]]


@pytest.fixture
def folder(workdir, tmp_path):
    (tmp_path / "applicants.csv").write_bytes((workdir / "applicants.csv").read_bytes())
    return tmp_path


def test_flag_over_environment_over_file(folder, call, monkeypatch):
    (folder / "fairmend.toml").write_text(SETTINGS)
    arguments = ("audit", "applicants.csv", "--json")
    assert metrics(call(*arguments)) == ["fnr"]
    monkeypatch.setenv("FAIRMEND_METRIC", "sp,fpr")
    assert metrics(call(*arguments)) == ["sp", "fpr"]
    assert metrics(call(*arguments, "--metric", "fdr")) == ["fdr"]


def test_settings_in_pyproject_and_in_a_named_file(folder, call):
    as_tool = re.sub(r"\[audit]", "[tool.fairmend.audit]", "[tool.fairmend]\n" + SETTINGS)
    (folder / "pyproject.toml").write_text(as_tool)
    assert metrics(call("audit", "applicants.csv", "--json")) == ["fnr"]
    (folder / "other.toml").write_text(SETTINGS.replace('"fnr"', '"sp"'))
    assert metrics(call("--config", "other.toml", "audit", "applicants.csv", "--json")) == ["sp"]


def test_unknown_keys_are_errors(folder, call):
    (folder / "fairmend.toml").write_text(SETTINGS + 'fail_onn = ["sp>1"]\n')
    done = call("audit", "applicants.csv")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "fairmend: fairmend.toml [audit]: must hold options of fairmend audit; got the unknown key "
        "'fail_onn'. Did you mean 'fail-on'?\n"
    )


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ('unknown-group = "kepp"\n', "fairmend.toml: unknown-group"),
        ('[audit]\nanswers = "foo"\n', r"fairmend.toml \[audit\]: answers"),
        ('[repair]\nmetric = ["fnrr"]\n', r"fairmend.toml \[repair\]: metric"),
    ],
)
def test_values_that_no_option_takes_are_errors(settings, place, folder, call):
    (folder / "fairmend.toml").write_text(settings)
    done = call("audit", "applicants.csv", *NAMED)
    assert (done.code, done.out) == (2, "")
    assert re.match(f"fairmend: {place}: must be (error or keep|one of)", done.err)


def test_a_file_that_was_found_names_no_model(folder, call):
    (folder / "fairmend.toml").write_text('model = "named_here:model"\noutput = "found.fairmend"\n')
    (folder / "named_here.py").write_text("open('ran', 'w').close()\ndef model(rows): return [1]\n")
    named = ("--group", "sex", "--label", "approved?", "--positive", "yes")
    done = call("audit", "applicants.csv", *named)
    assert done.code == 2
    assert "fairmend.toml: model: must be named by whoever runs it" in done.err
    assert not (folder / "ran").exists()
    call("--config", "fairmend.toml", "audit", "applicants.csv", *named)
    assert (folder / "ran").exists()


def test_a_file_that_was_found_is_named_where_it_says_what_to_write(folder, call):
    (folder / "fairmend.toml").write_text('output = "found.fairmend"\nkey-file = "k"\n')
    arguments = ("repair", "applicants.csv", *NAMED, "--seed", "nan")
    assert call(*arguments).code == 2
    done = call("repair", "nowhere.csv", *NAMED)
    assert done.code == 3
    assert "--output and --key-file from fairmend.toml in the current folder" in done.err
    quiet = call("--config", "fairmend.toml", "repair", "nowhere.csv", *NAMED)
    assert "from fairmend.toml" not in quiet.err


def test_the_methods_offered_are_those_there_are(call):
    assert all(name in call("repair", "--help").out for name in methods())


# -------------------------------------------------------------------- screens


@pytest.mark.parametrize("command", [*COMMANDS, ""])
def test_help_fits_a_narrow_screen(command, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call(*filter(None, [command]), "--help")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "<bool>" not in done.out
    assert "Usage: fairmend" in done.out


def test_every_command_can_answer_in_json():
    without = [name for name, run in COMMANDS.items() if "json" not in options_of(run)]
    assert without == ["serve", "studio"]  # they answer over HTTP


def test_help_needs_no_heavy_package():
    code = (
        "import sys; sys.argv = ['fairmend', '--help']\n"
        "from fairmend.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('sklearn', 'scipy', 'pandas', 'polars', 'pyarrow', 'altair', 'ot', 'starlette')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def on_a_terminal(*arguments, **more):
    """What a person sees who types this."""
    screen, terminal = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "fairmend", *arguments],
        stdout=terminal, stderr=terminal,
        env={**environment(**more), "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(screen, 65_536)
        except OSError:  # the last writer has closed the terminal
            break
        if not part:
            break
        seen += part
    os.close(screen)
    running.wait()
    return seen


def test_colour_is_for_terminals_whose_owner_wants_it():
    colour = re.compile(rb"\x1b\[[0-9;]*3[0-9]")
    assert colour.search(on_a_terminal("--help", NO_COLOR=""))
    assert not colour.search(on_a_terminal("--help", NO_COLOR="1"))
    assert b"\x1b" not in process("--help", NO_COLOR="").stdout


def test_shells_can_complete():
    done = process(_FAIRMEND_COMPLETE="complete_bash", COMP_WORDS="fairmend rep", COMP_CWORD="1")
    assert done.stdout.decode().split() == ["repair", "report", "reproduce"]
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # whatever shell runs the tests
    assert b"fairmend" in process("--show-completion", "bash", **told).stdout


# -------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("audit", "applicants.csv", "--label", "approved?", "--group", "sex"), "--predictions"),
        (("audit", "applicants.csv", *NAMED, "--fail-on", "fnr"), "METRIC>LIMIT"),
        (("audit", "applicants.csv", *NAMED, "--rows", "pandas"), "has no effect without --model"),
        (("audit", "applicants.csv", *NAMED, "--protocol", "v2"), "has no effect without --model"),
        (("audit", "applicants.csv", *NAMED, "--trust", "x"), "has no effect without --model"),
        (("audit", "applicants.csv", *NAMED, "--no-such-option"), "--no-such-option"),
        (("explain", "applicants.csv", *NAMED[4:], "--metric", "fnr"), "--label"),
        (("repair", "applicants.csv", *NAMED, "--one-way", "age"), "COLUMN:up"),
        (("repair", "applicants.csv", *NAMED, "--holdout-share", "1.5"), "between 0 and 1"),
        (("repair", "applicants.csv", *NAMED, "--seed", "-1"), "--seed"),
        (("demo", "--new", "newcomers.csv"), "--write"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_wrong_usage(arguments, hint, workdir, call):
    done = call(*arguments, cwd=workdir)
    assert (done.code, done.out) == (2, "")
    assert hint in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("audit", "nothing.csv", *NAMED),
            3,
            "fairmend: file 'nothing.csv': must be readable; it is not: No such file or "
            "directory. Check the name and the permissions.\n",
        ),
        (
            ("audit", "new.csv", "--label", "aproved?", *NAMED[2:]),
            3,
            "fairmend: --label: must name a column of the file; 'aproved?' is not one. "
            "Did you mean 'approved?'?\n",
        ),
        (
            ("audit", "new.csv", *NAMED[:2], *NAMED[4:]),
            3,
            "fairmend: --positive: must say which value of 'approved?' is positive; it holds 'no' "
            "and 'yes'. Add --positive no or --positive yes.\n",
        ),
        (
            ("audit", "new.csv", *NAMED, "--metric", "fnrr"),
            2,
            "fairmend: --metric: must be one of sp, fnr, fpr, fdr, da; got 'fnrr'. "
            "Did you mean 'fnr'?\n",
        ),
        (
            ("audit", "new.csv", *NAMED[:6], "--model", "no_such_module:model"),
            4,
            "fairmend: --model: must be importable; 'no_such_module:model' is not: No module named "
            "'no_such_module'. Check the path, and run from the folder that holds the module.\n",
        ),
    ],
)
def test_failures_are_one_line_and_a_code(arguments, code, message, workdir, call):
    done = call(*arguments, cwd=workdir)
    said = [line for line in done.err.splitlines(keepends=True) if "left out" not in line]
    assert (done.code, done.out, said) == (code, "", [message])
