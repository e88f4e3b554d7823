"""Ways to damage a plan with re-runs and hosts: the rule that has to catch it, and its words.

Devices without limit, but where memory is what is damaged: so that exactly this rule speaks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from milp_plan.check import replay
from milp_plan.core import (
    FULL,
    Channel,
    CommunicationModel,
    Device,
    Plan,
    PlanningProblem,
    Transfer,
)

from .memory_saving import HOST
from .plans import Planted

Damage = Callable[[PlanningProblem, Plan, random.Random], Planted | None]

MEMORY_SAVING_DAMAGES: dict[str, tuple[str, tuple[str, ...], Damage]] = {}
"""Name -> (rule that has to catch it, words one of which it says, how to do it)."""


def _damage(rule: str, *words: str) -> Callable[[Damage], Damage]:
    def register(function: Damage) -> Damage:
        MEMORY_SAVING_DAMAGES[function.__name__] = (rule, words, function)
        return function

    return register


def unlimited(problem: PlanningProblem) -> PlanningProblem:
    """Return the problem whose devices hold anything."""
    memory = dict.fromkeys(problem.cluster.device_names)
    return replace(problem, cluster=problem.cluster.with_memory(memory))


def _runs_twice(plan: Plan) -> list[str]:
    names = [run.operator for run in plan.runs]
    return sorted({name for name in names if names.count(name) > 1})


def _without(plan: Plan, gone: object) -> Plan:
    runs = tuple(run for run in plan.runs if run is not gone)
    return replace(plan, runs=runs, transfers=tuple(t for t in plan.transfers if t is not gone))


def _moved(task, start):
    return replace(task, start_ticks=start, stop_ticks=start + task.stop_ticks - task.start_ticks)


def _swap(plan: Plan, old: object, new: object) -> Plan:
    runs = tuple(new if run is old else run for run in plan.runs)
    return replace(plan, runs=runs, transfers=tuple(new if t is old else t for t in plan.transfers))


def _pick(rng: random.Random, items: list) -> object | None:
    return rng.choice(items) if items else None


def _to_host(plan: Plan) -> list[Transfer]:
    return [trip for trip in plan.transfers if trip.target == (HOST,)]


def _from_host(plan: Plan) -> list[Transfer]:
    return [trip for trip in plan.transfers if trip.source == (HOST,)]


@_damage("supply", "is not brought to new", "where no copy of it is complete by then")
def run_again_without_inputs(problem, plan, rng):
    """On a device of its own, where nothing was ever brought."""
    names = [op.name for op in problem.graph.operators if op.recomputable and op.group is None]
    reads = problem.graph.predecessors
    name = _pick(rng, [name for name in names if reads[name]])
    if name is None:
        return None
    cluster = problem.cluster
    others = [Channel("new", other, 0, 10**9) for other in cluster.device_names]
    cluster = replace(
        cluster,
        devices=(*cluster.devices, Device("new", "fast", None)),
        channels=(*cluster.channels, *others),
    )
    again = replace(_moved(plan.run(name), plan.stop_ticks), devices=("new",))
    return Planted(replace(problem, cluster=cluster), replace(plan, runs=(*plan.runs, again)))


@_damage("supply", "is not brought to", "where no copy of it is complete by then")
def copy_never_made_there(problem, plan, rng):
    """The only copy that ever gets to a device is brought from the host; now it is not."""
    found = []
    for trip in _from_host(plan):
        home = trip.target[0]
        runs = {run.devices[0] for run in plan.runs}
        made = [
            run for run in plan.runs if run.operator == problem.graph.value(trip.value).producer
        ]
        brought = [t for t in plan.transfers if t.value == trip.value and t.target == trip.target]
        if home in runs and brought == [trip] and all(run.devices != (home,) for run in made):
            found.append(trip)
    gone = _pick(rng, found)
    return gone and Planted(problem, _without(plan, gone))


@_damage("supply", "has nothing to send")
def reload_without_a_copy_on_the_host(problem, plan, rng):
    first = [t for t in _to_host(plan) if [u.value for u in _to_host(plan)].count(t.value) == 1]
    gone = _pick(rng, first)
    return gone and Planted(problem, _without(plan, gone))


@_damage("supply", "has nothing to send")
def reload_before_the_copy_is_complete(problem, plan, rng):
    there = {trip.value: trip for trip in reversed(_to_host(plan))}
    found = [trip for trip in _from_host(plan) if there[trip.value].stop_ticks > 0]
    early = _pick(rng, found)
    if early is None:
        return None
    start = there[early.value].stop_ticks - 1
    cluster = replace(problem.cluster, communication=CommunicationModel.DELAY)
    return Planted(replace(problem, cluster=cluster), _swap(plan, early, _moved(early, start)))


@_damage("supply", "has nothing to send")
def copy_relayed_by_a_device(problem, plan, rng):
    """What was brought from the host goes on to a third device."""
    found = []
    for trip in _from_host(plan):
        made = [
            run for run in plan.runs if run.operator == problem.graph.value(trip.value).producer
        ]
        if all(run.devices != trip.target for run in made):
            found += [(trip, d) for d in ("d0", "d1", "d2") if d in problem.cluster.device_names]
    found = [(trip, device) for trip, device in found if device != trip.target[0]]
    choice = _pick(rng, found)
    if choice is None:
        return None
    trip, device = choice
    ticks = problem.cluster.channel(trip.target[0], device).transfer_ticks(
        problem.graph.value(trip.value).payload(FULL)
    )
    start = max(plan.stop_ticks, *(t.stop_ticks for t in plan.transfers))
    relay = Transfer(trip.value, trip.target, (device,), FULL, start, start + ticks)
    return Planted(problem, replace(plan, transfers=(*plan.transfers, relay)))


@_damage("supply", "is needless: nothing reads this copy")
def reload_nobody_reads(problem, plan, rng):
    trip = _pick(rng, _from_host(plan))
    if trip is None:
        return None
    start = max(plan.stop_ticks, *(t.stop_ticks for t in plan.transfers))
    return Planted(problem, replace(plan, transfers=(*plan.transfers, _moved(trip, start))))


@_damage("supply", "is made more than once from one run")
def sent_to_the_host_twice(problem, plan, rng):
    trip = _pick(rng, _to_host(plan))
    if trip is None:
        return None
    start = max(plan.stop_ticks, *(t.stop_ticks for t in plan.transfers))
    made = problem.graph.value(trip.value).producer
    if len([run for run in plan.runs if run.operator == made]) > 1:
        return None
    return Planted(problem, replace(plan, transfers=(*plan.transfers, _moved(trip, start))))


@_damage("supply", "has the wrong duration")
def reload_of_another_length(problem, plan, rng):
    trip = _pick(rng, _from_host(plan))
    cluster = replace(problem.cluster, communication=CommunicationModel.DELAY)
    if trip is None or trip.stop_ticks - trip.start_ticks == 0:
        return None
    shorter = replace(trip, start_ticks=trip.start_ticks + 1)
    return Planted(replace(problem, cluster=cluster), _swap(plan, trip, shorter))


@_damage("supply", "is needless: nothing reads what it makes")
def run_again_for_nobody(problem, plan, rng):
    names = [op.name for op in problem.graph.operators if op.recomputable]
    # A second value of the same site: its inputs must still be there, as copies never end.
    outputs = problem.graph.outputs
    names = [name for name in names if outputs[name] and not any(v.is_kept for v in outputs[name])]
    name = _pick(rng, names)
    if name is None:
        return None
    again = _moved(plan.run(name), max(plan.stop_ticks, *(t.stop_ticks for t in plan.transfers), 0))
    return Planted(problem, replace(plan, runs=(*plan.runs, again)))


@_damage("assignment", "runs 2 times")
def run_again_what_is_not_recomputable(problem, plan, rng):
    names = [run.operator for run in plan.runs]
    name = _pick(rng, [name for name in _runs_twice(plan) if names.count(name) == 2])
    if name is None:
        return None
    operators = tuple(
        replace(op, recomputable=False) if op.name == name else op for op in problem.graph.operators
    )
    return Planted(replace(problem, graph=replace(problem.graph, operators=operators)), plan)


@_damage("assignment", "has the wrong duration")
def run_again_of_another_length(problem, plan, rng):
    name = _pick(rng, _runs_twice(plan))
    if name is None:
        return None
    run = [run for run in plan.runs if run.operator == name][-1]
    if run.stop_ticks == run.start_ticks:
        return None
    return Planted(problem, _swap(plan, run, replace(run, start_ticks=run.start_ticks + 1)))


@_damage("memory", "device 'host' holds")
def host_memory_exceeded(problem, plan, rng):
    peak = replay(problem, plan).devices[HOST].peak_bytes
    if not peak:
        return None
    return Planted(replace(problem, cluster=problem.cluster.with_memory({HOST: peak - 1})), plan)
