"""The CP-SAT model of placement, options, order, transfers and memory, for makespan.

An optional interval for each mode of an operator, for each transfer that some choice of modes calls
for, and, where memory may bind, for each copy on a device. Operators that have one mode left, and
the transfers between them, are plain intervals; that is what neighbourhoods are made of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from reader import FULL, Copy, Instance, Mode, Plan

GRAIN, LARGE_ROOM = 1 << 16, 1 << 33
"""Bytes that memory is counted in where a device has so much room: what lies there rounded up, room
rounded down."""


class Answer(NamedTuple):
    """What a solve ended with: the solver's word, a plan or ``None``, a bound in units."""

    status: str
    plan: Plan | None
    bound: float


class Supply(NamedTuple):
    """One way to make a copy: where the producer is, how long it takes, when it is called for."""

    delivery: Any
    made: Any
    present: Any


class ScheduleModel:
    """A model of all plans with the given modes.

    Parameters
    ----------
    instance
        What is planned.
    modes
        Those that each operator may run in; one for what stays where it is.
    most
        The makespan is at most this.
    """

    def __init__(self, instance: Instance, modes: Sequence[Sequence[Mode]], most: int) -> None:
        from ortools.sat.python import cp_model

        self.instance, self.modes, self.most, self.cp = instance, modes, most, cp_model
        self.model = cp_model.CpModel()
        self.true = self.model.new_constant(1)
        self._ands: dict[tuple[int, int], Any] = {}
        self._ors: dict[tuple[int, ...], Any] = {}
        shortest = [min(mode.length for mode in ways) for ways in modes]
        self.heads, self.tails = instance.windows(shortest)
        chain = max(h + s + t for h, s, t in zip(self.heads, shortest, self.tails, strict=True))
        self.makespan = self.model.new_int_var(min(most, chain), most, "makespan")
        self.model.minimize(self.makespan)
        self.chosen: list[dict[Mode, Any]] = []
        self._choose()
        self._run(shortest)
        self.sends: dict[Copy, Any] = {}
        self.holders: dict[Any, list[Any]] = defaultdict(list)
        self.fixed_holds: dict[Any, list[tuple[Copy, Any, int]]] = defaultdict(list)
        self.tight = instance.may_bind
        rooms = [room for room in instance.rooms if room is not None]
        self.grain = GRAIN if max(rooms, default=0) >= LARGE_ROOM else 1
        self.items: list[list[tuple[Any, int]]] = [[] for _ in instance.devices]
        for value in instance.made:
            self._supply(value)
        for intervals in self.holders.values():
            if len(intervals) > 1:
                self.model.add_no_overlap(intervals)
        if self.tight:
            self._fit()

    @property
    def exact(self) -> bool:
        """Whether no plan is lost to the rounding of memory."""
        return not self.tight or self.grain == 1

    # -- literals ---------------------------------------------------------------------------------

    def both(self, first: Any, second: Any) -> Any:
        """Literal that is 1 exactly where two are."""
        if first is self.true or first is second:
            return second
        if second is self.true:
            return first
        key = min(first.index, second.index), max(first.index, second.index)
        if key not in self._ands:
            bit = self.model.new_bool_var("")
            self.model.add_bool_or([first.negated(), second.negated(), bit])
            self.model.add_implication(bit, first)
            self.model.add_implication(bit, second)
            self._ands[key] = bit
        return self._ands[key]

    def some(self, literals: Iterable[Any]) -> Any:
        """Literal that is 1 exactly where one of several is."""
        found = list({literal.index: literal for literal in literals}.values())
        if any(literal is self.true for literal in found):
            return self.true
        if len(found) == 1:
            return found[0]
        key = tuple(sorted(literal.index for literal in found))
        if key not in self._ors:
            bit = self.model.new_bool_var("")
            self.model.add_max_equality(bit, found)
            self._ors[key] = bit
        return self._ors[key]

    def when(self, constraint: Any, *literals: Any) -> None:
        """Ask for a constraint only where literals are 1."""
        needed = [literal for literal in literals if literal is not self.true]
        if needed:
            constraint.only_enforce_if(needed)

    # -- operators --------------------------------------------------------------------------------

    def _choose(self) -> None:
        groups: dict[str, dict[int, Any]] = {}
        for number, operator in enumerate(self.instance.operators):
            ways = self.modes[number]
            if len(ways) == 1:
                self.chosen.append({ways[0]: self.true})
                continue
            if operator.group is None:
                bits = {mode: self.model.new_bool_var("") for mode in ways}
                self.model.add_exactly_one(bits.values())
                self.chosen.append(bits)
                continue
            if operator.group not in groups:
                groups[operator.group] = self._group(operator.group)
            self.chosen.append(self._of_group(ways, groups[operator.group]))

    def _group(self, name: str) -> dict[int, Any]:
        """A literal for each site that all operators of a group may run on."""
        operators = self.instance.operators
        members = [o for o, operator in enumerate(operators) if operator.group == name]
        sites = sorted(set.intersection(*({m.site for m in self.modes[o]} for o in members)))
        if len(sites) == 1:
            return {sites[0]: self.true}
        bits = {site: self.model.new_bool_var("") for site in sites}
        self.model.add_exactly_one(bits.values())
        return bits

    def _of_group(self, ways: Sequence[Mode], sites: dict[int, Any]) -> dict[Mode, Any]:
        by_site: dict[int, list[Mode]] = defaultdict(list)
        for mode in ways:
            if mode.site in sites:
                by_site[mode.site].append(mode)
        bits: dict[Mode, Any] = {}
        for site, here in by_site.items():
            if len(here) == 1:
                bits[here[0]] = sites[site]
                continue
            own = {mode: self.model.new_bool_var("") for mode in here}
            self.model.add(sum(own.values()) == sites[site])
            bits |= own
        return bits

    def _run(self, shortest: list[int]) -> None:
        model, instance = self.model, self.instance
        self.starts, self.stops = [], []
        lanes: list[list[Any]] = [[] for _ in instance.devices]
        for number, bits in enumerate(self.chosen):
            latest = self.most - self.tails[number] - shortest[number]
            start = model.new_int_var(self.heads[number], max(self.heads[number], latest), "")
            lengths = {mode.length for mode in bits}
            length: Any = sum(mode.length * bit for mode, bit in bits.items())
            stop = start + (lengths.pop() if len(lengths) == 1 else length)
            self.starts.append(start)
            self.stops.append(stop)
            model.add(stop + self.tails[number] <= self.makespan)
            alike: dict[tuple[int, int], list[Any]] = defaultdict(list)
            for mode, bit in bits.items():
                alike[mode.site, mode.length].append(bit)
            for (site, ticks), literals in alike.items():
                interval = self._interval(start, ticks, self.some(literals))
                for device in instance.sites[site]:
                    lanes[device].append(interval)
        for lane in lanes:
            if len(lane) > 1:
                model.add_no_overlap(lane)

    def _interval(self, start: Any, length: int, present: Any) -> Any:
        if present is self.true:
            return self.model.new_fixed_size_interval_var(start, length, "")
        return self.model.new_optional_fixed_size_interval_var(start, length, present, "")

    # -- values -----------------------------------------------------------------------------------

    def _supply(self, value: Any) -> None:
        """Transfers of a value, its readers after them, and its copies."""
        instance, model = self.instance, self.model
        producer = value.producer
        made: dict[tuple[int, str], list[tuple[Mode, Any]]] = defaultdict(list)
        for mode, bit in self.chosen[producer].items():
            made[mode.site, instance.writes(producer, mode, value)].append((mode, bit))
        ways: dict[Copy, list[tuple[Any, Any, list[tuple[int, Any]]]]] = defaultdict(list)
        for same in made.values():
            here = self.some(bit for _, bit in same)
            called: dict[Copy, tuple[Any, list[tuple[int, Any]]]] = {}
            for reader in value.readers:
                for mode, bit in self.chosen[reader].items():
                    needed = instance.needs(value, same[0][0], reader, mode)
                    if needed is None:
                        model.add_bool_or([self._not(here), self._not(bit)])
                        continue
                    for one in needed:
                        copy = Copy(value.number, one.target, one.layout)
                        called.setdefault(copy, (one, []))[1].append((reader, bit))
            for copy, (one, readers) in called.items():
                ways[copy].append((one, here, readers))
        for reader in value.readers:
            model.add(self.starts[reader] >= self.stops[producer])
        supplies = {copy: self._send(value, copy, found) for copy, found in ways.items()}
        if self.tight:
            self._keep(value, supplies)

    def _not(self, literal: Any) -> Any:
        return self.model.new_constant(0) if literal is self.true else literal.negated()

    def _send(self, value: Any, copy: Copy, ways: list[Any]) -> list[Supply]:
        """One transfer, its length and what it holds by where the value is made."""
        free = self.instance.communication == "delay" and not self.tight
        start: Any = self.stops[value.producer]
        if not free:
            start = self.model.new_int_var(self.heads[value.producer], self.most, "")
            self.model.add(start >= self.stops[value.producer])
        self.sends[copy] = start
        by_length: dict[int, list[tuple[Any, dict[int, list[Any]]]]] = defaultdict(list)
        for one, here, found in ways:
            bits: dict[int, list[Any]] = defaultdict(list)
            for reader, bit in found:
                bits[reader].append(bit)
            by_length[one.length].append((here, bits))
        for length, group in by_length.items():
            self._readers_after(start + length, group)
        supplies = []
        for one, here, found in ways:
            if free:
                continue
            present = self.both(here, self.some(bit for _, bit in found))
            supplies.append(Supply(one, here, present))
            if one.held:
                interval = self._interval(start, one.length, present)
                for held in one.held:
                    self.holders[held].append(interval)
                    if present is self.true:
                        self.fixed_holds[held].append((copy, start, one.length))
        return supplies

    def _readers_after(self, stop: Any, group: list[tuple[Any, dict[int, list[Any]]]]) -> None:
        """Readers that call for a copy start after it, wherever in a group its source is."""
        anywhere = self.some(here for here, _ in group)
        for reader in {reader for _, bits in group for reader in bits}:
            calls = [bits.get(reader, []) for _, bits in group]
            if len({tuple(bit.index for bit in own) for own in calls}) == 1:
                row = self.model.add(self.starts[reader] >= stop)
                self.when(row, anywhere, self.some(calls[0]))
                continue
            for (here, _), own in zip(group, calls, strict=True):
                if own:
                    row = self.model.add(self.starts[reader] >= stop)
                    self.when(row, here, self.some(own))

    # -- memory -----------------------------------------------------------------------------------

    def _keep(self, value: Any, supplies: dict[Copy, list[Supply]]) -> None:
        """Copies of a value from their making to their last use on each device."""
        instance, producer = self.instance, value.producer
        for mode, bit in self.chosen[producer].items():
            size = -(-value.size[instance.writes(producer, mode, value)] // self.grain)
            for device in instance.sites[mode.site]:
                if not size or instance.rooms[device] is None:
                    continue
                end = self._until(self.stops[producer], supplies, device, bit)
                if value.kept:
                    self.model.add(end == self.most)
                for reader in value.readers:
                    uses = self._uses(value, mode, reader, device)
                    if uses:
                        row = self.model.add(end >= self.stops[reader])
                        self.when(row, bit, self.some(uses))
                self._item(device, (self.starts[producer], end), bit, size)
        for copy, found in supplies.items():
            self._keep_copy(value, copy, found)

    def _until(self, stop: Any, supplies: dict[Copy, list[Supply]], device: int, bit: Any) -> Any:
        """When a native copy may go: after its maker, and after all that is sent from here."""
        end = self.model.new_int_var(0, self.most, "")
        self.model.add(end >= stop)
        for copy, found in supplies.items():
            for supply in found:
                if device in supply.delivery.source:
                    sent = self.sends[copy] + supply.delivery.length
                    self.when(self.model.add(end >= sent), bit, supply.present)
        return end

    def _keep_copy(self, value: Any, copy: Copy, found: list[Supply]) -> None:
        """What was sent stays until those that read it are done."""
        instance = self.instance
        size = -(-value.size[copy.layout] // self.grain)
        limited = [device for device in copy.target if instance.rooms[device] is not None]
        if not size or not limited:
            return
        present = self.some(supply.present for supply in found)
        end = self.model.new_int_var(0, self.most, "")
        for supply in found:
            stop = self.sends[copy] + supply.delivery.length
            self.when(self.model.add(end >= stop), supply.present)
        for reader in value.readers:
            uses = [
                bit
                for mode, bit in self.chosen[reader].items()
                if set(copy.target) <= set(instance.sites[mode.site])
                and instance.reads(reader, mode, value) == copy.layout
            ]
            if uses:
                self.when(self.model.add(end >= self.stops[reader]), present, self.some(uses))
        for device in limited:
            self._item(device, (self.sends[copy], end), present, size)

    def _uses(self, value: Any, mode: Mode, reader: int, device: int) -> list[Any]:
        """Choices by which a reader reads the native copy on a device."""
        uses = []
        for other, taken in self.chosen[reader].items():
            needed = self.instance.needs(value, mode, reader, other)
            moved = needed is None or any(
                device in one.target or one.layout != FULL or len(one.target) > 1 for one in needed
            )
            if device in self.instance.sites[other.site] and not moved:
                uses.append(taken)
        return uses

    def _item(self, device: int, span: tuple[Any, Any], present: Any, size: int) -> None:
        length = self.model.new_int_var(0, self.most, "")
        if present is self.true:
            interval = self.model.new_interval_var(span[0], length, span[1], "")
        else:
            interval = self.model.new_optional_interval_var(span[0], length, span[1], present, "")
        self.items[device].append((interval, size))

    def _fit(self) -> None:
        """What lies on a device fits at every instant."""
        instance, model = self.instance, self.model
        for number, bits in enumerate(self.chosen):
            for mode, bit in bits.items():
                size = -(-instance.operators[number].workspace(mode) // self.grain)
                for device in instance.sites[mode.site] if size and mode.length else ():
                    interval = self._interval(self.starts[number], mode.length, bit)
                    self.items[device].append((interval, size))
        lying = self._lying()
        for device, room in enumerate(instance.rooms):
            if room is None:
                continue
            always = sum(size for there, size in lying[device] if there is self.true)
            maybe = [(there, size) for there, size in lying[device] if there is not self.true]
            left = room // self.grain - always
            held = list(self.items[device])
            held += [(self._interval(0, self.most, there), size) for there, size in maybe]
            if left < 0:
                model.add_bool_or([])
                continue
            model.add(sum(size * there for there, size in maybe) <= left)
            if held:
                intervals, sizes = zip(*held, strict=True)
                model.add_cumulative(intervals, sizes, left)

    def _lying(self) -> list[list[tuple[Any, int]]]:
        """Persistent values on each device: whether something is there, and how much it is."""
        found: list[dict[int, tuple[Any, int]]] = [{} for _ in self.instance.devices]
        for value in self.instance.persistent:
            wanted: dict[tuple[int, str], list[Any]] = defaultdict(list)
            for reader in value.readers:
                for mode, bit in self.chosen[reader].items():
                    layout = self.instance.reads(reader, mode, value)
                    for device in self.instance.sites[mode.site]:
                        wanted[device, layout].append(bit)
            for (device, layout), bits in wanted.items():
                there, size = self.some(bits), -(-value.size[layout] // self.grain)
                known = found[device].get(there.index, (there, 0))[1]
                found[device][there.index] = there, known + size
        return [list(entry.values()) for entry in found]

    # -- a known plan -----------------------------------------------------------------------------

    def chain(self, plan: Plan, free: set[int]) -> None:
        """Keep the order of a plan among operators that are not free, and among their transfers."""
        lanes: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for number, mode in enumerate(plan.modes):
            if number not in free:
                entry = plan.starts[number], plan.starts[number] + mode.length, number
                for device in self.instance.sites[mode.site]:
                    lanes[device].append(entry)
        for lane in lanes.values():
            lane.sort()
            for (_, _, first), (_, _, second) in pairwise(lane):
                self.model.add(self.starts[second] >= self.stops[first])
        for holds in self.fixed_holds.values():
            known = [
                (plan.sends[copy], plan.sends[copy] + length, place, start, length)
                for place, (copy, start, length) in enumerate(holds)
                if copy in plan.sends and self.instance.made[copy.value].producer not in free
            ]
            known.sort(key=lambda entry: entry[:3])
            for first, second in pairwise(known):
                self.model.add(second[3] >= first[3] + first[4])

    def hint(self, plan: Plan) -> None:
        """Start from a plan."""
        told: set[int] = set()
        for number, bits in enumerate(self.chosen):
            self.model.add_hint(self.starts[number], plan.starts[number])
            for mode, bit in bits.items():
                if bit is not self.true and bit.index not in told:
                    told.add(bit.index)
                    self.model.add_hint(bit, mode == plan.modes[number])
        for copy, start in self.sends.items():
            if isinstance(start, self.cp.IntVar):
                producer = self.instance.made[copy.value].producer
                made = plan.starts[producer] + plan.modes[producer].length
                self.model.add_hint(start, plan.sends.get(copy, made))
        self.model.add_hint(self.makespan, min(plan.value, self.most))

    def solve(
        self, limit_s: float, workers: int, seed: int, callback: Any = None, **parameters: Any
    ) -> Answer:
        """Solve; parameters are those of CP-SAT."""
        solver = self.cp.CpSolver()
        solver.parameters.max_time_in_seconds = limit_s
        solver.parameters.num_workers = workers
        solver.parameters.random_seed = seed
        for name, setting in parameters.items():
            setattr(solver.parameters, name, setting)
        status = solver.solve(self.model, callback)
        plan = None
        if status in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            plan = self._plan(solver)
        return Answer(solver.status_name(status), plan, solver.best_objective_bound)

    def _plan(self, solver: Any) -> Plan:
        modes = [
            next(
                mode for mode, bit in bits.items() if bit is self.true or solver.boolean_value(bit)
            )
            for bits in self.chosen
        ]
        starts = [solver.value(start) for start in self.starts]
        sends = {copy: solver.value(start) for copy, start in self.sends.items()}
        return Plan(modes, starts, sends)
