"""Rule `identity`: the plan is for this problem and has only names of the problem."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import OperatorRun, Transfer, Violation

from .reading import Reading
from .statement import misattributed

RULE = "identity"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield wrong problem names and fingerprints, and every unknown name, each once."""
    yield from misattributed(reading.facts.problem, reading.plan)
    seen: set[Violation] = set()
    for violation in _unknown_names(reading):
        if violation not in seen:
            seen.add(violation)
            yield violation


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
