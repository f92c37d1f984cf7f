"""Do intervals cover where people have several rows?

People belong to one of two kinds, which differ in how many rows they have, in their group and in
the cells of decision and outcome they fall into, and most of a person's rows rest on one number of
theirs: so rows of one person are alike, and the true rates are known exactly. FAIRMEND_REPETITIONS
as in test_coverage.py; run with -s for the figures.
"""

import os

import numpy as np
import pytest

from fairmend import audit

pytestmark = pytest.mark.slow
FULL = os.environ.get("FAIRMEND_REPETITIONS") == "full"
REPETITIONS = 2_000 if FULL else 80
METRICS = ("sp", "fnr", "fpr", "fdr")
CELLS = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])  # outcome, decision

# Per kind of people: their share, P(each number of rows), P(group a), and P(cell) by group a, b.
ALIKE = [[0.30, 0.20, 0.15, 0.35], [0.25, 0.20, 0.10, 0.45]]
LOW = [[0.60, 0.10, 0.20, 0.10], [0.50, 0.15, 0.20, 0.15]]
HIGH = [[0.05, 0.15, 0.10, 0.70], [0.05, 0.10, 0.05, 0.80]]
ONE_TO_SIX = [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
SCENARIOS = {
    "each row four times": ([1.0], [[0, 0, 0, 1]], [0.4], [ALIKE]),
    "1 to 6 rows": ([0.5, 0.5], [ONE_TO_SIX, ONE_TO_SIX[::-1]], [0.5, 0.3], [LOW, HIGH]),
    "groups change": ([0.5, 0.5], [ONE_TO_SIX, ONE_TO_SIX[::-1]], [0.7, 0.4], [LOW, HIGH]),
}


def rates(cells):
    """sp, fnr, fpr and fdr of the masses of four cells."""
    y, h, p = CELLS[:, 0], CELLS[:, 1], np.asarray(cells)
    pairs = ((1 - h, 1 + 0 * y), ((1 - h) * y, y), (h * (1 - y), 1 - y), (h * (1 - y), h))
    return np.array([p @ event / (p @ given) for event, given in pairs])


def truth(share, times, in_a, cells):
    """The rates of group b less those of a, over rows."""
    rows = np.array(share) * (np.array(times) @ np.arange(1, len(times[0]) + 1))
    masses = [
        sum(n * (p if group == 0 else 1 - p) * np.array(q[group])
            for n, p, q in zip(rows, in_a, cells, strict=True))
        for group in (0, 1)
    ]  # fmt: skip
    return rates(masses[1]) - rates(masses[0])


def drawn(rng, scenario, people):
    """Ids, groups, outcomes and decisions of people's rows."""
    share, times, in_a, cells = SCENARIOS[scenario]
    kind = rng.choice(len(share), people, p=share)
    sizes = 1 + np.array([rng.choice(len(times[k]), p=times[k]) for k in kind])
    who = np.repeat(np.arange(people), sizes)
    first = np.flatnonzero(np.r_[True, who[1:] != who[:-1]])[who]
    group = (rng.random(len(who)) >= np.array(in_a)[kind[who]]).astype(int)
    group = group if scenario == "groups change" else group[first]
    alike = rng.random(len(who)) < (1.0 if scenario == "each row four times" else 0.7)
    number = np.where(alike, rng.random(people)[who], rng.random(len(who)))
    edges = np.cumsum(np.array(cells)[kind[who], group], axis=1)
    cell = np.minimum((number[:, None] > edges).sum(axis=1), 3)
    return who, np.array(["a", "b"])[group], CELLS[cell, 0], CELLS[cell, 1]


@pytest.mark.parametrize("people", [1_000, 120])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_intervals_by_person_cover(scenario, people):
    exact = truth(*SCENARIOS[scenario])
    rng = np.random.default_rng([people, list(SCENARIOS).index(scenario)])
    hits, naive, judged = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(REPETITIONS):
        who, s, y, h = drawn(rng, scenario, people)
        for found, ids in ((hits, who), (naive, None)):
            audited = audit(h, None, y, sensitive_features=s, ids=ids, reference="a")
            for j, metric in enumerate(METRICS):
                gap = audited[metric, "b"]
                found[j] += gap.low <= exact[j] <= gap.high
                judged[j] += ids is not None and gap.judged
    assert (judged == REPETITIONS).all()
    covered, naive = hits / REPETITIONS, naive / REPETITIONS
    print(f"\n{scenario}, {people:,} people: by person {covered}, by row {naive}", end="")
    # 3.3 standard deviations of an estimate from so many repetitions
    margin = 0.0 if FULL else 3.3 * np.sqrt(0.05 * 0.95 / REPETITIONS)
    assert (covered >= 0.92 - margin).all()
    assert (covered <= 0.98 + margin).all()
    if scenario == "each row four times":  # what ids are for
        assert (naive < 0.80).all()
