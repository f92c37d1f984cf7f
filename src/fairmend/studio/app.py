"""The pages of the studio and what their forms do. Every change is on disk before the answer."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from fairmend._version import __version__
from fairmend.data.files import writing
from fairmend.errors import DataError, FairmendError, check, in_a_line
from fairmend.report.html.page import style
from fairmend.report.templates import read, template
from fairmend.studio import screens
from fairmend.studio.code import commands, python_code
from fairmend.studio.filing import file_project, filed
from fairmend.studio.fixes import FLAGS, Fix, Options, apply_fix, role_of, with_role
from fairmend.studio.project import UPLOADED, Outdated, Project
from fairmend.studio.runs import PAGES, Run
from fairmend.studio.screens import SCREENS, STEP_OF, Problem
from fairmend.studio.settings import STEPS, Settings, options

MOST_FORM = 1 << 20
MOST_UPLOAD = 64 << 30
_BEAT_S = 0.25
Form = dict[str, list[str]]
Change = Callable[[Settings, Form], Settings]
_NEEDS_OUTCOMES = (
    "The search for alternatives needs outcomes: whether another rule performs as well can be seen "
    "from them alone. Say which column is the outcome."
)
_OUTDATED = (
    "The settings were changed in another window since this page was shown. It shows them as they "
    "are now; what you just changed here was not taken over."
)


class Studio:
    """The routes of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._models: set[str] = set()
        """Models that somebody has named here: one that a folder brings along is not queried."""

    def app(self) -> Starlette:
        """All pages and forms."""
        forms: dict[str, Callable[[Form], str | None]] = {
            "open": self._open, "roles": self._roles, "fix": self._fix, "choose": self._choose,
            "settings": self._settings, "begin": self._begin, "cancel": self._cancel,
            "use": self._use, "filing": self._file,
        }  # fmt: skip
        routes = [
            Route("/", lambda _: RedirectResponse("/data", 303)),
            *(Route(f"/{name}", partial(self._page, name)) for name in SCREENS),
            Route("/upload", self._upload, methods=["POST"]),
            Route("/runs/{name}/events", self._events),
            Route("/runs/{name}/{file}", self._file_of_run),
            Route("/filed/{name}/{file}", self._filed),
            Route("/static/{name}", _static),
            *(Route(f"/{name}", partial(self._form, action), methods=["POST"])
              for name, action in forms.items()),
        ]  # fmt: skip
        return Starlette(routes=routes, exception_handlers={Exception: _fault})

    # ---------------------------------------------------------------- pages

    async def _page(self, name: str, request: Request) -> Response:
        said = request.query_params.get("said", "")
        return await run_in_threadpool(self._show, name, said)

    def _show(self, name: str, said: str = "") -> Response:
        try:
            settings, version = self._proposed()
            context = self._context(name, settings)
        except (FairmendError, OSError) as error:  # of settings that were edited, or of the disk
            return PlainTextResponse(f"{_told(error)}\n", 500)
        problems = [*([screens.problem_of(said)] if said else []), *context.pop("problems", [])]
        page = template(f"html/studio/{name}.html.j2").render(
            context, title=f"{SCREENS[name]} · {self.project.folder.name}", screen=name,
            screens=SCREENS, settings=settings, project=self.project, version=__version__,
            version_of_settings=version, problems=problems, uploaded=UPLOADED,
        )  # fmt: skip
        return Response(page, media_type="text/html")

    def _proposed(self) -> tuple[Settings, str]:
        """The settings, with the roles that columns probably have once these are known."""
        settings, version = self.project.read()
        columns = self.project.run("columns", settings)
        if settings.file is not None and not settings.proposed and columns.state == "done":
            known = screens.columns_of(columns)
            with suppress(Outdated):  # another window was first
                self.project.change(lambda old: screens.guessed(old, known), version)
            return self.project.read()
        return settings, version

    def _begun(self, step: str, settings: Settings) -> tuple[Run, list[Problem]]:
        """A run, begun if it is quick and was not, and why that cannot be."""
        run = self.project.run(step, settings)
        wanted = {"columns": ("new", "interrupted"), "audit": ("new",), "explain": ("new",)}
        if run.state not in wanted.get(step, ()):
            return run, []
        try:
            return self.project.begin(step), []
        except FairmendError as error:
            return run, [screens.problem_of(str(error))]

    def _about_model(self, settings: Settings) -> list[Problem]:
        """A model that a folder brings along is queried once somebody here wants it."""
        if settings.model is None or settings.model in self._models:
            return []
        text = (
            f"The project names the model “{settings.model}”, which nobody has entered since this "
            "studio was started. A model runs its code here, or is sent the inputs of people."
        )
        return [Problem(text, [Fix((("--model", settings.model),))])]

    def _context(self, name: str, settings: Settings) -> dict[str, Any]:
        """What a screen shows; what it needs and is quick to do is begun."""
        context: dict[str, Any] = {"run": None, "data": {}, "problems": [], "columns": []}
        if settings.file is None:
            return context
        columns, problems = self._begun("columns", settings)
        if name == "data":
            context |= {"run": columns} | screens.data(settings, columns)
            context["problems"] = [*problems, *context["problems"]]
            return self._with_error(context, columns)
        if name == "file":
            ready = {step: self.project.run(step, settings).state for step in STEPS}
            code = python_code(self.project, settings, screens.columns_of(columns))
            return context | {
                "filed": filed(self.project), "ready": ready,
                "commands": commands(self.project, settings), "python": code,
            }  # fmt: skip
        if columns.state != "done":
            run = columns if columns.state == "running" else None
            context |= {"run": run, "problems": problems, "next": "data"}
            return self._with_error(context, columns)
        questions = screens.questions(settings, screens.columns_of(columns))
        if questions:
            return context | {"problems": questions, "next": "data"}
        known = settings.label is not None
        if name == "alternatives" and not known:
            return context | {"problems": [Problem(_NEEDS_OUTCOMES)], "next": "data"}
        if name != "measure" and (not settings.metric or (settings.metric != ["sp"] and not known)):
            return context | {"problems": [Problem("Choose a gap first.")], "next": "measure"}
        step = STEP_OF[name]
        run = self.project.run(step, settings)
        problems = self._about_model(settings) if run.state != "done" else []
        if not problems:
            run, problems = self._begun(step, settings)
        context |= {"run": run, "problems": problems}
        if name == "repair":
            context |= screens.repair_form(self.project, settings, columns)
        if run.state == "done" and run.result is not None:
            context |= screens.RESULTS[name](settings, run.result) | {
                "notes": [screens.note_of(one) for one in run.notes]
            }
        return self._with_error(context, run)

    def _with_error(self, context: dict[str, Any], run: Run) -> dict[str, Any]:
        if run.state == "failed":
            context["problems"] = [screens.problem_of(run.error), *context["problems"]]
        return context

    # ---------------------------------------------------------------- forms

    async def _form(self, action: Callable[[Form], str | None], request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_FORM:
                return PlainTextResponse("The form is too long.\n", 413)
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        screen = form.get("screen", [""])[-1]
        here = f"/{screen if screen in SCREENS else 'data'}"
        try:
            there = await run_in_threadpool(action, form) or here
        except Outdated:
            there = f"{here}?said={quote(_OUTDATED)}"
        except (FairmendError, OSError) as error:
            there = f"{here}?said={quote(_told(error))}"
        except KeyError as error:
            return PlainTextResponse(f"The form lacks {error}.\n", 400)
        return RedirectResponse(there, 303)

    def _change(self, form: Form, change: Callable[[Settings], Settings]) -> None:
        self.project.change(change, form.get("version", [None])[0])

    def _open(self, form: Form) -> str:
        self.project.open(form["path"][-1].strip())
        return "/data"

    def _roles(self, form: Form) -> str:
        """The roles that were changed: the form sends those of all columns."""
        roles = _by_column("role", form)

        def change(old: Settings) -> Settings:
            new = old
            for name, role in roles.items():
                if role in screens.ROLES and role != role_of(old, name):
                    new = with_role(new, name, role)
            return new

        self._change(form, change)
        return "/data"

    def _fix(self, form: Form) -> None:
        parts = [text.partition("=") for text in form["fix"]]
        chosen: Options = tuple((flag, unquote(value)) for flag, _, value in parts)
        known = FLAGS.issuperset(flag for flag, _ in chosen)
        check(known, "fix", "must be one of a page", f"got {form['fix']}", "Go back.")
        self._models |= {value for flag, value in chosen if flag == "--model"}
        self._change(form, lambda old: apply_fix(old, chosen))

    def _choose(self, form: Form) -> str:
        metric, *groups = form["gap"][-1].split("|")
        target, reference = [*map(unquote, groups), "", ""][:2]
        self._change(form, lambda old: replace(
            old, metric=[metric], target=target or None, reference=reference or None))  # fmt: skip
        return "/explain"

    def _settings(self, form: Form) -> None:
        """Settings of a form: those it names in ``has``, whether it sends them or not."""
        self._models |= {text.strip() for text in form.get("model", ())}
        self._change(form, lambda old: _taken(old, form))

    def _begin(self, form: Form) -> None:
        if "has" in form:
            self._settings(form)
        for problem in self._about_model(self.project.settings()):
            raise DataError("model", "must be named by you", problem.text, "Press the button.")
        if form["step"][-1] in STEP_OF.values():
            self.project.begin(form["step"][-1])

    def _cancel(self, form: Form) -> None:
        run = self._run(form["run"][-1])
        if run is not None:
            run.cancel()

    def _use(self, form: Form) -> None:
        run = self._run(form["run"][-1])
        if run is not None:
            its = self.project.settings_of(run)
            self._change(form, lambda _: its)

    def _file(self, _: Form) -> None:
        file_project(self.project)

    # ---------------------------------------------------------------- files and progress

    async def _upload(self, request: Request) -> Response:
        """A file of the browser's, written as it comes and named once it is whole."""
        try:
            place = self.project.place_of(request.query_params.get("name", ""))
            size = 0
            with writing(place, overwrite=True) as file:
                async for piece in request.stream():
                    size += len(piece)
                    if size > MOST_UPLOAD:
                        fix = "Open it by its path instead."
                        must, got = f"must be at most {MOST_UPLOAD >> 30} GB", "got more"
                        raise DataError(f"file {place.name!r}", must, got, fix)
                    await run_in_threadpool(file.write, piece)
            await run_in_threadpool(self.project.name_file, place)
        except (FairmendError, OSError) as error:
            return JSONResponse({"error": _told(error)}, 400)
        except ClientDisconnect:  # nothing is kept of half a file
            return Response(status_code=400)
        return JSONResponse({"name": place.name})

    def _run(self, name: str) -> Run | None:
        """The run of this name, if there is one."""
        return next((run for run in self.project.runs() if run.name == name), None)

    async def _events(self, request: Request) -> Response:
        run = await run_in_threadpool(self._run, request.path_params["name"])
        if run is None:
            return PlainTextResponse("There is no such run.\n", 404)

        async def beats() -> AsyncIterator[str]:
            while await run_in_threadpool(lambda: run.state) == "running":
                yield f"data: {json.dumps(run.progress)}\n\n"
                await asyncio.sleep(_BEAT_S)
            yield "event: ended\ndata: {}\n\n"

        return StreamingResponse(beats(), media_type="text/event-stream")

    async def _file_of_run(self, request: Request) -> Response:
        run = await run_in_threadpool(self._run, request.path_params["name"])
        name = request.path_params["file"]
        if run is None or name not in PAGES.values() or not (run.folder / name).is_file():
            return PlainTextResponse("There is no such page.\n", 404)
        return _page_file(run.folder / name)

    async def _filed(self, request: Request) -> Response:
        folder, name = request.path_params["name"], request.path_params["file"]
        known = {one.name: one for one in await run_in_threadpool(filed, self.project)}
        if folder not in known or name not in known[folder].files:
            return PlainTextResponse("There is no such file.\n", 404)
        place = self.project.folder / "filed" / folder / name
        return _page_file(place) if name.endswith(".html") else FileResponse(place, filename=name)


def _told(error: FairmendError | OSError) -> str:
    """An error in words; without ours it is of the disk."""
    if isinstance(error, FairmendError):
        return str(error)
    return f"The system refused: {error.strerror or error}."


def _page_file(place: Path) -> Response:
    """A report as it is; it brings its own policy, which allows its own script alone."""
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    return FileResponse(
        place, media_type="text/html", headers={"Content-Security-Policy": f"{policy}; sandbox "
        "allow-scripts allow-downloads; frame-ancestors 'none'"},
    )  # fmt: skip


async def _fault(_: Request, error: Exception) -> Response:
    text = f"This is a fault of fairmend: {in_a_line(error)}. The terminal has the details.\n"
    return PlainTextResponse(text, 500)


async def _static(request: Request) -> Response:
    made: dict[str, tuple[Callable[[], str], str]] = {
        "studio.css": (lambda: style() + read("html/studio/studio.css"), "text/css"),
        "page.js": (lambda: read("html/page.js"), "text/javascript"),
        "studio.js": (lambda: read("html/studio/studio.js"), "text/javascript"),
    }
    name = request.path_params["name"]
    if name not in made:
        return PlainTextResponse("There is no such file.\n", 404)
    make, kind = made[name]
    return Response(make(), media_type=kind)


_ENCODED = ("group", "immutable", "positive", "positive_decision")
"""Settings whose values a form sends percent-encoded: browsers rewrite line breaks in others."""


def _taken(settings: Settings, form: Form) -> Settings:
    """Settings with what a form says; what it has and does not send is off."""
    changes: dict[str, Any] = {}
    for name in options().keys() & form.get("has", []):
        values, default = form.get(name, []), getattr(Settings(), name)
        values = [unquote(value) for value in values] if name in _ENCODED else values
        last = values[-1].strip() if values and name not in _ENCODED else "".join(values[-1:])
        if isinstance(default, bool):
            changes[name] = bool(last)
        elif isinstance(default, list):
            changes[name] = values
        elif name == "cost":
            costs = {column: _number(f"cost of {column}", text, 1.0)
                     for column, text in _by_column(name, form).items()}  # fmt: skip
            changes[name] = {column: cost for column, cost in costs.items() if cost != 1}
        elif isinstance(default, dict):
            pairs = _by_column(name, form)
            changes[name] = {column: value for column, value in pairs.items() if value}
        elif isinstance(default, float | int):
            changes[name] = _number(name, last, default)
        else:
            changes[name] = last or None
    if changes.get("model", settings.model) != settings.model:
        changes["answers"] = None
    new = replace(settings, **changes)
    if new.model is not None and new.predictions is not None:
        return with_role(new, new.predictions, "ignore")  # a model's answer is no input of it
    return new


def _by_column(name: str, form: Form) -> dict[str, str]:
    """What a form says of single columns, sent as ``name:column``."""
    mark = f"{name}:"
    return {unquote(key.removeprefix(mark)): values[-1] for key, values in form.items()
            if key.startswith(mark)}  # fmt: skip


def _number(name: str, text: str, default: float) -> float:
    if not text.strip():
        return default
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    check(math.isfinite(number), name, "must be a number", f"got {text!r}", "Write e.g. 0.5.")
    if name in _IN_POINTS:
        return number / 100
    return int(number) if isinstance(default, int) else number


_IN_POINTS = ("attention", "margin")
