"""Runs: found again after the studio was killed, cancelled, and never taken for done too early."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from fairmend.studio.code import commands
from fairmend.studio.project import Project
from fairmend.studio.runs import options_set, stop_all
from fairmend.studio.settings import Settings

pytestmark = pytest.mark.slow
SETTINGS = Settings(
    label="paid back", positive="yes", groups=["sex"], group=["sex"], metric=["fnr"],
    predictions="vendor decision", positive_decision="accept", id="applicant no",
    ignore=["applied on", "origin"], decimal=",", proposed=True,
)  # fmt: skip


def wait_for(holds, seconds=60):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)


@pytest.fixture
def project(tmp_path, loans):
    from dataclasses import replace

    made = Project.at(tmp_path / "project")
    made.change(lambda _: replace(SETTINGS, file=str(loans)))
    return made


def worker_of(run):
    return int((run.folder / "lock").read_text())


def test_the_same_step_with_the_same_settings_is_not_done_again(project):
    run = project.begin("audit")
    wait_for(lambda: run.state == "done")
    first = (run.folder / "result.json").stat().st_mtime_ns
    again = project.begin("audit")
    assert again.folder == run.folder
    assert (again.folder / "result.json").stat().st_mtime_ns == first
    assert run.result["schema"] == "fairmend.audit/1"


def test_another_content_of_the_file_is_another_run(project, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("g,d\na,1\n")
    project.open(str(file))
    before = project.run("audit").name
    file.write_text("g,d\na,1\nb,0\n")
    assert project.run("audit").name != before


def test_a_cancelled_run_leaves_nothing_and_can_be_done_again(project):
    run = project.begin("repair")
    wait_for(lambda: run.state == "running")
    run.cancel()
    wait_for(lambda: run.state == "cancelled")
    assert run.result is None
    assert not (run.folder / "repair.fairmend").exists()
    assert project.begin("repair").state == "running"
    run.cancel()


def test_a_killed_worker_is_told_as_such(project):
    run = project.begin("repair")
    wait_for(lambda: run.state == "running")
    os.kill(worker_of(run), signal.SIGKILL)
    wait_for(lambda: run.state == "failed")
    assert "SIGKILL" in run.error


def test_a_refused_file_is_told_in_the_words_of_the_command_line(project):
    from dataclasses import replace

    project.change(lambda old: replace(old, decimal=None))
    run = project.begin("audit")
    wait_for(lambda: run.state == "failed")
    assert run.error.startswith("column 'monthly income', line 2: must be a number")


def test_a_result_that_is_cut_off_is_no_result(project):
    run = project.begin("audit")
    wait_for(lambda: run.state == "done")
    content = (run.folder / "result.json").read_bytes()
    (run.folder / "ended.json").unlink()  # as if the studio had been killed
    assert run.state == "done"
    (run.folder / "result.json").write_bytes(content[: len(content) // 2])
    assert run.state == "interrupted"


def test_a_worker_goes_on_when_the_studio_is_killed(start, project):
    """Killed and started again, the studio finds the run as it is: going on, then done."""
    studio = start(project.folder).enter()
    status, *_ = studio.ask(
        "POST", "/begin", f"step=repair&screen=repair&version={project.read()[1]}"
    )
    assert status == 303
    run = project.run("repair")
    wait_for(lambda: run.state == "running")
    studio.process.kill()
    studio.process.wait()
    assert run.state == "running"
    studio = start(project.folder).enter()
    assert "Cancel" in studio.ask("GET", "/repair")[2]
    wait_for(lambda: run.state == "done")
    wait_for(lambda: "With the repair it is" in studio.ask("GET", "/repair")[2])


def test_when_studio_and_worker_are_killed_it_can_be_done_again(start, project):
    studio = start(project.folder).enter()
    studio.ask("POST", "/begin", f"step=repair&screen=repair&version={project.read()[1]}")
    run = project.run("repair")
    wait_for(lambda: run.state == "running")
    studio.process.kill()
    studio.process.wait()
    os.kill(worker_of(run), signal.SIGKILL)
    wait_for(lambda: run.state == "interrupted")
    studio = start(project.folder).enter()
    wait_for(lambda: "Do it again" in studio.ask("GET", "/repair")[2])
    assert project.settings().label == "paid back"


def test_a_run_that_an_earlier_studio_began_can_be_cancelled(start, project):
    studio = start(project.folder).enter()
    studio.ask("POST", "/begin", f"step=repair&screen=repair&version={project.read()[1]}")
    run = project.run("repair")
    wait_for(lambda: run.state == "running")
    studio.process.kill()
    studio.process.wait()
    assert run.state == "running"
    run.cancel()
    assert run.state == "cancelled"
    with pytest.raises(ProcessLookupError):
        wait_for(lambda: os.kill(worker_of(run), 0))


def test_a_step_that_is_begun_twice_at_once_is_done_once(project):
    """By two tabs of a studio, and by a second studio on the folder."""
    from concurrent.futures import ThreadPoolExecutor

    others = [project, Project.at(project.folder)] * 4
    with ThreadPoolExecutor(8) as many:
        runs = list(many.map(lambda one: one.begin("audit"), others))
    said = runs[0].folder / "call.json"
    first = said.stat().st_mtime_ns
    wait_for(lambda: runs[0].state == "done")
    assert len({worker_of(run) for run in runs}) == 1
    assert said.stat().st_mtime_ns == first


def test_those_who_look_at_once_do_not_take_each_other_for_a_worker(project):
    from concurrent.futures import ThreadPoolExecutor

    run = project.begin("audit")
    wait_for(lambda: run.state == "done")
    with ThreadPoolExecutor(8) as many:
        assert set(many.map(lambda _: run.state, range(400))) == {"done"}


def test_a_request_to_cancel_that_came_too_late_cancels_nothing_later(project):
    run = project.run("audit")
    run.folder.mkdir(parents=True)
    (run.folder / "cancel").touch()
    project.begin("audit")
    wait_for(lambda: run.state == "done")


def test_a_worker_that_ends_with_its_studio_was_interrupted(project):
    run = project.begin("repair")
    wait_for((run.folder / "progress.json").exists)
    stop_all()
    wait_for(lambda: run.state == "interrupted")


def test_two_studios_on_a_folder_lose_no_change(project):
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    others = [project, Project.at(project.folder)]

    def add(number):
        name = f"column {number}"
        others[number % 2].change(lambda old: replace(old, ignore=[*old.ignore, name]))

    with ThreadPoolExecutor(8) as many:
        list(many.map(add, range(40)))
    assert len(project.settings().ignore) == 42


def test_what_the_screens_show_is_all_that_a_worker_goes_by(project, monkeypatch):
    """A settings file in the folder, and variables, act on no run and on no command shown."""
    run = project.begin("audit")
    wait_for(lambda: run.state == "done")
    shown = json.loads((run.folder / "result.json").read_text())
    for name in ("call.json", "result.json", "ended.json"):
        (run.folder / name).unlink()
    (project.folder / "fairmend.toml").write_text("no-such-option = 1\n")
    monkeypatch.setenv("FAIRMEND_WEIGHT", "monthly income")
    monkeypatch.setenv("FAIRMEND_UPSTREAM_TOKEN", "kept")
    assert options_set() == ["FAIRMEND_WEIGHT"]
    run = project.begin("audit")
    wait_for(lambda: run.state == "done")
    assert json.loads((run.folder / "result.json").read_text()) == shown
    text = commands(project, project.settings())
    assert text.splitlines()[1] == "unset FAIRMEND_WEIGHT"
    own = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", own)
    for _ in range(2):  # in one folder, again
        done = subprocess.run(["sh", "-e"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (project.folder / "audit.html").stat().st_size > 1_000
