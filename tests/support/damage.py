"""Ways to damage a valid plan. Each says which rule has to catch it.

A damage returns a problem and a plan, or ``None`` where the plan offers nothing to damage so. It is
sure to break its rule: where it depends on circumstances, it looks for them first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from milp_plan.check import replay, verify
from milp_plan.core import FULL, OperatorRun, Plan, PlanningProblem, Transfer
from milp_plan.core.schedule import transfer_resources

from .plans import Planted

Damaged = Planted | None
Damage = Callable[[PlanningProblem, Plan, random.Random], Damaged]

DAMAGES: dict[str, tuple[str, Damage]] = {}
"""Name -> (rule that has to catch it, how to do it)."""


def _damage(rule: str) -> Callable[[Damage], Damage]:
    def register(function: Damage) -> Damage:
        DAMAGES[function.__name__] = (rule, function)
        return function

    return register


def _with_run(plan: Plan, old: OperatorRun, **changes: object) -> Plan:
    runs = tuple(replace(run, **changes) if run is old else run for run in plan.runs)
    return replace(plan, runs=runs)


def _with_transfer(plan: Plan, old: Transfer, **changes: object) -> Plan:
    transfers = tuple(replace(t, **changes) if t is old else t for t in plan.transfers)
    return replace(plan, transfers=transfers)


def _moved(task: OperatorRun | Transfer, start: int) -> dict[str, int]:
    """Times of a task moved to another start."""
    return {"start_ticks": start, "stop_ticks": start + _length(task)}


def _length(task: OperatorRun | Transfer) -> int:
    return (task.stop_ticks or 0) - (task.start_ticks or 0)


def _pick(rng: random.Random, items: list) -> object | None:
    return rng.choice(items) if items else None


@_damage("assignment")
def missing_operator(problem, plan, rng):
    gone = rng.choice(plan.runs)
    return Planted(problem, replace(plan, runs=tuple(r for r in plan.runs if r is not gone)))


@_damage("assignment")
def repeated_operator(problem, plan, rng):
    again = rng.choice(plan.runs)
    if again.stop_ticks is not None:
        again = replace(again, **_moved(again, plan.stop_ticks))
    return Planted(problem, replace(plan, runs=(*plan.runs, again)))


@_damage("assignment")
def wrong_duration(problem, plan, rng):
    run = rng.choice(plan.runs)
    if run.stop_ticks is None:
        return None
    return Planted(problem, _with_run(plan, run, stop_ticks=run.stop_ticks + rng.choice([1, 7])))


@_damage("assignment")
def reversed_times(problem, plan, rng):
    run = _pick(rng, [run for run in plan.runs if _length(run) > 0])
    if run is None:
        return None
    changes = {"start_ticks": run.stop_ticks, "stop_ticks": run.start_ticks}
    return Planted(problem, _with_run(plan, run, **changes))


@_damage("assignment")
def start_before_zero(problem, plan, rng):
    run = rng.choice(plan.runs)
    if run.start_ticks is None:
        return None
    return Planted(problem, _with_run(plan, run, **_moved(run, -rng.randint(1, 9))))


@_damage("assignment")
def run_without_times(problem, plan, rng):
    if not plan.has_schedule:
        return None
    return Planted(problem, _with_run(plan, rng.choice(plan.runs), stop_ticks=None))


@_damage("assignment")
def device_class_without_duration(problem, plan, rng):
    found = []
    for run in plan.runs:
        option = problem.graph.operator(run.operator).option(run.option)
        for device in problem.cluster.devices:
            if len(run.devices) == 1 and device.device_class not in option.duration_ticks:
                found.append((run, device.name))
    choice = _pick(rng, found)
    if choice is None:
        return None
    return Planted(problem, _with_run(plan, choice[0], devices=(choice[1],)))


@_damage("assignment")
def wrong_gang(problem, plan, rng):
    run = rng.choice(plan.runs)
    other = [name for name in problem.cluster.device_names if name not in run.devices]
    devices = (run.devices[0],) if len(run.devices) == 2 else (*run.devices, other[0])
    return Planted(problem, _with_run(plan, run, devices=devices))


@_damage("assignment")
def no_process_group(problem, plan, rng):
    swapped = [(run, run.devices[::-1]) for run in plan.runs if len(run.devices) == 2]
    choice = _pick(rng, [c for c in swapped if c[1] not in problem.cluster.groups])
    if choice is None:
        return None
    return Planted(problem, _with_run(plan, choice[0], devices=choice[1]))


@_damage("identity")
def other_problem(problem, plan, rng):
    return Planted(problem, replace(plan, problem=plan.problem + "-else"))


@_damage("identity")
def stale_fingerprint(problem, plan, rng):
    return Planted(problem, replace(plan, fingerprint="0" * 64))


@_damage("identity")
def unknown_operator(problem, plan, rng):
    return Planted(problem, _with_run(plan, rng.choice(plan.runs), operator="nobody"))


@_damage("identity")
def unknown_option(problem, plan, rng):
    return Planted(problem, _with_run(plan, rng.choice(plan.runs), option="nothing"))


@_damage("identity")
def unknown_device(problem, plan, rng):
    return Planted(problem, _with_run(plan, rng.choice(plan.runs), devices=("nowhere",)))


@_damage("identity")
def unknown_value(problem, plan, rng):
    transfer = _pick(rng, list(plan.transfers))
    return transfer and Planted(problem, _with_transfer(plan, transfer, value="nought"))


@_damage("colocation")
def split_group(problem, plan, rng):
    members = problem.graph.groups.get("together")
    if members is None:
        return None
    run = plan.run(rng.choice(members))
    places = [way for way in problem.placements(run.operator) if way.devices != run.devices]
    place = _pick(rng, places)
    if place is None:
        return None
    return Planted(problem, _with_run(plan, run, option=place.option, devices=place.devices))


@_damage("exclusion")
def overlap_on_device(problem, plan, rng):
    pairs = [
        (a, b)
        for a, b in combinations(plan.runs, 2)
        if set(a.devices) & set(b.devices) and _length(a) > 0 and _length(b) > 0
    ]
    choice = _pick(rng, pairs)
    if choice is None:
        return None
    first, second = choice
    return Planted(problem, _with_run(plan, second, **_moved(second, first.stop_ticks - 1)))


@_damage("exclusion")
def overlap_on_channel(problem, plan, rng):
    def held(transfer):
        return set(transfer_resources(problem.cluster, transfer.source, transfer.target))

    pairs = [
        (a, b)
        for a, b in combinations(plan.transfers, 2)
        if held(a) & held(b) and _length(a) > 0 and _length(b) > 0
    ]
    choice = _pick(rng, pairs)
    if choice is None:
        return None
    first, second = choice
    return Planted(problem, _with_transfer(plan, second, **_moved(second, first.stop_ticks - 1)))


@_damage("exclusion")
def task_of_no_length_inside_another(problem, plan, rng):
    pairs = [
        (long, short)
        for long in plan.runs
        for short in plan.runs
        if set(long.devices) & set(short.devices)
        and _length(long) > 1
        and short.start_ticks == short.stop_ticks
    ]
    choice = _pick(rng, pairs)
    if choice is None:
        return None
    long, short = choice
    return Planted(problem, _with_run(plan, short, **_moved(short, long.start_ticks + 1)))


def _native_reads(problem, plan):
    for value in problem.graph.values:
        if value.producer is not None:
            producer = plan.run(value.producer)
            option = problem.graph.operator(value.producer).option(producer.option)
            for name in value.consumers:
                reader = plan.run(name)
                wanted = problem.graph.operator(name).option(reader.option)
                if (
                    option.layout_written(value.name) == wanted.layout_read(value.name)
                    and reader.devices == producer.devices
                ):
                    yield producer, reader


@_damage("supply")
def late_native_input(problem, plan, rng):
    choice = _pick(rng, [pair for pair in _native_reads(problem, plan) if pair[0].stop_ticks])
    if choice is None:
        return None
    producer, reader = choice
    return Planted(problem, _with_run(plan, reader, **_moved(reader, producer.stop_ticks - 1)))


@_damage("supply")
def late_transfer(problem, plan, rng):
    transfer = _pick(rng, [t for t in plan.transfers if t.start_ticks is not None])
    if transfer is None:
        return None
    return Planted(problem, _with_transfer(plan, transfer, **_moved(transfer, plan.stop_ticks + 1)))


@_damage("supply")
def transfer_before_its_value(problem, plan, rng):
    made = [(t, plan.run(problem.graph.value(t.value).producer)) for t in plan.transfers]
    choice = _pick(rng, [pair for pair in made if pair[1].stop_ticks])
    if choice is None:
        return None
    transfer, producer = choice
    start = rng.randrange(producer.stop_ticks)
    return Planted(problem, _with_transfer(plan, transfer, **_moved(transfer, start)))


@_damage("supply")
def missing_transfer(problem, plan, rng):
    if not plan.transfers:
        return None
    gone = rng.choice(plan.transfers)
    kept = tuple(t for t in plan.transfers if t is not gone)
    return Planted(problem, replace(plan, transfers=kept))


@_damage("supply")
def repeated_transfer(problem, plan, rng):
    again = _pick(rng, list(plan.transfers))
    return again and Planted(problem, replace(plan, transfers=(*plan.transfers, again)))


@_damage("supply")
def needless_transfer(problem, plan, rng):
    value = _pick(rng, [v for v in problem.graph.values if v.producer is not None])
    if value is None:
        return None
    source = plan.run(value.producer).devices
    made = {(t.target, t.layout) for t in plan.transfers if t.value == value.name}
    spare = [n for n in problem.cluster.device_names if ((n,), FULL) not in made]
    target = _pick(rng, spare)
    if target is None:
        return None
    times = (None, None) if not plan.has_schedule else (plan.stop_ticks, plan.stop_ticks)
    extra = Transfer(value.name, source[:1], (target,), FULL, *times)
    return Planted(problem, replace(plan, transfers=(*plan.transfers, extra)))


@_damage("supply")
def persistent_value_sent(problem, plan, rng):
    value = _pick(rng, [v for v in problem.graph.values if v.persistent])
    if value is None:
        return None
    times = (None, None) if not plan.has_schedule else (0, 0)
    extra = Transfer(value.name, ("d0",), ("d1",), FULL, *times)
    return Planted(problem, replace(plan, transfers=(*plan.transfers, extra)))


@_damage("supply")
def wrong_transfer_duration(problem, plan, rng):
    transfer = _pick(rng, [t for t in plan.transfers if t.stop_ticks is not None])
    if transfer is None:
        return None
    step = rng.choice([-1, 1]) if _length(transfer) > 0 else 1
    return Planted(problem, _with_transfer(plan, transfer, stop_ticks=transfer.stop_ticks + step))


@_damage("supply")
def transfer_from_elsewhere(problem, plan, rng):
    found = []
    for transfer in plan.transfers:
        site = plan.run(problem.graph.value(transfer.value).producer).devices
        other = [name for name in problem.cluster.device_names if name not in site]
        found += [(transfer, (name,)) for name in other]
        if len(transfer.source) == 2:
            found.append((transfer, transfer.source[::-1]))
    choice = _pick(rng, found)
    if choice is None:
        return None
    return Planted(problem, _with_transfer(plan, choice[0], source=choice[1]))


@_damage("supply")
def transfer_to_elsewhere(problem, plan, rng):
    transfer = _pick(rng, list(plan.transfers))
    if transfer is None:
        return None
    other = [name for name in problem.cluster.device_names if (name,) != transfer.target]
    return Planted(problem, _with_transfer(plan, transfer, target=(rng.choice(other),)))


@_damage("supply")
def transfer_without_times(problem, plan, rng):
    if not plan.has_schedule or not plan.transfers:
        return None
    return Planted(problem, _with_transfer(plan, rng.choice(plan.transfers), start_ticks=None))


@_damage("supply")
def wrong_layout(problem, plan, rng):
    transfer = _pick(rng, list(plan.transfers))
    if transfer is None:
        return None
    other = "half" if transfer.layout == FULL else FULL
    return Planted(problem, _with_transfer(plan, transfer, layout=other))


@_damage("memory")
def too_little_memory(problem, plan, rng):
    used = [memory for memory in replay(problem, plan).devices.values() if memory.peak_bytes]
    memory = _pick(rng, used)
    if memory is None:
        return None
    cluster = problem.cluster.with_memory({memory.device: memory.peak_bytes - 1})
    return Planted(replace(problem, cluster=cluster), plan)


@_damage("memory")
def copy_too_many_at_the_peak(problem, plan, rng):
    """Every holding of the plan stays, one more comes on top of a peak that fills the device."""
    full = [m for m in replay(problem, plan).devices.values() if m.peak_bytes == m.limit_bytes]
    values = [v for v in problem.graph.values if v.producer is not None and v.bytes[FULL]]
    if not full or not values:
        return None
    memory, value = rng.choice(full), rng.choice(values)
    times = (None, None) if not plan.has_schedule else (memory.peak_ticks, memory.peak_ticks + 1)
    source = plan.run(value.producer).devices[:1]
    extra = Transfer(value.name, source, (memory.device,), FULL, *times)
    return Planted(problem, replace(plan, transfers=(*plan.transfers, extra)))


@_damage("memory")
def released_result(problem, plan, rng):
    """What a plan releases is a result after all, on devices with just the memory it needed."""
    before = {d: memory.peak_bytes for d, memory in replay(problem, plan).devices.items()}
    found = []
    for number, value in enumerate(problem.graph.values):
        values = list(problem.graph.values)
        values[number] = replace(value, kept=True)
        graph = replace(problem.graph, values=tuple(values))
        marked = replace(problem, graph=graph, cluster=problem.cluster.with_memory(dict(before)))
        after = replay(marked, plan).devices
        if any(after[device].peak_bytes > peak for device, peak in before.items()):
            found.append(marked)
    marked = _pick(rng, found)
    return marked and Planted(marked, plan)


@_damage("claim")
def forged_value(problem, plan, rng):
    achieved = verify(problem, plan).value
    forged = plan.claimed(problem.objective.value, achieved + rng.choice([-1, 1, 10**20]))
    return Planted(problem, forged)


@_damage("claim")
def forged_objective(problem, plan, rng):
    return Planted(problem, replace(plan, objective="total_cost"))
