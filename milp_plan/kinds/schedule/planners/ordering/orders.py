"""Orders by rule, and their improvement: searches between cuts, windows where those are too large.

A cut is a set of operators that all others wait for: every order runs it first, and what is held
at its end depends on no order (ROAM, arXiv 2310.19295). So the parts between cuts are ordered one
by one, and the fullest part counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget

from .reading import OrderGraph, read_order
from .search import FAILED, FOUND, FULL, MOST_STATES, STATES, Trial

SEARCH = "order search"
"""Name of the bound in records."""

_FIRST_NODES, _GROWTH = 20_000, 4
"""Nodes of the first search of a part, and how many times as many each later one gets."""

_ENDS = 2
"""Ends of a part, from each of which it is searched."""

_NARROW = 8
"""Part of what is open that is no longer halved before searches get more nodes."""

_WINDOW_NODES, _WINDOW_STATES, _WIDEST, _PATIENCE = 20_000, 2**16, 64, 60
"""Of windows: nodes and states of each search, most operators, how many without a gain end it."""

Order = list[int]


def definition(graph: OrderGraph) -> Order:
    """Return the order of the file, each operator as soon as its inputs are there."""
    return graph.by_rank(range(len(graph)))


def depth_first(graph: OrderGraph) -> Order:
    """Return an order that takes the operator that became ready last."""
    waiting = [len(before) for before in graph.before]
    ready = [o for o in reversed(range(len(graph))) if not waiting[o]]
    order = []
    while ready:
        order.append(ready.pop())
        for other in reversed(graph.after[order[-1]]):
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return order


def frugal(graph: OrderGraph) -> Order:
    """Return an order that takes the operator that leaves the least bytes, then needs the least."""
    waiting = [len(before) for before in graph.before]
    left = [len(readers) for readers in graph.consumers]
    ready = {o for o in range(len(graph)) if not waiting[o]}
    order = []

    def growth(o: int) -> tuple[int, int, int]:
        made = sum(graph.sizes[v] for v in graph.outputs[o])
        kept = sum(graph.sizes[v] for v in graph.outputs[o] if graph.consumers[v])
        freed = sum(graph.sizes[v] for v in graph.inputs[o] if left[v] == 1)
        return kept - freed, made + graph.workspace[o], o

    while ready:
        chosen = min(ready, key=growth)
        ready.remove(chosen)
        order.append(chosen)
        for value in graph.inputs[chosen]:
            left[value] -= 1
        for other in graph.after[chosen]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.add(other)
    return order


ORDERS: dict[str, Callable[[OrderGraph], Order]] = {
    "definition-order": definition,
    "depth-first-order": depth_first,
    "frugal-order": frugal,
}
"""Orders by rule, by name."""


def plan_by(name: str, problem: PlanningProblem) -> Plan | None:
    """Plan one device by an order of :data:`ORDERS`; ``None`` where it is none, or has no room."""
    graph = read_order(problem)
    if isinstance(graph, str):
        return None
    order, limit = ORDERS[name](graph), problem.cluster.devices[0].memory_bytes
    if limit is not None and graph.peak(order) > limit:
        return None
    return graph.plan(order, name)


@dataclass
class Part:
    """Operators between two cuts.

    ``low``: bytes that every order of them holds at some time. ``nodes``, ``states``: what a search
    may use; ``backwards``: whether they begin at the end first; ``left``: bytes within which
    searches were left unfinished; ``full``: how many of the last two for the memory of states.
    """

    begin: int
    operators: Order
    peak: int
    low: int = 0
    nodes: int = _FIRST_NODES
    states: int = STATES
    backwards: bool = False
    left: set[int] = field(default_factory=set)
    full: int = 0
    tried: bool = False


class Orderer:
    """The best order of a graph so far, and searches that improve it."""

    def __init__(self, graph: OrderGraph, order: Sequence[int]) -> None:
        self.graph = graph
        self.order = list(order)

    @property
    def peak(self) -> int:
        """Value of the order."""
        return self.graph.peak(self.order)

    @cached_property
    def cuts(self) -> list[int]:
        """Positions before which every order has run the same operators."""
        graph, found, before = self.graph, [0], _ancestors(self.graph)
        need: list[int] = [0] * (len(graph) + 1)  # operators that all those behind a place wait for
        common = (1 << len(graph)) - 1
        for at in range(len(graph) - 1, 0, -1):
            common &= before[self.order[at]]
            need[at] = common
        done = 0
        for at in range(1, len(graph)):
            done |= 1 << self.order[at - 1]
            if done & ~need[at] == 0:
                found.append(at)
        return [*found, len(graph)]

    def parts(self) -> list[Part]:
        """Return the parts of the order, with their peaks."""
        profile = self.graph.profile(self.order)
        pairs = zip(self.cuts, self.cuts[1:], strict=False)
        return [Part(a, self.order[a:b], max(profile[a:b])) for a, b in pairs]

    def search(self, budget: Budget, lower: int) -> Iterator[Order | Bound]:
        """Search the fullest part again and again: lower orders, higher bounds, until they meet.

        ``lower`` is a bound on the peak; the nodes of the budget are those of all its searches,
        windows aside.
        """
        parts, base, used = self.parts(), self.graph.base_bytes, 0
        lower = max(lower, base)
        while not budget.over and (budget.nodes is None or used < budget.nodes):
            part = max(parts, key=lambda entry: entry.peak, default=None)
            if part is None or part.peak <= lower:
                return
            top = _next_top(part, lower)
            if top is None:
                return
            trial, nodes = self._settle(part, top, budget)
            used += nodes
            if trial.result == FOUND:
                self._put(part, trial.order)
                yield list(self.order)
            elif trial.result == FAILED and trial.exact:
                part.low = min(trial.next_top, part.peak)
                if part.low > lower:
                    lower = part.low
                    detail = f"no order of {len(part.operators)} operators needs less, in {nodes} "
                    yield Bound(SEARCH, lower, f"{detail}nodes")
            else:
                part.left.add(top)

    def _settle(self, part: Part, top: int, budget: Budget) -> tuple[Trial, int]:
        """Search a part from both its ends, first from where the last search ended; count nodes.

        What grows one way shrinks the other way, where it is no choice: one way may take a hundred
        times as many states as the other.
        """
        done, nodes, part.full = self.order[: part.begin], 0, 0
        for backwards in (part.backwards, not part.backwards):
            trial = Trial(
                self.graph, part.operators, done, top, states=part.states, backwards=backwards
            )
            result = trial.go_on(part.nodes, budget)
            nodes += trial.nodes
            if result in (FOUND, FAILED):
                part.backwards = backwards
                break
            part.full += result == FULL
        return trial, nodes

    def polish(self, budget: Budget, lower: int, seed: int) -> Iterator[Order]:
        """Order windows around the fullest operators anew, each a search of its own."""
        rng, graph, idle = Random(seed), self.graph, 0
        while idle < _PATIENCE and not budget.over:
            profile = graph.profile(self.order)
            peak = max(profile, default=0)
            if peak <= max(lower, graph.base_bytes):
                return
            full = rng.choice([at for at, held in enumerate(profile) if held == peak])
            width = rng.randint(min(8, len(graph)), min(_WIDEST, len(graph)))
            begin = max(0, min(len(graph) - width, full - rng.randrange(width)))
            window = self.order[begin : begin + width]
            done = self.order[:begin]
            back = rng.random() < 1 / 2
            trial = Trial(graph, window, done, peak - 1, states=_WINDOW_STATES, backwards=back)
            result = trial.go_on(_WINDOW_NODES, budget)
            idle += 1
            if result == FOUND:
                self.order[begin : begin + width] = trial.order
                if max(graph.profile(self.order)) < peak:
                    yield list(self.order)
                idle = 0

    def _put(self, part: Part, order: Order) -> None:
        """Take a better order of a part."""
        end = part.begin + len(order)
        self.order[part.begin : end] = part.operators = order
        part.peak = max(self.graph.profile(self.order)[part.begin : end])


def _next_top(part: Part, lower: int) -> int | None:
    """Return the bytes to search within next; ``None`` where there is nothing left to try.

    The least first. Then halfway, and halfway to either side of what was left unfinished; when
    that has become narrow, all again with more nodes.
    """
    low, high = max(part.low, lower), part.peak - 1
    if not part.tried:
        part.tried = True
        return low
    hard = [top for top in part.left if low <= top <= high]
    if not hard:
        return (low + high) // 2
    least, most = min(hard), max(hard)
    if max(least - low, high - most) > (high - low) // _NARROW:
        return (most + high + 1) // 2 if high - most >= least - low else (low + least) // 2
    if part.full == _ENDS and part.states == MOST_STATES:
        return None
    if part.full and part.states < MOST_STATES:
        part.states *= _GROWTH
    part.left.clear()
    part.nodes *= _GROWTH
    return (low + high) // 2


def _ancestors(graph: OrderGraph) -> list[int]:
    """Return the bits of all operators that each one waits for."""
    result = [0] * len(graph)
    for o in definition(graph):
        for before in graph.before[o]:
            result[o] |= result[before] | 1 << before
    return result
