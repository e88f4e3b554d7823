"""Explains verdicts in words: violations with amounts, or the figures of a valid plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from milp_plan.core import Plan, PlanningProblem, Units, Verdict
from milp_plan.core.amounts import size_text, time_text, value_text

from . import serial
from .chain import Link, critical_chain
from .evaluate import MAKESPAN, components
from .facts import Facts
from .reading import Reading, Run
from .replay import DeviceMemory, Tape
from .verify import verify

_LINKS = 20
_CHANNELS = 5
_NAMES = 6

_CAUSES = {
    "value": ", needs the output of {}",
    "device": ", its device is busy with {}",
    "channel": ", its channel is busy with {}",
    "memory": " for memory",
    "unknown": "",
    "start": "",
}
"""Why a task of the chain does not start earlier, after the text of its wait."""


def explain(problem: PlanningProblem, plan: Plan, verdict: Verdict | None = None) -> str:
    """Return an explanation of a plan in plain text.

    Parameters
    ----------
    problem, plan
        The problem and the plan.
    verdict
        The plan's verdict, if the caller already has it.

    Returns
    -------
    str
        For an invalid plan all violations, by rule. For a valid one its objective, each device's
        busy time and memory, the busiest channels or ports, and the critical chain.
    """
    verdict = verify(problem, plan) if verdict is None else verdict
    lines = _broken(problem.units, verdict) if not verdict.ok else _valid(problem, plan, verdict)
    return "\n".join(lines)


def _broken(units: Units, verdict: Verdict) -> Iterator[str]:
    rules = Counter(violation.rule for violation in verdict.violations)
    count = len(verdict.violations)
    yield f"not valid: {count} violation{'' if count == 1 else 's'} of {', '.join(rules)}"
    for rule, number in rules.items():
        yield f"{rule} ({number})"
        for violation in verdict.violations:
            if violation.rule == rule:
                yield f"  {violation.message}"
                if amounts := violation.amounts(units):
                    yield f"    {amounts}"


def _valid(problem: PlanningProblem, plan: Plan, verdict: Verdict) -> Iterator[str]:
    reading = Reading(Facts(problem), plan)
    memories = Tape(reading).memories()
    figures = components(reading, memories)
    units = problem.units
    yield f"valid: {verdict.objective} {value_text(problem, verdict.value)}"
    if problem.serial is not None:
        yield from _serial(reading, memories)
        return
    yield "devices"
    makespan = figures.get(MAKESPAN)
    for name, memory in memories.items():
        busy = figures[f"busy {name}"]
        text = f"busy {time_text(units, busy)}{_share(busy, makespan)}"
        when = time_text(units, memory.peak_ticks)
        yield f"  {name}: {text}, peak memory {_memory(units, memory)} at {when}"
    yield from _memory_saving(reading)
    yield from _channels(units, figures, set(memories), makespan)
    yield from _chain(units, critical_chain(problem, plan), makespan)


def _memory_saving(reading: Reading) -> Iterator[str]:
    """Yield lines on operators that run again, with their total time, and values on hosts."""
    units, hosts = reading.facts.problem.units, reading.facts.cluster.hosts
    again = [run for runs in reading.runs_of.values() for run in sorted(runs, key=_start)[1:]]
    if again:
        ticks = sum(run.times[1] - run.times[0] for run in again if run.times)
        names = list(dict.fromkeys(run.operator for run in again))
        yield f"runs again: {len(again)}, {time_text(units, ticks)} in all: {_some(names)}"
    trips = [j for j in reading.journeys if not hosts.isdisjoint((*j.source, *j.target))]
    if trips:
        names = list(dict.fromkeys(journey.transfer.value for journey in trips))
        out = [journey for journey in trips if not hosts.isdisjoint(journey.target)]
        number = f"{len(names)} value{'' if len(names) == 1 else 's'}"
        back = len(trips) - len(out)
        yield f"on hosts: {number}, {len(out)} times out and {back} back: {_some(names)}"


def _start(run: Run) -> int:
    return run.times[0] if run.times else 0


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _serial(reading: Reading, memories: dict[str, DeviceMemory]) -> Iterator[str]:
    """Yield lines on loads, memory, and for latency the times of calls."""
    units = reading.facts.problem.units

    def text(ticks: int) -> str:
        return time_text(units, ticks)

    yield "loads (work, received, sent)"
    loads = serial.loads(reading).items()
    for (device, call), load in sorted(loads, key=lambda entry: (entry[0][0], entry[0][1] or 0)):
        parts = (sum(part.values()) for part in (load.work, load.incoming, load.outgoing))
        where = device if call is None else f"{device} call {call}"
        yield f"  {where}: {text(load.total)} ({', '.join(map(text, parts))})"
    yield "memory"
    for name, memory in memories.items():
        yield f"  {name}: {_memory(units, memory)}"
    line = serial.timeline(reading)
    if line.calls:
        yield "calls"
        for (device, call), (start, stop) in sorted(line.calls.items(), key=lambda entry: entry[1]):
            yield f"  {text(start)} to {text(stop)}: {device} call {call}"


def _share(part: int, whole: int | None) -> str:
    return f" ({100 * part // whole} %)" if whole else ""


def _memory(units: Units, memory: DeviceMemory) -> str:
    limit = "no limit"
    if memory.limit_bytes is not None:
        limit = f"limit {size_text(units, memory.limit_bytes)}"
    return f"{size_text(units, memory.peak_bytes)} ({limit})"


def _channels(
    units: Units, figures: dict[str, int], devices: set[str], makespan: int | None
) -> Iterator[str]:
    prefix = "busy "
    used = [
        (ticks, name.removeprefix(prefix))
        for name, ticks in figures.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in devices
    ]
    if used:
        yield "busiest channels or ports"
        for ticks, name in sorted(used, key=lambda entry: (-entry[0], entry[1]))[:_CHANNELS]:
            yield f"  {name}: busy {time_text(units, ticks)}{_share(ticks, makespan)}"


def _chain(units: Units, links: tuple[Link, ...], makespan: int | None) -> Iterator[str]:
    if not links:
        return
    shares: Counter[str] = Counter()
    for link in links:
        shares["+".join(link.resources) or "in flight"] += link.stop_ticks - link.start_ticks
        shares["waiting"] += link.waited_ticks
    cut = f", the last {_LINKS}" if len(links) > _LINKS else ""
    yield f"critical chain: {len(links)} task{'' if len(links) == 1 else 's'}{cut}"
    parts = [
        f"{name} {time_text(units, ticks)}{_share(ticks, makespan)}"
        for name, ticks in shares.most_common()
        if ticks
    ]
    yield f"  time on it: {', '.join(parts)}"
    for link in links[-_LINKS:]:
        place = f"on {'+'.join(link.resources)}" if link.resources else "in flight"
        waited = (
            f", after a wait of {time_text(units, link.waited_ticks)}" if link.waited_ticks else ""
        )
        times = f"{time_text(units, link.start_ticks)} to {time_text(units, link.stop_ticks)}"
        yield f"  {times}: {link.name} {place}{waited}{_CAUSES[link.cause].format(link.behind)}"
