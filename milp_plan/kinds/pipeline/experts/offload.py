"""Selective offload of a pipeline's activations, by rule.

Source: PipeOffload (arXiv 2503.01328). An activation travels for free if the round trip is no
longer than the time between its forward and its backward pass on that stage; those that are held
longest go first, which are those of the early stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.planners.planner import seedless

from ..holds import Held, OffloadShop, Trips, read_offload
from ..template import BACKWARD, FORWARD, JOINT, WEIGHT

_LAST = {BACKWARD: 0, JOINT: 0, FORWARD: 1, WEIGHT: 2}
_SOON = {BACKWARD: 1, JOINT: 1, FORWARD: 2, WEIGHT: 0}
"""Ranks of kinds: weight gradients fill gaps, or release memory at once."""


def in_flight_schedule(
    shop: OffloadShop, limit: int, *, weights_last: bool = True
) -> dict[str, int] | None:
    """Starts of a list schedule that ignores memory but bounds what is in flight.

    Whenever a device is free it takes, of the steps whose inputs are there, an input gradient,
    else a forward pass, else a weight gradient, the earliest micro-batch first. A forward pass
    starts only while fewer than ``limit`` others of the device wait for their last step. Without
    ``weights_last`` a weight gradient goes before all others.

    Returns
    -------
    dict or None
        Step -> start, ticks; ``None`` if everything waits for a forward pass that may not start.
    """
    graph = shop.problem.graph
    rank = _LAST if weights_last else _SOON
    kind = {name: graph.operator(name).kind for name in shop.steps}
    waits: dict[str, list[tuple[str, int]]] = {name: [] for name in shop.steps}
    for before, after, lag in shop.arcs:
        waits[after].append((before, lag))
    closes = {h.producer: h.last for h in shop.held.values()}
    closes.update(
        {item.producer: item.last for item in shop.items if kind[item.producer] == FORWARD}
    )
    left = {device: list(names) for device, names in shop.on_device.items()}
    free = dict.fromkeys(left, 0)
    starts: dict[str, int] = {}
    stops: dict[str, int] = {}

    def ready(name: str) -> int | None:
        if any(before not in stops for before, _ in waits[name]):
            return None
        return max((stops[b] + lag for b, lag in waits[name]), default=0)

    while any(left.values()):
        offers = []
        for device, names in left.items():
            flying = [f for f, last in closes.items() if f in starts and last not in starts
                      and shop.steps[f].device == device]  # fmt: skip
            for place, name in enumerate(names):
                if kind[name] == FORWARD and len(flying) >= limit:
                    continue
                moment = ready(name)
                if moment is not None:
                    batch = shop.steps[name].micro_batch or 0
                    begin = max(moment, free[device])
                    offers.append((begin, rank.get(kind[name], 1), batch, place, name))
        if not offers:
            return None
        begin, *_, name = min(offers)
        device = shop.steps[name].device
        starts[name] = begin
        stops[name] = free[device] = begin + shop.steps[name].ticks
        left[device].remove(name)
    return starts


def list_schedules(shop: OffloadShop) -> list[dict[str, int]]:
    """List schedules with 1, 2, ... micro-batches in flight per device, both ranks of weights."""
    batches = {step.micro_batch for step in shop.steps.values()}
    found = [
        in_flight_schedule(shop, limit, weights_last=last)
        for limit in range(1, len(batches) + 1) for last in (True, False)
    ]  # fmt: skip
    return [starts for starts in found if starts is not None]


def usage_peak(shop: OffloadShop, device: str, starts: Mapping[str, int], trips: Trips) -> int:
    """Largest number of bytes on a device beside persistent values."""
    changes: list[tuple[int, int]] = []

    def lies(size: int, begin: int, end: int) -> None:
        if begin < end:
            changes.extend([(begin, size), (end, -size)])

    def stop(name: str) -> int:
        return starts[name] + shop.steps[name].ticks

    for item in shop.items:
        if item.device == device:
            lies(item.bytes, starts[item.producer], stop(item.last))
    for held in shop.held.values():
        if held.device != device:
            continue
        begin, end = starts[held.producer], stop(held.last)
        if held.value in trips:
            out, back = trips[held.value]
            gone = max([out + held.out_ns, *(stop(n) for n in held.near)])
            lies(held.bytes, begin, gone)
            lies(held.bytes, back, end)
        else:
            lies(held.bytes, begin, end)
    peak = now = 0
    for _, size in sorted(changes):
        now += size
        peak = max(peak, now)
    return peak


def free_trips(shop: OffloadShop, starts: Mapping[str, int]) -> dict[str, tuple[int, int]] | None:
    """Journeys that cost no time and bring every device under its limit; ``None`` if none do.

    Holds are tried in order of how long they are held, longest first; one is taken if all journeys
    of its device still fit between producers and readers, until the device fits.
    """
    trips: dict[str, tuple[int, int]] = {}
    for device, limit in shop.limits.items():
        groups = [hold.held for hold in shop.holds if hold.held[0].device == device]
        groups.sort(key=lambda group: -min(_gap(shop, starts, held) for held in group))
        taken: list[Held] = []
        here: dict[str, tuple[int, int]] = {}
        for group in [(), *groups]:
            found = _on_lanes(shop, starts, [*taken, *group])
            if found is not None:
                taken, here = [*taken, *group], found
                if usage_peak(shop, device, starts, here) <= limit:
                    break
        else:
            return None
        trips.update(here)
    return trips


def _stop(shop: OffloadShop, starts: Mapping[str, int], held: Held) -> int:
    return starts[held.producer] + shop.steps[held.producer].ticks


def _due(starts: Mapping[str, int], held: Held) -> int:
    return min(starts[reader] for reader in held.readers)


def _gap(shop: OffloadShop, starts: Mapping[str, int], held: Held) -> int:
    """Time between forward and backward pass less the round trip."""
    return _due(starts, held) - _stop(shop, starts, held) - held.out_ns - held.back_ns


def _on_lanes(
    shop: OffloadShop, starts: Mapping[str, int], taken: Iterable[Held]
) -> dict[str, tuple[int, int]] | None:
    """Journeys out as early and back as late as possible; ``None`` if one would be late."""
    outs: dict[str, int] = {}
    busy: dict[str, int] = {}
    for held in sorted(taken, key=lambda h: _stop(shop, starts, h)):
        lane = held.lanes[0]
        outs[held.value] = max(_stop(shop, starts, held), busy.get(lane, 0))
        busy[lane] = outs[held.value] + held.out_ns
    found: dict[str, tuple[int, int]] = {}
    until: dict[str, int] = {}
    for held in sorted(taken, key=lambda h: -_due(starts, h)):
        lane = held.lanes[1]
        due = min(_due(starts, held), until.get(lane, _due(starts, held)))
        until[lane] = back = due - held.back_ns
        near = max((starts[n] + shop.steps[n].ticks for n in held.near), default=0)
        if back < max(outs[held.value] + held.out_ns, near):
            return None
        found[held.value] = (outs[held.value], back)
    return found


def expert_plan(shop: OffloadShop) -> Plan | None:
    """Best of the list schedules whose memory the rule can bring under the limits."""
    best: tuple[int, Plan] | None = None
    for starts in list_schedules(shop):
        trips = free_trips(shop, starts)
        if trips is not None:
            plan = shop.plan(starts, trips, "offload")
            if best is None or plan.stop_ns < best[0]:
                best = plan.stop_ns, plan
    return None if best is None else best[1]


@seedless
def offload(problem: PlanningProblem) -> Plan | None:
    """List schedule with PipeOffload's selective offload; ``None`` where it has no lanes.

    Source: PipeOffload, arXiv 2503.01328 (the rule, not its code).
    """
    shop = read_offload(problem)
    return None if isinstance(shop, str) else expert_plan(shop)
