"""Rule `identity`: the plan is about this problem and names only what the problem has."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import OperatorRun, Plan, PlanningProblem, Transfer, Violation

from .reading import Reading

RULE = "identity"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield wrong problem names and fingerprints, and every unknown name, each once."""
    problem, plan = reading.facts.problem, reading.plan
    if plan.problem != problem.name:
        yield Violation(
            RULE,
            (plan.problem, problem.name),
            f"the plan is for problem {plan.problem!r}, not for {problem.name!r}",
        )
    made_for = plan.fingerprint
    if made_for is not None and not (is_own(problem, plan) or _is_related(problem, plan)):
        yield Violation(
            RULE,
            (problem.name,),
            f"the plan was made for fingerprint {made_for[:12]}, the problem has "
            f"{problem.fingerprint[:12]}: its contents have changed",
        )
    said: set[Violation] = set()
    for violation in _unknown_names(reading):
        if violation not in said:
            said.add(violation)
            yield violation


def is_own(problem: PlanningProblem, plan: Plan) -> bool:
    """Whether nothing says that the plan is for another problem than this one."""
    return plan.fingerprint in (None, problem.fingerprint)


def _is_related(problem: PlanningProblem, plan: Plan) -> bool:
    """Whether the plan is for the problem's parent, for a variant of it, or of the same parent."""
    family = {problem.fingerprint, problem.parent} - {None}
    return bool(family & {plan.fingerprint, plan.parent})


def _unknown_names(reading: Reading) -> Iterator[Violation]:
    for run in reading.plan.runs:
        yield from _about_run(reading, run)
    for transfer in reading.plan.transfers:
        yield from _about_transfer(reading, transfer)


def _about_run(reading: Reading, run: OperatorRun) -> Iterator[Violation]:
    facts = reading.facts
    if run.operator not in facts.options:
        yield _unknown("operator", run.operator, "the plan runs it")
    elif run.option not in facts.options[run.operator]:
        yield Violation(
            RULE,
            (run.operator, run.option),
            f"operator {run.operator!r} has no option {run.option!r}",
        )
    for device in run.devices:
        if device not in facts.device_class:
            yield _unknown("device", device, f"operator {run.operator!r} runs on it")


def _about_transfer(reading: Reading, transfer: Transfer) -> Iterator[Violation]:
    facts = reading.facts
    value = facts.values.get(transfer.value)
    if value is None:
        yield _unknown("value", transfer.value, "the plan sends it")
    elif transfer.layout not in value.bytes:
        yield Violation(
            RULE,
            (transfer.value, transfer.layout),
            f"value {transfer.value!r} has no layout {transfer.layout!r}",
        )
    for device in (*transfer.source, *transfer.target):
        if device not in facts.device_class:
            yield _unknown("device", device, f"a transfer of {transfer.value!r} uses it")


def _unknown(what: str, name: str, where: str) -> Violation:
    return Violation(RULE, (name,), f"unknown {what} {name!r}: {where}")
