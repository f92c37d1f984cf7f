"""Forms: what a hostile file, folder or form holds is a value, never an option, a path or code."""

import asyncio
import csv
import os
import re
import time
from dataclasses import replace
from html import unescape
from urllib.parse import unquote, urlencode

import pytest

from fairmend.errors import DataError
from fairmend.studio.app import Studio
from fairmend.studio.code import python_code
from fairmend.studio.fixes import fixes_in
from fairmend.studio.project import Project
from fairmend.studio.screens import columns_of
from fairmend.studio.settings import Settings

pytestmark = pytest.mark.slow
NAMES = [
    "--output=/etc/x decision", "--force outcome", "-sex group", "a|b", "a:b", "a=b", "é\nb",
    '"><script>alert(1)</script>', "it's", "", "a;b&c", "%41", "x say --ignore y.",
]  # fmt: skip


class Asked:
    """A studio without a network, and what its pages hold."""

    def __init__(self, folder):
        self.project = Project.at(folder)
        self.app = Studio(self.project).app()

    def ask(self, method, path, body=b""):
        """Status, headers and text of an answer."""
        answers = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            answers.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": b"",
                 "headers": [], "root_path": ""}  # fmt: skip
        asyncio.run(self.app(scope, receive, send))
        text = b"".join(one.get("body", b"") for one in answers).decode()
        return answers[0]["status"], dict(answers[0]["headers"]), text

    def page(self, name):
        """A page once its work has ended."""
        until = time.monotonic() + 60
        while "data-run=" in (text := self.ask("GET", f"/{name}")[2]):
            assert time.monotonic() < until
            time.sleep(0.05)
        return text

    def send(self, path, **form):
        status, headers, text = self.ask("POST", f"/{path}", urlencode(form, doseq=True).encode())
        assert status == 303, text
        return unquote(headers[b"location"].decode())

    def state(self):
        return self.project.settings()


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path / "project")


def write_hostile(path, names=NAMES):
    """Decisions, outcomes and groups whose words begin with a dash or hold a bar."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(names)
        for i in range(400):
            group = i * 7 % 3 == 0
            yes, good = (i * 13 % 10) < (4 if group else 7), (i * 11 % 10) < 6
            words = "--yes" if yes else "-no", "--good" if good else "-bad"
            numbers = (i * k % 5 for k in range(3, len(names)))
            table.writerow([*words, "--x" if group else "b|c", *numbers])
    return path


def sent(text, start):
    """The forms of a page whose names begin like this, as a browser would send them."""
    found = re.findall(rf'name="({start}[^"]*)"', text)
    return [unescape(one) for one in dict.fromkeys(found)]


def test_columns_of_any_name_are_columns(asked, tmp_path):
    """From roles to a repair: no name or value becomes an option, markup or another column."""
    asked.project.open(str(write_hostile(tmp_path / "-hostile [1].csv")))
    asked.page("data")
    page = asked.page("data")
    assert "<script>alert" not in page
    names = sent(page, "role:")
    assert [unquote(one.removeprefix("role:")) for one in names] == NAMES
    settings = asked.state()
    assert (settings.label, settings.predictions) == (NAMES[1], NAMES[0])
    assert settings.ignore == [""]  # a column without a name is no input
    first = dict(zip(names[:3], ["decision", "outcome", "group"], strict=True))
    roles = dict.fromkeys(names, "input") | {"role:": "ignore"} | first
    assert asked.send("roles", screen="data", **roles) == "/data"
    has = {"has": ["positive", "positive_decision"], "positive": "--good"}
    assert asked.send("settings", screen="data", positive_decision="--yes", **has) == "/data"
    gap = unescape(re.search(r'name="gap" value="(sp\|[^"]*)"', asked.page("measure"))[1])
    assert asked.send("choose", gap=gap) == "/explain"
    assert (asked.state().target, asked.state().reference) == ("--x", "b|c")
    assert "problem" not in asked.page("explain").split("<main")[1].split("</main")[0]
    kept = {"has": ["immutable", "one_way", "cost", "metric"], "metric": "sp",
            "immutable": [one.removeprefix("role:") for one in names[10:]]}  # fmt: skip
    ways = {f"one_way:{one.removeprefix('role:')}": "up" for one in names[3:7]}
    costs = {f"cost:{one.removeprefix('role:')}": "1.23456789" for one in names[3:7]}
    assert asked.send("begin", screen="repair", step="repair", **kept, **ways, **costs) == "/repair"
    assert asked.state().immutable == NAMES[10:]
    assert asked.state().cost == dict.fromkeys(NAMES[3:7], 1.23456789)
    page = asked.page("repair")
    run = asked.project.run("repair")
    assert run.state == "done", run.error
    assert "<script>alert" not in page + asked.page("file")
    compile(python_code(asked.project, asked.state(), columns_of(asked.project.run("columns"))),
            "figures.py", "exec")  # fmt: skip


def test_a_file_without_known_names_is_shown_and_asks_for_roles(asked, tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\n" + "1,2,3\n4,5,6\n" * 9)
    asked.project.open(str(tmp_path / "a.csv"))
    asked.page("data")
    assert "Say which column holds the model&#39;s decisions" in asked.page("data")
    asked.send("roles", screen="data", **{"role:a": "group"})
    asked.send("roles", screen="data", **{"role:a": "input"})
    asked.page("data")
    assert asked.state().groups == []  # what was taken away is not proposed again


def test_columns_that_another_file_of_the_name_lacks_are_forgotten_by_a_button(asked, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("sex,decision,x\n" + "f,yes,1\nm,no,2\n" * 9)
    asked.project.open(str(file))
    asked.page("data")
    asked.page("data")
    assert asked.state().groups == ["sex"]
    file.write_text("gender,decision,x,y\n" + "f,yes,1,2\nm,no,2,3\n" * 9)
    asked.page("data")
    page = asked.page("data")
    assert "columns that the file does not have: “sex”" in page
    assert asked.send("fix", screen="data", fix="--forget=sex") == "/data"
    assert asked.state().groups == []
    assert asked.state().predictions == "decision"


def test_300_columns_are_columns(asked, tmp_path):
    names = ["decision", "outcome", "sex", *(f"column number {i}" for i in range(297))]
    asked.project.open(str(write_hostile(tmp_path / "wide.csv", names)))
    asked.page("data")
    page = asked.page("data")
    roles = sent(page, "role:")
    assert len(roles) == 300
    roles = dict.fromkeys(roles, "ignore") | {"role:sex": "group"}
    asked.send("roles", screen="data", **roles)
    assert len(asked.state().ignore) == 299


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999", "many"])
def test_what_is_no_number_is_refused_and_the_project_opens_again(asked, number):
    there = asked.send("settings", screen="measure", has="attention", attention=number)
    assert there.startswith("/measure?said=attention: must be a number")
    Project.at(asked.project.folder)


@pytest.mark.parametrize("path", ["fix", "choose", "begin", "cancel", "use", "open"])
def test_a_form_that_lacks_something_is_refused_in_a_sentence(asked, path):
    status, _, text = asked.ask("POST", f"/{path}")
    assert (status, text[:15]) == (400, "The form lacks ")


def test_a_form_leads_nowhere_else_and_sets_nothing_else(asked):
    for screen in ("/evil.example", "\\evil.example", "data?x", "../x", ""):
        assert asked.send("settings", screen=screen, has="attention", attention="7") == "/data"
    asked.send("settings", screen="data", has=["lacks", "arguments", "__class__"], lacks="x")
    there = asked.send("fix", screen="data", fix="--output=/etc/x")
    assert there.startswith("/data?said=fix: must be one of a page")
    assert asked.ask("POST", "/fix", b"x" * (2 << 20))[0] == 413


@pytest.mark.parametrize(
    ("path", "message"),
    [("/dev/zero", "it is a device or a pipe"), ("/etc", "it is a folder"), ("a\0b", "NUL byte"),
     ("~nobody-of-this-name/a.csv", "must be on this machine"), ("no.csv", "No such file"),
     ("", "it is a folder"), ("pipe", "it is a device or a pipe")],
)  # fmt: skip
def test_a_path_that_is_no_file_is_refused_at_once(asked, path, message):
    os.mkfifo(asked.project.folder / "pipe")
    with pytest.raises(DataError, match=message):
        asked.project.open(path)


# -------------------------------------------------------------------- a folder of somebody else's


def test_a_module_in_the_folder_is_never_run(asked, tmp_path):
    for name in ("polars", "json", "fairmend", "typer"):
        code = f"open({str(tmp_path / 'was run')!r}, 'w')"
        (asked.project.folder / f"{name}.py").write_text(code)
    (tmp_path / "a.csv").write_text("sex,decision\n" + "f,yes\nm,no\n" * 9)
    asked.project.open(str(tmp_path / "a.csv"))
    asked.page("data")
    assert asked.project.run("columns").state == "done"
    assert not (tmp_path / "was run").exists()


def test_a_model_that_a_folder_names_is_queried_only_when_somebody_wants_it(asked, tmp_path):
    model = "def decide(X):\n    open(WHERE, 'w')\n    return [int(x > 1) for x in X['x']]\n"
    where = repr(str(tmp_path / "was run"))
    (asked.project.folder / "theirs.py").write_text(f"WHERE = {where}\n{model}")
    (tmp_path / "a.csv").write_text("sex,x\n" + "f,1\nm,2\n" * 99)
    asked.project.open(str(tmp_path / "a.csv"))
    asked.page("data")
    asked.page("data")
    asked.project.change(lambda old: replace(old, model="theirs:decide", metric=["sp"]))
    assert "nobody has entered" in asked.page("measure")
    there = asked.send("begin", screen="repair", step="repair")
    assert there.startswith("/repair?said=model: must be named by you")
    assert asked.project.run("audit").state == "new"
    assert not (tmp_path / "was run").exists()
    asked.send("fix", screen="measure", fix="--model=theirs%3Adecide")
    asked.page("measure")
    assert asked.project.run("audit").state == "done", asked.project.run("audit").error
    assert (tmp_path / "was run").exists()


@pytest.mark.parametrize("name", ["studio.toml", "data", "runs/x", "key.txt", "filed"])
def test_a_folder_with_links_is_refused(tmp_path, name):
    folder = tmp_path / "theirs"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"must hold no links; '{name}' is one"):
        Project.at(folder)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_others_can_write_is_refused(tmp_path):
    folder = tmp_path / "open to all"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(DataError, match=r"others can write in it. Run: chmod 700 '.*open to all'"):
        Project.at(folder)


def test_code_of_settings_is_no_code(asked, tmp_path):
    """Python that is shown holds what settings say as values."""
    (tmp_path / "a.csv").write_text("sex,decision,y\n" + "f,1,0\nm,0,1\n" * 9)
    bad = "1)\nimport os"
    settings = Settings(file="a.csv", label="y", predictions="decision", group=["sex"],
                        positive=bad, threshold=bad)  # fmt: skip
    asked.project.open(str(tmp_path / "a.csv"))
    asked.page("data")
    code = python_code(asked.project, settings, columns_of(asked.project.run("columns")))
    compile(code, "figures.py", "exec")
    assert "\nimport os" not in code


def test_a_name_with_an_apostrophe_is_a_button():
    [fix] = fixes_in("""Say --ignore 'it'"'"'s'.""")
    assert fix.options == (("--ignore", "it's"),)


def test_a_message_offers_no_model():
    """Names of columns stand in messages, and may read like options."""
    assert fixes_in("column 'x': must be a number; say --model evil:code --forget y.") == []
