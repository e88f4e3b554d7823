"""Optimum of tiny problems under the serial law by enumeration; the checker alone is asked.

Devices of one class with equal memory are alike, so that the i-th of them is used only after the
one before: every plan is equal to one of these up to their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.check import verify
from milp_plan.core import Operator, OperatorRun, Plan, PlanningProblem

from .remember import remembered

Place = tuple[str, int | None]


@remembered
def brute_serial(problem: PlanningProblem) -> tuple[int, Plan] | None:
    """Return the optimum and a plan that reaches it; ``None`` if there is no plan."""
    best: tuple[int, Plan] | None = None
    for plan in serial_plans(problem):
        verdict = verify(problem, plan)
        if verdict.ok and verdict.value is not None and (best is None or verdict.value < best[0]):
            best = verdict.value, plan
    return best


def serial_plans(problem: PlanningProblem) -> Iterator[Plan]:
    """Yield every plan, valid or not, with colocation groups kept together."""
    assert problem.serial is not None
    kinds: dict[tuple[str, int | None], list[str]] = {}
    for device in problem.cluster.devices:
        kinds.setdefault((device.device_class, device.memory_bytes), []).append(device.name)
    alike = {name: names for names in kinds.values() for name in names}
    calls = {d.name: _calls(problem, d.device_class) for d in problem.cluster.devices}

    def extend(rest: tuple[Operator, ...], chosen: dict[str, Place]) -> Iterator[dict[str, Place]]:
        if not rest:
            yield chosen
            return
        operator = rest[0]
        group = problem.graph.groups.get(operator.group or "", ())
        site = [chosen[name][0] for name in group if name in chosen]
        used = {place[0] for place in chosen.values()}
        for placement in problem.placements(operator.name):
            device = placement.devices[0]
            peers = alike[device]
            new = device not in used and peers[: peers.index(device)]
            if (site and device != site[0]) or (new and not used.issuperset(new)):
                continue
            for call in calls[device]:
                yield from extend(rest[1:], {**chosen, operator.name: (device, call)})

    for places in extend(problem.graph.operators, {}):
        runs = tuple(
            OperatorRun(op.name, op.options[0].name, (places[op.name][0],), call=places[op.name][1])
            for op in problem.graph.operators
        )
        yield Plan(problem.name, runs, planner="enumeration")


def _calls(problem: PlanningProblem, kind: str) -> tuple[int | None, ...]:
    assert problem.serial is not None
    if problem.serial.calls is None or kind not in problem.serial.payers:
        return (None,)
    return tuple(range(problem.serial.calls))
