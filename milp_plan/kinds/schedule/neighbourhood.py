"""Which operators a round of neighbourhood search frees."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from milp_plan.core import Plan, PlanningProblem

Chooser = Callable[["PlanView", random.Random, int], frozenset[str]]


class PlanView:
    """A plan, looked at by those who choose neighbourhoods.

    Parameters
    ----------
    problem, plan
        A valid plan with a schedule.
    """

    def __init__(self, problem: PlanningProblem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.start = {run.operator: run.start_ns or 0 for run in plan.runs}
        self.stop = {run.operator: run.stop_ns or 0 for run in plan.runs}
        self.devices = {run.operator: run.devices for run in plan.runs}
        self.order = sorted(self.start, key=lambda name: (self.start[name], self.stop[name], name))

    def middle(self, name: str) -> int:
        """Twice the middle of an operator's interval."""
        return self.start[name] + self.stop[name]

    def near(self, moment: int, names: Sequence[str], size: int) -> list[str]:
        """The operators nearest in time to twice a moment."""
        return sorted(names, key=lambda name: (abs(self.middle(name) - moment), name))[:size]

    def with_groups(self, chosen: Sequence[str], size: int) -> frozenset[str]:
        """Add the rest of small colocation groups, so that they can move."""
        found = dict.fromkeys(chosen)
        for name in chosen:
            group = self.problem.graph.operator(name).group
            members = self.problem.graph.groups[group] if group is not None else ()
            if len(members) <= size:
                found.update(dict.fromkeys(members))
        return frozenset(found)


def time_window(view: PlanView, rng: random.Random, size: int) -> frozenset[str]:
    """Everything that runs around one moment."""
    moment = view.middle(rng.choice(view.order))
    return view.with_groups(view.near(moment, view.order, size), size)


def device_pair(view: PlanView, rng: random.Random, size: int) -> frozenset[str]:
    """What runs on two devices around one moment."""
    used = sorted({device for devices in view.devices.values() for device in devices})
    pair = set(rng.sample(used, min(2, len(used))))
    names = [name for name in view.order if pair & set(view.devices[name])]
    moment = view.middle(rng.choice(names))
    return view.with_groups(view.near(moment, names, size), size)


def transfer_region(view: PlanView, rng: random.Random, size: int) -> frozenset[str]:
    """The ends of a long transfer and what is around them in the graph."""
    transfers = view.plan.transfers
    if not transfers:
        return time_window(view, rng, size)
    weights = [float((t.stop_ns or 0) - (t.start_ns or 0)) + 1.0 for t in transfers]
    value = view.problem.graph.value(rng.choices(transfers, weights)[0].value)
    graph = view.problem.graph
    found = dict.fromkeys([*([value.producer] if value.producer else []), *value.consumers])
    frontier = list(found)
    while frontier and len(found) < size:
        near = [n for f in frontier for n in (*graph.predecessors[f], *graph.successors[f])]
        frontier = [n for n in dict.fromkeys(near) if n not in found]
        found.update(dict.fromkeys(frontier))
    return view.with_groups(list(found)[:size], size)


def critical_stretch(view: PlanView, rng: random.Random, size: int) -> frozenset[str]:
    """A stretch of operators each of which starts when the one before it ends."""
    ends: dict[int, list[str]] = {}
    for name in view.order:
        ends.setdefault(view.stop[name], []).append(name)
    for transfer in view.plan.transfers:
        producer = view.problem.graph.value(transfer.value).producer
        if producer is not None and transfer.stop_ns is not None:
            ends.setdefault(transfer.stop_ns, []).append(producer)
    name = max(view.order, key=lambda n: (view.stop[n], n))
    chain = [name]
    for _ in range(len(view.order)):
        before = [n for n in ends.get(view.start[name], []) if n not in chain]
        if not before:
            break
        name = rng.choice(before)
        chain.append(name)
    moment = view.middle(rng.choice(chain))
    near_chain = view.near(moment, chain, max(1, size // 2))
    others = [n for n in view.near(moment, view.order, size) if n not in near_chain]
    return view.with_groups([*near_chain, *others][:size], size)


CHOOSERS: dict[str, Chooser] = {
    "time window": time_window,
    "device pair": device_pair,
    "transfer region": transfer_region,
    "critical stretch": critical_stretch,
}
