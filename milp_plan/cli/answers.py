"""What ``solve`` says about a file when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import InputError, MilpPlanError, PlanningProblem
from milp_plan.core.amounts import DASH, seconds_text, share_text, value_text

from . import interrupts
from .exits import Exit
from .output import say, say_table

if TYPE_CHECKING:
    from milp_plan.run import Outcome

KEYS = (
    "instance",
    "objective",
    "value",
    "bound",
    "bound_name",
    "gap",
    "stop",
    "verdict",
    "planner",
    "seconds",
    "proved",
    "disputed_because",
    "infeasible_because",
    "best_baseline",
    "baseline_name",
    "baselines",
    "operators",
    "coarse_operators",
    "phases",
    "model_hash",
    "key",
)
"""Members of the record that ``solve --json`` prints; null where something is not known."""

_FILES = ("record_file", "plan_file", "plot_file")


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
    if outcome.stop in (Stop.ERROR, Stop.KILLED):
        return Exit.SOLVER_FAILURE
    return Exit.NO_PLAN


def summary(
    file: Path, outcome: Outcome[Any, Any], files: Mapping[str, str], code: Exit
) -> dict[str, Any]:
    """Return what ``solve --json`` prints for a file."""
    told: dict[str, Any] = {"file": str(file)}
    told |= {key: outcome.record.get(key) for key in KEYS}
    told |= {key: files.get(key) for key in _FILES}
    return told | {"exit_code": int(code)}


def failure(
    file: Path, item: PlanningProblem | InputError, error: MilpPlanError, code: Exit
) -> dict[str, Any]:
    """Return what ``solve --json`` prints for a file that could not be solved: the same members."""
    told: dict[str, Any] = {"file": str(file)} | dict.fromkeys((*KEYS, *_FILES))
    if isinstance(item, PlanningProblem):
        told |= {"instance": item.name, "objective": item.objective.value}
    errors = error.findings if isinstance(error, InputError) else (error,)
    return told | {"exit_code": int(code), "errors": [str(entry) for entry in errors]}


def warnings(outcome: Outcome[Any, Any]) -> list[str]:
    """Return what a reader of the result must not miss."""
    from milp_plan.backends import Stop

    found = []
    if outcome.disputed:
        reason = outcome.record.get("disputed_because") or "see the record"
        found.append(f"the checker disputes the solver: {reason}")
    ended = {
        Stop.ERROR: "the solver failed",
        Stop.KILLED: "the solver process was ended from outside or crashed",
        Stop.MEMORY_LIMIT: "the solver ran out of memory",
    }
    model = (outcome.record.get("model") or {}).get("stop")  # the run may have gone on without it
    for stop in dict.fromkeys((outcome.stop, model)):
        if stop not in ended:
            continue
        kept = "no plan was found" if outcome.plan is None else "the best plan until then was kept"
        found.append(f"{ended[stop]}; {kept}")
    if outcome.stop is Stop.INTERRUPTED:
        kept = "there was no plan yet" if outcome.plan is None else "the best plan so far was kept"
        found.append(f"interrupted; {kept}")
    return found


def show(outcome: Outcome[Any, Any], files: Mapping[str, str]) -> None:
    """Write the result of one file for people."""
    problem, record = outcome.problem, outcome.record
    say(_headline(outcome))
    facts = [
        ["bound", _bound(outcome)],
        ["gap", share_text(outcome.gap)],
        ["check", str(record.get("verdict") or DASH)],
        ["planner", outcome.planner or DASH],
        ["stop", f"{outcome.stop} after {seconds_text(outcome.seconds)}"],
        ["operators", _operators(record)],
        *([key.removesuffix("_file"), name] for key, name in files.items()),
    ]
    for label, text in facts:
        say(f"  {label:<10} {text}")
    if outcome.baselines:
        say_table(
            ["baseline", str(problem.objective), "this plan is better by"],
            _comparison(outcome),
            numeric=[1, 2],
        )
    phases = record.get("phases") or {}
    if phases:
        spent = ", ".join(f"{name} {seconds_text(taken)}" for name, taken in phases.items())
        say(f"  time: {spent}")


def _headline(outcome: Outcome[Any, Any]) -> str:
    name, objective = outcome.problem.name, outcome.problem.objective
    if outcome.value is None:
        if outcome.infeasible_because is not None:
            return f"{name}: no plan exists: {outcome.infeasible_because}"
        return f"{name}: no plan found"
    proof = ", proved optimal" if outcome.proved else ""
    return f"{name}: {objective} {value_text(outcome.problem, outcome.value)}{proof}"


def _bound(outcome: Outcome[Any, Any]) -> str:
    if outcome.bound is None:
        return DASH
    return f"{value_text(outcome.problem, outcome.bound)} by {outcome.bound_name}"


def _operators(record: Mapping[str, Any]) -> str:
    before, after = record.get("operators"), record.get("coarse_operators")
    if after is None or after == before:
        return str(before)
    return f"{before}, {after} after coarsening"


def _comparison(outcome: Outcome[Any, Any]) -> list[list[str]]:
    """One row per baseline, the best first; those that found no plan last."""
    known = {name: value for name, value in outcome.baselines.items() if value is not None}
    rows = []
    for name in sorted(known, key=lambda entry: known[entry]):
        better = None
        if outcome.value is not None and known[name]:
            better = float((known[name] - outcome.value) / known[name])
        rows.append([name, value_text(outcome.problem, known[name]), share_text(better)])
    rows += [[name, "no plan", DASH] for name in outcome.baselines if name not in known]
    return rows
