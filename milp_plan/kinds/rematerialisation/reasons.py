"""Reasons of rematerialisation: recomputed operators, and the bytes they save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from milp_plan.core import Counts, Verdict
from milp_plan.core.amounts import size_text
from milp_plan.run.reasons.base import (
    Link,
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

from .problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem

BUDGET, HOST, ADDED = "memory budget", "memory of the host", "limit of added time"


class RematerialisationReasons(Reasons[RematerialisationProblem, RematerialisationPlan]):
    """Reasons of :class:`milp_plan.kinds.rematerialisation.problem.RematerialisationProblem`."""

    noun, members = "operators", "computations"

    def keep(
        self, problem: RematerialisationProblem, names: Collection[str]
    ) -> RematerialisationProblem:
        """Leave operators out: the runs of the others hold less and add no more."""
        selected = set(names)
        return replace(
            problem,
            computations=tuple(
                replace(entry, inputs=tuple(name for name in entry.inputs if name in selected))
                for entry in problem.computations
                if entry.name in selected
            ),
        )

    def resources(self, problem: RematerialisationProblem) -> tuple[Resource, ...]:
        """Return the budget, the host's memory and the limit of added time, where they apply."""
        resources = []
        if problem.objective is not RematerialisationObjective.PEAK_MEMORY:
            resources.append(Resource(BUDGET, "memory", problem.budget, Counts.SIZE))
        if problem.host is not None:
            resources.append(Resource(HOST, "host memory", problem.host.memory, Counts.SIZE))
        if problem.objective is not RematerialisationObjective.ADDED_TIME:
            resources.append(Resource(ADDED, "added time", problem.added_limit, Counts.TIME))
        return tuple(resources)

    def resized(
        self, problem: RematerialisationProblem, amounts: Mapping[str, int | None]
    ) -> RematerialisationProblem:
        """Return the problem with other limits."""
        host = problem.host
        if host is not None and HOST in amounts:
            host = replace(host, memory=amounts[HOST])
        return replace(
            problem,
            budget=amounts.get(BUDGET, problem.budget),
            added_limit=amounts.get(ADDED, problem.added_limit),
            host=host,
        )

    def why(
        self, problem: RematerialisationProblem, plan: RematerialisationPlan, verdict: Verdict
    ) -> Why:
        """Return the chain of all runs, and operators by the cost of their runs again."""
        added = _added(problem, plan)
        budget = problem.budget
        peak = verdict.components["peak_memory"]
        total = max(1, sum(added.values()))
        amounts = largest_first(
            Usage(name, "runs again", ticks, total, Counts.TIME)
            for name, ticks in added.items()
            if ticks
        )
        limits: tuple[Usage, ...] = ()
        if budget is not None:
            limits = (Usage(BUDGET, "memory", peak, budget, Counts.SIZE),)
        remedies = []
        if budget is not None and amounts:
            short = problem.peak - budget
            place = max(range(len(problem.held)), key=problem.held.__getitem__)
            fullest = problem.computations[place].name
            if short > 0:
                text = f"{size_text(problem.units, short)} more memory: then nothing need run again"
                text += f" (memory is fullest while {fullest!r} runs)"
                remedies.append(Remedy(text, verdict.value))
        remedies += [
            Remedy(f"room to keep what {entry.name!r} makes: it need not run again", entry.amount)
            for entry in amounts[:3]
        ]
        chain = tuple(_chain(problem, plan))
        return Why(chain, amounts, limits, used_up(limits), (), tuple(remedies))

    def moves(
        self,
        problem: RematerialisationProblem,
        before: RematerialisationPlan,
        other: RematerialisationProblem,
        after: RematerialisationPlan,
    ) -> tuple[Move, ...]:
        """Return operators that run another number of times, with both numbers."""
        counts = Counter(before.runs), Counter(after.runs)
        costs = _added(problem, before), _added(other, after)
        runs = ((name, counts[0][name], counts[1][name]) for name in problem.numbers)
        return moves_of(
            ((name, ("runs", str(one), str(two))) for name, one, two in runs if one != two),
            lambda names: {"added time": sum(costs[1][n] - costs[0][n] for n in names)},
        )


def _chain(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Iterator[Link]:
    """Yield runs again and reloads: the order of first runs is given, only these are decided."""
    reloads, clock = set(plan.reloads), 0
    seen: Counter[str] = Counter()
    for number, name in enumerate(plan.runs):
        place = problem.numbers[name]
        reload = number in reloads
        stop = clock + (problem.transfers[place] if reload else problem.computations[place].cost)
        seen[name] += 1
        if seen[name] > 1:
            title = f"{name}, {'reloaded' if reload else 'again'}"
            before = plan.runs[number - 1]
            yield Link(title, None, ("device",), clock, stop, 0, "memory", before)
        clock = stop


def _added(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Counter[str]:
    """Return the ticks that each operator adds by repeated runs, and by its way to the host."""
    cost = {entry.name: entry.cost for entry in problem.computations}
    reloads = set(plan.reloads)
    added: Counter[str] = Counter({name: -ticks for name, ticks in cost.items()})
    for number, name in enumerate(plan.runs):
        if number not in reloads:
            added[name] += cost[name]
    for name in {plan.runs[number] for number in reloads}:
        added[name] += problem.transfers[problem.numbers[name]]  # the way there, once
    for number in reloads:
        added[plan.runs[number]] += problem.transfers[problem.numbers[plan.runs[number]]]
    return added
