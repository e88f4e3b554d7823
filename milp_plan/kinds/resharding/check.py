"""The checker of resharding: every rule of ``docs/laws.md``, in Python's integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Verdict, Violation
from milp_plan.core.verdict import Counts

from .problem import Delivery, ReshardingPlan, ReshardingProblem

OBJECTIVE = "makespan"


def verify_resharding(problem: ReshardingProblem, plan: ReshardingPlan) -> Verdict:
    """Check a plan against its problem; never raises, however broken the plan is.

    Returns
    -------
    Verdict
        Value: when the last delivery stops, in ticks; ``None`` if a slice is not delivered or an
        unknown one is. Components: ticks that each card sends and receives.
    """
    broken = [*misattributed(problem, plan), *_assignment(problem, plan)]
    known = [entry for entry in plan.deliveries if entry.slice in problem.by_name]
    broken += _times(problem, known)
    broken += _exclusion(problem, known)
    whole = {entry.slice for entry in known} == set(problem.by_name)
    value = max((entry.stop for entry in known), default=0) if whole else None
    broken += overclaimed(problem, plan, value, "a makespan", Counts.TIME)
    return Verdict(tuple(broken), OBJECTIVE, value, dict(_busy(problem, known)))


def ports(problem: ReshardingProblem, delivery: Delivery) -> list[str]:
    """Return the ports of a delivery, in words: one card sends, others receive."""
    receivers = problem.by_name[delivery.slice].receivers
    return [f"{delivery.sender} sends", *(f"{name} receives" for name in receivers)]


def _assignment(problem: ReshardingProblem, plan: ReshardingPlan) -> Iterator[Violation]:
    counts = Counter(entry.slice for entry in plan.deliveries)
    for name in counts:
        if name not in problem.by_name:
            text = f"the plan delivers {name!r}, which the problem does not have"
            yield Violation("assignment", (name,), text)
    for name in problem.by_name:
        if counts[name] != 1:
            text = f"slice {name!r} is delivered {counts[name]} times"
            yield Violation("assignment", (name,), text, 1, counts[name])
    for entry in plan.deliveries:
        known = problem.by_name.get(entry.slice)
        if known is not None and entry.sender not in known.senders:
            text = f"{entry.sender!r} sends slice {entry.slice!r}, which it does not have"
            yield Violation("sender", (entry.slice, entry.sender), text)


def _times(problem: ReshardingProblem, deliveries: list[Delivery]) -> Iterator[Violation]:
    for entry in deliveries:
        known = problem.by_name[entry.slice]
        if entry.start < 0:
            text = f"slice {entry.slice!r} leaves before 0"
            yield Violation("start", (entry.slice,), text, 0, entry.start, Counts.TIME)
        if entry.sender not in known.senders:
            continue
        needed, actual = problem.ticks(known, entry.sender), entry.stop - entry.start
        if needed != actual:
            text = f"the delivery of slice {entry.slice!r} has another length"
            yield Violation("length", (entry.slice,), text, needed, actual, Counts.TIME)


def _exclusion(problem: ReshardingProblem, deliveries: list[Delivery]) -> Iterator[Violation]:
    by_port: dict[str, list[Delivery]] = {}
    for entry in deliveries:
        for port in ports(problem, entry):
            by_port.setdefault(port, []).append(entry)
    for port, row in by_port.items():
        row.sort(key=lambda entry: (entry.start, entry.stop))
        last = row[0]
        for entry in row[1:]:
            if entry.start < last.stop:
                text = f"{port} {last.slice!r} and {entry.slice!r} at a time"
                subjects = (last.slice, entry.slice)
                yield Violation("exclusion", subjects, text, last.stop, entry.start, Counts.TIME)
            last = max(last, entry, key=lambda entry: entry.stop)


def _busy(problem: ReshardingProblem, deliveries: list[Delivery]) -> dict[str, int]:
    busy: dict[str, int] = {}
    for entry in deliveries:
        for port in ports(problem, entry):
            busy[port] = busy.get(port, 0) + entry.stop - entry.start
    return busy
