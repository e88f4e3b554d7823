"""The best plan of a window by enumeration: every placement and order that keeps the outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from milp_plan.core import Device, Plan, PlanningProblem
from milp_plan.kinds.schedule.planners.indexed import indexed
from tests.support.workload import Expander, Workload, joint_placements


def roomy(problem: PlanningProblem) -> PlanningProblem:
    """The same problem without memory limits: windows leave memory to the checker."""

    def without(device: Device) -> Device:
        return replace(device, memory_bytes=None)

    devices = tuple(without(device) for device in problem.cluster.devices)
    return replace(problem, cluster=replace(problem.cluster, devices=devices))


def best_of_window(problem: PlanningProblem, plan: Plan, free: frozenset[str]) -> int | None:
    """Least makespan among plans that keep what is not free; ``None`` where there is none.

    What is free: placements of free operators, on the plan's site where not all of their group is
    free; the order of free operators and of transfers that they make or read against all others.
    Transfers of free operators leave from the fastest device.
    """
    best: int | None = None
    for load in _loads(problem, plan, free):
        best = _least(load, _kept_pairs(load, plan, free), best)
    return best


def _loads(problem: PlanningProblem, plan: Plan, free: frozenset[str]) -> Iterator[Workload]:
    groups = problem.graph.groups
    tied = {n for m in groups.values() if not free.issuperset(m) for n in m}
    sources = {(t.value, t.target, t.layout): t.source for t in plan.transfers}
    for placement in joint_placements(problem):
        kept = all(
            placement[run.operator] == run.placement
            if run.operator not in free
            else run.operator not in tied or placement[run.operator].devices == run.devices
            for run in plan.runs
        )
        if not kept:
            continue
        fastest = _fastest(problem, placement)
        for load in Expander(problem)(placement):
            if all(
                t.source
                == (fastest if touched(problem, t.value, free) else sources)[
                    t.value, t.target, t.layout
                ]
                for t in load.transfers
            ):
                yield load


def touched(problem: PlanningProblem, value: str, free: frozenset[str]) -> bool:
    """Whether a free operator makes or reads a value."""
    found = problem.graph.value(value)
    return found.producer in free or not free.isdisjoint(found.consumers)


def _fastest(problem, placement):
    view = indexed(problem)
    names = problem.cluster.device_names
    spots = [view.spot(view.index[name], placement[name]) for name in view.names]
    found = {}
    for value, maker in enumerate(view.producer):
        for reader in view.consumers[value] if maker >= 0 else ():
            for leg in view.legs_between(value, spots[maker], spots[reader]) or ():
                target = tuple(names[d] for d in leg.target)
                key = (view.values[value].name, target, leg.layout)
                found[key] = tuple(names[d] for d in leg.source)
    return found


def _kept_pairs(load: Workload, plan: Plan, free: frozenset[str]) -> list[int]:
    """Per task, the kept tasks that the plan has before it on one of its resources."""
    problem = load.problem
    times = {(t.value, t.target, t.layout): (t.start_ticks, t.stop_ticks) for t in plan.transfers}
    when: list[tuple[int, int] | None] = []
    for operator in problem.graph.operators:
        run = plan.run(operator.name)
        when.append(None if operator.name in free else (run.start_ticks, run.stop_ticks))
    for t in load.transfers:
        kept = not touched(problem, t.value, free)
        when.append(times[t.value, t.target, t.layout] if kept else None)
    ancestors = _ancestors(load)
    found = list(load.before)
    for a, one in enumerate(when):
        for b, other in enumerate(when):
            if one is None or other is None or a == b or not load.resources[a] & load.resources[b]:
                continue
            if one < other or (one == other and ancestors[b] >> a & 1):
                found[b] |= 1 << a
    return found


def _ancestors(load: Workload) -> list[int]:
    found = list(load.before)
    for _ in found:
        for task, mask in enumerate(found):
            for other in range(len(found)):
                if mask >> other & 1:
                    found[task] |= found[other]
    return found


def _least(load: Workload, before: list[int], best: int | None) -> int | None:
    """Go through all orders; every task as early as those before it allow."""
    count, operators = len(load.durations), len(load.problem.graph.operators)
    tails = [0] * count
    for _ in range(count):
        for task, mask in enumerate(before):
            for other in range(count):
                if mask >> other & 1:
                    tails[other] = max(tails[other], tails[task] + load.durations[task])

    def extend(done: int, stops: dict[int, int], free: dict[int, int], last: int) -> None:
        nonlocal best
        if done == (1 << count) - 1:
            best = last if best is None else min(best, last)
            return
        for task in range(count):
            if done >> task & 1 or before[task] & ~done:
                continue
            held = [bit for bit in range(load.resources[task].bit_length())
                    if load.resources[task] >> bit & 1]  # fmt: skip
            ready = max((stops[o] for o in range(count) if before[task] >> o & 1), default=0)
            ready = max([ready, *(free.get(bit, 0) for bit in held)])
            stop = ready + load.durations[task]
            if best is not None and stop + tails[task] >= best:
                continue
            ends = max(last, stop) if task < operators else last
            extend(
                done | 1 << task,
                {**stops, task: stop},
                {**free, **dict.fromkeys(held, stop)},
                ends,
            )

    extend(0, {}, {}, 0)
    return best
