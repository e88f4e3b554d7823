"""Starts of runs and transfers in slots: which copies they need, which of them nobody needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from milp_plan.api import FULL, OperatorRun, Plan, Transfer, Value

from .slot_data import SlotData

PLANNER = "memory_slots"

Start = tuple[str, int]


@dataclass(frozen=True)
class Starts:
    """(name, slot) of what starts, each list sorted.

    Parameters
    ----------
    runs
        Runs of operators.
    outs, backs
        Journeys of values to and from the host.
    """

    runs: list[Start]
    outs: list[Start]
    backs: list[Start]


def lying(data: SlotData, starts: Starts, value: Value) -> set[int]:
    """Slots in which a complete copy must lie on the device: from a maker to its last reader."""
    slots, name = data.slots, value.name
    out = data.trip_slots.get(name, (0, 0))[0]
    needed = {
        slot
        for reader, start in starts.runs if reader in value.consumers
        for slot in range(start, start + slots[reader])
    }  # fmt: skip
    needed.update(s for n, t in starts.outs if n == name for s in range(t, t + out))
    complete = {stop for _, stop, _ in makers(data, starts, value)}
    for slot in range(max(needed, default=0), 0, -1):
        if slot in needed and slot not in complete:
            needed.add(slot - 1)
    return needed


def makers(data: SlotData, starts: Starts, value: Value) -> list[tuple[int, int, bool]]:
    """(start, stop, whether it is a transfer) of what makes copies, in order of stops."""
    back = data.trip_slots.get(value.name, (0, 0))[1]
    producer = str(value.producer)
    found = [(t, t + data.slots[producer], False) for n, t in starts.runs if n == producer]
    found += [(t, t + back, True) for n, t in starts.backs if n == value.name]
    return sorted(found, key=lambda maker: (maker[1], maker[2], maker[0]))


def tidied(data: SlotData, starts: Starts) -> Starts:
    """Leave out what makes copies that nobody needs, so that one copy lies there at a time."""
    while True:
        spare = _spare(data, starts)
        if spare is None:
            return starts
        family, index = spare
        lists = {"runs": starts.runs, "outs": starts.outs, "backs": starts.backs}
        kept = list(lists[family])
        kept.remove(index)
        starts = Starts(**{**lists, family: kept})


def _spare(data: SlotData, starts: Starts) -> tuple[str, Start] | None:
    """One start that can be left out; ``None`` if all are needed."""
    counts = Counter(name for name, _ in starts.runs)
    for value in data.read:
        name = value.name
        lies, found = lying(data, starts, value), makers(data, starts, value)
        for place, (start, stop, transfer) in enumerate(found):
            there = any(slot in lies for slot in range(start, stop))
            coming = any(other > start for _, other, _ in found[:place])
            if stop in lies and not there and not coming:
                continue
            if transfer:
                return "backs", (name, start)
            producer = str(value.producer)
            if producer in data.again and counts[producer] > 1:
                return "runs", (producer, start)
        outs = [t for n, t in starts.outs if n == name]
        if outs and not any(n == name for n, _ in starts.backs):
            return "outs", (name, outs[0])
        if len(outs) > 1:
            return "outs", (name, outs[-1])
    return None


def starts_of(data: SlotData, plan: Plan) -> Starts:
    """Starts of a plan, moved back to slots; values that hold nothing need not leave."""
    grain, host = data.grain, data.host
    runs = sorted((run.operator, (run.start_ticks or 0) // grain) for run in plan.runs)
    outs: list[Start] = []
    backs: list[Start] = []
    for transfer in plan.transfers:
        if transfer.value in data.trips:
            start = (transfer.value, (transfer.start_ticks or 0) // grain)
            (outs if transfer.target == (host,) else backs).append(start)
    return Starts(runs, sorted(outs), sorted(backs))


def plan_of(data: SlotData, starts: Starts) -> Plan:
    """Return the plan with these starts."""
    problem, grain, device, host = data.problem, data.grain, data.device, str(data.host)
    runs = []
    for name, slot in sorted(starts.runs, key=lambda start: start[1]):
        option = problem.graph.operator(name).options[0].name
        times = slot * grain, slot * grain + data.ticks[name]
        runs.append(OperatorRun(name, option, (device,), *times))
    transfers = []
    for found, ends, way in (
        (starts.outs, (device, host), 0),
        (starts.backs, (host, device), 1),
    ):
        for name, slot in sorted(found, key=lambda start: start[1]):
            times = slot * grain, slot * grain + data.trips[name][way]
            transfers.append(Transfer(name, (ends[0],), (ends[1],), FULL, *times))
    return Plan(problem.name, tuple(runs), tuple(transfers), planner=PLANNER)
