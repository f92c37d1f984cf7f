"""The commands and the Python that give the figures a project shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from fairmend.config import NAMES
from fairmend.data.roles import ColumnGuess
from fairmend.studio.fixes import role_of
from fairmend.studio.project import KEY, Project
from fairmend.studio.runs import ARTIFACT, NO_SETTINGS, PAGES, options_set
from fairmend.studio.settings import STEPS, Settings

_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII)
_OUTPUTS = {
    "audit": ["-o", PAGES["audit"], "--force"],
    "repair": ["-o", ARTIFACT, "--report", PAGES["repair"], "--force"],
    "alternatives": ["-o", PAGES["alternatives"], "--force"],
}


def commands(project: Project, settings: Settings) -> str:
    """The command lines of what is done, to run in the project's folder, and again.

    Like the studio, they go by no settings file and no variable.
    """
    lines = [f"cd {shlex.quote(str(project.folder))}"]
    if variables := options_set():
        lines.append(shlex.join(["unset", *variables]))
    found = any((project.folder / name).exists() for name in NAMES)
    fairmend = ["fairmend", *(NO_SETTINGS if found else ())]
    for step in STEPS:
        run = project.run(step, settings)
        if run.state == "done":
            lines.append(in_lines([*fairmend, *run.arguments, *_OUTPUTS.get(step, [])]))
    return "\n".join(lines) + "\n"


def in_lines(words: Sequence[str]) -> str:
    r"""A command with a line for each option.

    >>> print(in_lines(["fairmend", "audit", "a b", "--group", "sex"]))
    fairmend audit 'a b' \
        --group sex
    """
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-"):
            lines.append([])
        lines[-1].append(word)
    return " \\\n    ".join(map(shlex.join, lines))


def python_code(project: Project, settings: Settings, columns: Sequence[ColumnGuess]) -> str:
    """A program that prints the figures of what is done."""
    done = [step for step in STEPS if project.run(step, settings).state == "done"]
    kinds = {one.name: one.kind for one in columns}
    inputs = [one.name for one in columns if role_of(settings, one.name) == "input"]
    lines = [
        "# The figures of a project of fairmend studio. Run this in the folder",
        f"# {str(project.folder)!r}",
        "",
        *_reading(settings, inputs, columns),
        "",
        "",
        *_people(settings),
        "",
        "",
        f"positive = {_literal(settings.positive, kinds.get(settings.label or ''))}",
        f"ids = {f'table[{settings.id!r}]' if settings.id else None}",
        "print(fairmend.audit(model, **people(table), ids=ids, pos_label=positive))",
    ]
    if "explain" in done:
        [group] = settings.group if len(settings.group) == 1 else [""]
        lines += [
            "print(",
            "    fairmend.counterfactual(",
            "        model, **people(table), pos_label=positive,",
            f"        disparity={settings.metric[0]!r}, "
            f"target={_literal(settings.target, kinds.get(group))}, "
            f"baseline={_literal(settings.reference, kinds.get(group))},",
            "    )",
            ")",
        ]
    if "repair" in done:
        lines += ["", *_repair(settings)]
    if "alternatives" in done:
        lines += ["", *_alternatives(settings)]
    return "\n".join(lines) + "\n"


def _reading(
    settings: Settings, inputs: Sequence[str], columns: Sequence[ColumnGuess]
) -> Iterator[str]:
    if settings.id:
        yield from ("import polars as pl", "")
    yield from (
        "import fairmend",
        "from fairmend.apply.draw import read_key",
        "from fairmend.data.ids import hold_out_people",
        "from fairmend.data.spelling import Spelling",
        "from fairmend.data.tablefile import read_table",
    )
    if settings.model is not None:
        yield "from fairmend.model.foreign import input_names"
        yield "from fairmend.model.modelfile import load_model"
    types = f"{{{settings.id!r}: pl.String}}" if settings.id else "None"
    spelling = ", ".join(
        f"{name}={value!r}" for name, value in vars(settings.spelling).items()
        if value not in ((), None, False)
    )  # fmt: skip
    yield from (
        "",
        f"spelling = Spelling({spelling})",
        f"table = read_table({settings.file!r}, spelling=spelling, types={types}).frame",
        f"table = table.drop_nulls({needed(settings)!r})",
    )
    cut = f", threshold={_literal(settings.threshold, 'numbers')}" if settings.threshold else ""
    cut += f", output={settings.answers!r}" if settings.answers else ""
    if settings.model is not None:
        yield f"model = fairmend.BlackBox(load_model({settings.model!r}){cut})"
        read = [] if "://" in settings.model else settings.group  # by the model, but never edited
        left = [one.name for one in columns if one.name in (*inputs, *read)]
        yield f"columns = list(input_names(model.model) or {left!r})"
        yield from _vouched(settings)
        return
    words = _words(settings, columns)
    words_given = f", words={words!r}" if words else ""
    yield f"model = fairmend.BlackBox({settings.predictions!r}{words_given}{cut})"
    yield f"columns = {[*inputs, settings.predictions]!r}"
    yield from _vouched(settings)


def _vouched(settings: Settings) -> Iterator[str]:
    if settings.not_id:
        yield f"model.vouched = {tuple(settings.not_id)!r}"


def _people(settings: Settings) -> Iterator[str]:
    groups = ", ".join(f"{name!r}: rows[{name!r}]" for name in settings.group)
    yield "def people(rows):"
    yield '    """What every call is given."""'
    yield "    return {"
    yield '        "X": rows.select(columns),'
    yield f'        "y": {f"rows[{settings.label!r}]" if settings.label else None},'
    yield f'        "sensitive_features": {{{groups}}},'
    if settings.weight:
        yield f'        "sample_weight": rows[{settings.weight!r}],'
    yield "    }"


def _repair(settings: Settings) -> Iterator[str]:
    yield f"held = hold_out_people([table[name] for name in {needed(settings)!r}], 0.3, " \
          f"{settings.seed}, ids)"  # fmt: skip
    yield "fitted, holdout = table.filter(~held), table.filter(held)"
    yield "repaired = fairmend.RepairedClassifier("
    yield f"    model, {_metrics(settings)!r}, pos_label=positive,"
    if settings.model is not None:
        yield f"    immutable=[*{settings.immutable!r},"
        yield f"               *(name for name in {settings.group!r} if name in columns)],"
    elif settings.immutable:
        yield f"    immutable={settings.immutable!r},"
    for name in ("blind", "in_words", "two_sided", "do_no_harm", "one_way"):
        if value := getattr(settings, name):
            yield f"    {'words' if name == 'in_words' else name}={value!r},"
    if settings.cost:
        weights = ", ".join(f"{name!r}: {value!r}" for name, value in settings.cost.items())
        yield f"    cost=fairmend.Cost(weights={{{weights}}}),"
    yield f"    level={settings.level!r}, key=read_key(file={KEY!r}), random_state={settings.seed},"
    yield ")"
    ids = f"fitted[{settings.id!r}]" if settings.id else None
    yield f"repaired.fit(**people(fitted), ids={ids})"
    yield "print(repaired.report(**people(holdout), holdout=True))"


def _alternatives(settings: Settings) -> Iterator[str]:
    yield "print("
    yield "    fairmend.alternatives("
    yield "        model, **people(table), ids=ids, pos_label=positive,"
    yield f"        disparity={_metrics(settings)!r}, margin={settings.margin!r}, holdout=0.5,"
    yield f"        immutable={settings.immutable!r}, random_state={settings.seed},"
    yield "    )"
    yield ")"


def _metrics(settings: Settings) -> str | list[str]:
    return settings.metric[0] if len(settings.metric) == 1 else settings.metric


def needed(settings: Settings) -> list[str]:
    """The columns without which a person is left out."""
    return [*([settings.label] if settings.label else []), *settings.group]


def _words(settings: Settings, columns: Sequence[ColumnGuess]) -> tuple[str, str] | None:
    """The words of recorded decisions, negative and positive."""
    positive = settings.seen_by("repair")
    word = positive.positive_decision or (positive.positive if settings.label is None else None)
    values = next((one.values for one in columns
                   if one.name == settings.predictions and one.kind == "words"), None)  # fmt: skip
    if word is None or values is None:
        return None
    return next((value for value in values if value != word), f"not {word}"), word


def _literal(text: str | None, kind: str | None) -> str:
    """A value as Python writes it, by what its column holds."""
    if text is not None and kind in ("whole numbers", "numbers") and _NUMBER.fullmatch(text):
        return text
    if text is not None and kind == "true or false":
        return str(text.lower() == "true")
    return repr(text)
