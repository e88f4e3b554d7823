"""A scheduling problem as variables, clauses and edges.

Proof that every plan satisfies them. A unit (colocation group, or operator without one) is on one
device. ``together(u, w)`` becomes true where two units share a device and ``apart(u, w)`` where
they do not; neither is decided, and nothing follows while they are open. An operator starts after
its producers and after the transfers from units that are apart, and two operators of units that are
together run one after the other. Interchangeable devices are used in their order, with units
sorted by work: renaming devices turns any plan into such a plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise, permutations, product

from milp_plan.core import FULL, CommunicationModel, MemoryLaw, Objective, Plan, PlanningProblem
from milp_plan.cost.routes import route_between

from ...coarsen.symmetry import interchangeable_devices
from .network import Literal, Moment, Network, no, yes
from .state import GOAL

LARGEST, LARGEST_DEVICES = 160, 32
"""Most operators and devices of a problem."""

LONGEST = 1 << 58
"""Most ticks of all tasks together."""

Key = int | tuple[str, int]
"""A task: an operator's number, or a value and the unit to which it is sent."""

Lags = dict[tuple[int, int], int | None]
"""(device, device) -> ticks, ``None`` without a route."""


def why_not(problem: PlanningProblem) -> str | None:
    """Return why clause learning does not apply to a problem, or ``None``."""
    operators = problem.graph.operators
    options = [option for operator in operators for option in operator.options]
    layouts = {layout for o in options for layout in (*o.reads.values(), *o.writes.values())}
    if problem.objective is not Objective.MAKESPAN or problem.serial is not None:
        return "only the makespan of operators and transfers is minimised"
    if problem.allows_memory_saving or problem.memory_law is MemoryLaw.STATIC:
        return "operators that run again, hosts and the static memory law are not supported"
    if layouts - {FULL} or len(options) > len(operators) or any(o.gang > 1 for o in options):
        return "each operator has one option, on one device, in one layout"
    if problem.unplaced is not None:
        return problem.unplaced.reason
    if not 0 < len(operators) <= LARGEST or len(problem.cluster.devices) > LARGEST_DEVICES:
        return f"there are more than {LARGEST} operators or {LARGEST_DEVICES} devices"
    return "times are too long" if serial_ticks(problem) > LONGEST else None


def serial_ticks(problem: PlanningProblem) -> int:
    """Return the ticks of all operators and all transfers one after the other.

    If there is a plan, there is one that takes no more.
    """
    total = sum(
        max(option.duration_ticks.values()) for o in problem.graph.operators for option in o.options
    )
    channels = {(c.latency_ticks, c.bandwidth_bytes_per_s): c for c in problem.cluster.channels}
    for value in problem.graph.values:
        if value.producer is not None and value.consumers:
            size = value.payload(FULL)
            slowest = max(
                (c.transfer_ticks(size, value.messages) for c in channels.values()), default=0
            )
            total += slowest * len(value.consumers)
    return total


class Reading:
    """The network of a problem for plans of at most ``horizon`` ticks.

    Parameters
    ----------
    problem
        A problem for which :func:`why_not` returns ``None``.
    horizon
        Ticks; ``None`` for all tasks one after the other.
    """

    def __init__(self, problem: PlanningProblem, horizon: int | None = None) -> None:
        self.problem, self.graph = problem, problem.graph
        graph, cluster = problem.graph, problem.cluster
        self.names = [operator.name for operator in graph.operators]
        self.index = {name: i for i, name in enumerate(self.names)}
        self.devices = list(cluster.device_names)
        keys = [o.group if o.group is not None else (o.name,) for o in graph.operators]
        units = {key: u for u, key in enumerate(dict.fromkeys(keys))}
        self.unit = [units[key] for key in keys]
        self.members: list[list[int]] = [[] for _ in units]
        for i, u in enumerate(self.unit):
            self.members[u].append(i)
        device_number = {name: d for d, name in enumerate(self.devices)}
        self.ticks = [
            {
                device_number[p.devices[0]]: problem.duration_ticks(name, p)
                for p in problem.placements(name)
            }
            for name in self.names
        ]
        self.able = [
            set.intersection(*(set(self.ticks[i]) for i in members)) for members in self.members
        ]
        self.values = [value for value in graph.values if value.producer is not None]
        self._sends: dict[str, Lags] = {}
        serial = serial_ticks(problem)
        self.horizon = serial if horizon is None else min(horizon, serial)
        self.alike = [
            [device_number[name] for name in names] for names in interchangeable_devices(problem)
        ]
        self._together: dict[tuple[int, int], int] = {}
        self._apart: dict[tuple[int, int], int] = {}
        self._order: dict[tuple[Key, Key], Literal] = {}
        self.transfers: dict[tuple[str, int], tuple[Moment, Moment]] = {}
        read = {v.name: v for v in graph.values if v.producer is None}
        self.persistent = {
            name: sorted({self.unit[self.index[c]] for c in value.consumers})
            for name, value in read.items()
            if value.consumers
        }
        self.persistent_bytes = {name: read[name].bytes[FULL] for name in self.persistent}
        self._far: dict[tuple[int, int, frozenset[tuple[int, int]]], int] = {}
        self.build()

    def send_ticks(self, value: str) -> Lags:
        """Return the ticks of a transfer of a value from each device to each other."""
        if value not in self._sends:
            entry, devices, ticks = self.graph.value(value), self.devices, Lags()
            for a, b in permutations(range(len(devices)), 2):
                ends = ((devices[a],), FULL), ((devices[b],), FULL)
                route = route_between(self.problem, entry, *ends)
                ticks[a, b] = None if route is None else route[0].duration_ticks
            self._sends[value] = ticks
        return self._sends[value]

    # -- building --------------------------------------------------------------------------------

    def build(self) -> None:
        """Write the initial variables, clauses and edges."""
        count, devices = len(self.names), len(self.devices)
        after = self.graph.descendants
        self.pairs = [
            (i, k)
            for i, k in combinations(range(count), 2)
            if self.names[k] not in after[self.names[i]]
            and self.names[i] not in after[self.names[k]]
            and self.able[self.unit[i]] & self.able[self.unit[k]]
        ]
        units = len(self.members)
        variables = 4 * count + units * (devices + 2 * units) + 2 * len(self.pairs) + 6000
        edges = 4 * len(self.pairs) + 60 * count + 30_000
        slots = sum(len(ticks) for ticks in self.ticks)
        net = self.net = Network(variables, edges, slots, units, devices)
        self.first_place = [0] * units
        for u in range(units):
            self.first_place[u] = net.variables
            net.state.place[0, u] = net.variables
            for d in range(devices):
                net.decision()
                if d not in self.able[u]:
                    net.clause([no(self.on(u, d))])
            net.clause(self.on(u, d) for d in self.able[u])
            for a, b in combinations(sorted(self.able[u]), 2):
                net.clause([no(self.on(u, a)), no(self.on(u, b))])
        self.start: list[Moment] = []
        self.stop: list[Moment] = []
        for i in range(count):
            self._add_task(i)
        self.goal = net.number(0, self.horizon)
        net.state.n[GOAL] = self.goal
        for i in range(count):
            net.edge(self.stop[i], (self.goal, 0))
        self._add_supply()
        self._add_turns()
        self._break_symmetry()

    def on(self, unit: int, device: int) -> Literal:
        """Return the literal that a unit is on a device."""
        return yes(self.first_place[unit] + device)

    def _add_task(self, i: int) -> None:
        """Add the start and stop of an operator."""
        net = self.net
        own = {self.ticks[i][d] for d in self.able[self.unit[i]]} or {0}
        start = (net.number(0, self.horizon), 0)
        self.start.append(start)
        if len(own) == 1:
            self.stop.append((start[0], min(own)))
            return
        stop = (net.number(0, self.horizon), 0)
        self.stop.append(stop)
        net.edge((start[0], min(own)), stop)
        for d in self.able[self.unit[i]]:
            net.edge((start[0], self.ticks[i][d]), stop, self.on(self.unit[i], d))

    def together(self, u: int, w: int) -> Literal | None:
        """Return the literal that two units share a device; ``None`` if they are the same unit."""
        if u == w:
            return None
        key = min(u, w), max(u, w)
        if key not in self._together:
            self._together[key] = self.net.implied()
            for d in self.able[u] & self.able[w]:
                self.net.clause([no(self.on(u, d)), no(self.on(w, d)), yes(self._together[key])])
        return yes(self._together[key])

    def apart(self, u: int, w: int) -> Literal:
        """Return the literal that two units do not share a device."""
        key = min(u, w), max(u, w)
        if key not in self._apart:
            self._apart[key] = self.net.implied()
            for d in self.able[u]:
                also = [self.on(w, d)] if d in self.able[w] else []
                self.net.clause([no(self.on(u, d)), *also, yes(self._apart[key])])
        return yes(self._apart[key])

    def far(self, u: int, w: int, pairs: Iterable[tuple[int, int]]) -> Literal:
        """Return the literal that two units are on one of these pairs of devices."""
        chosen = frozenset(pairs)
        every = {(a, b) for a in self.able[u] for b in self.able[w] if a != b}
        if chosen == every:
            return self.apart(u, w)
        key = (u, w, chosen)
        if key not in self._far:
            self._far[key] = self.net.implied()
            for a, b in chosen:
                self.net.clause([no(self.on(u, a)), no(self.on(w, b)), yes(self._far[key])])
        return yes(self._far[key])

    def lag(self, early: Moment, late: Moment, ends: tuple[int, int], ticks: Lags) -> None:
        """Add edges for a wait that depends on the devices of two units."""
        u, w = ends
        here = {(a, b): ticks[a, b] for a in self.able[u] for b in self.able[w] if a != b}
        kinds = sorted({number for number in here.values() if number})
        for number in kinds:
            far = self.far(u, w, (p for p, t in here.items() if t is not None and t >= number))
            self.net.edge((early[0], early[1] + number), late, far)

    def _add_supply(self) -> None:
        """Add edges from producers to consumers, with the transfer times between them."""
        net, delay = self.net, self.problem.cluster.communication is CommunicationModel.DELAY
        sent: dict[tuple[int, int], list[str]] = {}
        for value in self.values:
            for consumer in value.consumers:
                ends = self.index[str(value.producer)], self.index[consumer]
                sent.setdefault(ends, []).append(value.name)
        for (i, k), values in sent.items():
            net.edge(self.stop[i], self.start[k])
            u, w = self.unit[i], self.unit[k]
            if u == w:
                continue
            tables = [self.send_ticks(value) for value in values]
            for a, b in product(self.able[u], self.able[w]):
                if a != b and any(table[a, b] is None for table in tables):
                    net.clause([no(self.on(u, a)), no(self.on(w, b))])
            ticks: Lags = {}
            for pair in tables[0]:
                numbers = [t for table in tables if (t := table[pair]) is not None]
                ticks[pair] = (
                    None
                    if len(numbers) < len(tables)
                    else (max(numbers) if delay else sum(numbers))
                )
            self.lag(self.stop[i], self.start[k], (u, w), ticks)

    def _add_turns(self) -> None:
        """Add the orders of operators on one device."""
        net = self.net
        for i, k in self.pairs:
            u, w = self.unit[i], self.unit[k]
            if u == w:
                first = yes(net.decision((u, w), (self.start[i][0], self.start[k][0])))
                self._order[i, k], self._order[k, i] = first, no(first)
                net.edge(self.stop[i], self.start[k], first)
                net.edge(self.stop[k], self.start[i], no(first))
            else:
                both = self.together(u, w)
                assert both is not None
                orders = [self.order((i, k), (u, w)), self.order((k, i), (u, w))]
                net.clause([no(both), *orders])
                net.clause([no(orders[0]), no(orders[1])])
        net.slots(
            [
                [
                    (self.start[i][0], self.stop[i], self.ticks[i][d], self.on(u, d)[0] >> 1)
                    for u, members in enumerate(self.members)
                    if d in self.able[u]
                    for i in members
                ]
                for d in range(len(self.devices))
            ]
        )

    def order(self, pair: tuple[int, int], units: tuple[int, int]) -> Literal:
        """Return the literal that one operator stops before another starts."""
        i, k = pair
        if pair not in self._order:
            self._order[pair] = yes(self.net.decision(units, (self.start[i][0], self.start[k][0])))
            self.net.edge(self.stop[i], self.start[k], self._order[pair])
        return self._order[pair]

    def _break_symmetry(self) -> None:
        """Add clauses that interchangeable devices are used in their order."""
        work = [sum(min(self.ticks[i].values()) for i in members) for members in self.members]
        self.turn = sorted(range(len(self.members)), key=lambda u: -work[u])
        for devices in self.alike:
            for before, device in pairwise(devices):
                for j, u in enumerate(self.turn):
                    if device in self.able[u]:
                        earlier = [
                            self.on(w, before) for w in self.turn[:j] if before in self.able[w]
                        ]
                        self.net.clause([no(self.on(u, device)), *earlier])

    # -- variables that leaves add ---------------------------------------------------------------

    def maker(self, value: str) -> int:
        """Return the number of the operator that makes a value."""
        return self.index[str(self.graph.value(value).producer)]

    def transfer(self, value: str, unit: int) -> tuple[Moment, Moment]:
        """Return start and stop of the transfer of a value to a unit, if its maker is apart."""
        key = value, unit
        if key in self.transfers:
            return self.transfers[key]
        net, maker = self.net, self.maker(value)
        own = self.unit[maker]
        ticks = self.send_ticks(value)
        here = {(a, b): ticks[a, b] for a in self.able[own] for b in self.able[unit] if a != b}
        numbers = sorted({number for number in here.values() if number is not None})
        start = (net.number(0, 2 * self.horizon), 0)
        stop = (start[0], numbers[0])
        if len(numbers) > 1:
            stop = (net.number(0, 3 * self.horizon), 0)
            net.edge((start[0], numbers[0]), stop)
            self.lag(start, stop, (own, unit), ticks)
        net.edge(self.stop[maker], start)
        apart = self.apart(own, unit)
        for consumer in self.graph.value(value).consumers:
            k = self.index[consumer]
            if self.unit[k] == unit:
                net.edge(stop, self.start[k], apart)
        for (other_value, other), (other_start, _) in self.transfers.items():
            if other_value == value:
                both = self.together(unit, other)
                assert both is not None
                net.edge(start, other_start, both)
                net.edge(other_start, start, both)
        self.transfers[key] = start, stop
        return start, stop

    def before(self, first: Key, second: Key) -> Literal:
        """Return the literal that one task stops before another starts."""
        if (first, second) not in self._order:
            (start, stop), (other, _) = self.moments(first), self.moments(second)
            literal = yes(self.net.decision((0, 0), (start[0], other[0])))
            self._order[first, second] = literal
            self.net.edge(stop, other, literal)
        return self._order[first, second]

    def moments(self, key: Key) -> tuple[Moment, Moment]:
        """Return start and stop of a task."""
        if isinstance(key, int):
            return self.start[key], self.stop[key]
        return self.transfer(*key)

    def follow(self, plan: Plan) -> None:
        """Prefer a plan's decisions, with interchangeable devices in the order of first use."""
        device = {name: d for d, name in enumerate(self.devices)}
        runs = [plan.run(name) for name in self.names]
        place = [device[runs[members[0]].devices[0]] for members in self.members]
        renamed = dict(zip(device.values(), device.values(), strict=True))
        for devices in self.alike:
            used = [d for d in dict.fromkeys(place[u] for u in self.turn) if d in devices]
            used += [d for d in devices if d not in used]
            renamed |= dict(zip(used, devices, strict=True))
        phase = self.net.state.phase
        for u, first in enumerate(self.first_place):
            for d in range(len(self.devices)):
                phase[first + d] = int(renamed[place[u]] == d)
        for (i, k), literal in self._order.items():
            if isinstance(i, int) and isinstance(k, int) and literal[0] & 1:
                one, other = runs[i].start_ticks, runs[k].start_ticks
                assert one is not None
                assert other is not None
                phase[literal[0] >> 1] = int(one <= other)

    # -- values of a leaf ------------------------------------------------------------------------

    def places(self) -> list[int]:
        """Return the device of each unit when everything is decided."""
        upper = self.net.state.upper
        return [
            next(d for d in self.able[u] if upper[2 * (first + d) + 1] <= -1)
            for u, first in enumerate(self.first_place)
        ]
