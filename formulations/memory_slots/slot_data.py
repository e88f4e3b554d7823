"""A problem on one device, counted in slots: lengths, windows, and what may leave to the host."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd

from milp_plan.api import FULL, MemoryLaw, Objective, PlanningProblem, Value


@dataclass(frozen=True)
class SlotData:
    """What the model is made of.

    Parameters
    ----------
    problem
        One device that computes, at most one host, every copy in layout ``full``.
    device, host
        Their names; ``None`` without a host.
    """

    problem: PlanningProblem
    device: str
    host: str | None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Operators in topological order."""
        return self.problem.graph.topological_order

    @cached_property
    def ticks(self) -> dict[str, int]:
        """Length of each operator."""
        problem = self.problem
        return {n: problem.duration_ticks(n, problem.placements(n)[0]) for n in self.names}

    @cached_property
    def trips(self) -> dict[str, tuple[int, int]]:
        """Ticks out and back of each value that may wait on the host.

        One that holds no memory need never leave: its copy may as well stay. One that is kept does.
        """
        cluster, device, host = self.problem.cluster, self.device, self.host
        if host is None:
            return {}
        out, back = cluster.channel(device, host), cluster.channel(host, device)
        if out is None or back is None:
            return {}
        return {
            value.name: (
                out.transfer_ticks(value.payload(FULL), value.messages),
                back.transfer_ticks(value.payload(FULL), value.messages),
            )
            for value in self.read
            if value.bytes[FULL] and not value.is_kept
        }

    @cached_property
    def read(self) -> tuple[Value, ...]:
        """Values that one operator makes for others."""
        values = self.problem.graph.values
        return tuple(v for v in values if v.producer is not None and v.consumers)

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """Values that are kept to the end; one run makes each of them."""
        return tuple(v for v in self.problem.graph.values if v.is_kept and v.bytes[FULL])

    @cached_property
    def grain(self) -> int:
        """Largest number of ticks that divides every length."""
        found = gcd(*self.ticks.values(), *(t for trip in self.trips.values() for t in trip))
        return max(found, 1)

    @cached_property
    def slots(self) -> dict[str, int]:
        """Length of each operator in slots."""
        return {name: ticks // self.grain for name, ticks in self.ticks.items()}

    @cached_property
    def trip_slots(self) -> dict[str, tuple[int, int]]:
        """Slots out and back."""
        return {name: (a // self.grain, b // self.grain) for name, (a, b) in self.trips.items()}

    @cached_property
    def again(self) -> frozenset[str]:
        """Operators for whose later runs there can be a reader."""
        made = {value.producer for value in self.read}
        operators = self.problem.graph.operators
        return frozenset(op.name for op in operators if op.recomputable and op.name in made)

    @cached_property
    def room(self) -> int | None:
        """Bytes for copies and workspaces; ``None`` without a limit."""
        limit = self.problem.cluster.device(self.device).memory_bytes
        if limit is None:
            return None
        lying = (v for v in self.problem.graph.values if v.persistent and v.consumers)
        return limit - sum(value.bytes[FULL] for value in lying)

    @cached_property
    def working(self) -> dict[str, int]:
        """Bytes that a run of each operator allocates: what it makes, and its workspace."""
        graph = self.problem.graph
        return {
            name: sum(value.bytes[FULL] for value in graph.outputs[name])
            + graph.operator(name).options[0].workspace_bytes
            for name in self.names
        }

    @cached_property
    def cramped(self) -> bool:
        """Whether results, or some operator with what it reads, do not fit, or nothing does."""
        if self.room is None:
            return False
        inputs = self.problem.graph.inputs
        needs = (
            self.working[n] + sum(v.bytes[FULL] for v in inputs[n] if not v.persistent)
            for n in self.names
        )
        kept = sum(value.bytes[FULL] for value in self.results)
        return max(kept, *needs) > self.room or self.room < 0

    @property
    def before(self) -> dict[str, frozenset[str]]:
        """Operators of which each operator needs a run first."""
        return self.problem.graph.ancestors

    @property
    def after(self) -> dict[str, frozenset[str]]:
        """Operators that need a run of each operator first."""
        return self.problem.graph.descendants

    @cached_property
    def heads(self) -> dict[str, int]:
        """Earliest start of each operator.

        One device runs all that come before it, and what must be away while it runs has gone one
        by one (:meth:`away`), the first of it once that was made.
        """
        found: dict[str, int] = {}
        for name in self.names:
            direct = self.problem.graph.predecessors[name]
            starts = [found[p] + self.ticks[p] for p in direct]
            away, excess = self.away(name)
            if excess:
                ready = min(found[str(v.producer)] + self.ticks[str(v.producer)] for v in away)
                starts.append(ready + self.least(away, excess, 0))
            found[name] = max(*starts, 0, sum(self.ticks[p] for p in self.before[name]))
        return found

    @cached_property
    def tails(self) -> dict[str, int]:
        """Least time from the stop of an operator's first run to the end; :attr:`heads` mirrored.

        What is away in its last slot comes back one by one after it, and then somebody reads it.
        """
        found: dict[str, int] = {}
        for name in reversed(self.names):
            direct = self.problem.graph.successors[name]
            rests = [self.ticks[s] + found[s] for s in direct]
            away, excess = self.away(name)
            if excess:
                readers = self.after[name].intersection(c for v in away for c in v.consumers)
                last = min(self.ticks[c] + found[c] for c in readers)
                rests.append(self.least(away, excess, 1) + last)
            found[name] = max(*rests, 0, sum(self.ticks[s] for s in self.after[name]))
        return found

    def away(self, name: str) -> tuple[list[Value], int]:
        """What may wait on the host in the first run of an operator, and bytes of it that must.

        Of values that only one run makes, those made before it and read after it lie there or are
        away, unless it reads them: these lie there, as do its outputs, its workspace and results
        made before it.
        """
        if self.room is None or not lanes_take_turns(self.problem):
            return [], 0
        inputs = [v for v in self.problem.graph.inputs[name] if not v.persistent]
        crossing = [
            v for v in self.read
            if v not in inputs and v not in self.results
            and v.producer in self.before[name] - self.again
            and self.after[name].intersection(v.consumers)
        ]  # fmt: skip
        kept = [v for v in self.results if v not in inputs and v.producer in self.before[name]]
        held = self.working[name] + sum(v.bytes[FULL] for v in [*inputs, *crossing, *kept])
        movable = [v for v in crossing if v.name in self.trips]
        excess = max(0, held - self.room)
        return movable, excess if excess <= sum(v.bytes[FULL] for v in movable) else 0

    def least(self, values: list[Value], amount: int, way: int) -> int:
        """Least ticks on a lane for ``amount`` bytes: whole values, then a part of one."""
        ticks = {v.name: self.trips[v.name][way] for v in values}
        total = 0
        for value in sorted(values, key=lambda v: Fraction(ticks[v.name], v.bytes[FULL])):
            size = value.bytes[FULL]
            if amount <= size:
                return total - (-ticks[value.name] * amount // size)
            total, amount = total + ticks[value.name], amount - size
        return total

    @cached_property
    def last_tails(self) -> dict[str, int]:
        """Least time from the stop of an operator's last run to the end: some reader follows."""
        found: dict[str, int] = {}
        for name in reversed(self.names):
            after = self.problem.graph.successors[name]
            if name in self.again and after:
                found[name] = min(self.ticks[s] + found[s] for s in after)
            else:
                found[name] = self.tails[name]
        return found

    @property
    def serial(self) -> int:
        """Ticks of two runs of each operator that may run again, and of a way back per reader.

        Where nothing runs again some best plan fits: at each instant before its end something
        runs, or all that follows could come earlier; and a way back needs a reader of its own.
        """
        times = {name: 1 + (name in self.again) for name in self.names}
        work = sum(self.ticks[name] * times[name] for name in self.names)
        for value in self.read:
            out, back = self.trips.get(value.name, (0, 0))
            work += out + back * sum(times[reader] for reader in value.consumers)
        return work


def read_slot_data(problem: PlanningProblem) -> SlotData | str:
    """Return the problem as data of the model, or the reason why the model does not apply."""
    cluster, graph = problem.cluster, problem.graph
    devices = [name for name in cluster.device_names if name not in cluster.hosts]
    if problem.objective is not Objective.MAKESPAN:
        return "only the makespan is counted in slots"
    if problem.memory_law is not MemoryLaw.INSTANT:
        return "its memory is counted without a clock"
    if len(devices) != 1 or len(cluster.hosts) > 1:
        return "it is for one device and at most one host"
    host = next(iter(cluster.hosts), None)
    for operator in graph.operators:
        places = problem.placements(operator.name)
        if len(operator.options) != 1 or len(places) != 1:
            return f"{operator.name} has {len(places)} placements: it is for one each"
        option = operator.options[0]
        if {*option.reads.values(), *option.writes.values()} - {FULL}:
            return f"{operator.name} reads or makes shards"
        if operator.recomputable and len(graph.outputs[operator.name]) > 1:
            return f"{operator.name} may run again and makes several values"
    data = SlotData(problem, devices[0], host)
    for value in data.results:
        if value.producer in data.again:
            return f"{value.name} is kept, and {value.producer} may make it again"
    return _timeless(data) or _crowded(data) or data


def _timeless(data: SlotData) -> str | None:
    for name, ticks in data.ticks.items():
        if not ticks:
            return f"{name} lasts no time: a slot does not say on which side of others it runs"
    for name, trip in data.trips.items():
        if not min(trip):
            return f"a transfer of {name} lasts no time"
    return None


def _crowded(data: SlotData) -> str | None:
    if data.host is None:
        return None
    limit = data.problem.cluster.device(data.host).memory_bytes
    most = sum(data.problem.graph.value(name).bytes[FULL] for name in data.trips)
    if limit is not None and most > limit:
        return f"the host holds {limit} bytes and {most} may have to wait on it"
    return None


def lanes_take_turns(problem: PlanningProblem) -> bool:
    """Whether transfers of one direction exclude each other."""
    return problem.cluster.communication.value != "delay"
