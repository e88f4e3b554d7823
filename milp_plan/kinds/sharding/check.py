"""The checker of sharding plans: exact sums in Python's integers, usage at every instant."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Counts, Units, Verdict, Violation
from milp_plan.core.amounts import size_text
from milp_plan.core.sharding import ShardingPlan, ShardingProblem

OBJECTIVE = "total_cost"


def verify_sharding(problem: ShardingProblem, plan: ShardingPlan) -> Verdict:
    """Check a sharding plan against its problem; never raises, however broken the plan is.

    Returns
    -------
    Verdict
        Value: sum of the costs of all chosen strategies and of all pairs on edges. Components:
        ``strategies``, ``transitions`` (the two sums) and ``peak_usage``.
    """
    broken = [*_identity(problem, plan), *_choices(problem, plan)]
    if any(violation.rule == "assignment" for violation in broken):
        return Verdict(tuple(broken), OBJECTIVE, None, {})
    s, t = problem.strategies, problem.transitions
    rows = [int(s.offsets[number]) + c for number, c in enumerate(plan.chosen)]
    own = sum(int(s.cost[row]) for row in rows)
    pairs = 0
    for edge, (first, second) in enumerate(t.ends.tolist()):
        width = int(s.offsets[second + 1] - s.offsets[second])
        entry = int(t.offsets[edge]) + plan.chosen[first] * width + plan.chosen[second]
        pairs += int(t.cost[entry])
        if not t.allowed[entry]:
            names = (problem.operators[first], problem.operators[second])
            words = [problem.label(k, plan.chosen[k]) for k in (first, second)]
            text = f"{names[0]!r} with {words[0]} and {names[1]!r} with {words[1]} are not allowed"
            text += " together"
            broken.append(Violation("transition", names, text))
    peak, instant = _peak(problem, [int(s.usage[row]) for row in rows])
    if problem.limit is not None and peak > problem.limit:
        text = f"{size_text(Units(), peak)} are in use at instant {instant}"
        broken.append(Violation("memory", (str(instant),), text, peak, problem.limit, Counts.SIZE))
    forbidden = any(violation.rule in ("strategy", "transition") for violation in broken)
    value = None if forbidden else own + pairs
    broken += overclaimed(problem, plan, value, f"a {OBJECTIVE}")
    figures = {"strategies": own, "transitions": pairs, "peak_usage": peak}
    return Verdict(tuple(broken), OBJECTIVE, value, figures)


def _identity(problem: ShardingProblem, plan: ShardingPlan) -> Iterator[Violation]:
    yield from misattributed(problem, plan)


def _choices(problem: ShardingProblem, plan: ShardingPlan) -> Iterator[Violation]:
    count, chosen = len(problem.operators), plan.chosen
    if not isinstance(chosen, tuple | list):
        text = f"the plan has no list of choices, but a {type(chosen).__name__}"
        yield Violation("assignment", (problem.name,), text)
        return
    if len(plan.chosen) != count:
        text = f"{len(plan.chosen)} choices for {count} operators"
        yield Violation("assignment", (problem.name,), text, count, len(plan.chosen))
        return
    s = problem.strategies
    for number, choice in enumerate(plan.chosen):
        name, most = problem.operators[number], int(s.offsets[number + 1] - s.offsets[number])
        if type(choice) is not int or not 0 <= choice < most:
            text = f"operator {name!r} has strategy {choice}, expected one of 0 to {most - 1}"
            yield Violation("assignment", (name,), text)
        elif not s.allowed[int(s.offsets[number]) + choice]:
            text = f"{problem.label(number, choice)} of operator {name!r} is not allowed"
            yield Violation("strategy", (name,), text)


def _peak(problem: ShardingProblem, usages: list[int]) -> tuple[int, int]:
    """Return the largest sum at any instant, and the first such instant (0 and 0 for none)."""
    changes: dict[int, int] = {}
    for (start, stop), usage in zip(problem.intervals.tolist(), usages, strict=True):
        if start < stop and usage:
            changes[start] = changes.get(start, 0) + usage
            changes[stop] = changes.get(stop, 0) - usage
    held = peak = instant = 0
    for time in sorted(changes):
        held += changes[time]
        if held > peak:
            peak, instant = held, time
    return peak, instant
