"""Enumeration of all orders where few operators may run again or values may wait on hosts.

**One after the other suffices for a plan.** Take the tasks of any plan, runs and transfers, one
after the other in the order of their stops (of equal ones, those that last no time behind the
others, suppliers first). While a task runs alone, what lies there was made by tasks before it and
is read by it or by tasks behind it, so in the plan all of it lay there just before the task
stopped. Where a reader now finds a newer copy than it read in the plan, it holds that one in place
of the other, which has as many bytes; makers that nobody reads then are left out. So if no order
fits, no plan exists.

**Where nothing but one device works, it is the best plan.** The device does one thing at a time,
so no makespan, span or busy time is below the ticks of the runs, and an order takes just these.

A state says which operators have run, which copies lie where, and to which places the copy of the
newest run was sent. States are left in the order of the ticks so far, with the least ticks of what
has not run. Copies are forgotten only when a task needs the room, and then no more of them than it
needs. What lasts no time holds nothing: only tasks that take time are held against the memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, combinations, product
from typing import NamedTuple

from milp_plan.core import FULL, OperatorRun, Placement, Plan, PlanningProblem, Transfer, Value
from milp_plan.core.budget import Budget

EVERY_ORDER = "every order"

LARGEST = 10
"""Most operators of a problem."""

MOST_STATES = 200_000
"""Most expanded states, about ten seconds; then the search stops."""

MOST_LYING = 64
"""Most choices of where persistent values are stored."""

EXACT_SHARE = 0.6
"""Part of the time for a plan of the least ticks; then any plan will do."""

STATES_PER_CHECK = 20
"""States between two reads of the clock."""

Spot = tuple[str, str]
"""Value and device."""


@dataclass(frozen=True)
class BestOrder:
    """Result of the enumeration.

    Parameters
    ----------
    plan
        One after the other, in the least ticks; ``None`` if there is none.
    complete
        Whether nothing was left out: without a plan none exists.
    """

    plan: Plan | None
    complete: bool


def best_order(problem: PlanningProblem, budget: Budget, peak: int | None = None) -> BestOrder:
    """Return the plan whose tasks, one after the other, take the least ticks together.

    Parameters
    ----------
    problem
        One that :func:`suits`.
    budget
        Checked now and then.
    peak
        Bytes that no device may exceed.
    """
    result = BestOrder(None, complete=True)
    part = budget.part(EVERY_ORDER, EXACT_SHARE)
    for lying in _lying(problem):
        answer = _Orders(problem, lying, peak).run(part)
        better = result.plan is None or (
            answer.plan is not None and answer.plan.stop_ticks < result.plan.stop_ticks
        )
        plan = answer.plan if better else result.plan
        result = BestOrder(plan, result.complete and answer.complete)
    for lying in _lying(problem):
        if result.plan is None and not result.complete and not budget.over:
            plan = _Orders(problem, lying, peak).run(budget, eager=True).plan
            result = BestOrder(plan, complete=False)
    return result


def suits(problem: PlanningProblem) -> bool:
    """Return whether a problem allows memory saving and has few operators, each on one device."""
    return (
        problem.allows_memory_saving
        and 0 < len(problem.graph.operators) <= LARGEST
        and all(
            len(place.devices) == 1 and {*option.reads.values(), *option.writes.values()} <= {FULL}
            for operator in problem.graph.operators
            for place in problem.placements(operator.name)
            for option in (operator.option(place.option),)
        )
        and len(list(_lying(problem))) <= MOST_LYING
    )


def works_alone(problem: PlanningProblem) -> bool:
    """Return whether one device runs every operator and there are no transfers."""
    return len(problem.cluster.devices) == 1


def _lying(problem: PlanningProblem) -> Iterator[dict[str, frozenset[str]]]:
    """Yield choices of the persistent values on each device; all of them on a single one."""
    values = [v for v in problem.graph.values if v.persistent and v.consumers]
    names = [value.name for value in values if value.bytes[FULL]]
    free = frozenset(value.name for value in values) - set(names)
    devices = [d for d in problem.cluster.device_names if d not in problem.cluster.hosts]
    if len(devices) == 1:
        yield {devices[0]: free.union(names)}
        return
    subsets = [
        free.union(chosen) for k in range(len(names) + 1) for chosen in combinations(names, k)
    ]
    if len(subsets) ** len(devices) > MOST_LYING:
        yield from ({} for _ in range(MOST_LYING + 1))
        return
    for choice in product(subsets, repeat=len(devices)):
        yield dict(zip(devices, choice, strict=True))


class _Task(NamedTuple):
    """A run of an operator as placed, or a transfer of a value from a device to another."""

    operator: str
    place: Placement | None
    value: str
    source: str
    target: str
    ticks: int


class _State(NamedTuple):
    """Operators that have run, copies in memory, where newest copies were sent, sites of groups."""

    ran: frozenset[str]
    native: frozenset[Spot]
    brought: frozenset[Spot]
    sent: frozenset[tuple[str, str, str]]
    homes: frozenset[tuple[str, str]]


class _Reached(NamedTuple):
    """A state with its lower bound, its ticks so far, and the task that led to it."""

    rank: tuple[int, int]
    number: int
    ticks: int
    state: _State
    before: int
    task: _Task | None


class _Orders:
    """Search over orders of tasks, for given places of persistent values."""

    def __init__(
        self, problem: PlanningProblem, lying: dict[str, frozenset[str]], peak: int | None
    ) -> None:
        self.problem, self.graph, self.cluster = problem, problem.graph, problem.cluster
        self.devices, self.hosts = self.cluster.device_names, self.cluster.hosts
        self.made = {v.name: v for v in self.graph.values if v.producer is not None}
        sizes = {v.name: v.bytes.get(FULL, 0) for v in self.graph.values}
        self.sizes = sizes
        self.room: dict[str, int | None] = {}
        for device in self.cluster.devices:
            held = sum(sizes[name] for name in lying.get(device.name, ()))
            limits = [most for most in (device.memory_bytes, peak) if most is not None]
            limit = min(limits, default=None)
            self.room[device.name] = None if limit is None else limit - held
        self.places = {
            op.name: [
                place
                for place in problem.placements(op.name)
                if lying[place.devices[0]].issuperset(
                    v.name for v in self.graph.inputs[op.name] if v.persistent
                )
            ]
            for op in self.graph.operators
        }
        self.left: list[_Reached] = []
        self.useful, self.rest = cache(self._useful), cache(self._rest)
        self.ticks = {
            (name, place): problem.duration_ticks(name, place)
            for name, places in self.places.items()
            for place in places
        }
        self.readable = {
            (name, place.devices[0])
            for name, value in self.made.items()
            for reader in value.consumers
            for place in self.places[reader]
        }

    def run(self, budget: Budget, *, eager: bool = False) -> BestOrder:
        """Examine every order, or as many as the budget allows.

        An eager search goes on from where most has run: it finds a plan sooner, not the best.
        """
        if not all(self.places.values()) or any(
            r is not None and r < 0 for r in self.room.values()
        ):
            return BestOrder(None, complete=True)
        nothing: frozenset[Spot] = frozenset()
        start = _State(frozenset(), nothing, nothing, frozenset(), nothing)
        seen: set[_State] = set()
        queue = [_Reached((0, 0), 0, 0, start, -1, None)]
        pushed = 0
        while queue:
            reached = heapq.heappop(queue)
            if reached.state in seen:
                continue
            seen.add(reached.state)
            self.left.append(reached)
            if self._over(reached.state):
                return BestOrder(self._plan(), complete=not eager)
            if len(seen) > MOST_STATES or (len(seen) % STATES_PER_CHECK == 0 and budget.over):
                return BestOrder(None, complete=False)
            place = len(self.left) - 1
            for task, state in self._steps(reached.state):
                if state not in seen and self._may_end(state):
                    pushed += 1
                    ticks = reached.ticks + task.ticks
                    least, ahead = ticks + self.rest(state.ran), -len(state.ran)
                    rank = (ahead, least) if eager else (least, ahead)
                    heapq.heappush(queue, _Reached(rank, pushed, ticks, state, place, task))
        return BestOrder(None, complete=True)

    def _rest(self, ran: frozenset[str]) -> int:
        """Return the least ticks of operators that have not run."""
        return sum(
            min(self.ticks[name, place] for place in places)
            for name, places in self.places.items()
            if name not in ran
        )

    def _over(self, state: _State) -> bool:
        """Return whether everything has run and all results are in memory."""
        if len(state.ran) < len(self.places):
            return False
        lying = {name for name, _ in state.native}
        kept = [name for name, value in self.made.items() if value.is_kept]
        return lying.issuperset(kept) and all(
            self._fits(device, {spot for spot in state.native if spot[0] in kept})
            for device in self.devices
        )

    def _may_end(self, state: _State) -> bool:
        """Return whether all values that are still needed exist or can be made again."""
        there = {name for name, _ in (*state.native, *state.brought)}
        for name in self.graph.topological_order:
            operator = self.graph.operator(name)
            inputs = {v.name for v in self.graph.inputs[name] if not v.persistent}
            if name not in state.ran or (operator.recomputable and inputs <= there):
                there.update(v.name for v in self.graph.outputs[name])
        return all(
            name in there
            for name, value in self.made.items()
            if value.is_kept or not state.ran.issuperset(value.consumers)
        )

    def _fits(self, device: str, spots: set[Spot]) -> bool:
        room = self.room[device]
        return room is None or sum(self.sizes[v] for v, d in spots if d == device) <= room

    def _useful(self, value: str, ran: frozenset[str]) -> bool:
        """Return whether a copy of a value may be needed later."""
        made = self.made[value]
        return made.is_kept or any(
            reader not in ran
            or (
                self.graph.operator(reader).recomputable
                and any(self.useful(v.name, ran) for v in self.graph.outputs[reader])
            )
            for reader in made.consumers
        )

    # -- what may come next --------------------------------------------------------------------

    def _steps(self, state: _State) -> Iterator[tuple[_Task, _State]]:
        for operator in self.graph.operators:
            yield from self._runs(state, operator.name)
        for name, value in self.made.items():
            if self.useful(name, state.ran):
                yield from self._transfers(state, value)

    def _runs(self, state: _State, name: str) -> Iterator[tuple[_Task, _State]]:
        operator, outputs = self.graph.operator(name), self.graph.outputs[name]
        wanted = [v.name for v in outputs if self.useful(v.name, state.ran | {name})]
        if name in state.ran and not (operator.recomputable and wanted):
            return
        reads = [v.name for v in self.graph.inputs[name] if not v.persistent]
        homes = dict(state.homes)
        for place in self.places[name]:
            (device,) = place.devices
            if operator.group and homes.get(operator.group, device) != device:
                continue
            here = [(v, device) for v in reads]
            if not all(spot in state.native or spot in state.brought for spot in here):
                continue
            new = {(v.name, device) for v in outputs}
            task = _Task(name, place, "", "", device, self.ticks[name, place])
            more = sum(self.sizes[v.name] for v in outputs)
            more += operator.option(place.option).workspace_bytes
            groups = state.homes | ({(operator.group, device)} if operator.group else set())
            for native, brought in self._kept(state, task, set(here), new, more):
                yield (
                    task,
                    self._state(
                        state.ran | {name},
                        native | {(v, device) for v in wanted},
                        brought,
                        {entry for entry in state.sent if entry[:2] not in new},
                        groups,
                    ),
                )

    def _transfers(self, state: _State, value: Value) -> Iterator[tuple[_Task, _State]]:
        name = value.name
        for source, target in product(self.devices, self.devices):
            away = source in self.hosts
            from_, to = (name, source), (name, target)
            if from_ not in (state.brought if away else state.native) or to in state.brought:
                continue
            if (away and target in self.hosts) or to in state.native:
                continue
            if target not in self.hosts and to not in self.readable:
                continue
            channel = self.cluster.channel(source, target) if source != target else None
            if channel is None or (not away and (name, source, target) in state.sent):
                continue
            ticks = channel.transfer_ticks(value.payload(FULL), value.messages)
            task = _Task("", None, name, source, target, ticks)
            size = self.sizes[name]
            for native, brought in self._kept(state, task, {from_}, {to}, size):
                sent = state.sent if away else state.sent | {(name, source, target)}
                yield task, self._state(state.ran, native, brought | {to}, sent, state.homes)

    def _state(
        self,
        ran: frozenset[str],
        native: AbstractSet[Spot],
        brought: AbstractSet[Spot],
        sent: AbstractSet[tuple[str, str, str]],
        homes: frozenset[tuple[str, str]],
    ) -> _State:
        """Return a state without copies that are no longer needed."""
        return _State(
            ran,
            frozenset(spot for spot in native if self.useful(spot[0], ran)),
            frozenset(spot for spot in brought if self.useful(spot[0], ran)),
            frozenset(entry for entry in sent if entry[:2] in native),
            homes,
        )

    def _kept(
        self, state: _State, task: _Task, read: set[Spot], made: set[Spot], more: int
    ) -> Iterator[tuple[frozenset[Spot], frozenset[Spot]]]:
        """Yield sets of copies that stay during a task: maximal ones, all copies if they fit."""
        native, brought = state.native - made, state.brought - made
        if not task.ticks:
            yield native, brought
            return
        choices = []
        for name, room in self.room.items():
            if room is None:
                continue
            loose = [(False, spot) for spot in native if spot[1] == name]
            loose += [(True, spot) for spot in brought if spot[1] == name]
            excess = sum(self.sizes[spot[0]] for _, spot in loose) - room
            excess += more if name == task.target else 0
            if excess > 0:
                gone = [copy for copy in loose if copy[1] not in read and self.sizes[copy[1][0]]]
                gone.sort(key=lambda copy: (-self.sizes[copy[1][0]], copy))
                choices.append(list(self._least(gone, excess)))
        for choice in product(*choices):
            lost = [copy for part in choice for copy in part]
            yield (
                native.difference(spot for away, spot in lost if not away),
                brought.difference(spot for away, spot in lost if away),
            )

    def _least(
        self, copies: list[tuple[bool, Spot]], excess: int
    ) -> Iterator[list[tuple[bool, Spot]]]:
        """Yield minimal sets of copies that free ``excess`` bytes, large copies first."""
        left = list(accumulate((self.sizes[spot[0]] for _, spot in reversed(copies)), initial=0))
        left.reverse()
        open_sets: list[tuple[int, int, list[tuple[bool, Spot]]]] = [(excess, 0, [])]
        while open_sets:
            needed, place, chosen = open_sets.pop()
            if needed <= 0:
                yield chosen
            elif left[place] >= needed:
                open_sets.append((needed, place + 1, chosen))
                size = self.sizes[copies[place][1][0]]
                open_sets.append((needed - size, place + 1, [*chosen, copies[place]]))

    # -- the plan ------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        """Return the tasks that led to the last state, one after the other."""
        tasks: list[_Task] = []
        at = len(self.left) - 1
        while (task := self.left[at].task) is not None:
            tasks.append(task)
            at = self.left[at].before
        tasks.reverse()
        while (spare := self._spare(tasks)) is not None:
            del tasks[spare]
        runs, transfers, stop = [], [], 0
        for task in tasks:
            times = stop, stop + task.ticks
            stop = times[1]
            if task.place is not None:
                place = task.place
                runs.append(OperatorRun(task.operator, place.option, place.devices, *times))
            else:
                ends = (task.source,), (task.target,)
                transfers.append(Transfer(task.value, *ends, FULL, *times))
        problem = self.problem
        return Plan(
            problem.name,
            tuple(runs),
            tuple(transfers),
            planner=EVERY_ORDER,
            fingerprint=problem.fingerprint,
        )

    def _spare(self, tasks: list[_Task]) -> int | None:
        """Return the place of a task whose copies nobody reads; ``None`` if each is needed.

        A reader reads the newest of the copies that are complete when it starts: at one instant
        also one whose maker comes later in the order, where that takes no time.
        """
        stops = list(accumulate(task.ticks for task in tasks))
        copies: dict[Spot, list[int]] = {}
        runs: dict[str, list[int]] = {}
        for number, task in enumerate(tasks):
            names = [task.value]
            if task.place is not None:
                runs.setdefault(task.operator, []).append(number)
                names = [value.name for value in self.graph.outputs[task.operator]]
            for name in names:
                copies.setdefault((name, task.target), []).append(number)

        def newest(among: list[int]) -> int:
            """Return the sort key: by stop, then start, then runs before transfers."""
            return max(
                among,
                key=lambda n: (stops[n], stops[n] - tasks[n].ticks, tasks[n].place is not None, -n),
            )

        read = {newest(runs[str(v.producer)]) for v in self.made.values() if v.is_kept}
        for number, task in enumerate(tasks):
            start = stops[number] - task.ticks
            spots = [(task.value, task.source)]
            native = task.place is None and task.source not in self.hosts
            if task.place is not None:
                inputs = self.graph.inputs[task.operator]
                spots = [(v.name, task.target) for v in inputs if not v.persistent]
            for spot in spots:
                there = [n for n in copies[spot] if stops[n] <= start and n != number]
                read.add(newest([n for n in there if tasks[n].place or not native]))
        for number, task in enumerate(tasks):
            once = task.place is not None and len(runs[task.operator]) == 1
            if number not in read and not once:
                return number
        return None
