"""The oracle itself: hand-computed optima, and agreement with cruder enumerations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings

from milp_plan.check import Checker, verify
from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from tests.support.seeds import few

from .brute import brute_force, quietest_order, startable, workloads
from .problems import problems, random_problem, random_problem_with_plan
from .workload import Workload

MODELS = tuple(CommunicationModel)


def pinned(name: str, device: str, ticks: int, *, workspace: int = 0) -> Operator:
    """Return an operator that can only run on one device."""
    return Operator(name, (Option("only", {device: ticks}, workspace_bytes=workspace),))


def free(name: str, ticks: int, group: str | None = None) -> Operator:
    """Return an operator that can run on each of three devices."""
    return Operator(name, (Option("any", dict.fromkeys(("d0", "d1", "d2"), ticks)),), group=group)


def value(name: str, producer: str, *consumers: str, size: int = 0) -> Value:
    return Value(name, producer, consumers, {FULL: size})


def problem(
    operators: list[Operator],
    values: list[Value],
    *,
    model: CommunicationModel = CommunicationModel.CHANNEL,
    memory: Mapping[str, int] | None = None,
    objective: Objective = Objective.MAKESPAN,
    groups: tuple[tuple[str, ...], ...] = (),
) -> PlanningProblem:
    """Three devices, each of its own class, with links of one byte per tick."""
    names = ("d0", "d1", "d2")
    return PlanningProblem(
        "hand",
        ComputationGraph(tuple(operators), tuple(values)),
        Cluster(
            tuple(DeviceClass(name, None) for name in names),
            tuple(Device(name, name, (memory or {}).get(name)) for name in names),
            tuple(Channel(a, b, 0, TICKS_PER_SECOND) for a in names for b in names if a != b),
            groups,
            model,
        ),
        objective,
    )


def optimum(of: PlanningProblem) -> int | None:
    """Return the oracle's value, after the checker has agreed with it."""
    found = brute_force(of)
    if found is None:
        return None
    verdict = verify(of, found[1])
    assert verdict.violations == ()
    assert verdict.value == found[0]
    return found[0]


@pytest.mark.parametrize(("memory", "expected"), [(8, 7), (4, 9), (3, None)])
def test_memory_forces_waiting(memory: int, expected: int | None) -> None:
    """Four bytes stay on d0 until they have been sent, and ``b`` works in four there."""
    operators = [
        pinned("a", "d0", 2),
        pinned("b", "d0", 3, workspace=4),
        pinned("c", "d1", 1),
    ]
    values = [value("v", "a", "c", size=4)]
    assert optimum(problem(operators, values, memory={"d0": memory})) == expected


@pytest.mark.parametrize(("model", "expected"), list(zip(MODELS, (10, 14, 6), strict=True)))
def test_models_differ_in_what_transfers_hold(model: CommunicationModel, expected: int) -> None:
    """Two values to d1 and one to d2, four ticks each: by channel, by port, or all at once."""
    operators = [pinned("a", "d0", 1), pinned("c", "d1", 1), pinned("e", "d2", 1)]
    values = [
        value("v", "a", "c", size=4),
        value("w", "a", "c", size=4),
        value("x", "a", "e", size=4),
    ]
    assert optimum(problem(operators, values, model=model)) == expected


def test_gang_holds_both_devices() -> None:
    gang = Operator(
        "g",
        (Option("one", {"d0": 8, "d1": 8}), Option("two", {"d0": 3, "d1": 2}, gang=2)),
    )
    groups = (("d0", "d1"),)
    assert optimum(problem([gang], [], groups=groups)) == 3
    assert optimum(problem([gang, pinned("b", "d1", 2)], [], groups=groups)) == 5


def test_values_of_a_gang_leave_from_either_device() -> None:
    """Each of two values takes another channel; one channel for both would end at 6."""
    gang = Operator("g", (Option("two", {"d0": 1, "d1": 1}, gang=2),))
    values = [value("v", "g", "c", size=2), value("w", "g", "c", size=2)]
    of = problem([gang, pinned("c", "d2", 1)], values, groups=(("d0", "d1"),))
    assert optimum(of) == 4
    found = brute_force(of)
    assert found is not None
    assert {transfer.source for transfer in found[1].transfers} == {("d0",), ("d1",)}


@pytest.mark.parametrize(("group", "expected"), [(None, 3), ("g", 6)])
def test_colocated_operators_take_turns(group: str | None, expected: int) -> None:
    assert optimum(problem([free("a", 3, group), free("b", 3, group)], [])) == expected


def test_no_length_is_not_inside_another_task() -> None:
    """``z`` takes no time but cannot run inside ``b``: 5 if it could, 6 if ``b`` waits for it."""
    operators = [
        pinned("a", "d1", 1),
        pinned("z", "d0", 0),
        pinned("y", "d1", 3),
        pinned("b", "d0", 5),
    ]
    assert optimum(problem(operators, [value("v", "a", "z"), value("u", "z", "y")])) == 6


def test_no_length_holds_no_memory() -> None:
    """The workspace of ``z`` lasts no time; its output stays until ``c`` has read it."""
    operators = [pinned("z", "d0", 0, workspace=9), pinned("c", "d0", 1)]
    values = [value("v", "z", "c", size=2)]
    assert optimum(problem(operators, values, objective=Objective.PEAK_MEMORY)) == 2
    assert optimum(problem(operators, values, memory={"d0": 2})) == 1


def test_order_decides_the_peak() -> None:
    """Big temporary first: 5 + 1 bytes at once; with the small outputs first it would be 7."""
    operators = [
        pinned("big", "d0", 1),
        pinned("shrink", "d0", 1),
        pinned("small", "d0", 1),
        pinned("end", "d0", 1),
    ]
    values = [
        value("b", "big", "shrink", size=5),
        value("s", "shrink", "end", size=1),
        value("t", "small", "end", size=1),
    ]
    assert optimum(problem(operators, values, objective=Objective.PEAK_MEMORY)) == 6


def test_bottleneck_balances_loads() -> None:
    """Loads 4 and 2 + 2 with the transfer off the critical resource; a third device is idle."""
    operators = [free("a", 4), free("b", 2), free("c", 2)]
    of = problem(operators, [value("v", "b", "c", size=3)], objective=Objective.BOTTLENECK)
    assert optimum(replace(of, memory_law=MemoryLaw.STATIC)) == 4
    assert optimum(of) == 4


def test_static_law_counts_everything_at_once() -> None:
    operators = [pinned("a", "d0", 1, workspace=2), pinned("b", "d0", 1, workspace=3)]
    values = [value("v", "a", "b", size=4), Value("w", None, ("b",), {FULL: 5})]
    of = problem(operators, values, objective=Objective.PEAK_MEMORY)
    assert optimum(of) == 12
    assert optimum(replace(of, memory_law=MemoryLaw.STATIC)) == 12
    late = replace(of, graph=replace(of.graph, operators=(operators[0], free("b", 1))))
    assert optimum(replace(late, memory_law=MemoryLaw.STATIC)) == 9
    tight = problem(operators, values, memory={"d0": 11})
    assert optimum(replace(tight, memory_law=MemoryLaw.STATIC)) is None


def test_missing_channel_leaves_no_plan() -> None:
    of = problem([pinned("a", "d0", 1), pinned("b", "d1", 1)], [value("v", "a", "b", size=1)])
    assert optimum(of) == 3
    assert optimum(replace(of, cluster=replace(of.cluster, channels=()))) is None


@pytest.mark.parametrize("seed", few(range(0, 400, 8), 12))
def test_planted_plan_proves_that_there_is_one(seed: int) -> None:
    of, plan = random_problem_with_plan(seed)
    verdict = verify(of, plan)
    assert verdict.violations == ()
    best = optimum(of)
    assert best is not None
    assert verdict.value is not None
    assert best <= verdict.value


@settings(max_examples=20, deadline=None)
@given(problems(objective=Objective.BOTTLENECK))
def test_bottleneck_of_random_problems(of: PlanningProblem) -> None:
    assert optimum(of) is not None


def test_equal_seeds_give_equal_problems() -> None:
    for seed in range(20):
        assert random_problem(seed).fingerprint == random_problem(seed).fingerprint
    assert len({random_problem(seed).fingerprint for seed in range(20)}) > 17


@pytest.mark.parametrize("seed", few(range(2000, 2040), 10))
def test_peak_is_the_least_memory_with_a_schedule(seed: int) -> None:
    """Two searches that share no code: serial orders for the peak, time-ordered for makespan."""
    of = random_problem(seed, max_operators=5, objective=Objective.PEAK_MEMORY)
    of = replace(of, cluster=of.cluster.with_memory(dict.fromkeys(of.cluster.device_names)))
    peak = optimum(of)
    assert peak is not None

    def timed(memory: int) -> int | None:
        limits = dict.fromkeys(of.cluster.device_names, memory)
        cluster = of.cluster.with_memory(dict(limits))
        return optimum(replace(of, cluster=cluster, objective=Objective.MAKESPAN))

    assert timed(peak) is not None
    if peak > 0:
        assert timed(peak - 1) is None


def every_order(load: Workload) -> int | None:
    """Return the smallest peak over all serial orders, one by one."""

    @cache
    def rest(done: int) -> int | None:
        lasting = load.lasting()
        peaks = [max(lasting)] if done == load.everything and load.fits(lasting) else []
        for task in startable(load, done, done):
            after = done | 1 << task
            used = load.usage(after, done) if load.durations[task] else list(load.persistent)
            later = rest(after) if load.fits(used) else None
            if later is not None:
                peaks.append(max(*used, later))
        return min(peaks, default=None)

    return rest(0)


@pytest.mark.parametrize("seed", few(range(1000, 1040), 10))
def test_quietest_order_is_the_best_of_all(seed: int) -> None:
    for load in list(workloads(random_problem(seed, max_operators=5)))[:8]:
        found = quietest_order(load)
        assert (None if found is None else found[0]) == every_order(load)


@pytest.mark.parametrize("seed", few(range(3000, 3030), 8))
def test_no_start_times_beat_the_optimum(seed: int) -> None:
    """Every choice of integer start times below the optimum is refused by the checker."""
    of = random_problem(seed, max_operators=3, objective=Objective.MAKESPAN)
    best = optimum(of)
    assert best is not None
    checker = Checker(of)
    tried = 0
    for load in workloads(of):
        ranges = [range(best - ticks) for ticks in load.durations]
        for starts in product(*ranges):
            tried += 1
            if tried > 4000:
                return
            assert not checker.verify(load.plan(starts)).ok
