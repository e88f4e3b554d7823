"""The event replay against the memory law read instant by instant."""

from math import inf

import pytest

from milp_plan.check import replay
from milp_plan.core import FULL, MemoryLaw
from tests.support.plans import planted


def _native(problem, plan, value):
    """Return the site and layout of the native copy of a value."""
    producer = plan.run(value.producer)
    option = problem.graph.operator(value.producer).option(producer.option)
    return producer, option.layout_written(value.name)


def _reads(problem, plan, value, device):
    """Yield (run, transfer target or None) for everyone who reads a value on a device."""
    producer, layout = _native(problem, plan, value)
    for name in value.consumers:
        run = plan.run(name)
        wanted = problem.graph.operator(name).option(run.option).layout_read(value.name)
        if device not in run.devices:
            continue
        if wanted == layout and run.devices == producer.devices:
            yield run, None
        elif wanted == layout == FULL:
            yield run, None if device in producer.devices else (device,)
        else:
            yield run, run.devices


def _is_result(value):
    """Whether a value stays: as it is marked, else exactly if nobody reads it."""
    return not value.consumers if value.kept is None else value.kept


def _held_at(problem, plan, device, instant):
    """Sum a device at one instant, word for word as docs/laws.md has it."""
    total = 0
    for value in problem.graph.values:
        if value.persistent:
            options = [
                problem.graph.operator(name).option(plan.run(name).option)
                for name in value.consumers
                if device in plan.run(name).devices
            ]
            layouts = {option.layout_read(value.name) for option in options}
            total += sum(value.bytes[layout] for layout in layouts)
            continue
        producer, layout = _native(problem, plan, value)
        reads = list(_reads(problem, plan, value, device))
        transfers = [t for t in plan.transfers if t.value == value.name]
        if device in producer.devices:
            ends = [producer.stop_ticks]
            ends += [run.stop_ticks for run, target in reads if target is None]
            ends += [t.stop_ticks for t in transfers if device in t.source]
            ends += [inf] if _is_result(value) else []
            total += value.bytes[layout] * (producer.start_ticks <= instant < max(ends))
        for transfer in transfers:
            if device in transfer.target:
                ends = [run.stop_ticks for run, target in reads if target == transfer.target]
                held = transfer.start_ticks <= instant < max([transfer.stop_ticks, *ends])
                total += value.bytes[transfer.layout] * held
    for run in plan.runs:
        if device in run.devices and run.start_ticks <= instant < run.stop_ticks:
            total += problem.graph.operator(run.operator).option(run.option).workspace_bytes
    return total


def _timed(seeds):
    cases = [planted(seed) for seed in seeds]
    return [case for case in cases if case.problem.memory_law is MemoryLaw.INSTANT]


def test_enough_plans_have_a_clock():
    assert len(_timed(range(60))) >= 30


@pytest.mark.parametrize("case", _timed(range(60)), ids=lambda case: case.problem.name)
def test_replay_is_the_law_at_every_instant(case):
    for device, memory in replay(case.problem, case.plan).devices.items():
        held = [
            _held_at(case.problem, case.plan, device, instant)
            for instant in range(case.plan.stop_ticks + 1)
        ]
        steps = dict(memory.steps)
        now = steps[0]
        for instant, expected in enumerate(held):
            now = steps.get(instant, now)
            assert now == expected, f"{device} at {instant}"
        assert memory.peak_bytes == max(held)
        assert memory.peak_ticks == held.index(max(held))
        results = [
            (case.plan.run(value.producer), value)
            for value in case.problem.graph.values
            if value.producer is not None and _is_result(value)
        ]
        lasting = sum(
            value.bytes[_native(case.problem, case.plan, value)[1]]
            for run, value in results
            if device in run.devices
        )
        assert held[-1] == memory.persistent_bytes + lasting == memory.steps[-1][1]
        times = [time for time, _ in memory.steps]
        assert times == sorted(set(times))
        assert all(type(number) is int for step in memory.steps for number in step)
