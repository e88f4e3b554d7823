"""Cuts of a graph into stages: intervals of colocation groups along the forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from math import inf, log

from milp_plan.core import PlanningProblem
from milp_plan.core.graph import FORWARD_KIND

GROWTH = 1.4
"""Factor from one tried number of stages to the next."""

STAGES_PER_DEVICE = 4
"""Most stages per device that are tried before the best cut is refined."""


class Rest(Enum):
    """Cluster of the work that no other stage waits for, such as gradients of weights."""

    APART = "apart"
    """One cluster for each micro-batch."""
    ALONG = "along"
    """Into the cluster of the work that others wait for."""
    AT_ONCE = "at once"
    """One cluster for all micro-batches: few clusters, and all that it reads waits for it."""


@dataclass(frozen=True)
class Cut:
    """Clusters, each in topological order, with their stages and branches, and their origin.

    ``needs`` are bytes that each stage needs at least; ``number`` gives the stage of each unit.
    """

    line: StageLine
    clusters: list[list[str]]
    parts: list[tuple[int, int]]
    rest: Rest
    number: dict[str, int]
    needs: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of clusters."""
        return len(self.clusters)

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.needs)

    @property
    def batches(self) -> int:
        """Number of runs of micro-batches into which the work of a stage is cut."""
        return self.line.num_batches

    def refined(self, target: int) -> Cut:
        """Return the cut with stages halved, the heaviest first, while the target allows it.

        Every plan of the clusters is one of the finer ones.
        """
        best, left = self, set(self.number.values())
        while left and len(best.clusters) < target:
            loads = self.line.loads(best.number)
            heaviest = max(left, key=lambda stage: (loads[stage], -stage))
            number = self.line.halved(best.number, heaviest)
            finer = None if number is None else self.line.clustered(number, self.rest)
            if number is None or finer is None or len(finer.clusters) > target:
                left.discard(heaviest)
                continue
            left.add(max(number.values()))
            best = finer
        return best


def steps(most: int) -> list[int]:
    """Return growing numbers from 1 up to ``most``."""
    result = (round(GROWTH**n) for n in range(1 + int(log(most, GROWTH))))
    return list(dict.fromkeys(result))


class StageLine:
    """A problem's graph as a line of colocation groups that stages are cut from.

    Parameters
    ----------
    problem
        Any problem.
    size
        Micro-batches that one cluster takes.
    """

    def __init__(self, problem: PlanningProblem, size: int) -> None:
        self.graph = problem.graph
        self.order = problem.graph.depth_first_order
        labels = {o.name: o.micro_batch for o in self.graph.operators}
        numbers = sorted({label for label in labels.values() if label is not None})
        run = {label: rank // size for rank, label in enumerate(numbers)}
        self.batch = {n: None if label is None else run[label] for n, label in labels.items()}
        self.num_batches = max(1, len(set(run.values())))
        self.unit = {o.name: o.group or f"\0{o.name}" for o in self.graph.operators}
        self.ticks = {
            operator.name: min(o.gang * min(o.duration_ticks.values()) for o in operator.options)
            for operator in self.graph.operators
        }
        self.work = dict.fromkeys(self._line(), 0)
        for name, ticks in self.ticks.items():
            self.work[self.unit[name]] += ticks
        self.stored, self.stashed = self._bytes()
        self._index()
        self._keys: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
        self._needs: dict[int, list[int]] = {}
        limits = [d.memory_bytes for d in problem.without_memory_saving.cluster.devices]
        self.devices = len(limits)
        known = [limit for limit in limits if limit is not None]
        self.room = max(known) if len(known) == len(limits) else inf

    def _bytes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return unit -> bytes that stay, and unit -> bytes that its forward pass leaves."""
        kinds = {operator.name: operator.kind for operator in self.graph.operators}
        stored, stashed = dict.fromkeys(self.work, 0), dict.fromkeys(self.work, 0)
        for value in self.graph.values:
            size = max(value.bytes.values())
            if value.producer is None:
                for unit in dict.fromkeys(self.unit[name] for name in value.consumers):
                    stored[unit] += size
            elif kinds[value.producer] == FORWARD_KIND and any(
                kinds[name] != FORWARD_KIND for name in value.consumers
            ):
                stashed[self.unit[value.producer]] += size
        return stored, stashed

    def _index(self) -> None:
        """Number operators in their order and units along the line; loops run over numbers."""
        place = {name: i for i, name in enumerate(self.order)}
        line = {unit: i for i, unit in enumerate(self.work)}
        self._works = list(self.work.values())
        self._unit = [line[self.unit[name]] for name in self.order]
        self._batch = [self.batch[name] for name in self.order]
        self._before = [[place[b] for b in self.graph.predecessors[name]] for name in self.order]
        after = ([place[a] for a in self.graph.successors[name]] for name in self.order)
        self._after = [
            [j for j in row if self._batch[j] == own]
            for row, own in zip(after, self._batch, strict=True)
        ]

    def _line(self) -> list[str]:
        """Return units along the forward pass; others are at the last forward operator they read.

        What reads none stands at the last unit of those that read it, or else at the first that
        it reads: gradients come from the end. An operator of a later micro-batch stands where
        those of the first do that feed what it reads.
        """
        graph = self.graph
        operators = {operator.name: operator for operator in graph.operators}
        batches = {o.micro_batch for o in operators.values() if o.micro_batch is not None}
        first = min(batches, default=None)
        place: dict[str, int] = {}
        later: list[str] = []
        for name in self.order:
            operator, unit = operators[name], self.unit[name]
            again = operator.group is None and operator.micro_batch not in (None, first)
            if operator.kind == FORWARD_KIND and not (again and graph.predecessors[name]):
                place.setdefault(unit, len(place))
            else:
                later.append(name)
        for name in later:
            before = [self.unit[b] for b in graph.predecessors[name]]
            ahead = [
                self.unit[b] for b in graph.predecessors[name] if operators[b].kind == FORWARD_KIND
            ]
            after = [u for a in graph.successors[name] if (u := self.unit[a]) in place]
            if ahead or after:
                rank = max(place[unit] for unit in ahead or after)
            else:
                rank = min((place[unit] for unit in before), default=len(place))
            place.setdefault(self.unit[name], rank)
        return sorted(place, key=place.__getitem__)

    def cuts(self, target: int, rest: Rest) -> list[Cut]:
        """Return cuts of at most ``target`` clusters, from few stages to many; else one stage."""
        whole = sum(self.work.values())
        most = max(1, min(target // self.num_batches, STAGES_PER_DEVICE * self.devices))
        sizes = [size for n in steps(most) for size in (self._balanced(n), -(-whole // n))]
        alike = {tuple(self._intervals(size).values()): size for size in sizes}
        result = (self.cut(size, rest) for size in alike.values())
        return [cut for cut in result if len(cut.clusters) <= target] or [self.cut(whole, rest)]

    def _balanced(self, count: int) -> int:
        """Return the least work per stage with which ``count`` stages hold all units."""
        low, high = max(self.work.values(), default=0), sum(self.work.values())
        while low < high:
            middle = (low + high) // 2
            if max(self._numbers(middle), default=0) < count:
                high = middle
            else:
                low = middle + 1
        return high

    def loads(self, number: Mapping[str, int]) -> list[int]:
        """Return the work of each stage."""
        result = [0] * (1 + max(number.values(), default=0))
        for unit, stage in number.items():
            result[stage] += self.work[unit]
        return result

    def halved(self, number: Mapping[str, int], stage: int) -> dict[str, int] | None:
        """Return stages of units with one cut in two of like work; ``None`` for a single unit."""
        units = [unit for unit, own in number.items() if own == stage]
        if len(units) < 2:
            return None
        sums = list(accumulate(self.work[unit] for unit in units))
        place = min(range(1, len(units)), key=lambda k: abs(2 * sums[k - 1] - sums[-1]))
        return {**number, **dict.fromkeys(units[place:], 1 + max(number.values()))}

    def cut(self, most: int, rest: Rest = Rest.APART) -> Cut:
        """Return the clusters of stages with at most ``most`` work, except for larger units."""
        return self.clustered(self._intervals(most, self._together(rest)), rest)

    def clustered(self, number: Mapping[str, int], rest: Rest) -> Cut:
        """Return the clusters of given stages of units, which are in the order of the line."""
        key = tuple(number.values())
        stage = [key[unit] for unit in self._unit]
        if key not in self._keys:
            owns = zip(stage, self._branches(stage), self._visits(stage), strict=True)
            self._keys[key] = list(owns)
        passing = [True] * len(stage)
        if rest is not Rest.ALONG:
            passing = self._waited_for(self._unit if rest is Rest.AT_ONCE else stage)
        result: dict[tuple[int, int, int, int | None, bool], list[str]] = {}
        for i, own in enumerate(self._keys[key]):
            joined = rest is Rest.AT_ONCE and not passing[i]
            batch = None if joined else self._batch[i]
            result.setdefault((*own, batch, passing[i]), []).append(self.order[i])
        parts = [(stage, branch) for stage, branch, *_ in result]
        needs = [0] * (1 + max(key, default=0))
        for own_stage, need in zip(key, self._unit_needs(self._together(rest)), strict=True):
            needs[own_stage] += need
        return Cut(self, list(result.values()), parts, rest, dict(number), tuple(needs))

    def _together(self, rest: Rest) -> int:
        """Return the number of runs of micro-batches of work that waits for another pass."""
        return 1 if rest is Rest.AT_ONCE else self.num_batches

    def _unit_needs(self, batches: int) -> list[int]:
        """Return the bytes of each unit, with what one of the batches leaves for another pass."""
        if batches not in self._needs:
            stored = self.stored.items()
            self._needs[batches] = [n + self.stashed[unit] // batches for unit, n in stored]
        return self._needs[batches]

    def _intervals(self, most: int, batches: int = 1) -> dict[str, int]:
        """Return unit -> its stage, within work and memory except for larger units."""
        return dict(zip(self.work, self._numbers(most, batches), strict=True))

    def _numbers(self, most: int, batches: int = 1) -> list[int]:
        """Return the stage of each unit, in the order of the line."""
        room, found = self.room, list[int]()
        number = filled = need = 0
        for work, size in zip(self._works, self._unit_needs(batches), strict=True):
            if (filled and filled + work > most) or (need and need + size > room):
                number, filled, need = number + 1, 0, 0
            filled, need = filled + work, need + size
            found.append(number)
        return found

    def _visits(self, stage: Sequence[int]) -> list[int]:
        """Return how often a path to each operator has left its stage and come back.

        What is known at an operator, the latest visit of each stage on paths to it, is the same
        at many: equal states are one number, and each union of states is made once.
        """
        states: list[dict[int, int]] = []
        numbers: dict[frozenset[tuple[int, int]], int] = {}
        unions: dict[tuple[int, frozenset[int]], tuple[int, int]] = {}
        visits, state = [0] * len(stage), [0] * len(stage)
        for i, own in enumerate(stage):
            before = self._before[i]
            codes = frozenset(2 * state[j] + (stage[j] != own) for j in before)
            key = own, codes
            if key not in unions:
                latest = _union([states[code >> 1] for code in codes])
                latest[own] = max((states[c >> 1].get(own, -1) + (c & 1) for c in codes), default=0)
                latest[own] = max(0, latest[own])
                number = numbers.setdefault(frozenset(latest.items()), len(states))
                if number == len(states):
                    states.append(latest)
                unions[key] = latest[own], number
            visits[i], state[i] = unions[key]
        return visits

    def _waited_for(self, part: Sequence[int]) -> list[bool]:
        """Return whether another part waits for each operator, within its micro-batch."""
        result = [False] * len(part)
        for i in range(len(part) - 1, -1, -1):
            own = part[i]
            result[i] = any(part[j] != own or result[j] for j in self._after[i])
        return result

    def _branches(self, stage: Sequence[int]) -> list[int]:
        """Return for each operator one that represents its branch of the stage."""
        leader = list(range(len(stage)))

        def find(i: int) -> int:
            while leader[i] != i:
                leader[i] = leader[leader[i]]
                i = leader[i]
            return i

        first: dict[int, int] = {}
        for i, own in enumerate(stage):
            leader[find(i)] = find(first.setdefault(self._unit[i], i))
            for j in self._before[i]:
                if stage[j] == own:
                    leader[find(i)] = find(j)
        return [find(i) for i in range(len(stage))]


def _union(states: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the largest number of each stage."""
    result: dict[int, int] = {}
    for state in states:
        for stage, visit in state.items():
            if result.get(stage, -1) < visit:
                result[stage] = visit
    return result
