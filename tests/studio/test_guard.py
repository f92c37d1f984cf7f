"""Who gets in: the browser with the token, once; nobody else, and no page of another site."""

import os
import re
import stat

import pytest

from fairmend.data.filekind import SUFFIXES
from fairmend.errors import DataError
from fairmend.studio.project import Project

pytestmark = pytest.mark.slow


@pytest.fixture
def studio(start, tmp_path):
    return start(tmp_path / "project")


def test_another_user_of_the_machine_gets_nothing(studio):
    """Without token and cookie, whatever is asked for, nothing of the project is told."""
    for path in ("/", "/data", "/file", "/static/studio.css", "/runs/audit-0/audit.html", "/x"):
        status, _, text = studio.ask("GET", path)
        assert status == 403
        assert str(studio.folder) not in text
    status, *_ = studio.ask("POST", "/open", "path=/etc/hosts")
    assert status == 403
    assert not (studio.folder / "studio.toml").exists()


def test_a_token_opens_once(studio):
    first = studio.address
    studio.enter()
    assert studio.ask("GET", "/data")[0] == 200
    again = studio.ask("GET", "/" + first.split("/", 3)[3], Cookie="")
    assert again[0] == 403
    other = studio.next_address()
    assert other != first
    studio.address = other
    studio.enter()
    assert studio.ask("GET", "/data")[0] == 200


def test_the_cookie_is_kept_from_scripts_and_other_sites(studio):
    _, headers, _ = studio.ask("GET", "/?" + studio.address.split("?")[1])
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=strict" in headers["set-cookie"]
    [folder] = re.findall(r"Path=(/[^;]+)/", headers["set-cookie"])
    assert len(folder) > 40, "a folder that nobody guesses"


def test_cookies_of_other_programs_of_this_machine_do_not_matter(studio):
    """A browser sends those of all ports of a host together, and some are not as they should be."""
    studio.enter()
    for other in ('prefs={"a": 1, "b": "x"}', "user@site=1", "name=a b", "näme=1"):
        cookie = f"{other}; {studio.cookie}".encode()
        assert studio.ask("GET", "/data", Cookie=cookie)[0] == 200, other


def test_the_cookie_alone_opens_nothing_outside_its_folder(studio):
    studio.enter()
    studio.base, base = "", studio.base
    for path in ("/data", "/static/studio.css", f"{base}x/data", base):
        assert studio.ask("GET", path)[0] == 403


def test_a_page_of_another_site_changes_nothing(studio):
    studio.enter()
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{studio.port + 1}", ""):
        status, *_ = studio.ask("POST", "/open", "path=/etc/hosts", Origin=origin)
        assert status == 403
    assert not (studio.folder / "studio.toml").exists()


def test_another_name_of_the_host_is_refused(studio):
    """A name that somebody points at this machine is not this machine."""
    studio.enter()
    assert studio.ask("GET", "/data", Host=f"evil.example:{studio.port}")[0] == 421


def test_pages_allow_no_script_of_others(studio):
    studio.enter()
    _, headers, _ = studio.ask("GET", "/data")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


def test_the_project_is_its_owners_alone(studio):
    assert stat.S_IMODE(os.stat(studio.folder).st_mode) == 0o700


@pytest.mark.parametrize(
    "name",
    ["../../out.csv", "..\\..\\out.csv", "/tmp/out.csv", "C:\\out.csv", "a/../../out.csv",
     "%2e%2e/out.csv", "out\x00.csv", "\u202eout.csv", ".out.csv", "x" * 4_000 + "out.csv"],
)  # fmt: skip
def test_an_uploaded_name_cannot_leave_the_project(tmp_path, name):
    project = Project.at(tmp_path / "project")
    place = project.place_of(name)
    assert place.parent == project.folder / "data"
    assert place.name.endswith("out.csv") or place.name.endswith("out_.csv")
    assert not place.name.startswith(".")
    place.write_bytes(b"")  # the system takes such a name


@pytest.mark.parametrize("name", ["", "..", "/", ".csv", "table.exe", "table.html", "table"])
def test_an_upload_that_is_no_table_is_refused(tmp_path, name):
    with pytest.raises(DataError, match="must be CSV, Parquet, Arrow or a spreadsheet"):
        Project.at(tmp_path / "project").place_of(name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_that_the_command_line_reads_can_be_uploaded(tmp_path, suffix):
    assert Project.at(tmp_path / "project").place_of(f"table{suffix}").name == f"table{suffix}"


def test_an_upload_over_http_is_refused_in_a_sentence(studio):
    studio.enter()
    status, _, text = studio.ask("POST", "/upload?name=..%2F..%2Fpasswd", b"a,b\n1,2\n")
    assert status == 400
    assert "must be CSV, Parquet, Arrow or a spreadsheet" in text
    assert not list((studio.folder / "data").iterdir())


@pytest.mark.parametrize(
    "path",
    ["/runs/../studio.toml", "/runs/%2e%2e/studio.toml", "/runs/audit-0/../../key.txt",
     "/filed/..%2f/key.txt", "/filed/2026/key.txt", "/static/..%2fpage.css", "/key.txt",
     "/runs/**-x/events", "/runs/*-*/audit.html"],
)  # fmt: skip
def test_no_path_reaches_the_key(studio, path):
    studio.enter()
    (studio.folder / "key.txt").write_text("the secret")
    status, _, text = studio.ask("GET", path)
    assert status == 404
    assert "secret" not in text
