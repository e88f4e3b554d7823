"""The checker of rematerialisation: every rule of ``docs/laws.md``, in Python's integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Verdict, Violation
from milp_plan.core.verdict import Counts

from .problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem


@dataclass(frozen=True, slots=True)
class Copy:
    """The output of one run: held from run ``made`` to run ``last``, both included."""

    name: str
    made: int
    last: int
    size: int


def verify_rematerialisation(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> Verdict:
    """Check a plan against its problem; never raises, however broken the plan is.

    Returns
    -------
    Verdict
        Value: added time in ticks, or peak memory in bytes; ``None`` if the runs are not those of
        the problem. Components: ``peak_memory`` in bytes, ``added_runs``, ``total_time`` in ticks.
    """
    broken = [*_identity(problem, plan), *_runs(problem, plan), *_reloads(problem, plan)]
    ordered = {"assignment", "order", "reload"}
    whole = not any(violation.rule in ordered for violation in broken)
    value = None
    figures: dict[str, int] = {}
    if whole:
        held = usage(problem, plan)
        broken += _memory(problem, plan, held)
        spent = _spent(problem, plan)
        added_time = spent.ticks - problem.total_cost
        broken += _time(problem, added_time)
        value = {
            RematerialisationObjective.ADDED_TIME: added_time,
            RematerialisationObjective.PEAK_MEMORY: max(held),
            RematerialisationObjective.ADDED_ENERGY: spent.energy
            - sum(entry.energy for entry in problem.computations),
        }[problem.objective]
        added = len(plan.runs) - len(problem.computations)
        figures = {"peak_memory": max(held), "added_runs": added, "total_time": spent.ticks}
        if problem.host is not None:
            broken += _host(problem, spent)
            figures |= {"host_memory": spent.host, "energy": spent.energy}
    in_bytes = problem.objective is RematerialisationObjective.PEAK_MEMORY
    counts = Counts.SIZE if in_bytes else Counts.TIME
    broken += overclaimed(problem, plan, value, f"the {problem.objective.value}", counts)
    return Verdict(tuple(broken), problem.objective.value, value, figures)


def copies(problem: RematerialisationProblem, plan: RematerialisationPlan) -> list[Copy]:
    """Return the copies of a plan whose runs are those of the problem."""
    by_name = {entry.name: entry for entry in problem.computations}
    last_made: dict[str, int] = {}
    last_read: list[int] = []
    reloads = set(plan.reloads)
    for number, name in enumerate(plan.runs):
        for source in () if number in reloads else by_name[name].inputs:
            last_read[last_made[source]] = number
        last_made[name] = number
        last_read.append(number)
    return [
        Copy(name, number, last_read[number], by_name[name].size)
        for number, name in enumerate(plan.runs)
    ]


def usage(problem: RematerialisationProblem, plan: RematerialisationPlan) -> list[int]:
    """Return the bytes held during each run."""
    changes = [0] * (len(plan.runs) + 1)
    for copy in copies(problem, plan):
        changes[copy.made] += copy.size
        changes[copy.last + 1] -= copy.size
    return list(accumulate(changes[:-1]))


def _identity(
    problem: RematerialisationProblem, plan: RematerialisationPlan
) -> Iterator[Violation]:
    yield from misattributed(problem, plan)
    known = {entry.name for entry in problem.computations}
    for name in dict.fromkeys(name for name in plan.runs if name not in known):
        text = f"the plan runs {name!r}, which the problem does not have"
        yield Violation("assignment", (name,), text)


def _runs(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Iterator[Violation]:
    counts = Counter(plan.runs)
    reloaded = Counter(plan.runs[k] for k in set(plan.reloads) if 0 <= k < len(plan.runs))
    for entry in problem.computations:
        if not counts[entry.name]:
            text = f"operator {entry.name!r} does not run"
            yield Violation("assignment", (entry.name,), text, 1, 0)
        computed = counts[entry.name] - reloaded[entry.name]
        if computed > 1 and not entry.again:
            text = f"operator {entry.name!r} may not run again"
            yield Violation("again", (entry.name,), text, computed, 1)
    first = [name for name in dict.fromkeys(plan.runs) if name in problem.numbers]
    expected = [entry.name for entry in problem.computations if counts[entry.name]]
    for actual, required in zip(first, expected, strict=True):
        if actual != required:
            text = f"operator {actual!r} runs before the first run of {required!r}"
            yield Violation("order", (actual, required), text)
            return


class Spent(NamedTuple):
    """Ticks and energy of all runs and transfers, and bytes on the host at the end."""

    ticks: int
    energy: int
    host: int


def _spent(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Spent:
    """Add up runs, and for each reloaded output one way there and each way back."""
    by_name = {entry.name: entry for entry in problem.computations}
    reloads = set(plan.reloads)
    ticks = energy = 0
    for number, name in enumerate(plan.runs):
        if number not in reloads:
            ticks, energy = ticks + by_name[name].cost, energy + by_name[name].energy
    away = {plan.runs[number] for number in reloads}
    ways = [*away, *(plan.runs[number] for number in reloads)]
    if problem.host is not None:
        moving = sum(problem.host.transfer(by_name[name].size) for name in ways)
        ticks, energy = ticks + moving, energy + problem.host.power * moving
    return Spent(ticks, energy, sum(by_name[name].size for name in away))


def _host(problem: RematerialisationProblem, spent: Spent) -> Iterator[Violation]:
    limit = None if problem.host is None else problem.host.memory
    if limit is not None and spent.host > limit:
        text = "more is written to the host than it holds"
        yield Violation("host", (problem.name,), text, spent.host, limit, Counts.SIZE)


def _reloads(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Iterator[Violation]:
    """Check that a reload reads a result of an earlier run, and that there is a host."""
    for number in sorted(set(plan.reloads)):
        if not 0 <= number < len(plan.runs):
            text = f"run {number} is to be a reload, there are {len(plan.runs)} runs"
            yield Violation("reload", (problem.name,), text)
        elif problem.host is None:
            text = f"run {number} ({plan.runs[number]!r}) is a reload, and there is no host"
            yield Violation("reload", (plan.runs[number],), text)
        elif plan.runs[number] not in plan.runs[:number]:
            text = f"run {number} ({plan.runs[number]!r}) is a reload of what has not run before"
            yield Violation("reload", (plan.runs[number],), text)


def _time(problem: RematerialisationProblem, added: int) -> Iterator[Violation]:
    limit = problem.added_limit
    if limit is not None and added > limit:
        text = "the runs again take longer than they may together"
        yield Violation("time", (problem.name,), text, added, limit, Counts.TIME)


def _memory(
    problem: RematerialisationProblem, plan: RematerialisationPlan, held: list[int]
) -> Iterator[Violation]:
    """Yield one violation for each stretch of runs above the budget, at its worst."""
    if problem.budget is None:
        return
    worst = -1
    for number, amount in enumerate([*held, 0]):
        if amount > problem.budget:
            worst = number if worst < 0 or amount > held[worst] else worst
        elif worst >= 0:
            name = plan.runs[worst]
            text = f"run {worst} ({name!r}) holds more than the budget"
            if problem.floors[problem.numbers[name]] > problem.budget:
                text += ", and so does every plan: its output and its inputs alone do"
            yield Violation("memory", (name,), text, held[worst], problem.budget, Counts.SIZE)
            worst = -1
