"""Compiled loops of the annealing search: net counters, moves, acceptance.

A net is charged to a payer that holds some but not all of its classes, so the number of its
classes on each device suffices. Loads are stored for two passes; a search on their sum leaves the
second at zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from milp_plan.core.compiled import compiled, copy_into

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ClassArrays(NamedTuple):
    """A problem in arrays.

    ``work[pass, on a host or not, class]``; ``memory[device]``; nets of a class are
    ``nets[net_start[class]:net_start[class + 1]]``, classes of a net likewise in ``pins``; a net
    costs ``cost`` in its ``turn`` (pass). The first ``payers`` devices pay.
    """

    work: Floats
    size: Floats
    memory: Floats
    net_start: Ints
    nets: Ints
    pin_start: Ints
    pins: Ints
    cost: Floats
    turn: Ints
    payers: int


class PlacedClasses(NamedTuple):
    """Places of the classes, with the resulting loads and counters."""

    places: Ints
    inside: Ints
    loads: Floats
    held: Floats


class Cooling(NamedTuple):
    """A cooling schedule: temperatures in units of time, powers of the energy, seed of moves."""

    steps: int
    hot: float
    cold: float
    soft: float
    hard: float
    seed: int


@compiled
def fill(tables: ClassArrays, state: PlacedClasses) -> None:
    """Set counters, loads and bytes from the places."""
    payers = tables.payers
    state.inside[:] = 0
    state.loads[:] = 0.0
    state.held[:] = 0.0
    for number in range(len(state.places)):
        device = state.places[number]
        state.held[device] += tables.size[number]
        for turn in range(2):
            state.loads[turn, device] += tables.work[turn, int(device >= payers), number]
    for net in range(len(tables.cost)):
        all_pins = tables.pin_start[net + 1] - tables.pin_start[net]
        for at in range(tables.pin_start[net], tables.pin_start[net + 1]):
            state.inside[net, state.places[tables.pins[at]]] += 1
        for device in range(payers):
            if 0 < state.inside[net, device] < all_pins:
                state.loads[tables.turn[net], device] += tables.cost[net]


@compiled
def shift(tables: ClassArrays, state: PlacedClasses, number: int, target: int) -> None:
    """Move one class, with everything that follows."""
    payers, loads, count = tables.payers, state.loads, state.inside
    source = state.places[number]
    if source == target:
        return
    state.places[number] = target
    state.held[source] -= tables.size[number]
    state.held[target] += tables.size[number]
    for turn in range(2):
        loads[turn, source] -= tables.work[turn, int(source >= payers), number]
        loads[turn, target] += tables.work[turn, int(target >= payers), number]
    for at in range(tables.net_start[number], tables.net_start[number + 1]):
        net = tables.nets[at]
        all_pins = tables.pin_start[net + 1] - tables.pin_start[net]
        turn, cost = tables.turn[net], tables.cost[net]
        left, came = count[net, source] - 1, count[net, target] + 1
        count[net, source], count[net, target] = left, came
        if source < payers:
            if left == all_pins - 1:
                loads[turn, source] += cost
            elif left == 0:
                loads[turn, source] -= cost
        if target < payers:
            if came == all_pins:
                loads[turn, target] -= cost
            elif came == 1:
                loads[turn, target] += cost


@compiled
def energy(loads: Floats, power: float) -> float:
    """Sum over the passes of the power norm of the loads."""
    total = 0.0
    for turn in range(2):
        top = loads[turn].max()
        if top > 0.0:
            part = 0.0
            for device in range(loads.shape[1]):
                ratio = loads[turn, device] / top
                if ratio > 0.02:
                    part += ratio**power
            total += top * part ** (1.0 / power)
    return total


@compiled
def grow(tables: ClassArrays, state: PlacedClasses, moved: Ints) -> int:
    """Collect a connected set around ``moved[0]`` on its device; return its size."""
    many, goal, source = 1, 2, state.places[moved[0]]
    while goal < len(moved) - 1 and np.random.random() < 0.8:
        goal += 1
    for _ in range(4 * goal):
        near = moved[np.random.randint(many)]
        if many == goal or tables.net_start[near + 1] == tables.net_start[near]:
            break
        net = tables.nets[np.random.randint(tables.net_start[near], tables.net_start[near + 1])]
        other = tables.pins[np.random.randint(tables.pin_start[net], tables.pin_start[net + 1])]
        if state.places[other] == source and not (moved[:many] == other).any():
            moved[many] = other
            many += 1
    return many


@compiled
def anneal(  # noqa: C901, PLR0912, PLR0915, PLR0917 (one loop; calls would cost as much as steps)
    tables: ClassArrays,
    state: PlacedClasses,
    best: Ints,
    best_value: float,
    order: Ints,
    spans: Ints,
    heat: Cooling,
) -> float:
    """Anneal for some steps; ``state`` goes along, ``best`` receives the best places.

    Parameters
    ----------
    order, spans
        Classes in an order of which some stretches ``[start, stop)`` tend to belong together.

    Returns
    -------
    float
        Value of the best places.
    """
    np.random.seed(heat.seed)
    places, loads, held = state.places, state.loads, state.held
    devices, classes, all_nets = len(tables.memory), len(places), len(tables.cost)
    moved = np.empty(classes + 1, dtype=np.int64)
    origin = np.empty(classes + 1, dtype=np.int64)
    saved = np.empty_like(loads)
    cooling = (heat.cold / heat.hot) ** (1.0 / max(1, heat.steps))
    stiffening = (heat.hard / heat.soft) ** (1.0 / max(1, heat.steps))
    temperature, power = heat.hot, heat.soft
    now = energy(loads, power)
    for step in range(heat.steps):
        temperature *= cooling
        if step % 64 == 0:
            power = heat.soft * stiffening**step
            now = energy(loads, power)
        first, target = np.random.randint(classes), np.random.randint(devices)
        if np.random.random() < 0.7:
            for _ in range(12):  # look for a net that is cut: an end of it changes sides
                net = np.random.randint(all_nets) if all_nets else 0
                if all_nets == 0 or np.random.random() < 0.02:
                    break
                low, high = tables.pin_start[net], tables.pin_start[net + 1]
                one = tables.pins[np.random.randint(low, high)]
                two = tables.pins[np.random.randint(low, high)]
                if places[one] != places[two]:
                    first, target = one, places[two]
                    break
        many = 1
        moved[0] = first
        draw = np.random.random()
        if draw < 0.2 and len(spans):
            span = np.random.randint(len(spans))
            many = 0
            for at in range(spans[span, 0], spans[span, 1]):
                if places[order[at]] != target:
                    moved[many] = order[at]
                    many += 1
            if many == 0:
                continue
        elif target == places[first]:
            continue
        elif draw < 0.45:
            many = grow(tables, state, moved[:40])
        side, able = int(target >= tables.payers), True
        for at in range(many):
            able = able and tables.work[0, side, moved[at]] < np.inf
        if not able:
            continue
        copy_into(loads[0], saved[0])
        copy_into(loads[1], saved[1])
        source = places[first]
        for at in range(many):
            origin[at] = places[moved[at]]
            shift(tables, state, moved[at], target)
        if 0.45 <= draw < 0.7:  # a class of the other device comes back
            for _ in range(8):
                other = np.random.randint(classes)
                able = tables.work[0, int(source >= tables.payers), other] < np.inf
                if able and places[other] == target and other != first:
                    moved[many], origin[many] = other, target
                    many += 1
                    shift(tables, state, other, source)
                    break
        fits = True
        for device in range(devices):
            fits = fits and held[device] <= tables.memory[device]
        after = energy(loads, power) if fits else np.inf
        change = after - now
        if fits and (change <= 0.0 or np.random.random() < np.exp(-change / temperature)):
            now = after
            value = loads[0].max() + loads[1].max()
            if value < best_value * (1.0 - 1e-12):
                best_value = value
                copy_into(places, best)
        else:
            for at in range(many - 1, -1, -1):
                shift(tables, state, moved[at], origin[at])
            copy_into(saved[0], loads[0])
            copy_into(saved[1], loads[1])
    return best_value


@compiled
def best_cuts(  # noqa: C901, PLR0912 (one loop nest)
    tables: ClassArrays, order: Ints, hosts: int, places: Ints
) -> float:
    """Cut an order into one stretch per device so that the largest load is least.

    Dynamic programme over prefixes and the numbers of payers and hosts used; the loads of the two
    passes count together, and memory is respected by each stretch. ``places`` gets the result;
    infinity is returned when there is none.
    """
    classes, payers = len(order), tables.payers
    value = np.full((classes + 1, payers + 1, hosts + 1), np.inf)
    back = np.full((classes + 1, payers + 1, hosts + 1, 2), -1, dtype=np.int64)
    value[0, :, :] = 0.0
    count = np.zeros(len(tables.cost), dtype=np.int64)
    for start in range(classes):
        count[:] = 0
        load, host_load, held = 0.0, 0.0, 0.0
        for stop in range(start + 1, classes + 1):
            number = order[stop - 1]
            load += tables.work[0, 0, number] + tables.work[1, 0, number]
            host_load += tables.work[0, 1, number] + tables.work[1, 1, number]
            held += tables.size[number]
            for at in range(tables.net_start[number], tables.net_start[number + 1]):
                net = tables.nets[at]
                count[net] += 1
                if count[net] == 1:
                    load += tables.cost[net]
                if count[net] == tables.pin_start[net + 1] - tables.pin_start[net]:
                    load -= tables.cost[net]
            payer_fits = held <= tables.memory[0]
            host_fits = hosts > 0 and held <= tables.memory[-1]
            for used in range(payers + 1):
                for helped in range(hosts + 1):
                    before = value[start, used, helped]
                    if (
                        used < payers
                        and payer_fits
                        and max(before, load) < value[stop, used + 1, helped]
                    ):
                        value[stop, used + 1, helped] = max(before, load)
                        back[stop, used + 1, helped] = (start, 0)
                    if (
                        helped < hosts
                        and host_fits
                        and max(before, host_load) < value[stop, used, helped + 1]
                    ):
                        value[stop, used, helped + 1] = max(before, host_load)
                        back[stop, used, helped + 1] = (start, 1)
    stop, used, helped = classes, payers, hosts
    for first in range(payers + 1):
        for second in range(hosts + 1):
            if value[classes, first, second] < value[stop, used, helped]:
                used, helped = first, second
    found = value[stop, used, helped]
    while stop > 0 and found < np.inf:
        start, host = back[stop, used, helped, 0], back[stop, used, helped, 1]
        used, helped = used - (1 - host), helped - host
        device = payers + helped if host else used
        for at in range(start, stop):
            places[order[at]] = device
        stop = start
    return float(found)
