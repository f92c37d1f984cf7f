"""Save a fitted repair, and load it beside its model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np

from fairmend._version import __version__
from fairmend.apply.draw import Drawer
from fairmend.artifact.buffers import arrow
from fairmend.artifact.codec import WORDS, Decoder, Encoder, NotStored, parse, unknown, write
from fairmend.artifact.container import MANIFEST, Container, opened, pack
from fairmend.artifact.frames import column_types, container_kind
from fairmend.artifact.manifest import (
    FORMAT,
    ColumnSchema,
    Description,
    Digest,
    Manifest,
    Member,
    ModelSettings,
    StoredPlan,
    checked,
    library_versions,
    read_manifest,
    write_manifest,
)
from fairmend.classifier import RepairedClassifier
from fairmend.data.columns import Frame, as_numbers, scalar
from fairmend.data.features import FeatureMap
from fairmend.data.files import refuse_existing, writing
from fairmend.data.limits import Between, fits, hints_of
from fairmend.data.outcomes import Labels
from fairmend.data.spelling import Spelling
from fairmend.data.stored import stored
from fairmend.errors import DAMAGED, ArtifactError, DataError, FairmendWarning
from fairmend.explain.logistic import Logistic, PairLogistic
from fairmend.explain.trees import BoostedTrees
from fairmend.measure.disparity import read_disparities
from fairmend.measure.population import AuditData, Population
from fairmend.measure.result import Audit
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.model.probe import Probe
from fairmend.repair.blind.rule import BlindPlan, BlindRule
from fairmend.repair.blind.words import WordRule
from fairmend.repair.costs import Cost, EditCost
from fairmend.repair.least_change import Ranking
from fairmend.repair.plan import Plan
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.problem import answers_of_all
from fairmend.repair.settings import RepairSettings
from fairmend.report.findings import fingerprint

_BODY = "repair.json"
_NUMBERS = Logistic | PairLogistic | BoostedTrees | None
"""Models of probabilities that are stored as numbers."""


@stored("Body")
@dataclass(frozen=True, eq=False)
class Body:
    """Everything a loaded repair is made of."""

    settings: dict[str, Any]
    model: ModelSettings
    data: AuditData
    audit: Audit
    plans: tuple[tuple[Hashable, Plan], ...]
    outcomes: tuple[tuple[Hashable, RowProbabilities], ...]
    """The groups' own P(Y=1 | x), for reports; none where their model is the caller's own."""
    probe: Probe
    fingerprint: Digest
    """Tells the repair from others; people's draws depend on it."""
    spelling: Spelling = field(default_factory=Spelling)
    """How the cells of its file were written: new files are read alike."""

    def agrees(self) -> bool:
        """Whether plans and models are of the groups that were audited, and of the metric."""
        groups, names = self.data.groups, [group for group, _ in self.plans]
        metric = ", ".join(one.name for one in read_disparities(self.settings["disparity"]))
        return (
            len(set(names)) == len(names)
            and set(names) <= set(groups)
            and {group for group, _ in self.outcomes} <= set(names)
            and {summary.group for summary in self.audit.groups} == set(groups)
            and all(plan.target == group for group, plan in self.plans)
            and all(plan.baseline in (*groups, "rest") for _, plan in self.plans)
            and all(
                (plan.metric, plan.method) == (metric, self.settings["method"])
                for _, plan in self.plans
            )
        )


# -------------------------------------------------------------------- saving


def save(
    repaired: RepairedClassifier,
    path: str | os.PathLike[str],
    *,
    created: datetime | str | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted repair as one file; see `RepairedClassifier.save`."""
    from sklearn.utils.validation import check_is_fitted

    arrow()
    check_is_fitted(repaired, "plans_")
    if isinstance(repaired.box_, _NoModel) or repaired.key_ is None:
        raise ArtifactError(
            "a loaded repair",
            "must have its model and its key to be saved again",
            "it was loaded without",
            "Say fairmend.load(path, model, key=...), or copy the file.",
        )
    refuse_existing(Path(path), overwrite=overwrite)
    moment = _moment(created)
    body = _body(repaired)
    tables = Encoder()
    content = {
        name: tables.encode(getattr(body, name), "" if name == "settings" else name)
        for name in Body.__dataclass_fields__
    }
    members = {_BODY: write({"$": "Body", **content})} | {
        _table_name(place): table for place, table in enumerate(tables.members)
    }
    again = _read_body(lambda name: members[name], repaired.box_, len(tables.members))
    _check_can_be_loaded(again)
    about = _describe(again, _fingerprint(repaired))  # as it will load
    manifest = Manifest(
        FORMAT,
        __version__,
        moment,
        library_versions(about.container),
        about,
        tuple(
            Member(name, len(member), sha256(member).hexdigest())
            for name, member in members.items()
        ),
    )
    with writing(path, overwrite=overwrite) as file:
        pack(file, {MANIFEST: write_manifest(manifest), **members})


def _check_can_be_loaded(body: Body) -> None:
    """Refuse settings that `fit` takes for what they are not, such as 1 for True."""
    try:
        _with_settings(None, body, None)
    except ArtifactError as error:
        raise ArtifactError(
            "the repair",
            "must have settings of the types that RepairedClassifier names, to be stored",
            error.got,
            "Set it so, and fit again.",
        ) from None


def _moment(created: Any) -> str | None:
    """When it was made, by the caller's clock: two files of one fit are then the same."""
    if created is None:
        return None
    try:
        moment = created if isinstance(created, datetime) else datetime.fromisoformat(created)
    except (TypeError, ValueError):
        raise DataError(
            "created", "must be a datetime, or one as ISO 8601 text", f"got {created!r}",
            "For example datetime.now(UTC).",
        ) from None  # fmt: skip
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).isoformat()


def _body(repaired: RepairedClassifier) -> Body:
    box, data = repaired.box_, repaired.data_
    assert data.table is not None
    _refuse_other_names(data)
    settings = dict(sorted(repaired.settings.to_dict().items()))
    if repaired.key is None:  # the key was made from it
        settings["random_state"] = None
    own = not isinstance(repaired.outcome_model, str)
    if own:
        _refuse_if_needed(repaired)
        settings["outcome_model"] = NotStored(type(repaired.outcome_model).__name__)
    settings["method_options"] = _without_code(repaired.method_options)
    return Body(
        settings=settings,
        model=ModelSettings(
            box._method, box.settled().output, box.threshold, box.soft, box.random, box.batch_size,
            not box.can_query, box.column, box.words,
        ),
        # a person's place in the data read is nobody's business later, nor is, of a blind repair,
        # the group of whoever has a row
        data=data.without_rows if repaired.blind else data.counted,
        audit=repaired.audit_,
        plans=tuple(repaired.plans_.items()),
        outcomes=() if own or repaired.blind else tuple(_outcomes(repaired)),
        probe=_probe(repaired),
        fingerprint=repaired.fingerprint_,
        spelling=replace(repaired.spelling_, words=()),  # types are known by now
    )  # fmt: skip


def _probe(repaired: RepairedClassifier) -> Probe:
    """As it was loaded, or chosen; of a blind repair from everybody, and not by group."""
    data = repaired.data_
    assert data.table is not None
    if repaired._probe is not None:
        return repaired._probe
    if not repaired.blind:
        return Probe.choose(data.table, data.populations)
    rows, answers = answers_of_all(data)
    each = np.full(len(rows), 1 / len(rows))
    everybody = Population(each, answers.decision, np.zeros(len(rows)), answers.score, rows)
    return Probe.choose(data.table, [everybody])


def _refuse_other_names(data: AuditData) -> None:
    """Columns and outcomes that are called by what an artifact does not hold."""
    assert data.table is not None
    for name in data.table.names:
        if type(scalar(name)) not in (str, int):
            raise ArtifactError(
                f"X column {name!r}",
                "must be named by text or a whole number to be stored",
                f"got a name of type {type(name).__name__}",
                "Rename the columns before fit.",
            )
    for label in (data.labels.negative, data.labels.positive):
        if not isinstance(label, WORDS):
            raise ArtifactError(
                "y",
                "must hold numbers, booleans, text or dates to be stored",
                f"got {label!r}",
                "Turn it into one of these before fit.",
            )


def _refuse_if_needed(repaired: RepairedClassifier) -> None:
    """A caller's own model of outcomes is code: fine if no plan asks it about new people."""
    for group, plan in repaired.plans_.items():
        ranking, rule = getattr(plan, "ranking", None), getattr(plan, "rule", None)
        outcome = getattr(plan, "outcome", None) or getattr(ranking, "outcome", None)
        outcome = rule.outcome.inputs if isinstance(rule, BlindRule) else outcome
        fitted = None if outcome is None else outcome.fitted
        if fitted is not None and not isinstance(fitted.estimator, _NUMBERS):
            raise ArtifactError(
                "outcome_model",
                "must be 'auto', 'logistic' or 'empirical' where the plan needs it for new people",
                f"the plan of {group!r} asks a {type(fitted.estimator).__name__}",
                "Fit with one of these"
                + (
                    ", or with rank='score'." if rule is None else ": a blind rule asks its models."
                ),
            )


def _outcomes(repaired: RepairedClassifier) -> Iterator[tuple[Hashable, RowProbabilities]]:
    """The models that reports use; none where one cannot be fitted."""
    for group in repaired.plans_:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)  # reports tell
            outcome = repaired._outcome(group)
        if outcome is not None:
            yield group, outcome


def _without_code(options: Any) -> dict[str, Any] | None:
    """Settings of the method, but for functions: they were needed in fit alone."""
    if options is None:
        return None
    return {
        name: NotStored(getattr(value, "__name__", name)) if callable(value) else value
        for name, value in options.items()
    }


def _fingerprint(repaired: RepairedClassifier) -> str | None:
    """None for a key made from a random_state: trying seeds would find it."""
    if repaired.key is None and repaired.random_state is not None:
        return None
    return Drawer(repaired.key_).fingerprint


def _describe(body: Body, key: str | None) -> Description:
    table, plans = body.data.table, [plan for _, plan in body.plans]
    assert table is not None
    return Description(
        metric=", ".join(one.name for one in read_disparities(body.settings["disparity"])),
        method=body.settings["method"],
        settings={name: _readable(value) for name, value in body.settings.items()},
        container=container_kind(table.native),
        columns=tuple(map(ColumnSchema, table.names, column_types(table))),
        attribute=body.data.attribute,
        groups=body.data.groups,
        people=body.data.n,
        rows=len(table),
        model=body.model,
        plans=tuple(
            StoredPlan(p.target, p.baseline, p.metric, p.method, p.status, p.outlook) for p in plans
        ),
        audit_sha256=fingerprint(body.data),
        probe_rows=len(body.probe.rows),
        answers_sha256=body.probe.sha256,
        key_fingerprint=key,
        spelling=body.spelling,
        words=next((plan.rule.words for plan in plans if isinstance(plan, BlindPlan)), None),
    )


def _readable(value: Any) -> Any:
    """A setting for the manifest: simple values as they are, the rest as people write it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_readable(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _readable(one) for key, one in value.items()}
    return (
        repr(value) if isinstance(value, Cost | NotStored) else getattr(value, "name", str(value))
    )


def _table_name(place: int) -> str:
    return f"tables/{place:04d}.bin"


# -------------------------------------------------------------------- loading


def load(
    path: str | os.PathLike[str],
    model: Any = None,
    *,
    key: bytes | None = None,
    check_model: bool = True,
) -> RepairedClassifier:
    """Load a stored repair and put it in front of its model.

    Parameters
    ----------
    path
        A file that `RepairedClassifier.save` wrote. Anything else is refused with an
        `ArtifactError`; nothing in it is ever executed.
    model
        The model, as in `RepairedClassifier`. It is queried again about the artifact's probe rows,
        and refused if it no longer answers as it did. None: to look at plans, and to transform
        where that needs no answers.
    key
        The secret for draws, `RepairedClassifier.key_` of the saved repair. It is not in the file;
        without it, people whose decision is randomised get no answer.
    check_model
        False to take another model without a check.

    """
    arrow()
    with opened(path) as file:
        manifest = read_manifest(file)
        by_name = {member.name: member for member in manifest.members}
        what, about = file.what, manifest.about
        tables = len(by_name) - 1
        if list(by_name) != [_BODY, *map(_table_name, range(tables))]:
            file.refuse("must hold a repair and its tables", "it holds something else")
        own = _own_box(file, about.model)
        box = own if model is None else _box(model, about.model)
        if not box.can_query and not about.model.recorded:
            raise ArtifactError(
                what,
                "must be loaded with a model that can be queried",
                f"got {box!r}",
                "The repair was fitted on one, and asks it about the edits it makes.",
            )
        with file.reading():
            writer = manifest.fairmend
            body = _read_body(lambda name: checked(file, by_name[name]), box, tables, writer)
            named = about.model.column if model is None else model
            repaired = _with_settings(named, body, key, writer)
            if not manifest.describes(_describe(body, about.key_fingerprint)):
                file.refuse("must hold what its manifest describes", "it holds something else")
    given = about.key_fingerprint if key is None else Drawer(key).fingerprint
    if about.key_fingerprint not in (None, given):
        raise ArtifactError(
            "key",
            f"must be the one with fingerprint {about.key_fingerprint}",
            f"got one with fingerprint {given}",
            "With another key all draws would change: find the key that was used in fit.",
        )
    skipped = about.model.recorded or box.random or isinstance(box, _NoModel)
    if check_model and box.can_query and not skipped:
        _refuse_another_model(what, body.probe, box, body.data.labels)
    repaired.key_ = key
    repaired._keep(box, body.data, body.audit, dict(body.plans))
    repaired._fingerprint.append(body.fingerprint)
    repaired._outcomes |= dict(body.outcomes)
    repaired._loaded, repaired._probe, repaired.spelling_ = True, body.probe, body.spelling
    return repaired


def _refuse_another_model(what: str, probe: Probe, box: BlackBox, labels: Labels) -> None:
    changed = probe.changed(box.query(probe.rows, labels, trusted=True), box.cut)
    if changed.any():
        raise ArtifactError(
            what,
            "must be loaded with the model it was fitted for",
            f"this one answers {int(changed.sum()):,} of {len(changed):,} probe rows differently",
            "Fit the repair anew on the model as it is.",
        )


def _read_body(read: Any, box: BlackBox, tables: int, writer: str = "") -> Body:
    """The body of a repair, all of whose parts agree with each other."""
    decoder = Decoder(lambda place: read(_table_name(place)), box, writer)
    body = decoder.decode(parse(_BODY, read(_BODY)))
    if not isinstance(body, Body):
        raise _unfit("something else than a repair")
    if decoder.used != set(range(tables)):
        raise _unfit("tables that nothing refers to, or too few")
    data = body.data
    if data.table is None or data.person_row is not None or data.person_group is not None:
        raise _unfit("people without their rows, or rows of single people")
    if any(people.tally is None for people in data.populations):
        raise _unfit("people who were not counted")
    if any((people.rows is None) != (body.settings.get("blind") is True)
           for people in data.populations):  # fmt: skip
        raise _unfit("rows of people without their groups, or groups without rows")
    _refuse_other_names(data)
    _check_tables(decoder, data.table)
    _check_answers(decoder, body)
    return body


def _check_tables(decoder: Decoder, table: Frame) -> None:
    """Every table has the columns of the audit data, and what is learnt of columns is of these."""
    types = dict(zip(table.names, column_types(table), strict=True))
    kept_out = [set(one.kept_out) for one in decoder.made if isinstance(one, BlindRule)]
    columns = [[name for name in table.names if name not in left] for left in (set(), *kept_out)]
    names = [[str(name) for name in some] for some in columns]
    frames = [frame for frame in decoder.frames.values() if frame.names == table.names]
    for frame in decoder.frames.values():
        if list(frame.names) not in columns or type(frame.native) is not type(table.native):
            raise _unfit("tables of different columns")
        if list(column_types(frame)) != [types[name] for name in frame.names]:
            raise _unfit("tables of different types")
    # a column of one type may hold text here and numbers there, if its type is that of any object
    kinds = enumerate(types.values())
    mixed = [place for place, kind in kinds if kind in ("object", "category")]
    numbers = [as_numbers(column.values) is not None for column in table.encoded]
    for place in mixed:
        numbers[place] = all(
            as_numbers(frame.encoded[place].values) is not None for frame in frames
        )
    for one in decoder.made:
        if isinstance(one, WordRule) and not one.inputs <= set(table.names):
            raise _unfit("a rule in words about other columns")
        parts: Any = ()
        if isinstance(one, EditCost):
            parts = one.axes
        elif isinstance(one, FeatureMap):
            parts = one.features
        if parts and [str(part.name) for part in parts] not in names:
            raise _unfit("costs or features of other columns")
        if isinstance(one, EditCost) and any(
            not axis.values and not number for axis, number in zip(one.axes, numbers, strict=True)
        ):
            raise _unfit("costs of text as if it were numbers")


def _check_answers(decoder: Decoder, body: Body) -> None:
    """The model's answers are of the kind that it is said to give, wherever they are kept."""
    model, scored = body.model, body.probe.answers.score is not None
    if body.data.recorded != model.recorded or scored != (model.output in ("probability", "score")):
        raise _unfit("answers of another kind of model")
    chances = Between(0, 1)
    for one in decoder.made:
        cls: type = type(one)
        hints = hints_of(cls)
        if isinstance(one, Population) and one.rows is None:  # people by decision alone
            continue
        scores = [getattr(one, name) for name in hints if name in ("score", "support_score")]
        if any((score is None) == scored for score in scores):
            raise _unfit("answers with scores and without")
        if model.output == "probability" and scored and not all(map(chances, scores)):
            raise _unfit("probabilities beyond 0 and 1")
        if "decision" in hints and not model.soft and not np.isin(one.decision, (0, 1)).all():
            raise _unfit("decisions between yes and no")
        if isinstance(one, Ranking) and one.rank == "score" and not scored:
            raise _unfit("a ranking by scores that there are not")


def _with_settings(
    model: Any, body: Body, key: bytes | None, writer: str = ""
) -> RepairedClassifier:
    """A repair whose settings are those of `fit`, by the same checks.

    A setting that is younger than the file keeps its default.
    """
    settings = body.settings
    if more := settings.keys() - RepairSettings().to_dict().keys():
        raise unknown(f"the settings {', '.join(sorted(map(str, more)))!r:.60}", writer)
    hints = hints_of(cast(Any, RepairSettings))
    for name, value in settings.items():
        code = isinstance(value, NotStored)  # stands for code, which one setting may be
        right = fits(value, hints[name]) and not code
        if name == "outcome_model":
            right = isinstance(value, str) or code
        if not right:
            raise _unfit(f"a value of another type for {name!r}: {value!r:.60}")
    own = settings["outcome_model"]
    given = {**settings, "key": key, "outcome_model": own if isinstance(own, str) else "auto"}
    repaired = RepairedClassifier(model, **given)
    repaired.settings.check()
    repaired.outcome_model = own
    repaired.settings.check_data(body.data)
    return repaired


def _unfit(got: str) -> ArtifactError:
    return ArtifactError("artifact", "must hold one repair, whole", f"got {got}", DAMAGED)


# -------------------------------------------------------------------- the model, or none


def _own_box(file: Container, settings: ModelSettings) -> BlackBox:
    """What answers where no model is given: a column of recorded predictions, or nothing.

    Never an address: whoever wrote the file would be sent people's inputs.
    """
    with file.reading():
        if settings.column is None:
            return _NoModel(settings)
        box = _box(settings.column, settings)
    if box.can_query:
        file.refuse("must name a column of recorded predictions", f"it names {box!r}")
    return box


def _box(model: Any, settings: ModelSettings) -> BlackBox:
    """The model, read as it was in fit."""
    box = model if isinstance(model, BlackBox) else BlackBox(model, **_as_in_fit(settings))
    if box.output == "auto":  # what settled it in fit has been forgotten
        box.output = settings.output
    return box.settled()  # older files say "auto" where all answers were labels


def _as_in_fit(settings: ModelSettings) -> dict[str, Any]:
    names = ("output", "threshold", "soft", "random", "batch_size", "words")
    return {name: getattr(settings, name) for name in names}


class _NoModel(BlackBox):
    """Stands for a model that was not given: an error once somebody looks at its answers."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(self.query, **_as_in_fit(settings))

    def query(self, *_: Any, **__: Any) -> Answers:
        return _NoAnswers()


class _NoAnswers(Answers):
    def __init__(self) -> None:
        """Have none of the fields."""

    def take(self, entries: Any) -> Answers:
        return self

    def __getattr__(self, name: str) -> Any:
        raise ArtifactError(
            "model",
            "must be given to answer this",
            "the repair was loaded without one",
            "Say fairmend.load(path, model).",
        )
