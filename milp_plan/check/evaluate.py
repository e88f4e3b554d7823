"""The objective and its components, recomputed from the plan in exact integers."""

from __future__ import annotations

from milp_plan.core import Objective, Passes

from . import serial
from .lengths import transfer_ticks
from .reading import Distribution, Journey, Reading, Run
from .replay import DeviceMemory

MAKESPAN = "makespan"
"""Latest stop of an operator, in ticks; absent without a schedule."""
SPAN = "span"
"""Longest time from first start to last stop on one device, in ticks; ``span DEVICE`` is that of
one device that runs something."""
PEAK_MEMORY = "peak_memory"
"""Largest memory use of any device in bytes; ``peak_memory DEVICE`` is that of one device."""
BOTTLENECK = "bottleneck"
"""Largest busy time in ticks; ``busy RESOURCE`` is that of one device, channel or port."""
LATENCY = "latency"
"""Time until all values are available under the serial law with calls; ``stop DEVICE call N`` is
the end of one call."""


def components(reading: Reading, memories: dict[str, DeviceMemory]) -> dict[str, int]:
    """Return all figures that can be computed from the plan.

    Totals (``makespan``, ``span``, ``peak_memory``, ``bottleneck``) are present only if no part of
    the plan is missing; figures per device, channel and port are always present.
    """
    figures: dict[str, int] = {}
    facts = reading.facts
    placed = all(name in reading.runs for name in facts.operators)
    if facts.problem.serial is not None:
        return _serial_components(reading, memories, placed)
    timed = placed and all(run.times is not None for run in reading.counted)
    timed = timed and all(journey.times is not None for journey in reading.journeys)
    if timed:
        figures[MAKESPAN] = max(run.times[1] for run in reading.counted if run.times)
        spans = _spans(reading)
        figures[SPAN] = max(spans.values())
        figures |= {f"{SPAN} {name}": ticks for name, ticks in spans.items()}
    if timed or (placed and not reading.scheduled):
        figures[PEAK_MEMORY] = max(memory.peak_bytes for memory in memories.values())
    busy, known = _busy(reading)
    if placed and known:
        figures[BOTTLENECK] = max(busy.values())
    figures |= {f"{PEAK_MEMORY} {name}": memory.peak_bytes for name, memory in memories.items()}
    figures |= {f"busy {name}": ticks for name, ticks in busy.items()}
    return figures


def _serial_components(
    reading: Reading, memories: dict[str, DeviceMemory], placed: bool
) -> dict[str, int]:
    """Return figures under the serial law: loads of devices, or times of calls."""
    figures: dict[str, int] = {}
    loads = serial.loads(reading)
    line = serial.timeline(reading)
    if placed:
        figures[PEAK_MEMORY] = max(memory.peak_bytes for memory in memories.values())
        if serial.law_of(reading).calls is None:
            figures[BOTTLENECK] = serial.bottleneck(reading, loads)
        elif not line.waiting:
            figures[LATENCY] = max(line.ready.values())
    figures |= {f"{PEAK_MEMORY} {name}": memory.peak_bytes for name, memory in memories.items()}
    for (device, call), load in loads.items():
        where = device if call is None else f"{device} call {call}"
        figures[f"load {where}"] = load.total
        if serial.law_of(reading).passes is Passes.SEPARATE:
            figures |= {f"forward {where}": load.of_pass(False)}
            figures |= {f"backward {where}": load.of_pass(True)}
    figures |= {
        f"stop {device} call {call}": span[1] for (device, call), span in line.calls.items()
    }
    return figures


def objective_value(objective: Objective, figures: dict[str, int]) -> int | None:
    """Return the figure of an objective; ``None`` if the plan is too broken to have one."""
    names = {
        Objective.MAKESPAN: MAKESPAN,
        Objective.SPAN: SPAN,
        Objective.PEAK_MEMORY: PEAK_MEMORY,
        Objective.BOTTLENECK: BOTTLENECK,
        Objective.LATENCY: LATENCY,
    }
    return figures.get(names[objective])


def _spans(reading: Reading) -> dict[str, int]:
    """Return the time from first start to last stop of every device that runs something."""
    ends: dict[str, tuple[int, int]] = {}
    for run in reading.counted:
        if run.times is None:
            continue
        for device in run.site:
            first, last = ends.get(device, run.times)
            ends[device] = (min(first, run.times[0]), max(last, run.times[1]))
    return {device: last - first for device, (first, last) in ends.items()}


def _busy(reading: Reading) -> tuple[dict[str, int], bool]:
    """Return the busy time per resource, and whether the length of every task is known."""
    busy = dict.fromkeys(reading.facts.limits, 0)
    known = True
    for run in reading.counted:
        length = _run_length(reading, run)
        if length is None:
            known = False
            continue
        for device in run.site:
            busy[device] += length
    made = {entry.value.name: entry for entry in reading.distributions}
    for journey in reading.journeys:
        resources = reading.facts.occupied(journey.source, journey.target)
        length = _journey_length(reading, journey, made.get(journey.transfer.value))
        if length is None:
            known = False
            continue
        for name in resources:
            busy[name] = busy.get(name, 0) + length
    return busy, known


def _run_length(reading: Reading, run: Run) -> int | None:
    """Return the length of a run by the plan's times, or by the law where it has none."""
    if run.times is not None:
        return run.times[1] - run.times[0]
    return reading.facts.duration_ticks(run.operator, run.option, run.site)


def _journey_length(
    reading: Reading, journey: Journey, distribution: Distribution | None
) -> int | None:
    if journey.times is not None:
        return journey.times[1] - journey.times[0]
    if distribution is None:
        return None
    made = (distribution.producer.site, distribution.layout)
    copy = (journey.target, journey.layout)
    cluster = reading.facts.cluster
    return transfer_ticks(cluster, distribution.value, made, journey.source, copy)
