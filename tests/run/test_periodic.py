"""Plans from repeating patterns: unrolled, spliced, refilled, and planned as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective
from milp_plan.core.budget import Budget
from milp_plan.kinds.pipeline.experts import WORDS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.planners.refill import refill, reverse, rules
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.strategies.pattern import (
    Pattern,
    Shortener,
    route_counts,
    shortened,
    splice,
    steady,
)
from milp_plan.kinds.pipeline.strategies.periodic import Ends, lower_bound, patterns, plan_periodic
from milp_plan.kinds.pipeline.template import FORWARD, pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Words, fits, memory_peaks, times, value_of
from milp_plan.models.registry import get

pytestmark = pytest.mark.untraced

PERIOD: Any = get("pipeline_period").formulation


def pipeline(
    family: str,
    devices: int,
    count: int,
    cap: int,
    costs: tuple[int, int, int] = (10, 12, 7),
    transfer: int = 1,
    objective: Objective = Objective.MAKESPAN,
) -> Shop:
    chunks = 2 if family == "v" else 1
    template, size = uniform(devices, count, costs, transfer=transfer, chunks=chunks)
    routes = place(family, devices)
    found = shop_of(
        pipeline_problem(family, template, routes, memory_bytes=cap * size, objective=objective)
    )
    assert found is not None
    return found


def pattern_of(case: Shop, **options: Any) -> Pattern:
    period, plan = PERIOD.fastest(case.problem, PERIOD.Options(**options))[0]
    return Pattern.of(case, plan, period, options.get("micro_batches", 1))


def value(case: Shop, words: Words) -> int:
    """Value of words, which the checker confirms."""
    starts = times(case, words)
    verdict = verify(case.problem, case.plan(starts, "test"))
    assert verdict.ok, verdict.violations
    assert verdict.value == value_of(case, starts)
    return verdict.value


CASES = [
    ("line", 4, 4, {}),
    ("line", 4, 3, {"micro_batches": 2}),
    ("dualpipe", 4, 5, {"even": 1}),
    ("v", 3, 3, {"even": 1}),
]


@pytest.mark.parametrize(("family", "devices", "cap", "options"), CASES)
def test_spliced_words_are_those_of_the_whole_pattern(
    family: str, devices: int, cap: int, options: dict[str, int]
) -> None:
    case = pipeline(family, devices, 46, cap)
    pattern = pattern_of(pipeline(family, devices, 16, cap), **options)
    joined = splice(case, pattern)
    assert joined.missing > 0
    assert joined.short.num_tasks < case.num_tasks
    words = joined.long(pattern.words(joined.short))
    assert words == pattern.words(case)
    assert fits(case, words)
    value(case, words)


@pytest.mark.parametrize(("family", "devices", "cap", "options"), CASES)
def test_each_period_adds_its_ticks_to_improved_ends(
    family: str, devices: int, cap: int, options: dict[str, int]
) -> None:
    """Planned once for few micro-batches, the ends fit around any number of periods."""
    template = pipeline(family, devices, 60, cap)
    pattern = pattern_of(pipeline(family, devices, 16, cap), **options)
    ends = Ends(splice(template, pattern))
    before = ends.value
    ends.list_schedules(Random(1), 12, Budget(1e6), 0)
    assert ends.value <= before
    assert ends.splice.kept_by(ends.words)
    found = []
    routes = len(route_counts(template))
    for more in (6, 7, 12):
        count = routes * (route_counts(ends.short)[0] + more * pattern.per_period)
        case = pipeline(family, devices, count, cap)
        words = ends.splice.long(ends.words, more)
        assert fits(case, words)
        found.append(value(case, words))
    assert found[1] - found[0] <= pattern.period
    assert found[2] - found[1] <= 5 * pattern.period
    assert found[2] <= ends.value + 12 * pattern.period
    work = max(template.work) // route_counts(template)[0] * pattern.per_period
    if pattern.period == work:  # nobody can be faster than its work
        assert found[1] - found[0] == pattern.period


@pytest.mark.parametrize(
    ("name", "family", "cap"),
    [("1f1b", "line", 4), ("zb_h1", "line", 4), ("dualpipe", "dualpipe", 5), ("zb_v", "v", 4)],
)
def test_experts_repeat_themselves(name: str, family: str, cap: int) -> None:
    """The expert for many micro-batches is the one for few with periods put in."""
    case = pipeline(family, 4, 60, cap, (10, 12, 8))
    found = steady(Shortener(case), WORDS[name], 1)
    assert found is not None
    assert found.missing > 5
    whole = WORDS[name](case)
    assert whole is not None
    assert found.long(found.words) == [list(word) for word in whole]
    ends = Ends(found)
    assert ends.estimate() == value(case, whole)
    ends.list_schedules(Random(2), 12, Budget(1e6), 0)
    assert value(case, found.long(ends.words)) <= value(case, whole)


@pytest.mark.parametrize("family", ["line", "v", "dualpipe"])
@pytest.mark.parametrize("back", [False, True])
def test_refilled_words_keep_memory_and_what_is_frozen(family: str, back: bool) -> None:
    case = pipeline(family, 4, 12, 5)
    words = pattern_of(case, even=1).words(case)
    shop, given = (reverse(case), [w[::-1] for w in words]) if back else (case, words)
    until = [len(word) // 2 for word in given]
    rng = Random(3)
    changed = 0
    for rule in rules(rng, 16):
        found = refill(shop, given, rule, rng, until)
        assert fits(shop, found)
        for one, two, at in zip(found, given, until, strict=True):
            assert one[at:] == two[at:]
            assert Counter(one[:at]) == Counter(two[:at])
        value(case, [w[::-1] for w in found] if back else found)
        changed += found != given
    assert changed


def test_refill_overtakes_only_where_memory_lets_the_rest_follow() -> None:
    """Two forwards could start at once; the second must wait, or the first batch never ends."""
    case = pipeline("v", 1, 3, 1, (2, 2, 2), 0)
    words = [list(range(6)) * 3]  # one micro-batch after the other
    assert memory_peaks(case, words) == [2]
    greedy = [[k for k in range(6) for _ in range(3)]]
    assert not fits(case, greedy)
    for rule in rules(Random(0), 40):
        found = refill(case, words, rule, Random(0))
        assert fits(case, found)
        first = [k for k in found[0] if case.kinds[k].role == FORWARD]
        assert first == [0, 1] * 3


def test_shortened_shops_have_the_same_kinds() -> None:
    case = pipeline("dualpipe", 4, 12, 5)
    short = shortened(case, [2, 3])
    assert route_counts(short) == [2, 3]
    assert [kind.name for kind in short.kinds] == [kind.name for kind in case.kinds]
    assert short.limits == case.limits
    assert short.arcs == case.arcs


@pytest.mark.parametrize(
    ("family", "devices", "count", "cap", "costs", "transfer", "optimum"),
    [
        ("line", 8, 64, 8, (1, 1, 1), 0, 199),
        pytest.param("line", 8, 64, 8, (10, 12, 7), 1, 1989, marks=pytest.mark.slow),
        pytest.param("line", 8, 64, 6, (1, 1, 1), 0, 205, marks=pytest.mark.slow),
        ("dualpipe", 4, 8, 5, (1, 1, 1), 0, 25),
    ],
)
def test_plans_reach_optima_that_are_known(
    family: str,
    devices: int,
    count: int,
    cap: int,
    costs: tuple[int, int, int],
    transfer: int,
    optimum: int,
) -> None:
    """Optima are head, work and tail of a device, or published (time-indexed relaxation)."""
    case = pipeline(family, devices, count, cap, costs, transfer)
    seen: list[int] = []
    plan = plan_periodic(case, 30.0, on_better=lambda found: seen.append(found.stop_ticks))
    assert plan is not None
    verdict = verify(case.problem, plan)
    assert verdict.ok, verdict.violations
    assert verdict.value == optimum >= lower_bound(case)
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == optimum


def test_spans() -> None:
    case = pipeline("line", 2, 12, 2, (1, 1, 1), 0, objective=Objective.SPAN)
    plan = plan_periodic(case, 2.0)
    assert plan is not None
    verdict = verify(case.problem, plan)
    assert verdict.ok
    assert verdict.value is not None
    assert max(case.work) <= verdict.value <= verdict.components["makespan"]


def test_transfers_that_hold_channels() -> None:
    template, size = uniform(3, 20, (4, 4, 4), transfer=5)
    template = replace(template, transfers=CommunicationModel.CHANNEL)
    problem = pipeline_problem("channels", template, place("line", 3), memory_bytes=4 * size)
    case = shop_of(problem)
    assert case is not None
    pattern = pattern_of(case)
    assert pattern.period >= 12
    joined = splice(case, pattern)
    assert joined.missing > 0
    assert len(joined.cycle) == len(case.machines) > case.num_devices
    value(case, joined.long(joined.words))


def test_no_memory_no_plan() -> None:
    assert plan_periodic(pipeline("line", 2, 6, 0), 10.0) is None


def test_patterns_are_the_shortest_per_micro_batch() -> None:
    found = patterns(pipeline("line", 4, 20, 3, (1, 1, 1), 0), Budget(20.0))
    rates = {pattern.period / pattern.per_period for pattern in found}
    assert len(rates) == 1
    one = pattern_of(pipeline("line", 4, 20, 3, (1, 1, 1), 0))
    assert rates.pop() <= one.period
