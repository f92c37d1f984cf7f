"""Estimated gaps where outcomes come late: as often right as said, if people alike are alike."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from fairmend.data.outcomes import UNLABELLED
from fairmend.measure.late import OutcomeChances, score_bands
from fairmend.measure.metrics import FNR, SP
from fairmend.measure.population import AuditData, Population, Tally
from fairmend.measure.windows import WindowedGap

WORLDS = 150
EDITED = 0.35
"""People of group b with a score from here to the cut of 0.5 are accepted with the repair."""


def truth(scores, group):
    """The chance of a positive outcome: the score, for group b somewhat more."""
    return np.clip(scores + (0.08 if group == "b" else 0.0), 0, 1)


def decisions(scores, group):
    original = scores > 0.5
    return original, original | ((scores > EDITED) & (group == "b"))


def true_gap():
    grid = (np.arange(200_000) + 0.5) / 200_000
    missed = {}
    for group in "ab":
        y, (_, repaired) = truth(grid, group), decisions(grid, group)
        missed[group] = (y * ~repaired).sum() / y.sum()
    return missed["b"] - missed["a"]


def audited(rng, n):
    """An audit of n people a group, whose scores are uniform, each on a row of their own."""
    populations = []
    for group in "ab":
        scores = np.round(np.sort(rng.random(n)), 3)
        y = rng.random(n) < truth(scores, group)
        people = np.stack([1.0 - y, 1.0 * y], axis=1)
        tally = Tally(people, people, people)
        populations.append(Population.of(np.ones(n), scores > 0.5, y, score=scores, tally=tally))
    return AuditData(("a", "b"), tuple(populations), UNLABELLED, "group")


def logged(rng, bands, n, share_known):
    counts = {}
    for group in "ab":
        scores = rng.random(n)
        y = (rng.random(n) < truth(scores, group)).astype(int)
        known = rng.random(n) < share_known
        original, repaired = decisions(scores, group)
        in_band = np.searchsorted(bands, scores, side="right")
        outcome = np.where(known, y, -1)
        cells = np.stack([original, repaired, outcome, in_band], axis=1).tolist()
        for (h, r, out, band), people in Counter(map(tuple, cells)).items():
            counts[0, group, h, r, None if out < 0 else out, band] = people
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("share_known", [0.0, 0.3, 0.8])
def test_intervals_hold_the_gap_as_often_as_they_say(share_known):
    rng, truly = np.random.default_rng(7), true_gap()
    held, widths = 0, []
    for _ in range(WORLDS):
        data = audited(rng, 1_500)
        bands = score_bands(data)
        assert len(bands) == 19
        counts = logged(rng, bands, 400, share_known)
        compared = WindowedGap("b", "a", FNR, 0.05, 0.05)
        seen = compared.over_time(counts, OutcomeChances.of(data, bands, counts))
        _, low, high = seen.overall.estimate
        held += low <= truly <= high
        widths.append(high - low)
    assert held >= binom.ppf(0.001, WORLDS, 0.95)
    assert np.mean(widths) < 0.2


def test_what_is_known_needs_no_estimate():
    rng = np.random.default_rng(0)
    data = audited(rng, 500)
    bands = score_bands(data)
    for rate, share_known in ((FNR, 1.0), (SP, 0.0)):
        counts = logged(rng, bands, 300, share_known)
        chances = OutcomeChances.of(data, bands, counts)
        assert (
            WindowedGap("b", "a", rate, 0.05, 0.05).over_time(counts, chances).overall.estimate
            is None
        )


def test_with_every_outcome_known_the_estimate_is_the_rate_itself():
    rng = np.random.default_rng(1)
    data = audited(rng, 500)
    bands = score_bands(data)
    counts = logged(rng, bands, 300, 1.0)
    chances = OutcomeChances.of(data, bands, counts)
    parts = [{key[1:]: n for key, n in counts.items() if key[1] == group} for group in "ba"]
    seen = WindowedGap("b", "a", FNR, 0.05, 0.05).over_time(counts, chances)
    assert chances.gap(*parts, FNR)[0] == pytest.approx(seen.overall.repaired[0])
