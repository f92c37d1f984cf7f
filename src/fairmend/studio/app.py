"""The pages of the studio and what their forms do. Every change is on disk before the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
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
from fairmend.errors import DataError, FairmendError, in_a_line
from fairmend.report.html.page import style
from fairmend.report.templates import read, template
from fairmend.studio import screens
from fairmend.studio.code import commands, python_code
from fairmend.studio.filing import file_project, filed
from fairmend.studio.fixes import Options, apply_fix, role_of, with_role
from fairmend.studio.project import Outdated, Project
from fairmend.studio.runs import PAGES, Run
from fairmend.studio.screens import SCREENS, STEP_OF, Problem
from fairmend.studio.settings import STEPS, Settings

MOST_FORM = 1 << 20
MOST_UPLOAD = 64 << 30
_BEAT_S = 0.25
Form = dict[str, list[str]]
Change = Callable[[Settings, Form], Settings]
_OUTDATED = (
    "The settings were changed in another window since this page was shown. It shows them as they "
    "are now; what you just changed here was not taken over."
)


class Studio:
    """The routes of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def app(self) -> Starlette:
        """All pages and forms."""
        routes = [
            Route("/", lambda _: RedirectResponse("/data", 303)),
            *(Route(f"/{name}", partial(self._page, name)) for name in SCREENS),
            Route("/upload", self._upload, methods=["POST"]),
            Route("/runs/{name}/events", self._events),
            Route("/runs/{name}/{file}", self._file_of_run),
            Route("/filed/{name}/{file}", self._filed),
            Route("/static/{name}", _static),
            *(
                Route(f"/{name}", partial(self._form, action), methods=["POST"])
                for name, action in {
                    "open": self._open, "roles": self._roles, "fix": self._fix,
                    "choose": self._choose, "settings": self._settings, "begin": self._begin,
                    "cancel": self._cancel, "use": self._use, "filing": self._file,
                }.items()
            ),
        ]  # fmt: skip
        return Starlette(routes=routes, exception_handlers={Exception: _fault})

    # ---------------------------------------------------------------- pages

    async def _page(self, name: str, request: Request) -> Response:
        said = request.query_params.get("said", "")
        return await run_in_threadpool(self._show, name, said)

    def _show(self, name: str, said: str = "") -> Response:
        try:
            settings = self.project.settings()
            context = self._context(name, settings)
            settings = self.project.settings()
        except FairmendError as error:  # a settings file that somebody has edited
            return PlainTextResponse(f"{error}\n", 500)
        problems = [*([Problem(said)] if said else []), *context.pop("problems", [])]
        page = template(f"html/studio/{name}.html.j2").render(
            context, title=f"{SCREENS[name]} · {self.project.folder.name}", screen=name,
            screens=SCREENS, settings=settings, project=self.project, version=__version__,
            version_of_settings=self.project.version, problems=problems,
        )  # fmt: skip
        return Response(page, media_type="text/html")

    def _context(self, name: str, settings: Settings) -> dict[str, Any]:
        """What a screen shows; what it needs and is quick to do is begun."""
        context: dict[str, Any] = {"run": None, "data": {}, "problems": []}
        if settings.file is None:
            return context | (_NOTHING_OPEN if name == "data" else {})
        columns = self.project.run("columns", settings)
        if columns.state in ("new", "interrupted"):
            self.project.begin("columns")
        if columns.state == "done" and settings == _bare(settings):
            self.project.change(lambda old: screens.guessed(old, screens.columns_of(columns)))
            return self._context(name, self.project.settings())
        if name == "data":
            context |= {"run": columns} | screens.data(self.project, settings)
            return self._with_error(context, columns)
        if name == "file":
            return context | {
                "filed": filed(self.project),
                "commands": commands(self.project, settings),
                "python": python_code(self.project, settings, screens.columns_of(columns)),
                "ready": {step: self.project.run(step, settings).state for step in STEPS},
            }
        if settings.lacks is not None or (name != "measure" and not settings.metric):
            lack = settings.lacks or "Choose the gap to look at first."
            return context | {"problems": [Problem(lack)], "next": "data" if settings.lacks
                              else "measure"}  # fmt: skip
        step = STEP_OF[name]
        run = self.project.run(step, settings)
        if run.state == "new" and name in ("measure", "explain"):
            self.project.begin(step)
        context |= {"run": run}
        if name == "repair":
            context |= screens.repair_form(self.project, settings)
        if run.state == "done" and run.result is not None:
            context |= screens.RESULTS[name](self.project, settings, run.result) | {
                "notes": run.notes
            }
        return self._with_error(context, run)

    def _with_error(self, context: dict[str, Any], run: Run) -> dict[str, Any]:
        if run.state == "failed":
            context["problems"] = [screens.problem_of(run.error), *context["problems"]]
        return context

    # ---------------------------------------------------------------- forms

    async def _form(self, action: Callable[[Form], str], request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_FORM:
                return PlainTextResponse("The form is too long.\n", 413)
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        here = "/" + form.get("screen", ["data"])[0]
        try:
            there = await run_in_threadpool(action, form)
        except Outdated:
            there = f"{here}?said={quote(_OUTDATED)}"
        except FairmendError as error:
            there = f"{here}?said={quote(str(error))}"
        return RedirectResponse(there if there.startswith("/") else "/data", 303)

    def _change(self, form: Form, change: Callable[[Settings], Settings]) -> None:
        self.project.change(change, form.get("version", [None])[0])

    def _open(self, form: Form) -> str:
        self.project.open(form.get("path", [""])[0].strip())
        return "/data"

    def _roles(self, form: Form) -> str:
        """The roles that were changed: the form sends those of all columns."""
        roles = {key.removeprefix("role:"): values[-1] for key, values in form.items()
                 if key.startswith("role:")}  # fmt: skip

        def change(old: Settings) -> Settings:
            new = old
            for name, role in roles.items():
                if role in screens.ROLES and role != role_of(old, name):
                    new = with_role(new, name, role)
            return new

        self._change(form, change)
        return "/data"

    def _fix(self, form: Form) -> str:
        options: Options = tuple(
            (flag, value) for flag, _, value in (text.partition("=") for text in form["fix"])
        )
        known = {fix for text in form["fix"] for fix in [text.partition("=")[0]]}
        if not known <= _FIXABLE:
            raise DataError("fix", "must be one of a page", f"got {form['fix']}", "Go back.")
        self._change(form, lambda old: apply_fix(old, options))
        return "/" + form.get("screen", ["data"])[0]

    def _choose(self, form: Form) -> str:
        metric, _, target = form["gap"][0].partition("|")
        self._change(form, lambda old: replace(old, metric=[metric], target=target))
        return "/explain"

    def _settings(self, form: Form) -> str:
        """Settings of a form: those it names in ``has``, whether it sends them or not."""
        self._change(form, lambda old: _taken(old, form))
        return "/" + form.get("screen", ["data"])[0]

    def _begin(self, form: Form) -> str:
        if "has" in form:
            self._settings(form)
        step = form["step"][0]
        if step in STEPS:
            self.project.begin(step)
        return "/" + form.get("screen", ["data"])[0]

    def _cancel(self, form: Form) -> str:
        run = self._run(form["run"][0])
        if run is not None:
            run.cancel()
        return "/" + form.get("screen", ["data"])[0]

    def _use(self, form: Form) -> str:
        run = self._run(form["run"][0])
        if run is not None:
            its = self.project.settings_of(run)
            self._change(form, lambda _: its)
        return "/repair"

    def _file(self, form: Form) -> str:
        file_project(self.project)
        return "/file"

    # ---------------------------------------------------------------- files and progress

    async def _upload(self, request: Request) -> Response:
        """A file of the browser's, written as it comes and named once it is whole."""
        from fairmend.data.files import writing

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
            self.project.name_file(place)
        except FairmendError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"name": place.name})

    def _run(self, name: str) -> Run | None:
        """The run of this name, if there is one."""
        step = name.partition("-")[0]
        return next((run for run in self.project.runs(step) if run.name == name), None)

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


_NOTHING_OPEN: dict[str, Any] = {
    "columns": [], "rows": 0, "roles": {}, "choices": [], "views": [],
}  # fmt: skip
_FIXABLE = frozenset(
    [
        "--decimal",
        "--thousands",
        "--currency",
        "--percent",
        "--missing",
        "--words",
        "--positive",
        "--positive-decision",
        "--ignore",
        "--id",
        "--not-id",
        "--label",
        "--group",
        "--predictions",
    ]
)


def _bare(settings: Settings) -> Settings:
    """Settings about the cells of a file alone: nobody has said what the columns are."""
    return Settings(
        file=settings.file, missing=settings.missing, decimal=settings.decimal,
        thousands=settings.thousands, currency=settings.currency, percent=settings.percent,
        words=settings.words,
    )  # fmt: skip


def _taken(settings: Settings, form: Form) -> Settings:
    """Settings with what a form says; what it has and does not send is off."""
    changes: dict[str, Any] = {}
    for name in form.get("has", []):
        values = [value for value in form.get(name, []) if value != ""]
        default = getattr(Settings(), name)
        if isinstance(default, bool):
            changes[name] = bool(values)
        elif isinstance(default, list):
            changes[name] = values
        elif isinstance(default, dict):
            changes[name] = _pairs(name, form)
        elif isinstance(default, float | int):
            changes[name] = _number(name, values, default)
        else:
            changes[name] = values[-1] if values else None
    return replace(settings, **changes)


def _pairs(name: str, form: Form) -> dict[str, Any]:
    """Settings of single columns, sent as ``name:column``."""
    pairs: dict[str, Any] = {}
    for key, values in form.items():
        if key.startswith(f"{name}:") and values[-1]:
            column = key.removeprefix(f"{name}:")
            if name != "cost":
                pairs[column] = values[-1]
            elif (cost := _number(f"cost of {column}", values, 1.0)) != 1:
                pairs[column] = cost
    return pairs


def _number(name: str, values: list[str], default: float) -> float:
    if not values:
        return default
    text = values[-1].replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        must, fix = "must be a number", "Write e.g. 0.5."
        raise DataError(name, must, f"got {values[-1]!r}", fix) from None
    if name in ("attention", "margin"):
        number /= 100  # typed in points
    return int(number) if isinstance(default, int) else number
