"""The objective and its components, recomputed from the plan alone in exact integers."""

from __future__ import annotations

from milp_plan.core import Objective, Passes

from . import serial
from .lengths import transfer_ticks
from .reading import Distribution, Journey, Reading, Run
from .replay import DeviceMemory

MAKESPAN = "makespan"
"""Latest stop of an operator, in ticks; absent without a schedule."""
SPAN = "span"
"""Longest time from first start to last stop on one device, in ticks; ``span DEVICE`` is the part
of one device that runs anything."""
PEAK_MEMORY = "peak_memory"
"""Largest sum on any device in bytes; ``peak_memory DEVICE`` is the part of one device."""
BOTTLENECK = "bottleneck"
"""Largest busy time in ticks; ``busy RESOURCE`` is that of one device, channel or port."""
LATENCY = "latency"
"""Time until everything is there under the serial law with calls; ``stop DEVICE call N`` is that
of one call."""


def components(reading: Reading, memories: dict[str, DeviceMemory]) -> dict[str, int]:
    """Every figure that can be computed from the plan.

    Totals (``makespan``, ``span``, ``peak_memory``, ``bottleneck``) stand only where no part of
    the plan is missing; the parts per device, channel and port always stand, for what it holds.
    """
    found: dict[str, int] = {}
    facts = reading.facts
    placed = all(name in reading.runs for name in facts.operators)
    if facts.problem.serial is not None:
        return _serial_components(reading, memories, placed)
    timed = placed and all(run.times is not None for run in reading.counted)
    timed = timed and all(journey.times is not None for journey in reading.journeys)
    if timed:
        found[MAKESPAN] = max(run.times[1] for run in reading.counted if run.times)
        spans = _spans(reading)
        found[SPAN] = max(spans.values())
        found |= {f"{SPAN} {name}": ticks for name, ticks in spans.items()}
    if timed or (placed and not reading.scheduled):
        found[PEAK_MEMORY] = max(memory.peak_bytes for memory in memories.values())
    busy, known = _busy(reading)
    if placed and known:
        found[BOTTLENECK] = max(busy.values())
    found |= {f"{PEAK_MEMORY} {name}": memory.peak_bytes for name, memory in memories.items()}
    found |= {f"busy {name}": ticks for name, ticks in busy.items()}
    return found


def _serial_components(
    reading: Reading, memories: dict[str, DeviceMemory], placed: bool
) -> dict[str, int]:
    """Figures under the serial law: loads of devices, or times of calls."""
    found: dict[str, int] = {}
    loads = serial.loads(reading)
    line = serial.timeline(reading)
    if placed:
        found[PEAK_MEMORY] = max(memory.peak_bytes for memory in memories.values())
        if serial.law_of(reading).calls is None:
            found[BOTTLENECK] = serial.bottleneck(reading, loads)
        elif not line.waiting:
            found[LATENCY] = max(line.ready.values())
    found |= {f"{PEAK_MEMORY} {name}": memory.peak_bytes for name, memory in memories.items()}
    for (device, call), load in loads.items():
        where = device if call is None else f"{device} call {call}"
        found[f"load {where}"] = load.total
        if serial.law_of(reading).passes is Passes.SEPARATE:
            found |= {f"forward {where}": load.of_pass(False)}
            found |= {f"backward {where}": load.of_pass(True)}
    found |= {f"stop {device} call {call}": span[1] for (device, call), span in line.calls.items()}
    return found


def objective_value(objective: Objective, figures: dict[str, int]) -> int | None:
    """Pick the figure the objective asks for; ``None`` where the plan is too broken for it."""
    names = {
        Objective.MAKESPAN: MAKESPAN,
        Objective.SPAN: SPAN,
        Objective.PEAK_MEMORY: PEAK_MEMORY,
        Objective.BOTTLENECK: BOTTLENECK,
        Objective.LATENCY: LATENCY,
    }
    return figures.get(names[objective])


def _spans(reading: Reading) -> dict[str, int]:
    """Time from first start to last stop, of every device that runs anything."""
    ends: dict[str, tuple[int, int]] = {}
    for run in reading.counted:
        if run.times is None:
            continue
        for device in run.site:
            first, last = ends.get(device, run.times)
            ends[device] = (min(first, run.times[0]), max(last, run.times[1]))
    return {device: last - first for device, (first, last) in ends.items()}


def _busy(reading: Reading) -> tuple[dict[str, int], bool]:
    """Busy time per resource, and whether the length of every task is known."""
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
        held = reading.facts.held(journey.source, journey.target)
        length = _journey_length(reading, journey, made.get(journey.transfer.value))
        if length is None:
            known = False
            continue
        for name in held:
            busy[name] = busy.get(name, 0) + length
    return busy, known


def _run_length(reading: Reading, run: Run) -> int | None:
    """Take the plan's own times where it gives them, else the law's."""
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
