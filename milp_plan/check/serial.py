"""Rule `serial` and loads under the serial law: transfers as work of the devices at both ends.

Every sum is taken from the plan and the graph alone, in exact integers; see docs/laws.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from milp_plan.core import BACKWARD_KINDS, Passes, SerialLaw, Value, Violation, transfer_ticks
from milp_plan.core.view import view

from .reading import Reading, Run, has_any_time

RULE = "serial"
Place = tuple[str, int | None]
"""A device, and the number of its call where calls count."""


@dataclass
class Load:
    """Ticks of one place by pass: work of its operators, received values and sent values."""

    work: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    incoming: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    outgoing: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})

    def of_pass(self, backward: bool) -> int:
        """Return the ticks of one pass."""
        return self.work[backward] + self.incoming[backward] + self.outgoing[backward]

    @property
    def total(self) -> int:
        """Sum of all ticks."""
        return self.of_pass(False) + self.of_pass(True)


def law_of(reading: Reading) -> SerialLaw:
    """Return the serial law of the problem, which must have one."""
    law = reading.facts.problem.serial
    assert law is not None
    return law


def check(reading: Reading) -> Iterator[Violation]:
    """Yield times and transfers, wrong calls, and calls that wait for each other."""
    for transfer in reading.plan.transfers:
        text = f"the plan lists a transfer of {transfer.value!r}: it follows from the placement"
        yield Violation(RULE, (transfer.value,), text)
    if has_any_time(reading.plan):
        text = "the plan gives times: they follow from the placement"
        yield Violation(RULE, (reading.plan.problem,), text)
    yield from _calls(reading)
    waiting = timeline(reading).waiting
    if waiting:
        names = ", ".join(f"{device} call {call}" for device, call in waiting if call is not None)
        text = f"calls wait for each other's values: {names}"
        yield Violation(RULE, tuple(dict.fromkeys(place[0] for place in waiting)), text)


def _calls(reading: Reading) -> Iterator[Violation]:
    law = law_of(reading)
    for entry in reading.plan.runs:
        run = reading.runs.get(entry.operator)
        if run is None:
            continue
        device = run.site[0]
        if law.calls is None or not pays(reading, device):
            if entry.call is not None:
                text = f"operator {entry.operator!r} has a call on {device!r}, which has none"
                yield Violation(RULE, (entry.operator, device), text, None, entry.call)
        elif type(entry.call) is not int or not 0 <= entry.call < law.calls:
            text = f"operator {entry.operator!r} has call {entry.call} on {device!r}"
            text += f", expected one of 0 to {law.calls - 1}"
            yield Violation(RULE, (entry.operator, device), text)


def pays(reading: Reading, device: str) -> bool:
    """Return whether a device is charged for transfers."""
    return reading.facts.device_class[device] in law_of(reading).payers


def place_of(reading: Reading, run: Run) -> Place:
    """Return the place of a run; transfers within one place cost nothing."""
    entry = reading.plan.run(run.operator)
    device = run.site[0]
    return (device, entry.call if law_of(reading).calls and pays(reading, device) else None)


def is_backward(reading: Reading, operator: str) -> bool:
    """Return whether an operator belongs to the backward pass."""
    return reading.facts.operators[operator].kind in BACKWARD_KINDS


@view
def _places(reading: Reading) -> dict[str, Place]:
    """Return the place of every operator."""
    return {name: place_of(reading, run) for name, run in reading.runs.items()}


@view
def loads(reading: Reading) -> dict[Place, Load]:
    """Return the load of every place in use; places that do not pay have only work."""
    load_of: dict[Place, Load] = {}
    places = _places(reading)
    for name, run in reading.runs.items():
        ticks = reading.facts.duration_ticks(name, run.option, run.site) or 0
        load = load_of.setdefault(places[name], Load())
        load.work[is_backward(reading, name)] += ticks
    for value in reading.facts.made:
        if value.producer in places:
            _charge(reading, value, places, load_of)
    return load_of


def _charge(
    reading: Reading, value: Value, places: dict[str, Place], load_of: dict[Place, Load]
) -> None:
    assert value.producer is not None
    home, backward = places[value.producer], is_backward(reading, value.producer)
    away = {places[name] for name in value.consumers if name in places} - {home}
    ticks = transfer_ticks(reading.facts.cluster, value)
    for place in away:
        if pays(reading, place[0]):
            load_of[place].incoming[backward] += ticks
    if away and pays(reading, home[0]):
        load_of[home].outgoing[backward] += ticks


def bottleneck(reading: Reading, load_of: dict[Place, Load]) -> int:
    """Return the largest load, or largest forward plus largest backward load (``Passes``)."""
    if law_of(reading).passes is Passes.JOINT:
        return max((load.total for load in load_of.values()), default=0)
    return sum(
        max((load.of_pass(backward) for load in load_of.values()), default=0)
        for backward in (False, True)
    )


@dataclass(frozen=True)
class Timeline:
    """Times of all calls, and of operators outside calls, for one sample.

    ``waiting`` names the calls that wait for each other; they and what needs them have no time.
    """

    calls: dict[Place, tuple[int, int]]
    ready: dict[str, int]
    waiting: tuple[Place, ...]


Task = Place | str
"""A call, or the name of an operator that runs outside calls."""


@view
def timeline(reading: Reading) -> Timeline:
    """Return the times if every call starts as early as its inputs and the call before allow."""
    if law_of(reading).calls is None:
        return Timeline({}, {}, ())
    load_of, places = loads(reading), _places(reading)
    task_of: dict[str, Task] = {
        name: name if place[1] is None else place for name, place in places.items()
    }
    needs = _needs(reading, task_of)
    length: dict[Task, int] = {}
    for name, run in reading.runs.items():
        task = task_of[name]
        ticks = reading.facts.duration_ticks(name, run.option, run.site) or 0
        length[task] = ticks if isinstance(task, str) else load_of[task].total
    times: dict[Task, tuple[int, int]] = {}
    for task in _in_order(needs):
        start = max((times[before][1] for before in needs[task]), default=0)
        times[task] = (start, start + length[task])
    calls = {task: span for task, span in times.items() if not isinstance(task, str)}
    ready = {name: times[task][1] for name, task in task_of.items() if task in times}
    late = [task for task in needs if task not in times and not isinstance(task, str)]
    return Timeline(calls, ready, tuple(late))


def _needs(reading: Reading, task_of: dict[str, Task]) -> dict[Task, set[Task]]:
    """Return task -> tasks it waits for: producers of its inputs, earlier calls of its device."""
    needs: dict[Task, set[Task]] = {task: set() for task in task_of.values()}
    for value in reading.facts.made:
        before = task_of.get(value.producer or "")
        for name in value.consumers:
            after = task_of.get(name)
            if before is not None and after is not None and before != after:
                needs[after].add(before)
    calls = [task for task in needs if not isinstance(task, str)]
    for task in calls:
        needs[task] |= {c for c in calls if c[0] == task[0] and (c[1] or 0) < (task[1] or 0)}
    return needs


def _in_order(needs: dict[Task, set[Task]]) -> Iterator[Task]:
    """Yield tasks in topological order, without those on a cycle or after one."""
    missing = {task: len(before) for task, before in needs.items()}
    after: dict[Task, list[Task]] = {task: [] for task in needs}
    for task, before in needs.items():
        for other in before:
            after[other].append(task)
    ready = [task for task, count in missing.items() if count == 0]
    for task in ready:  # grows while it is read
        yield task
        for other in after[task]:
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
