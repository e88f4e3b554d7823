"""Reasons of sharding problems: strategies by name, memory, costs of operators and edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from milp_plan.core import Counts, Finding, InputError, Verdict
from milp_plan.core.sharding import (
    ShardingPlan,
    ShardingProblem,
    StrategyTable,
    TransitionTable,
    offsets_of,
)
from milp_plan.run.reasons.base import (
    Block,
    Move,
    Reasons,
    Remedy,
    Resource,
    Usage,
    Why,
    largest_first,
    moves_of,
    used_up,
)

LIMIT = "memory limit"


class ShardingReasons(Reasons[ShardingProblem, ShardingPlan]):
    """Reasons of :class:`milp_plan.core.sharding.ShardingProblem`."""

    noun, place_noun = "operators", "strategy"

    def parts(self, problem: ShardingProblem) -> tuple[str, ...]:
        """Return the operators."""
        return problem.operators

    def keep(self, problem: ShardingProblem, names: Collection[str]) -> ShardingProblem:
        """Leave operators out, with their edges: sums and usages of the others stay or fall."""
        s, t, selected = problem.strategies, problem.transitions, set(names)
        mask = np.array([name in selected for name in problem.operators], dtype=bool)
        rows = np.repeat(mask, s.counts)
        number = np.cumsum(mask) - 1
        edges = mask[t.ends[:, 0]] & mask[t.ends[:, 1]]
        entries = np.repeat(edges, np.diff(t.offsets))
        labels = problem.labels
        return replace(
            problem,
            operators=tuple(name for name in problem.operators if name in selected),
            strategies=StrategyTable(
                offsets_of(s.counts[mask]), s.cost[rows], s.usage[rows], s.allowed[rows]
            ),
            transitions=TransitionTable(
                number[t.ends[edges]].astype(np.int64).reshape(-1, 2),
                offsets_of(np.diff(t.offsets)[edges]),
                t.cost[entries],
                t.allowed[entries],
            ),
            intervals=problem.intervals[mask],
            labels=tuple(np.array(labels, dtype=object)[rows]) if labels else (),
        )

    def resources(self, problem: ShardingProblem) -> tuple[Resource, ...]:
        """Return the limit on bytes in use."""
        return (Resource(LIMIT, "memory", problem.limit, Counts.SIZE),)

    def resized(
        self, problem: ShardingProblem, amounts: Mapping[str, int | None]
    ) -> ShardingProblem:
        """Return the problem with another limit."""
        return replace(problem, limit=amounts.get(LIMIT, problem.limit))

    def places(self, problem: ShardingProblem, part: str) -> tuple[str, ...]:
        """Return the allowed strategies of an operator."""
        number = problem.operators.index(part)
        first, stop = problem.strategies.offsets[number : number + 2].tolist()
        return tuple(
            problem.label(number, row - first)
            for row in range(first, stop)
            if problem.strategies.allowed[row]
        )

    def pinned(self, problem: ShardingProblem, part: str, place: str) -> ShardingProblem:
        """Return the problem with a single allowed strategy of an operator."""
        number, s = problem.operators.index(part), problem.strategies
        first, stop = s.offsets[number : number + 2].tolist()
        self.require_place(problem, part, place)
        allowed = s.allowed.copy()
        for row in range(first, stop):
            allowed[row] &= problem.label(number, row - first) == place
        return replace(problem, strategies=replace(s, allowed=allowed))

    def why(self, problem: ShardingProblem, plan: ShardingPlan, verdict: Verdict) -> Why:
        """Return the costs of the most expensive operators and edges, and the use of memory."""
        own, pairs, counts = _own(problem, plan), _pairs(problem, plan), _counts(problem)
        total = verdict.value or 0
        usage = [
            Usage(f"{name}: {_label(problem, plan, k)}", "operator", own[k], total, counts)
            for k, name in enumerate(problem.operators)
        ]
        for (one, two), cost in pairs:
            name = f"{problem.operators[one]} to {problem.operators[two]}"
            usage.append(Usage(name, "edge", cost, total, counts))
        limits: tuple[Usage, ...] = ()
        peak = verdict.components["peak_usage"]
        if problem.limit is not None:
            limits = (Usage(LIMIT, "memory", peak, problem.limit, Counts.SIZE),)
        least = _least(problem)
        alone = [(own[k] - least[k], k) for k in range(len(own))]
        remedies = [
            Remedy(
                f"{problem.operators[k]} by its cheapest strategy; edges and memory stand against"
                " it",
                gain,
            )
            for gain, k in sorted(alone, reverse=True)[:3]
            if gain > 0
        ]
        changed = [(cost, ends) for ends, cost in pairs if cost > 0]
        remedies += [
            Remedy(f"no change of layout from {problem.operators[a]} to {problem.operators[b]}", c)
            for c, (a, b) in sorted(changed, reverse=True)[:3]
        ]
        remedies.sort(key=lambda remedy: -(remedy.at_most or 0))
        blocks = tuple(_blocks(problem, plan, own, pairs))
        return Why((), largest_first(usage), limits, used_up(limits), blocks, tuple(remedies))

    def moves(
        self,
        problem: ShardingProblem,
        before: ShardingPlan,
        other: ShardingProblem,
        after: ShardingPlan,
    ) -> tuple[Move, ...]:
        """Return operators with other strategies, by both. Costs add up to the difference in value.

        The cost of an edge between two of them is shared between their groups; an odd half goes to
        the first of the two.
        """
        if problem.operators != other.operators:
            expected, remedy = "the same operators", "name plans of one problem or its variants"
            raise InputError([Finding("plans", "other operators", expected, remedy)])
        words = [(_label(problem, before, k), _label(other, after, k)) for k in _all(problem)]
        moved = {k for k in _all(problem) if before.chosen[k] != after.chosen[k]}
        costs = {words[k]: Counter[str]() for k in moved}
        one, two = _own(problem, before), _own(other, after)
        for k in moved:
            costs[words[k]]["strategies"] += two[k] - one[k]
        pairs = zip(_pairs(problem, before), _pairs(other, after), strict=True)
        for ((a, b), was), (_, now) in pairs:
            ends = [k for k in (a, b) if k in moved]
            for place, k in enumerate(ends):
                share = (now - was) // len(ends)
                rest = (now - was) - share * len(ends) if place == 0 else 0
                costs[words[k]]["edges"] += share + rest
        by_name = {problem.operators[k]: words[k] for k in sorted(moved)}
        return moves_of(
            ((name, ("strategy", *pair)) for name, pair in by_name.items()),
            lambda names: dict(costs[by_name[names[0]]]),
            _counts(problem),
        )


def _all(problem: ShardingProblem) -> range:
    return range(len(problem.operators))


def _counts(problem: ShardingProblem) -> Counts:
    """Return what a cost counts: times are written with their unit."""
    return Counts.THINGS if problem.units is None else Counts.TIME


def _label(problem: ShardingProblem, plan: ShardingPlan, number: int) -> str:
    return problem.label(number, plan.chosen[number])


def _own(problem: ShardingProblem, plan: ShardingPlan) -> list[int]:
    """Return the cost of the chosen strategy of each operator."""
    rows = problem.strategies.offsets[:-1] + np.array(plan.chosen, dtype=np.int64)
    costs: list[int] = problem.strategies.cost[rows].tolist()
    return costs


def _least(problem: ShardingProblem) -> list[int]:
    """Return the cost of the cheapest allowed strategy of each operator."""
    s = problem.strategies
    costs = []
    for first, stop in zip(s.offsets[:-1].tolist(), s.offsets[1:].tolist(), strict=True):
        part = s.cost[first:stop][s.allowed[first:stop]]
        costs.append(int(part.min()) if len(part) else 0)
    return costs


def _pairs(problem: ShardingProblem, plan: ShardingPlan) -> list[tuple[tuple[int, int], int]]:
    """Return ends and cost of each edge."""
    pairs = []
    for edge, (one, two) in enumerate(problem.transitions.ends.tolist()):
        cost, _ = problem.table(edge)
        pairs.append(((one, two), int(cost[plan.chosen[one], plan.chosen[two]])))
    return pairs


def _blocks(
    problem: ShardingProblem,
    plan: ShardingPlan,
    own: list[int],
    pairs: list[tuple[tuple[int, int], int]],
) -> Iterator[Block]:
    """Yield operators with a common prefix (``block3.mlp``, ``layers.3.mlp``), if any have one."""
    names = [name.rpartition(".")[0] for name in problem.operators]
    if not any(names) or len(set(names)) == len(names):
        return
    costs: Counter[str] = Counter()
    for k, name in enumerate(names):
        costs[name] += own[k]
    for (one, _), cost in pairs:
        costs[names[one]] += cost
    members: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        members.setdefault(name, []).append(k)
    for name, rows in members.items():
        chosen = tuple(dict.fromkeys(_label(problem, plan, k) for k in rows))
        title = name or "others"
        yield Block(title, "module", len(rows), chosen, costs[name], None, _counts(problem))
