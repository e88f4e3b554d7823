"""Clusters along a plan: neighbours on one of its sites, merged where the plan loses least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import inf

from milp_plan.core import OperatorRun, PlanningProblem

from .caps import path_through
from .composite import OptionChoice, layouts, usable
from .contraction import contract
from .nodes import Caps
from .paths import Paths
from .quotient import Quotient
from .reduction import Reduction

WEIGHT_OF_STRETCH, WEIGHT_OF_SLACK, WEIGHT_OF_WORK = 4.0, 1.0, 0.25
"""Cost per tick of a longer plan, of slack that is used up, and of work above the mean."""


@dataclass(frozen=True)
class GuidedClustering:
    """Merge consecutive operators on one site of a plan until the target is met. Heuristic.

    The plan is read as a graph: precedence with the travel between its sites, and the order on
    each device. Two clusters merge if they are neighbours on all devices of their site and no
    other path joins them. The merged graph then has no cycle, so the plan with its sites and
    orders is a plan of the clusters. The pair that adds least to the longest paths goes first:
    chains lose nothing, and clusters stay small where the critical path runs. The order itself
    is not kept: the coarse problem has the precedence of the graph alone.

    Parameters
    ----------
    target
        Operators wanted.
    guide
        A run of each operator, with times.
    """

    target: int
    guide: Mapping[str, OperatorRun]
    name = "along a plan"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Merge down to the target."""
        quotient = Quotient(problem, self.guide)
        _Merging(quotient, self).run()
        clusters = quotient.clusters()
        if not clusters:
            return None
        choices = {c[0]: list(self._choices(problem, c)) for c in clusters}
        return contract(problem, clusters, name=self.name, choices=choices)

    def _choices(self, problem: PlanningProblem, members: list[str]) -> Iterator[OptionChoice]:
        """Yield the usual choices of a cluster, and the plan's options together."""
        result = [choice for choice, _ in usable(problem, members)]
        yield from result
        runs = [self.guide[name] for name in members]
        options = tuple(problem.graph.operator(r.operator).option(r.option) for r in runs)
        here = {problem.cluster.device(name).device_class for name in runs[0].devices}
        if any(c.options == options and here <= set(c.classes) for c in result):
            return
        classes = tuple(
            c.name
            for c in problem.cluster.device_classes
            if all(c.name in option.duration_ticks for option in options)
        )
        names = {choice.name for choice in result}
        name = next(n for n in ("as planned", *map(str, range(len(names) + 1))) if n not in names)
        own = OptionChoice(name, options, classes)
        if layouts(problem.graph, members, own) is not None:
            yield own


class _Merging:
    """The merges of one quotient, cheapest first."""

    def __init__(self, quotient: Quotient, step: GuidedClustering) -> None:
        self.quotient, self.target = quotient, step.target
        self.paths = Paths(quotient)
        self.longest = self.paths.longest
        self.mean = sum(node.work for node in quotient.nodes.values()) / step.target
        self.caps = Caps(inf, inf, inf, None, strict=False)
        self.after: dict[str, dict[int, int]] = {}
        self.before: dict[str, dict[int, int]] = {}
        self._queue_up()

    def _queue_up(self) -> None:
        rows: dict[str, list[int]] = {}
        for i, node in self.quotient.nodes.items():
            for device in node.site or ():
                rows.setdefault(device, []).append(i)
        for device, row in rows.items():
            self.after[device] = dict(pairwise(row))
            self.before[device] = {j: i for i, j in pairwise(row)}

    def run(self) -> None:
        """Merge until the target is met or nothing may merge."""
        quotient = self.quotient
        heap = [(self.cost(i, j), i, j) for i, j in self._pairs()]
        heapify(heap)
        while heap and len(quotient) > self.target:
            cost, i, j = heappop(heap)
            if i not in quotient.nodes or j not in quotient.nodes or not self._neighbours(i, j):
                continue
            now = self.cost(i, j)
            if now > cost and heap and now > heap[0][0]:
                heappush(heap, (now, i, j))
                continue
            if not quotient.may_merge([i, j], self.caps):
                continue
            self._merge(i, j)
            for pair in list(self._pairs_of(min(i, j))):
                heappush(heap, (self.cost(*pair), *pair))

    def _pairs(self) -> list[tuple[int, int]]:
        result = [pair for table in self.after.values() for pair in table.items()]
        return [pair for pair in dict.fromkeys(result) if self._neighbours(*pair)]

    def _pairs_of(self, i: int) -> Iterator[tuple[int, int]]:
        device = (self.quotient.nodes[i].site or ("",))[0]
        if i in self.after[device]:
            yield i, self.after[device][i]
        if i in self.before[device]:
            yield self.before[device][i], i

    def _neighbours(self, i: int, j: int) -> bool:
        first, last = self.quotient.nodes[i].site, self.quotient.nodes[j].site
        return first == last and all(self.after[d].get(i) == j for d in first or ())

    def _merge(self, i: int, j: int) -> None:
        kept = self.quotient.merge([i, j])
        for device in self.quotient.nodes[kept].site or ():
            after, before = self.after[device], self.before[device]
            del after[i], before[j]
            first, last = before.pop(i, None), after.pop(j, None)
            if first is not None:
                after[first], before[kept] = kept, first
            if last is not None:
                after[kept], before[last] = last, kept
        self.paths.lengthen(kept)

    def cost(self, i: int, j: int) -> float:
        """Return the ticks that the plan loses, or may lose later."""
        paths, nodes = self.paths, self.quotient.nodes
        path = path_through(self.quotient, [i, j], paths.heads, paths.tails)
        used = path - max(paths.through(i), paths.through(j))
        work = max(0.0, nodes[i].work + nodes[j].work - self.mean)
        stretch = max(0.0, path - self.longest)
        return WEIGHT_OF_STRETCH * stretch + WEIGHT_OF_SLACK * used + WEIGHT_OF_WORK * work
