"""How often windows and days that are within bounds raise an alert: at most as said."""

import numpy as np
import pytest
from scipy.stats import binom

from fairmend.data.columns import Frame
from fairmend.measure.drift import AuditedInputs
from fairmend.measure.intervals import mean_gap
from fairmend.measure.late import OutcomeChances
from fairmend.measure.metrics import SP
from fairmend.measure.result import Gap
from fairmend.measure.windows import WindowedGap

FALSE_ALERTS = 0.05

TOLERANCE = 0.05
NOTHING_KNOWN = OutcomeChances({})


def a_gap(n, seen, m, others):
    """What an audit says of two rates."""
    return Gap("sp", "b", "a", seen / n, others / m, seen / n - others / m, -1, 1, 1, n, m, 1, n, m)


def at_most(pages):
    """How many pages with a false alert are still no sign that more than one in twenty has one."""
    return int(binom.ppf(0.999, pages, FALSE_ALERTS))


@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 60), (20, 20), (20, 120), (50, 50)])
@pytest.mark.parametrize("tolerance", [0.0, TOLERANCE, 0.3])
def test_no_window_strays_more_often_than_said(n, m, tolerance):
    """Every outcome of two groups, weighed by its chance, where the gap is as wide as may be."""
    chance = FALSE_ALERTS / 47
    beyond = np.zeros((n + 1, m + 1))
    for x in range(n + 1):
        for y in range(m + 1):
            _, low, high = mean_gap([a_gap(n, x, m, y)], chance)
            beyond[x, y] = low > tolerance or high < -tolerance
    for q in np.linspace(0, 1 - tolerance, 41):
        for rates in ((q + tolerance, q), (q, q + tolerance)):
            p, r = (
                binom.pmf(np.arange(k + 1), k, rate) for k, rate in zip((n, m), rates, strict=True)
            )
            assert p @ beyond @ r <= chance


def test_at_most_one_page_in_twenty_shows_a_gap_that_is_none():
    """Gaps as wide as may be in 46 small windows, whose base rates and group shares change."""
    rng = np.random.default_rng(0)
    compared = WindowedGap("b", "a", SP, TOLERANCE, FALSE_ALERTS)
    pages, shown, strayed = 40, 0, 0
    for _ in range(pages):
        counts = {}
        for window in range(46):
            rate = rng.uniform(0.02, 0.9)
            for group, chance in (("a", rate), ("b", rate + TOLERANCE)):
                n = rng.integers(5, 80)
                negative = int(rng.binomial(n, chance))
                counts[window, group, 0, 0, None, None] = negative
                counts[window, group, 1, 1, None, None] = int(n) - negative
        seen = compared.over_time(counts, NOTHING_KNOWN)
        shown += any(w.alert for w in (*seen.windows, seen.overall))
        strayed += any(w.repaired[1] > TOLERANCE for w in seen.windows)
    assert shown <= at_most(pages)
    assert strayed > pages / 2, "intervals judged one by one stray on most pages"


def test_a_small_gap_that_lasts_is_found_over_all_windows():
    rng = np.random.default_rng(1)
    compared = WindowedGap("b", "a", SP, TOLERANCE, FALSE_ALERTS)
    counts = {}
    for window in range(40):
        for group, chance in (("a", 0.3), ("b", 0.4)):
            negative = int(rng.binomial(100, chance))
            counts[window, group, 0, 0, None, None] = negative
            counts[window, group, 1, 1, None, None] = 100 - negative
    seen = compared.over_time(counts, NOTHING_KNOWN)
    assert not any(w.alert for w in seen.windows)
    assert seen.overall.alert
    assert abs(seen.overall.judged[0] - 0.1) < 4 * np.sqrt((0.3 * 0.7 + 0.4 * 0.6) / 4_000)


def test_a_mean_of_no_gaps_is_none():
    """Rates that change with the groups' shares: added up, the counts would show a gap of 40."""
    gaps = [a_gap(900, 810, 100, 90), a_gap(100, 10, 900, 90)]
    gap, low, high = mean_gap(gaps, 0.05)
    assert abs(gap) < 1e-12
    assert low < 0 < high


# ------------------------------------------------------------------ drift


def sparse(rng, n):
    """Rows many of which are met once: the more so, the larger the first number."""
    return np.stack([rng.exponential(30, n) // 1, rng.integers(0, 3, n), rng.integers(0, 3, n)], 1)


def rare(rng, n):
    return np.stack([rng.choice(10, n, p=[0.955] + [0.005] * 9), rng.integers(0, 8, n)], 1)


@pytest.mark.parametrize("people", [sparse, rare])
def test_at_most_one_page_in_twenty_shows_a_drift_that_is_none(people):
    rng = np.random.default_rng(0)
    pages, shown = 40, 0
    for _ in range(pages):
        both = np.concatenate([people(rng, 500), people(rng, 300)])  # a group, and another
        rows, place = np.unique(both, axis=0, return_inverse=True)
        known = {tuple(row): at for at, row in enumerate(rows)}
        group, everybody = (
            np.bincount(part, minlength=len(rows)).astype(float)
            for part in (place.ravel()[:500], place.ravel())
        )
        audited = AuditedInputs(Frame.read(rows), group, everybody)
        alerts = []
        for _ in range(45):
            places = np.array([known.get(tuple(row), -1) for row in people(rng, 60)])
            here = np.bincount(places[places >= 0], minlength=len(rows)).astype(float)
            chance = FALSE_ALERTS / 45
            alerts.append(audited.most_moved(here, int((places < 0).sum()), chance)[1])
        shown += any(alerts)
    assert shown <= at_most(pages)
