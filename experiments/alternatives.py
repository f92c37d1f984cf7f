"""Alternatives without retraining: beside 200 retrained models, and against simulated truth.

    python experiments/alternatives.py [--splits 20] [--jobs 2]

The splits are those of repair.py. The search makes and chooses its candidates on the audit part and
judges on the holdout. Beside it stand models retrained on the part that the vendor's model was
fitted on, with random weights of the four cells of group and outcome, random inputs, regularisation
and cuts; they are chosen on the same audit people by the same procedure and judged on the same
holdout. Raw Adult with boosting is added where its file is there.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _search_worlds import WORLDS, World, rows
from _shared import (
    Check,
    Record,
    Split,
    Task,
    arguments_of,
    parts,
    run_all,
    run_as_script,
    split,
    table,
    verdict,
    write_json,
)
from _shared import Part as People
from blind import by
from mixed import RAW_ADULT, vendor
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fairmend
from fairmend import BlackBox, FairmendWarning
from fairmend.measure.performance import Worth
from fairmend.model.answers import Answers
from fairmend.repair.settings import RepairSettings
from fairmend.search.candidates import Candidate
from fairmend.search.choice import named_in_order, tested_in_order
from fairmend.search.judge import RISK, Figures, Judge, pairs_to_judge
from fairmend.search.people import Given, Part
from fairmend.tables import UNKNOWN, TextTable

MARGIN = 0.005
MODELS = 200
RAW_SPLITS = 2
BEHIND = 0.005
"""How much wider the gap of the best blind candidate may be than that of the best retrained."""
CPU_SHARE = 0.1
"""Of the time of retraining, on raw Adult."""
WAYS = ("every", "blind", "retrained")
RUNS, OFFERS_A_RUN, CHUNK = 200, 5, 20
"""Searches a world, cheap ones for each of these, and how many are one task."""
COVERED = ("gap_covered", "measure_covered", "change_covered")
COVERAGE = (0.93, 0.99)
FEWEST = 20
"""Chosen candidates from which coverage is judged."""
TOGETHER = "all simulated data together"


class Retrained:
    """A model on some of the inputs, with a cut of its own."""

    def __init__(self, model: Any, names: Sequence[str], cut: float) -> None:
        self.model, self.names, self.cut = model, list(names), cut

    def __call__(self, rows: Any) -> np.ndarray:
        return (self.model.predict_proba(rows[self.names])[:, 1] > self.cut).astype(int)


def retrained(fit: Callable[..., Any], train: People, rng: np.random.Generator) -> Retrained:
    """One model with random weights, inputs, regularisation and cut."""
    cell = 2 * np.unique(train.s, return_inverse=True)[1] + train.y
    spread = rng.uniform(0, 1)
    weight = np.exp(spread * rng.normal(size=cell.max() + 1))[cell]
    names = train.X.columns[rng.random(train.X.shape[1]) > rng.uniform(0, 0.4)]
    if len(names) == 0:
        names = train.X.columns
    model = fit(train._replace(X=train.X[names]), weight / weight.mean(), rng)
    return Retrained(model, names, rng.uniform(0.4, 0.6))


def logistic(train: People, weight: np.ndarray, rng: np.random.Generator) -> Any:
    """The kind of the embedded tables' vendor."""
    strength = 10 ** rng.uniform(-3, 2)
    return LogisticRegression(C=strength, max_iter=1_000).fit(train.X, train.y, weight)


def boosting(train: People, weight: np.ndarray, rng: np.random.Generator) -> Any:
    """The kind of raw Adult's vendor."""
    words = [name for name in train.X if not pd.api.types.is_numeric_dtype(train.X[name])]
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
            remainder="passthrough",
        ),
        HistGradientBoostingClassifier(
            learning_rate=10 ** rng.uniform(-1.5, -0.5),
            max_leaf_nodes=int(rng.integers(8, 64)),
            l2_regularization=10 ** rng.uniform(-3, 2),
            random_state=0,
        ),
    )
    return model.fit(train.X, train.y, histgradientboostingclassifier__sample_weight=weight)


# -------------------------------------------------------------------- one split


def one_split(data: str, seed: int) -> list[Record]:
    """An embedded table."""
    train, *_ = parts(table(data), seed)
    return [one_run(data, split(data, seed), train, logistic)]


def raw_split(seed: int, path: Path) -> list[Record]:
    """Raw Adult by sex, with boosting."""
    train, audit, holdout = parts(by(path, "sex"), seed)
    model = vendor("boosting", train).model
    return [one_run("raw adult", Split(model, audit, holdout, seed), train, boosting)]


def one_run(data: str, here: Split, train: People, fit: Callable[..., Any]) -> Record:
    """The search, and the retrained models judged as its candidates are."""
    started = time.process_time()
    found = searched(here)
    search_cpu = time.process_time() - started
    own = [one for one in found.candidates[1:] if not one.reads_group]
    blind = [(one.choosing, one.judging) for one in own if one.kind == "blind"]
    every = [(one.choosing, one.judging) for one in own]
    rng = np.random.default_rng(here.seed)
    started = time.process_time()
    models = [retrained(fit, train, rng) for _ in range(MODELS)]
    fit_cpu = time.process_time() - started
    other = judged(found, here, models)
    now = found.current.judging
    return {
        "experiment": "retrained",
        "row": data,
        "seed": here.seed,
        "gap_before": abs(now.gap.gap),
        "accuracy_before": now.performance.value,
        **{f"{name}_{what}": value
           for name, some in (("every", every), ("blind", blind), ("retrained", other))
           for what, value in best_of(some, found, here).items()},
        "search_cpu": search_cpu,
        "fit_cpu": fit_cpu,
        "retrained_cpu": time.process_time() - started,
    }  # fmt: skip


def searched(here: Split, **more: Any) -> Any:
    """The product's search."""
    audit, holdout = here.audit, here.holdout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        return fairmend.alternatives(
            BlackBox(here.model), audit.X, audit.y, sensitive_features=audit.s, disparity="sp",
            measure="accuracy", margin=MARGIN, random_state=here.seed,
            holdout={"X": holdout.X, "y": holdout.y, "sensitive_features": holdout.s}, **more,
        )  # fmt: skip


def judged(found: Any, here: Split, models: Sequence[Retrained]) -> list[tuple[Figures, Figures]]:
    """Retrained models on both parts, as the search judges its candidates."""
    holdout = here.holdout
    people = Part.read("judging", found.choosing.box,
                       Given(holdout.X, holdout.y, holdout.s), found.choosing)  # fmt: skip
    pairs = pairs_to_judge(found.choosing, found.settings.disparities, found.settings.reference)
    judges = [Judge(part, pairs, Worth(), MARGIN, favours_positive=True)
              for part in (found.choosing, people)]  # fmt: skip
    candidates = [
        Candidate(str(place), "model", BlackBox(model, output="label"), found.settings,
                  source=model)
        for place, model in enumerate(models)
    ]  # fmt: skip
    return [tuple(judge.figures(one.answers(judge.part)) for judge in judges)
            for one in candidates]  # fmt: skip


def best_of(some: Sequence[tuple[Figures, Figures]], found: Any, here: Split) -> Record:
    """What is chosen among them, by the whole procedure and by estimates alone.

    The procedure ends with tests on the holdout, and keeps the model as it is where nothing passes.
    By estimates: the least gap among those that lose no more than the margin on the audit people.
    """
    choosing, judging = zip(*some, strict=True)
    candidates = [Candidate("", "model", found.choosing.box, found.settings)] * len(some)
    order = named_in_order(candidates, choosing, len(here.audit.y), len(here.holdout.y))
    passed = tested_in_order(order, judging).passed
    after = judging[order[len(passed) - 1]] if passed else found.current.judging
    within = [k for k, one in enumerate(choosing) if one.performance.difference >= -MARGIN]
    closest = found.current.judging
    if within:
        closest = judging[min(within, key=lambda k: abs(choosing[k].gap.gap))]
    return {
        "gap": abs(after.gap.gap),
        "lost": -after.performance.difference,
        "passed": bool(passed),
        "estimated_gap": abs(closest.gap.gap),
        "estimated_lost": -closest.performance.difference,
    }


# -------------------------------------------------------------------- simulated truth


def one_world(name: str, seeds: Sequence[int]) -> list[Record]:
    """Searches in a world, and whether what each says is true."""
    world = WORLDS[name]()
    return [one_search(name, world, seed) for seed in seeds]


def one_search(name: str, world: World, seed: int) -> Record:
    """What one search says, beside the truth."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        found = fairmend.alternatives(
            BlackBox(world.model, output="probability"), **world.sample(seed), disparity="sp",
            measure="accuracy", margin=world.margin, random_state=seed,
        )  # fmt: skip
    line: Record = {"experiment": "simulated", "row": name, "seed": seed,
                    "cpu": time.process_time() - started,
                    "chosen": found.best is not None}  # fmt: skip
    least = world.least()
    for kind in ("any_rule", "modelled"):
        limit = getattr(found.bound, kind, None)
        if limit is not None:
            line |= {kind: limit, f"{kind}_wrong": limit > least + 1e-9}
    if found.best is None:
        return line
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        decided = found.classifier().positive_chance(world.X)
    gap, performance = found.best.judging.gap, found.best.judging.performance
    truth = world.gap(decided, gap.target, gap.baseline)
    accuracy, now = world.accuracy(decided), world.accuracy(world.now)
    return line | {
        "worse": accuracy < now - world.margin,
        "wider": world.widest(decided) >= world.widest(world.now),
        "gap_covered": gap.low <= truth <= gap.high,
        "measure_covered": performance.low <= accuracy <= performance.high,
        "change_covered": performance.difference_low
        <= accuracy - now
        <= performance.difference_high,
        "narrower": world.widest(world.now) - world.widest(decided),
    }


OFFERED = "twenty offered models, each worse than the margin"


def offered_models(seeds: Sequence[int]) -> list[Record]:
    """Other models whose loss is the margin, and whose gap is smaller: none may be chosen."""
    world = rows(n=4_000)
    return [one_offer(world, seed) for seed in seeds]


def one_offer(world: World, seed: int) -> Record:
    """Right decisions in favour of the best-off group are taken back, at random for each model."""
    people = [world.sample(2 * seed + side) for side in (0, 1)]
    best, now = f"g{len(world.group) - 1}", world.now
    right = (world.mass * world.group[-1] * world.outcome[-1]) @ now
    rng = np.random.default_rng(seed)
    figures: list[list[Figures]] = []
    known, pairs = None, []
    for name, some in zip(("choosing", "judging"), people, strict=True):
        given = Given(some["X"], some["y"], some["sensitive_features"])
        part = Part.read(name, BlackBox(world.model, output="probability"), given, known)
        known, decision = part, part.current.decision
        pairs = pairs or pairs_to_judge(part, [fairmend.SP], "best")
        judge = Judge(part, pairs, Worth(), world.margin, favours_positive=True)
        taken = (some["sensitive_features"] == best) & (some["y"] == 1) & (decision == 1)
        draws = rng.random((20, len(part))) < world.margin / right
        figures.append([judge.figures(Answers(np.where(taken & draw, 0.0, decision), None))
                        for draw in draws])  # fmt: skip
    offer = [Candidate(str(k), "model", known.box, RepairSettings()) for k in range(20)]
    order = named_in_order(offer, figures[0], world.n, world.n)
    passed = tested_in_order(order, figures[1]).passed
    return {"experiment": "simulated", "row": OFFERED, "seed": seed, "chosen": bool(passed),
            "worse": bool(passed)}  # fmt: skip


# -------------------------------------------------------------------- judging, tables


def over_splits(lines: Sequence[Record]) -> Record:
    """Means over the splits of one row."""
    names = [name for name, value in lines[0].items() if isinstance(value, int | float)]
    return {
        "row": lines[0]["row"],
        "splits": len(lines),
        **{name: float(np.mean([line[name] for line in lines])) for name in names},
    }


def over_runs(lines: Sequence[Record]) -> Record:
    """How often each thing was so, of how many runs."""
    counts = {}
    for name in ("chosen", "worse", "wider", "gap_covered", "measure_covered", "change_covered",
                 "any_rule_wrong", "modelled_wrong"):  # fmt: skip
        known = [line[name] for line in lines if name in line]
        counts[name] = [sum(known), len(known)]
    figures = {name: float(np.mean([line[name] for line in lines if name in line] or [np.nan]))
               for name in ("any_rule", "modelled", "narrower")}  # fmt: skip
    return {"row": lines[0]["row"], "runs": len(lines), **counts,
            **{name: None if np.isnan(value) else value
               for name, value in figures.items()}}  # fmt: skip


def judge_retrained(one: Record) -> list[Check]:
    """The bounds of a row of real data."""
    checks = [
        Check("gap of all kinds beside retrained",
              one["every_estimated_gap"] - one["retrained_estimated_gap"], BEHIND,
              excuse=f" over {one['splits']} splits, chosen by estimates"),
        Check("gap of blind repairs beside retrained",
              one["blind_estimated_gap"] - one["retrained_estimated_gap"], BEHIND,
              excuse=f" over {one['splits']} splits, chosen by estimates"),
        Check("gap beside retrained, tested", one["every_gap"] - one["retrained_gap"], BEHIND,
              excuse=f" over {one['splits']} splits"),
    ]  # fmt: skip
    if one["row"] == "raw adult":
        share = one["search_cpu"] / one["retrained_cpu"]
        checks.append(Check("share of the processor time", share, CPU_SHARE))
    return checks


def judge_simulated(one: Record) -> list[Check]:
    """The bounds of a simulated world."""
    checks = []
    for name, words in (("worse", "chosen and worse than the margin"),
                        ("any_rule_wrong", "bound on any rule wrong"),
                        ("modelled_wrong", "bound by models wrong")):  # fmt: skip
        times, of = one[name]
        runs = one["runs"] if name == "worse" else of
        if runs:
            checks.append(Check(words, times / runs, RISK, excuse=f" of {runs} runs"))
    for name in COVERED:
        times, of = one[name]
        if of >= FEWEST:
            # both limits give or take two Monte Carlo errors
            slack = [2 * (share * (1 - share) / of) ** 0.5 for share in COVERAGE]
            words = name.replace("_", " ")
            excuse = f" of {of} chosen"
            checks += [
                Check(words, times / of, COVERAGE[0] - slack[0], at_least=True, excuse=excuse),
                Check(f"{words} too often", times / of, COVERAGE[1] + slack[1], excuse=excuse),
            ]
    return checks


def retrained_table(found: Sequence[Record]) -> TextTable:
    """Without retraining beside retrained."""
    return TextTable(
        f"The gap in sp at a margin of {MARGIN} of accuracy, without retraining and by {MODELS} "
        "retrained models",
        ("<data", "splits", "model", "tested", "blind", "retrained", "passed", "retrained",
         "estimated", "blind", "retrained", "lost", "retrained", "search s", "retraining s",
         "<bounds"),
        [
            (
                one["row"],
                f"{one['splits']}",
                f"{one['gap_before']:.4f}",
                *(f"{one[f'{name}_gap']:.4f}" for name in WAYS),
                *(f"{100 * one[f'{name}_passed']:.0f} %" for name in ("every", "retrained")),
                *(f"{one[f'{name}_estimated_gap']:.4f}" for name in WAYS),
                *(f"{one[f'{name}_estimated_lost']:+.4f}" for name in ("every", "retrained")),
                f"{one['search_cpu']:.1f}",
                f"{one['retrained_cpu']:.1f}",
                verdict(judge_retrained(one)),
            )
            for one in found
        ],
        [
            "model: the gap as it is. tested: of the alternative that the search chooses and its "
            "tests on the holdout let pass, in all splits (where nothing passes, the model's); "
            "blind: among blind repairs alone; retrained: chosen among the retrained models in the "
            "same way. passed: in how many splits something did. estimated: of the candidate with "
            "the least gap among those within the margin on the audit people, without tests. "
            "lost: accuracy that it loses on the holdout. s: seconds of processor time.",
        ],
    )  # fmt: skip


def verdict_of_world(one: Record) -> str:
    """Whether its bounds hold, and whether coverage was among what was judged."""
    said = verdict(judge_simulated(one))
    people = [one[name][1] for name in COVERED]
    few = any(0 < n < FEWEST for n in people)
    return f"{said}; coverage not judged: fewer than {FEWEST} chosen" if few else said


def simulated_table(found: Sequence[Record]) -> TextTable:
    """What searches say, beside the truth."""
    return TextTable(
        "Searches in worlds where the truth is known",
        ("<simulated data", "runs", "chosen", "worse", "not narrower", "gap covered",
         "accuracy covered", "change covered", "any rule, wrong", "models, wrong",
         "narrower by", "bound", "by models", "<bounds"),
        [
            (
                one["row"],
                f"{one['runs']}",
                *(_times(one[name]) for name in (
                    "chosen", "worse", "wider", *COVERED, "any_rule_wrong", "modelled_wrong")),
                *(UNKNOWN if one[name] is None else f"{one[name]:.4f}"
                  for name in ("narrower", "any_rule", "modelled")),
                verdict_of_world(one),
            )
            for one in found
        ],
        [
            f"worse: chosen although its true accuracy is below the margin; at most {RISK:g} of "
            "runs. not narrower: chosen although its true gap is not. covered: the interval holds "
            f"the truth; of those chosen, {COVERAGE[0]:g} to {COVERAGE[1]:g}, give or take two "
            f"Monte Carlo errors, from {FEWEST} chosen on. wrong: some rule reaches below the "
            f"bound; at most {RISK:g} of runs. narrower by, bound: means.",
        ],
    )  # fmt: skip


def _times(count: Sequence[int]) -> str:
    return f"{count[0]} of {count[1]}" if count[1] else UNKNOWN


def tables(found: Record) -> list[TextTable]:
    """Real data, and worlds."""
    return [retrained_table(found["retrained"]), simulated_table(found["simulated"])]


def counted(found: Record) -> list[tuple[str, Check]]:
    """Every bound by name."""
    return [
        (one["row"], check)
        for rows, judge in (
            (found["retrained"], judge_retrained), (found["simulated"], judge_simulated),
        )
        for one in rows
        for check in judge(one)
    ]  # fmt: skip


# -------------------------------------------------------------------- running


def run(splits: int, jobs: int, raw: Path = RAW_ADULT, runs: int = RUNS) -> Record:
    """Everything; raw Adult where its file is there."""
    todo: list[Task] = []
    if raw.exists():
        todo += [(raw_split, (seed, raw)) for seed in range(min(splits, RAW_SPLITS))]
    todo += [(one_split, (data, seed)) for data in ("adult", "compas") for seed in range(splits)]
    todo += [(one_world, (name, range(first, min(first + CHUNK, runs))))
             for name in WORLDS for first in range(0, runs, CHUNK)]  # fmt: skip
    offers = runs * OFFERS_A_RUN
    todo += [(offered_models, (range(first, min(first + 10 * CHUNK, offers)),))
             for first in range(0, offers, 10 * CHUNK)]  # fmt: skip
    return summary(run_all(todo, jobs)) | {"splits": splits}


def summary(lines: Sequence[Record]) -> Record:
    """Each row's lines as one, in the order of the rows."""
    whole: dict[str, dict[str, list[Record]]] = {"retrained": {}, "simulated": {}}
    for line in lines:
        whole[line["experiment"]].setdefault(line["row"], []).append(line)
    searches = [line for line in lines if line.get("row") in WORLDS]
    together = [over_runs(searches) | {"row": TOGETHER}] if len(whole["simulated"]) > 1 else []
    return {
        "retrained": [over_splits(rows) for rows in whole["retrained"].values()],
        "simulated": [*(over_runs(rows) for rows in whole["simulated"].values()), *together],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print, write."""
    options = arguments_of(__doc__, arguments, "alternatives.json")
    found = run(options.splits, options.jobs)
    write_json(options.out, found)
    print(*tables(found), f"written to {options.out}", sep="\n\n")
    return 0


if __name__ == "__main__":
    run_as_script(main)
