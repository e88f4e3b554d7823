"""Repeating patterns: the shortest period against enumeration, memory, and the contract."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import pytest

from milp_plan.check import verify
from milp_plan.contract import FormulationContract, Instance
from milp_plan.core import Objective, PlanningProblem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import fits
from milp_plan.models.protocol import Guide
from tests.models.solving import formulation, optimise
from tests.support.shops import shop

PERIOD: Any = formulation("pipeline_period")


def pipeline(
    family: str,
    devices: int,
    count: int,
    cap: int | None,
    times: tuple[int, int, int] = (1, 1, 1),
    transfer: int = 0,
    objective: Objective = Objective.MAKESPAN,
    joint: bool = False,
) -> PlanningProblem:
    template, size = uniform(
        devices,
        count,
        times,
        transfer=transfer,
        chunks=2 if family == "v" else 1,
        joint_backward=joint,
    )
    memory = None if cap is None else cap * size
    name = f"{family} {devices} {count} {cap} {times} {transfer} {objective} {joint}"
    return pipeline_problem(
        name, template, place(family, devices), memory_bytes=memory, objective=objective
    )


class TestPipelinePeriod(FormulationContract):
    reference = "pipeline_period"
    least = 6

    def instances(self) -> Iterator[Instance]:
        cases = [
            pipeline("line", 2, 3, 2),
            pipeline("line", 3, 3, 2, (2, 3, 1), 1),
            pipeline("dualpipe", 2, 4, 2, (1, 2, 1)),
            pipeline("v", 2, 3, 2, (2, 2, 2), 1),
            pipeline("line", 2, 4, None, (2, 3, 1), 0, Objective.SPAN),
            pipeline("v", 2, 2, 2, (2, 4, 2), 0, Objective.SPAN),
        ]
        for problem in cases:
            case = shop(problem)
            starts, now = [[0] * kind.count for kind in case.kinds], 0
            for number in range(max(kind.count for kind in case.kinds)):
                for route in {kind.route for kind in case.kinds}:
                    for k, kind in enumerate(case.kinds):
                        if kind.route == route and number < kind.count:
                            starts[k][number] = now
                            now += kind.duration + max((lag for _, lag in case.after[k]), default=0)
            plan = case.plan(starts, "serial")
            verdict = verify(problem, plan)
            assert verdict.ok
            assert verdict.value is not None
            yield Instance(problem, plan, verdict.value)


def shortest_period(case: Shop, per_period: int) -> int:
    """Least integer period by enumeration of all starts, each less than a period after the first
    moment at which it is possible (on these shops nothing is gained by waiting longer)."""
    tasks = [(k, j) for j in range(per_period) for k in range(len(case.kinds))]
    for period in range(1, 1000):
        for waits in product(range(period), repeat=per_period):
            if waits[0] == 0 and list(waits) == sorted(waits):
                found = place_tasks(case, tasks, period, waits, {})
                if found:
                    return period
    raise AssertionError("no period")


def place_tasks(
    case: Shop,
    tasks: list[tuple[int, int]],
    period: int,
    begins: tuple[int, ...],
    starts: dict[tuple[int, int], int],
) -> bool:
    if len(starts) == len(tasks):
        return memory_kept(case, starts, period)
    k, j = tasks[len(starts)]
    kind = case.kinds[k]
    ready = max(
        (starts[a, j] + case.kinds[a].duration + lag for a, lag in case.before[k]), default=0
    )
    choices = range(ready, ready + period) if case.before[k] else range(begins[j], begins[j] + 1)
    for start in choices:
        clash = any(
            case.kinds[other].machine == kind.machine
            and not (case.kinds[other].duration <= (start - at) % period <= period - kind.duration)
            for (other, _), at in starts.items()
        )
        if not clash and kind.duration <= period:
            starts[k, j] = start
            if place_tasks(case, tasks, period, begins, starts):
                return True
            del starts[k, j]
    return False


def memory_kept(case: Shop, starts: dict[tuple[int, int], int], period: int) -> bool:
    """Unroll far enough that everything is in flight at once, and count bytes word by word."""
    repeats = 2 + max(starts.values()) // period
    entries: list[list[tuple[int, int]]] = [[] for _ in case.machines]
    for (k, _), start in starts.items():
        for n in range(2 * repeats):
            entries[case.kinds[k].machine].append((start + n * period, k))
    return fits(case, [[k for _, k in sorted(row)] for row in entries])


@pytest.mark.parametrize(
    ("family", "devices", "cap", "times", "transfer", "joint", "per_period"),
    [
        ("line", 2, 1, (1, 1, 1), 0, False, 1),
        ("line", 2, 2, (1, 1, 1), 0, False, 1),
        ("line", 2, 2, (1, 2, 1), 1, False, 1),
        ("line", 3, 2, (1, 1, 0), 0, True, 1),
        ("line", 3, 1, (1, 1, 0), 0, True, 1),
        ("line", 2, 2, (1, 1, 0), 0, True, 2),
        ("line", 2, 2, (2, 1, 0), 1, True, 2),
        ("v", 1, 1, (2, 2, 2), 0, False, 1),
        ("dualpipe", 2, 2, (1, 1, 0), 0, True, 1),
    ],
)
def test_shortest_period_is_that_of_enumeration(
    family: str,
    devices: int,
    cap: int,
    times: tuple[int, int, int],
    transfer: int,
    joint: bool,
    per_period: int,
) -> None:
    problem = pipeline(family, devices, 6, cap, times, transfer, joint=joint)
    options = PERIOD.Options(micro_batches=per_period, mirror=False)
    period, plan = PERIOD.fastest(problem, options)[0]
    assert verify(problem, plan).ok
    assert period == shortest_period(shop(problem), per_period)


@pytest.mark.parametrize("family", ["line", "v", "dualpipe"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"even": 1},
        {"even": 2},
        pytest.param({"micro_batches": 2}, marks=pytest.mark.slow),
    ],
)
def test_every_pattern_is_a_plan_and_no_restriction_beats_the_whole(
    family: str, options: dict[str, int]
) -> None:
    devices = 2 if "micro_batches" in options else 4
    problem = pipeline(family, devices, 12, devices + 1, (2, 4, 2), 1)
    whole = PERIOD.fastest(problem, PERIOD.Options(mirror=False))[0][0]
    found = PERIOD.fastest(problem, PERIOD.Options(**options))
    assert found
    for period, plan in found:
        verdict = verify(problem, plan)
        assert verdict.ok, verdict.violations
        assert period >= max(shop(problem).work) * options.get("micro_batches", 1) // max(
            kind.count for kind in shop(problem).kinds
        )
        if "even" in options:
            assert period >= whole


def test_two_micro_batches_per_period_can_be_needed() -> None:
    """Eight stages, six activations, unit times: a period of 3 per micro-batch needs two."""
    problem = pipeline("line", 8, 16, 6)
    one = PERIOD.fastest(problem, PERIOD.Options())[0][0]
    two = PERIOD.fastest(problem, PERIOD.Options(micro_batches=2))[0][0]
    assert (one, two) == (4, 6)


def test_even_patterns_change_places_to_use_less_memory() -> None:
    """Every third device alike, two micro-batches that change places: no bubble in 6 of 8."""
    problem = pipeline("line", 8, 16, 6)
    assert PERIOD.fastest(problem, PERIOD.Options(even=1)) == []
    found = PERIOD.fastest(problem, PERIOD.Options(micro_batches=2, even=3))
    assert found[0][0] == 6
    for _, plan in found:
        assert verify(problem, plan).ok


def test_patterns_of_lengths_without_a_common_tick() -> None:
    """Measured times of the zero-bubble paper (arXiv 2401.10241): no bubble in steady state."""
    problem = pipeline("line", 8, 16, 8, (29718, 29444, 19927), 527)
    period, plan = PERIOD.fastest(problem, PERIOD.Options())[0]
    assert period == 29718 + 29444 + 19927
    assert verify(problem, plan).ok


def test_a_period_can_be_asked_for() -> None:
    problem = pipeline("line", 3, 5, 3, (2, 2, 2), 1)
    values = []
    for period in (6, 9):
        found = optimise("pipeline_period", problem, period=period)
        assert found.verdict.ok
        assert found.verdict.value == round((found.answer.objective or 0) * found.scale.unit)
        values.append(found.verdict.value)
        starts = sorted(r.start_ticks or 0 for r in found.plan.runs if r.operator.startswith("F0@"))
        assert {b - a for a, b in pairwise(starts)} == {period}
    assert values[0] < values[1]


def test_one_activation_too_large_has_no_pattern() -> None:
    problem = pipeline("line", 2, 3, 0)
    assert PERIOD.fastest(problem, PERIOD.Options()) == []
    model = PERIOD.build(problem, PERIOD.Options(), Guide())
    from milp_plan.lp.from_pyomo import compile_pyomo

    assert TestPipelinePeriod().solve(compile_pyomo(model)).infeasible
