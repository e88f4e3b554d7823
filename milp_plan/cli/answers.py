"""Answers of commands about files: the same members for every kind of problem, also on errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from milp_plan.core import InputError, MilpPlanError, Verdict
from milp_plan.core.amounts import DASH, seconds_text, share_text
from milp_plan.core.quantity import units_of
from milp_plan.io import answer_wire as wire
from milp_plan.run.scope import Scope, scope_of

from . import interrupts
from .exits import Exit, code_of, most_serious
from .inputs import Item, items
from .output import complain, note, say, say_json, say_table

if TYPE_CHECKING:
    from milp_plan.run import Outcome

    from .outputs import Writing

_Answer = TypeVar("_Answer", bound=wire.Answer)


def head(item: Item) -> dict[str, Any]:
    """Return what every answer about a problem says."""
    if item.kind is None:
        return {"file": str(item.path)}
    measure = item.kind.measure(item.problem)
    return {
        "file": str(item.path),
        "kind": item.kind.name,
        "instance": item.problem.name,
        "fingerprint": item.problem.fingerprint,
        "objective": measure.objective,
        "unit": measure.unit,
        "ticks_per_unit": measure.per_unit,
        "amount_units": wire.Units(**asdict(units_of(item.problem))),
        "scope": str(scope_of(item.problem)),
    }


def failure(
    answer: type[_Answer], item: Item, error: MilpPlanError, code: Exit | None = None
) -> _Answer:
    """Return the answer about a file with which nothing could be done."""
    errors = error.findings if isinstance(error, InputError) else (error,)
    code = code_of(error) if code is None else code
    return answer(**head(item), exit_code=int(code), errors=[str(entry) for entry in errors])


def say_answer(answer: wire.Answer | wire.Front) -> None:
    """Write an answer as JSON."""
    say_json(msgspec.to_builtins(answer))


def answer_each(
    files: tuple[Path, ...],
    changes: dict[str, Any],
    answer: type[_Answer],
    work: Callable[[Item, bool], _Answer],
    *,
    as_json: bool,
) -> Exit:
    """Do something with one file after the other; return the most serious exit code.

    Parameters
    ----------
    files, changes
        What is read, and how it is changed.
    answer
        Type of the answer, for files that cannot be read or worked on.
    work
        Does it, given the file and whether to write text.
    as_json
        Whether to write the answers as JSON.
    """
    codes = [Exit.DONE]
    for item in items(files, changes):
        try:
            if item.error is not None:
                raise item.error
            result = work(item, not as_json)
        except MilpPlanError as error:
            complain(error, item.path)
            result = failure(answer, item, error)
        if as_json:
            say_answer(result)
        codes.append(Exit(result.exit_code))
    return most_serious(codes)


def verdict_members(item: Item, verdict: Verdict) -> dict[str, Any]:
    """Return what a check says as members of an answer."""
    assert item.kind is not None
    names = ("rule", "message", "needed", "available")
    return {
        "verdict": "ok" if verdict.ok else "violated",
        "value": verdict.value,
        "value_in_unit": item.kind.measure(item.problem).decimal(verdict.value),
        "violations": [
            wire.Violation(
                subjects=list(entry.subjects),
                counts=entry.counts.value,
                **{name: getattr(entry, name) for name in names},
            )
            for entry in verdict.violations
        ],
        "components": dict(verdict.components),
        "components_in_unit": components_in_unit(item, verdict),
        "exit_code": int(Exit.DONE if verdict.ok else Exit.NOT_VALID),
    }


def say_scope(scope: Scope) -> None:
    """Say for people what an answer decides, and what it leaves out."""
    say(f"  {'scope':<10} {scope}")


def components_in_unit(item: Item, verdict: Verdict) -> dict[str, str]:
    """Return the components of a verdict in units of the problem, as decimals."""
    kind, problem = item.kind, item.problem
    assert kind is not None
    units = units_of(problem)
    return {
        name: kind.counts(problem, name).decimal(amount, units)
        for name, amount in verdict.components.items()
    }


def whole(amount: Fraction | int | None) -> int | None:
    """Return an amount that is a whole number of ticks; ``None`` for others."""
    return None if amount is None or amount.denominator > 1 else int(amount)


# -- solve ----------------------------------------------------------------------------------------


def code_of_outcome(outcome: Outcome[Any, Any]) -> Exit:
    """Return the exit code of one solved file.

    A plan that passes the check is what was asked for, whatever but an interruption ended the
    search.
    """
    from milp_plan.backends import Stop

    if outcome.disputed or (outcome.verdict is not None and not outcome.verdict.ok):
        return Exit.NOT_VALID
    if outcome.stop is Stop.INTERRUPTED:
        return interrupts.code()
    if outcome.plan is not None:
        return Exit.DONE
    if outcome.infeasible_because is not None:
        return Exit.INFEASIBLE
    if outcome.stop in (Stop.ERROR, Stop.KILLED, Stop.MEMORY_LIMIT):
        return Exit.SOLVER_FAILURE
    return Exit.NO_PLAN


def solved(path: Path, outcome: Outcome[Any, Any], written: Writing) -> wire.Solve:
    """Return the answer about a solved file."""
    record = outcome.record
    code = most_serious([code_of_outcome(outcome), written.code])
    members = wire.Solve.__struct_fields__
    formulation = record["formulation"]
    return wire.Solve(
        **(
            head(Item(path, outcome.kind, outcome.problem))
            | {name: record[name] for name in members if name in record}
            | {name: file for name, file in written.files.items() if name in members}
            | {
                "formulation": None if formulation is None else formulation["name"],
                "about": outcome.kind.about(outcome.problem),
                "exit_code": int(code),
                "errors": written.failures,
            }
        )
    )


def note_warnings(outcome: Outcome[Any, Any], written: Writing) -> None:
    """Say what must not be missed, and at the end what could not be written."""
    from milp_plan.run.summary import warnings

    for warning in warnings(outcome):
        note(f"{outcome.problem.name}: {warning}")
    for failure in written.failures:
        note(f"error: {failure}")


def show(outcome: Outcome[Any, Any], files: dict[str, str]) -> None:
    """Write the result of one file for people."""
    from milp_plan.run import summary
    from milp_plan.run.outcome import headline

    measure, record = outcome.measure, outcome.record
    say(headline(outcome))
    written = [[key.removesuffix("_file"), name] for key, name in files.items()]
    for label, text in [*summary.facts(outcome), *written]:
        say(f"  {label:<10} {text}")
    rows = _comparison(outcome)
    if rows:
        heads = ["found by", measure.objective, "this plan is better by"]
        say_table(heads, rows, numeric=[1, 2])
    for columns, lines in outcome.kind.record_tables(record, measure):
        say_table(list(columns), lines, numeric=range(1, len(columns)))
    if outcome.plan is not None and outcome.verdict is not None:
        story = outcome.kind.story(outcome.problem, outcome.plan, outcome.verdict)
        if story:
            say_table(story[0], story[1:], numeric=_numeric(story))
    if record["phases"]:
        spent = ", ".join(f"{name} {seconds_text(s)}" for name, s in record["phases"].items())
        say(f"  time: {spent}")


def _comparison(outcome: Outcome[Any, Any]) -> list[list[str]]:
    """One row per heuristic and per formulation, the best first; those without a plan last."""
    solver = outcome.record["formulation"]
    values = dict(outcome.baselines)
    if solver is not None:
        values |= {
            name: value
            for name, value in outcome.record["reached"].items()
            if name.partition(" + ")[0] == solver["name"]
        }
    known = {name: value for name, value in values.items() if value is not None}
    rows = []
    for name in sorted(known, key=lambda entry: known[entry]):
        better = None
        if outcome.value is not None and known[name] > 0:
            better = float((known[name] - outcome.value) / known[name])
        rows.append([name, outcome.measure.text(known[name]), share_text(better)])
    return rows + [[name, "no plan", DASH] for name in values if name not in known]


def _numeric(story: list[list[str]]) -> list[int]:
    """Columns of a table that begin with a digit."""
    return [place for place in range(len(story[0])) if story[1][place][:1].isdigit()]
