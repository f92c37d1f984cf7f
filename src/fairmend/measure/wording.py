"""Sentences about a gap before and after a repair, made from the figures printed beside them.

A plan's text, the command line, a verdict and the page all take their words from here. What a
status claims is repeated only where the figures bear it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, isnan
from typing import TYPE_CHECKING

from fairmend.measure.disparity import title_of, words_of
from fairmend.tables import UNKNOWN, counted

if TYPE_CHECKING:
    from fairmend.status import PlanStatus

NAN = float("nan")
CORRECTED = "Holm-corrected for all gaps tested"
EXACT = 1e-9
"""The tolerance where no person stands behind a gap."""
EQUAL = 1e-6
"""Gaps that differ by less are as wide as each other."""
MOST_DECIMALS = 4
Metric = tuple[str, float, float]
"""A metric with its gap before and after."""


# -------------------------------------------------------------------- figures


def figures(*values: float, tolerance: float = 0.0) -> tuple[str, ...]:
    """Gaps in signed points, with the fewest decimals that tell them apart and from none.

    What is within the tolerance may read as 0, what is equal reads the same.

    >>> figures(0.0734, 0.003), figures(0.07304, 0.07301), figures(0.0004, float("nan"))
    (('+7.3', '+0.3'), ('+7.304', '+7.301'), ('+0.04', '–'))
    >>> figures(0.0730001, -0.0730002), figures(2e-8), figures(1e-10, tolerance=1e-9)
    (('+7.3', '-7.3'), ('+2.0e-06',), ('+0.0',))
    """
    same = _levelled(values)
    numbers = [value for value in same if not isnan(value)]
    enough = (d for d in range(1, MOST_DECIMALS) if _tells(numbers, d, tolerance))
    decimals = next(enough, MOST_DECIMALS)
    return tuple(_figure(value, decimals, tolerance) for value in same)


def _levelled(values: Sequence[float]) -> list[float]:
    """The values, with those that are as wide as an earlier one made exactly so."""
    levelled: list[float] = []
    for value in values:
        alike = [abs(one) for one in levelled if abs(abs(one) - abs(value)) <= EQUAL]
        levelled.append(copysign(alike[0], value) if alike and value else value)
    return levelled


def _tells(values: Sequence[float], decimals: int, tolerance: float) -> bool:
    shown = {abs(value): abs(round(100 * value, decimals)) for value in values}
    distinct = len(set(shown.values())) == len(shown)
    return distinct and all(seen > 0 for value, seen in shown.items() if value > tolerance)


def _figure(value: float, decimals: int, tolerance: float) -> str:
    if isnan(value):
        return UNKNOWN
    shown = round(100 * value, decimals) + 0.0
    if shown == 0 and abs(value) > tolerance:
        return f"{100 * value:+.1e}"
    return f"{shown:+.{decimals}f}"


def span(low: float, high: float) -> str:
    """An interval in points; an end that is not 0 does not read as 0."""
    return f"{figures(low)[0]} to {figures(high)[0]}"


def share(value: float) -> str:
    """A share in per cent; only nobody is 0.0 % and only everybody is 100.0 %.

    >>> share(0.0), share(0.0004), share(0.1786), share(0.9998), share(1.0), share(float("nan"))
    ('0.0 %', '< 0.1 %', '17.9 %', '> 99.9 %', '100.0 %', '–')
    """
    if isnan(value):
        return UNKNOWN
    shown = round(100 * value, 1)
    if shown == 0 and value > EXACT:
        return "< 0.1 %"
    if shown == 100 and value < 1 - EXACT:
        return "> 99.9 %"
    return f"{shown + 0.0:.1f} %"


def people_of(people: float, n: int) -> str:
    """So many people and their share of a group; expected numbers are rounded.

    >>> people_of(162.3, 3_563), people_of(0.2, 3_563), people_of(0, 10), people_of(9.9, 10)
    ('162 (4.6 %)', 'fewer than 1 (< 0.1 %)', '0 (0.0 %)', '10 (99.0 %)')
    """
    count = people_count(people)
    return f"{count} ({share(people / n)})" if n else count


def people_count(people: float) -> str:
    """An expected number of people, rounded; only nobody is 0."""
    return "fewer than 1" if round(people) == 0 and people > EXACT else f"{round(people):,}"


def people_who(people: float, verb: str, n: int = 0) -> str:
    """How many people do something, with their share where the size of the group is given.

    >>> people_who(0, "gain"), people_who(1, "lose"), people_who(162.3, "gain", 3_563)
    ('nobody gains', '1 loses', '162 (4.6 %) gain')
    """
    ending = "s" if people <= EXACT or people_count(people) == "1" else ""
    return f"{people_of(people, n) if people > EXACT else 'nobody'} {verb}{ending}"


# -------------------------------------------------------------------- one gap


def around_rates(metric: str) -> tuple[str, str, str]:
    """What stands before the rates of groups, between each and its group, and behind.

    A metric without words of its own may be a sum of rates: nothing happens to so many people.

    >>> around_rates("fnr")
    ('of those with a positive outcome, ', 'of', ' get a negative decision')
    >>> around_rates("0.5 fnr + 0.5 fpr")
    ('0.5 fnr + 0.5 fpr is ', 'for', '')
    """
    words = words_of(metric)
    if words.event:
        return words.condition, "of", f" {words.event}"
    return f"{title_of(metric)} is ", "for", ""


def capital(text: str) -> str:
    """The text with a capital letter; the others stay, unlike `str.capitalize`."""
    return f"{text[:1].upper()}{text[1:]}"


def became(before: float, after: float, tolerance: float = EXACT) -> str:
    """What became of a gap, in a word or two.

    >>> became(0.1, 0.0), became(0.1, 0.03), became(0.1, 0.2), became(0.1, -0.05), became(0.1, 0.1)
    ('closed', 'narrower', 'wider', 'reversed and narrower', 'unchanged')
    >>> became(0.618, 0.03, tolerance=1 / 26), became(0.01, 0.03, tolerance=1 / 26)
    ('closed to within half a person', 'wider, but within half a person of 0')
    """
    if isnan(before) or isnan(after):
        return "not known"
    width = abs(after) - abs(before)
    if abs(after) <= tolerance:
        shown = float(figures(before, after, tolerance=tolerance)[1])
        return _nearly_closed(width, shows=shown != 0)
    reversed_ = before * after < 0 and abs(before) > tolerance
    if abs(width) <= EQUAL:
        return "reversed and as wide as before" if reversed_ else "unchanged"
    size = "wider" if width > 0 else "narrower"
    return f"reversed and {size}" if reversed_ else size


def _nearly_closed(width: float, *, shows: bool) -> str:
    """A gap within the tolerance; ``shows`` where it does not read as 0."""
    if abs(width) <= EQUAL:
        return "unchanged, within half a person of 0" if shows else "no gap before or after"
    if width > 0:
        return "wider, but within half a person of 0"
    return "closed to within half a person" if shows else "closed"


def verb(before: float, after: float) -> str:
    """What a repair does to a gap: ``closes it``, ``narrows it to``; the figure comes behind."""
    change = became(before, after)
    if change.startswith("reversed"):
        return "takes it past 0, to"
    verbs = {"narrower": "narrows it to", "wider": "widens it to", "closed": "closes it, to"}
    return verbs.get(change, "leaves it at")


def describe_gap(metric: str, before: float, after: float, tolerance: float = EXACT) -> str:
    """One metric: its gap before and after, and what became of it.

    >>> describe_gap("fnr", 0.179, 0.0), describe_gap("da", 0.02, 0.05)
    ('fnr: +17.9 points before, +0.0 after: closed', 'da: +2.0 before, +5.0 after: wider')
    """
    was, now = figures(before, after, tolerance=tolerance)
    return f"{metric}: {was}{_unit(metric)} before, {now} after: {became(before, after, tolerance)}"


def _unit(metric: str) -> str:
    unit = words_of(metric).unit
    return f" {unit}" if unit else ""


def describe_size(metric: str, gap: float) -> str:
    """A gap with its unit.

    >>> describe_size("fnr", 0.179), describe_size("da", 0.02)
    ('+17.9 points', '+2.0')
    """
    return f"{figures(gap)[0]}{_unit(metric)}"


def describe_open_gap(
    metric: str, names: tuple[str, str], before: float, after: float, tolerance: float = EXACT
) -> str:
    """A gap that is not closed, as a headline.

    >>> print(describe_open_gap("fnr", ("b", "a"), 0.179, 0.021))
    NOT CLOSED: on the audit data the gap in fnr of b against a was +17.9 points and is +2.1 \
after the repair: narrower
    """
    target, baseline = names
    was, now = figures(before, after, tolerance=tolerance)
    return (
        f"NOT CLOSED: on the audit data the gap in {metric} of {target} against {baseline} was "
        f"{was}{_unit(metric)} and is {now} after the repair: {became(before, after, tolerance)}"
    )


# -------------------------------------------------------------------- a whole repair


@dataclass(frozen=True)
class PlanText:
    """What a repair does on some people, in sentences."""

    status: str
    gaps: tuple[str, ...]
    """A line for each metric."""
    interval: str
    """Where the gap is expected among new people; empty where that is not known."""

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.status, *self.gaps, self.interval)))


def describe_plan(
    status: PlanStatus,
    gaps: Sequence[Metric],
    *,
    interval: tuple[float, float] = (NAN, NAN),
    interval_of: str = "",
    tolerance: float = EXACT,
) -> PlanText:
    """What a plan did: its status, a line for each metric, and the interval of one of them.

    ``interval_of`` names that one; by default it is the widest gap that is left.
    """
    return PlanText(
        status=_status(status, gaps, tolerance),
        gaps=tuple(describe_gap(*gap, tolerance=tolerance) for gap in gaps),
        interval=_expected(gaps, *interval, interval_of),
    )


def _status(status: PlanStatus, gaps: Sequence[Metric], tolerance: float) -> str:
    """The status in its own words where the figures bear it out, else what they say."""
    within = all(abs(after) <= tolerance for _, _, after in gaps)
    wider = any(abs(after) > abs(before) + EQUAL for _, before, after in gaps)
    same = all(abs(after - before) <= EQUAL for _, before, after in gaps)
    worse_off = any(before > tolerance for _, before, _ in gaps)
    borne_out = {
        "CLOSED": within,
        "PARTLY": not wider and not within,
        "IDENTITY": same and not worse_off,
        "REMAINS": not within,
        "WIDER": wider and not within,
        "UNREACHABLE": not within and not wider,
        "INFEASIBLE": not within,
    }
    if borne_out[status.name] or not gaps:
        return status.value
    if within:
        return "The realised gap is closed on the audit data."
    return "The realised gap is not closed on the audit data."


def _expected(gaps: Sequence[Metric], low: float, high: float, metric: str) -> str:
    if isnan(low) or isnan(high):
        return ""
    whose = f"{metric or widest(gaps)[0]} " if len(gaps) > 1 else ""
    side = ", above 0" if low > 0 else ", below 0" if high < 0 else ""
    return f"{whose}expected on new data {span(low, high)}{side}"


def widest(gaps: Sequence[Metric]) -> Metric:
    """The metric of which most is left; one that is not known counts as more."""
    return max(gaps, key=lambda gap: float("inf") if isnan(gap[2]) else abs(gap[2]))


# -------------------------------------------------------------------- people


@dataclass(frozen=True)
class Affected:
    """Numbers of people of one group, as expected over draws."""

    n: int
    edited: float
    gained: float
    lost: float
    randomised: float
    unreachable: float


def describe_people(name: str, people: Affected, features: str) -> str:
    """What a repair does to the people of a group; ``features`` is how many it edits of each.

    >>> few = Affected(5_000, 2.4, 2.4, 0.0, 0.3, 0.0)
    >>> print(describe_people("b", few, "1.2 features each on average"))
    Of 5,000 people in b it edits the inputs of 2 (< 0.1 %), 1.2 features each on average. 2 \
(< 0.1 %) gain the favourable decision, nobody loses it. For fewer than 1 (< 0.1 %) a draw keyed \
on the person decides.
    """
    who = f"Of {counted(people.n)} in {name} it edits"
    blocked = ""
    if people.unreachable > EXACT:
        some = people_of(people.unreachable, people.n)
        blocked = _sentence(f"{some} should be edited but no allowed edit helps")
    if people.edited <= EXACT:
        return f"{who} nobody's inputs.{blocked}"
    gain = people_who(people.gained, "gain", people.n)
    lose = people_who(people.lost, "lose", people.n)
    draw = ""
    if people.randomised > EXACT:
        draw = f"{people_of(people.randomised, people.n)} a draw keyed on the person decides"
    return (
        f"{who} the inputs of {people_of(people.edited, people.n)}, {features}."
        f"{_sentence(f'{gain} the favourable decision, {lose} it')}"
        f"{_sentence(f'For {draw}' if draw else 'No edit is randomised')}{blocked}"
    )


def _sentence(text: str) -> str:
    return f" {text[0].upper()}{text[1:]}." if text else ""
