"""Bounds from bytes: what must be in memory at one instant, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from milp_plan.core import PlanningProblem, ceil_div
from milp_plan.core.amounts import needed_and_available, size_text
from milp_plan.core.bound import Bound, Infeasible
from milp_plan.core.budget import Budget

from .binpacking import bins_needed, least_capacity
from .frame import Frame
from .view import plain_separations, scale_for


@dataclass(frozen=True, slots=True)
class Instant:
    """Bytes that lie on all devices together while an operator runs."""

    operator: str
    bytes: int


def total_memory(frame: Frame) -> int | None:
    """Return the bytes of all devices; ``None`` if one has no limit."""
    limits = [device.memory_bytes for device in frame.problem.cluster.devices]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if len(known) == len(limits) else None


def fullest_instant(frame: Frame, budget: Budget) -> Instant | None:
    """Find the operator during which most bytes are sure to lie somewhere.

    Proof: while v runs (for a positive time), every value made by an ancestor of v that v or a
    descendant of v still has to read, or that is kept, has one complete copy at least; v's outputs
    and workspace lie on each of its devices; persistent values lie somewhere all the time.
    Statically, everything lies there together.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    holdings, graph = frame.holdings, frame.problem.graph
    base = sum(holdings.packed)
    if holdings.static:
        name = max(frame.names, key=holdings.beside)
        return Instant(name, base + holdings.beside(name))
    running = [v for v, name in enumerate(frame.names) if holdings.always_runs[name]]
    if not running:
        return None
    reach = plain_separations(frame, budget).through >= 0
    made = [value for value in graph.values if value.producer is not None]
    sizes = [holdings.copy_bytes(value) for value in made]
    unit = scale_for(sum(sizes))
    alive = np.zeros(len(frame.names), dtype=np.int64)
    for value, size in zip(made, sizes, strict=True):
        budget.check()
        assert value.producer is not None
        before = frame.index[value.producer]
        readers = [frame.index[name] for name in value.consumers]
        through = reach[before] & (value.is_kept | reach[:, readers].any(axis=1))
        through[before] = False
        alive[through] += size // unit
    totals = {v: int(alive[v]) * unit + _makes(frame, frame.names[v]) for v in running}
    worst = max(running, key=totals.__getitem__)
    return Instant(frame.names[worst], base + totals[worst])


def _makes(frame: Frame, name: str) -> int:
    """Return the fewest bytes of outputs and workspace, over all devices of the operator's site."""
    graph = frame.problem.graph
    return min(
        option.gang
        * (
            option.workspace_bytes
            + sum(v.bytes[option.layout_written(v.name)] for v in graph.outputs[name])
        )
        for option in graph.operator(name).options
    )


def persistent_obstacle(frame: Frame) -> Infeasible | None:
    """Prove that what lies in memory all the time does not fit, or return ``None``."""
    holdings = frame.holdings
    beside = [max(holdings.beside(frame.names[v]) for v in unit) for unit in frame.units]
    problem, names = frame.problem, frame.unit_names
    return packing_obstacle(problem, names, holdings.packed, beside) or packing_obstacle(
        problem, names, holdings.final, [0] * len(names), "at the end, with results"
    )


def packing_obstacle(
    problem: PlanningProblem,
    names: Sequence[str],
    packed: Sequence[int],
    beside: Sequence[int],
    when: str = "all the time",
) -> Infeasible | None:
    """Prove that units do not fit into the devices whole, or return ``None``.

    Parameters
    ----------
    problem
        Its devices count.
    names, packed, beside
        For each unit its name, the bytes it holds, and the fewest that lie beside those of all
        units on its device at some moment.
    when
        It holds them, in words.

    Notes
    -----
    Proof: units are whole, so their bytes are packed into the devices. While an operator runs,
    its inputs, outputs and workspace lie beside them; so for each amount r, the units that have an
    operator with at least r of these are packed into devices that are smaller by r.
    """
    limits = [device.memory_bytes for device in problem.cluster.devices]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return None
    text = partial(size_text, problem.units)
    for reserve in sorted({0, *beside}):
        chosen = [u for u, number in enumerate(beside) if number >= reserve]
        sizes = [packed[u] for u in chosen]
        room = max(known) - reserve
        left = ""
        if reserve:
            left = f" left when {text(reserve)} are kept for inputs, outputs and workspace"
        worst = max(chosen, key=lambda u: packed[u])
        if packed[worst] > room:
            return Infeasible(
                f"{names[worst]!r} holds {text(packed[worst])} {when} and needs up "
                f"to {text(beside[worst])} beside them, and no device has more than "
                f"{text(max(known))}",
                (names[worst],),
                packed[worst] + reserve,
                max(known),
            )
        free = sum(max(0, limit - reserve) for limit in known)
        if sum(sizes) > free:
            needs, there = needed_and_available(problem.units, sum(sizes), free)
            return Infeasible(
                f"{len(chosen)} groups or operators hold {needs} {when}, and all "
                f"devices together have {there}{left}",
                tuple(names[u] for u in chosen),
                sum(sizes),
                free,
            )
        bins = bins_needed(sizes, room) if room > 0 else 0
        if bins > len(known):
            return Infeasible(
                f"{len(chosen)} groups or operators that hold {text(sum(sizes))} {when} "
                f"cannot be shared out whole: they need at least {bins} devices with "
                f"{text(room)}{left}, and there are {len(known)}",
                tuple(names[u] for u in chosen),
                bins * room,
                len(known) * room,
            )
    return None


def instant_obstacle(frame: Frame, budget: Budget) -> Infeasible | None:
    """Prove that at some instant more bytes must lie in memory than there are, or ``None``."""
    memory = total_memory(frame)
    if memory is None:
        return None
    instant = fullest_instant(frame, budget)
    if instant is None or instant.bytes <= memory:
        return None
    needs, there = needed_and_available(frame.problem.units, instant.bytes, memory)
    return Infeasible(
        f"while operator {instant.operator!r} runs, at least {needs} lie "
        f"in memory, and all devices together have {there}",
        (instant.operator,),
        instant.bytes,
        memory,
    )


def operator_peak(frame: Frame) -> Bound:
    """Return the largest need of one operator.

    Proof: while it runs, each of its devices holds its inputs, outputs and workspace and the
    persistent values of its group.
    """
    holdings = frame.holdings
    needs = [
        min(holdings.running(name, frame.unit[v], s.option, s.duration) for s in frame.states[v])
        for v, name in enumerate(frame.names)
    ]
    worst = max(range(len(needs)), key=needs.__getitem__)
    return Bound("largest operator", needs[worst], f"operator {frame.names[worst]!r} while it runs")


def persistent_peak(frame: Frame) -> Bound:
    """Share out persistent bytes whole.

    Proof: bin packing of units into devices as large as the peak; beside every unit lies at
    least what the most modest operator needs, so that much is added. At the end, results lie
    beside them instead.
    """
    holdings = frame.holdings
    devices = len(frame.problem.cluster.devices)
    beside = [max(holdings.beside(frame.names[v]) for v in unit) for unit in frame.units]
    best = Bound("persistent bytes", 0, "nothing is persistent")
    for reserve in sorted({0, *beside}):
        sizes = [holdings.packed[u] for u, number in enumerate(beside) if number >= reserve]
        value = reserve + least_capacity(sizes, devices)
        if value > best.value:
            best = Bound(
                "persistent bytes",
                value,
                f"{len(sizes)} groups or operators on {devices} devices, "
                f"{frame.size_text(reserve)} beside",
            )
    value = least_capacity(list(holdings.final), devices)
    if value > best.value:
        return Bound("results", value, f"with persistent bytes on {devices} devices at the end")
    return best


def instant_peak(frame: Frame, budget: Budget) -> Bound | None:
    """Return the bytes alive at one instant, spread evenly (see :func:`fullest_instant`)."""
    instant = fullest_instant(frame, budget)
    if instant is None:
        return None
    devices = len(frame.problem.cluster.devices)
    return Bound(
        "bytes alive",
        ceil_div(instant.bytes, devices),
        f"{frame.size_text(instant.bytes)} on {devices} devices while {instant.operator!r} runs",
    )
