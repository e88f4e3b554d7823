"""Optimum of tiny problems under the serial law by enumeration.

It reads the law (docs/laws.md) on its own: no code is shared with the checker.

Devices of one class with equal memory are alike, so that the i-th of them is used only after the
one before: every plan is equal to one of these up to their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Contiguity,
    Operator,
    OperatorRun,
    Passes,
    Plan,
    PlanningProblem,
    Value,
)

from .remember import remembered

Place = tuple[str, int | None]


@remembered
def brute_serial(problem: PlanningProblem) -> tuple[int, Plan] | None:
    """Return the optimum and a plan that reaches it; ``None`` if there is no plan."""
    best: tuple[int, Plan] | None = None
    for plan in serial_plans(problem):
        value = serial_value(problem, plan)
        if value is not None and (best is None or value < best[0]):
            best = value, plan
    return best


def serial_value(problem: PlanningProblem, plan: Plan) -> int | None:
    """Return the value of a plan; ``None`` where it breaks the law."""
    return _Placed(problem, {run.operator: (run.devices[0], run.call) for run in plan.runs}).value()


class _Placed:
    """A place for each operator: what the law says of it."""

    def __init__(self, problem: PlanningProblem, places: dict[str, Place]) -> None:
        assert problem.serial is not None
        self.problem, self.places, self.law = problem, places, problem.serial
        self.operators = problem.graph.operators
        self.made = [value for value in problem.graph.values if value.producer is not None]
        self.kinds = {device.name: device.device_class for device in problem.cluster.devices}

    def value(self) -> int | None:
        """Return the bottleneck or the latency; ``None`` where something is not allowed."""
        homes: dict[str, set[str]] = {}
        for operator in self.operators:
            home = self.places[operator.name][0]
            homes.setdefault(operator.group or f"alone {operator.name}", set()).add(home)
        if any(len(home) > 1 for home in homes.values()) or not self._fits():
            return None
        if self.law.calls is not None:
            return self._latency()
        if self.law.contiguity is Contiguity.CHAIN and _circular(self._arrows()):
            return None
        loads = {device: self._parts(device) for device in self.kinds}
        if self.law.passes is Passes.JOINT:
            return max(sum(parts) for parts in loads.values())
        return max(parts[0] for parts in loads.values()) + max(p[1] for p in loads.values())

    def _backward(self, name: str) -> bool:
        return self.problem.graph.operator(name).kind.startswith("backward")

    def _price(self, value: Value) -> int:
        if not self.problem.cluster.channels:
            return 0
        link, size = self.problem.cluster.channels[0], value.transfer_bytes.get(FULL)
        amount = (value.bytes[FULL] if size is None else size) * TICKS_PER_SECOND
        wire = -(-amount // link.bandwidth_bytes_per_s)
        return value.messages * link.latency_ticks + wire + value.messages - 1

    def _ends(self, value: Value, place: Place | str) -> int:
        """How often a place pays for a value: for reading it from elsewhere, for sending it."""

        def where(name: str) -> Place | str:
            return self.places[name][0] if isinstance(place, str) else self.places[name]

        readers = {where(name) for name in value.consumers}
        here = where(str(value.producer)) == place
        return int(any(reader != place for reader in readers)) if here else int(place in readers)

    def _load(self, place: Place | str, backward: bool | None = None) -> int:
        device = place if isinstance(place, str) else place[0]
        kind, total = self.kinds[device], 0
        for operator in self.operators:
            at = self.places[operator.name]
            if place in (at, at[0]) and backward in (None, self._backward(operator.name)):
                total += operator.options[0].duration_ticks[kind]
        for value in self.made if kind in self.law.payers else ():
            if backward in (None, self._backward(str(value.producer))):
                total += self._ends(value, place) * self._price(value)
        return total

    def _parts(self, device: str) -> tuple[int, int]:
        return self._load(device, backward=False), self._load(device, backward=True)

    def _fits(self) -> bool:
        for device in self.problem.cluster.devices:
            here = {name for name, place in self.places.items() if place[0] == device.name}
            spaces = [op.options[0].workspace_bytes for op in self.operators if op.name in here]
            used = max(spaces, default=0)
            for value in self.problem.graph.values:
                lies = here & set(value.consumers) if value.persistent else value.producer in here
                used += value.bytes[FULL] if lies else 0
            if device.memory_bytes is not None and used > device.memory_bytes:
                return False
        return True

    def _arrows(self) -> set[tuple[str, str]]:
        """Pairs of devices of which the first must come before the second."""
        groups: dict[str, bool] = {}
        for operator in self.operators:
            group = operator.group or f"alone {operator.name}"
            groups[group] = groups.get(group, True) and self._backward(operator.name)
        after = {op.name for op in self.operators if groups[op.group or f"alone {op.name}"]}
        arrows = set()
        for value in self.made:
            maker = str(value.producer)
            for reader in value.consumers:
                ends = self.places[maker][0], self.places[reader][0]
                passes = self._backward(maker), self._backward(reader)
                if passes == (False, False):
                    arrows.add(ends)
                elif passes == (True, True) and after & {maker, reader}:
                    arrows.add((ends[1], ends[0]))
        return {(a, b) for a, b in arrows if a != b}

    def _latency(self) -> int | None:
        """Start what is ready, again and again; ``None`` where calls wait for each other."""
        paid = {d for d, kind in self.kinds.items() if kind in self.law.payers}
        jobs: dict[object, list[str]] = {}  # what ends together
        for name, place in self.places.items():
            jobs.setdefault(place if place[0] in paid else name, []).append(name)
        ends: dict[object, int] = {}
        done: dict[str, int] = {}
        while len(ends) < len(jobs):
            before = len(ends)
            for job in [job for job in jobs if job not in ends]:
                names = set(jobs[job])
                inputs = {str(v.producer) for v in self.made if names & set(v.consumers)} - names
                if inputs - set(done):
                    continue
                start = max((done[name] for name in inputs), default=0)
                if isinstance(job, tuple):
                    device, call = job
                    earlier = [j for j in jobs if isinstance(j, tuple) and j[0] == device]
                    earlier = [other for other in earlier if other[1] < call]
                    if not set(earlier) <= set(ends):
                        continue
                    start = max([start, *(ends[other] for other in earlier)])
                    length = self._load(job)
                else:
                    (name,) = jobs[job]
                    kind = self.kinds[self.places[name][0]]
                    length = self.problem.graph.operator(name).options[0].duration_ticks[kind]
                ends[job] = start + length
                done |= dict.fromkeys(names, ends[job])
            if len(ends) == before:
                return None
        return max(done.values(), default=0)


def _circular(arrows: set[tuple[str, str]]) -> bool:
    left = set(arrows)
    while left:
        targets = {target for _, target in left}
        rest = {arrow for arrow in left if arrow[0] in targets}
        if rest == left:
            return True
        left = rest
    return False


def serial_plans(problem: PlanningProblem) -> Iterator[Plan]:
    """Yield every plan, valid or not, with colocation groups kept together."""
    assert problem.serial is not None
    kinds: dict[tuple[str, int | None], list[str]] = {}
    for device in problem.cluster.devices:
        kinds.setdefault((device.device_class, device.memory_bytes), []).append(device.name)
    alike = {name: names for names in kinds.values() for name in names}
    calls = {d.name: _calls(problem, d.device_class) for d in problem.cluster.devices}

    def extend(rest: tuple[Operator, ...], chosen: dict[str, Place]) -> Iterator[dict[str, Place]]:
        if not rest:
            yield chosen
            return
        operator = rest[0]
        group = problem.graph.groups.get(operator.group or "", ())
        site = [chosen[name][0] for name in group if name in chosen]
        used = {place[0] for place in chosen.values()}
        for placement in problem.placements(operator.name):
            device = placement.devices[0]
            peers = alike[device]
            new = device not in used and peers[: peers.index(device)]
            if (site and device != site[0]) or (new and not used.issuperset(new)):
                continue
            for call in calls[device]:
                yield from extend(rest[1:], {**chosen, operator.name: (device, call)})

    for places in extend(problem.graph.operators, {}):
        runs = tuple(
            OperatorRun(op.name, op.options[0].name, (places[op.name][0],), call=places[op.name][1])
            for op in problem.graph.operators
        )
        yield Plan(problem.name, runs, planner="enumeration")


def _calls(problem: PlanningProblem, kind: str) -> tuple[int | None, ...]:
    assert problem.serial is not None
    if problem.serial.calls is None or kind not in problem.serial.payers:
        return (None,)
    return tuple(range(problem.serial.calls))
