"""Sharding problems on the command line: solve, check, info and bound."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError, Verdict
from milp_plan.core.amounts import DASH, seconds_text, share_text

from . import interrupts
from .exits import Exit
from .interrupts import Deferred
from .output import note, say, say_json, say_table

if TYPE_CHECKING:
    from milp_plan.core.sharding import ShardingProblem
    from milp_plan.run import Progress
    from milp_plan.run.sharding import ShardingOutcome, ShardingSettings

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
    "formulation",
    "operators",
    "operators_left",
    "strategies",
    "strategies_left",
    "phases",
    "key",
)
"""Members of the record that ``solve --json`` prints."""
_SILENCE_S = 10.0


def is_sharding(item: object) -> bool:
    """Whether this is a sharding problem; loads their module only where one has been read."""
    module = sys.modules.get("milp_plan.core.sharding")
    return module is not None and isinstance(item, module.ShardingProblem)


def solve_sharding_file(
    path: Path,
    problem: ShardingProblem,
    settings: ShardingSettings,
    *,
    solution: Path | None,
    record_folder: Path,
    as_json: bool,
    quiet: bool,
) -> tuple[Exit, bool]:
    """Plan one problem; say how it ended, and whether by Ctrl-C."""
    from milp_plan.backends import Stop
    from milp_plan.io.iopddl import write_solution
    from milp_plan.run.sharding import solve_sharding, write_sharding_record
    from milp_plan.run.sharding_model import ModelSettings, solve_sharding_model

    show = _Silent() if quiet else _Log(problem.name)
    if isinstance(settings, ModelSettings):
        outcome = solve_sharding_model(problem, settings, show)
    else:
        outcome = solve_sharding(problem, settings, show)
    with Deferred() as interrupt:
        record = write_sharding_record(outcome, record_folder)
        files = {"record_file": str(record)}
        if outcome.plan is not None:
            files["plan_file"] = str(solution or record.with_suffix(".plan.json"))
            if solution is not None:
                write_solution(outcome.plan, solution)
        code = _code(outcome)
        if as_json:
            told = {"file": str(path)} | {key: outcome.record.get(key) for key in KEYS}
            say_json(told | files | {"exit_code": int(code), "errors": []})
        else:
            _show(outcome, files)
        if outcome.stop is Stop.INTERRUPTED:
            kept = "there was no plan yet" if outcome.plan is None else "the best plan was kept"
            note(f"{problem.name}: interrupted; {kept}")
    return code, interrupt.asked or outcome.stop is Stop.INTERRUPTED


def _code(outcome: ShardingOutcome) -> Exit:
    if outcome.disputed:
        return Exit.NOT_VALID
    if outcome.stop.value == "interrupted":
        return interrupts.code()
    if outcome.plan is not None:
        return Exit.DONE
    if outcome.infeasible_because is not None:
        return Exit.INFEASIBLE
    failed = outcome.stop.value in ("error", "killed")
    return Exit.SOLVER_FAILURE if failed else Exit.NO_PLAN


class _Silent:
    def __call__(self, progress: Progress) -> None:
        """Say nothing."""


class _Log:
    """A line on standard error when there is news, and after a while."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: tuple[str, int | None, int | None] | None = None
        self._said_s = -_SILENCE_S

    def __call__(self, progress: Progress) -> None:
        news = (progress.phase, progress.incumbent, progress.bound)
        if news == self._last or progress.elapsed_s - self._said_s < 0.5:
            return
        self._last, self._said_s = news, progress.elapsed_s
        parts = (
            f"{self._name}: {progress.phase}",
            f"incumbent {_amount(progress.incumbent)}",
            f"bound {_amount(progress.bound)}",
            f"gap {share_text(progress.gap)}",
            f"{progress.elapsed_s:.1f} s",
        )
        click.echo(", ".join(parts), err=True)


def _amount(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def _show(outcome: ShardingOutcome, files: dict[str, str]) -> None:
    name, record = outcome.problem.name, outcome.record
    if outcome.value is None:
        why = outcome.infeasible_because
        say(f"{name}: no plan found" if why is None else f"{name}: no plan exists: {why}")
    else:
        proof = ", proved optimal" if outcome.proved else ""
        say(f"{name}: total_cost {outcome.value:,}{proof}")
    left = record["operators_left"]
    facts = [
        ["bound", f"{_amount(outcome.bound)} by {record['bound_name']}"],
        ["gap", share_text(outcome.gap)],
        ["check", str(record["verdict"])],
        ["planner", str(record["planner"] or DASH)],
        ["stop", f"{outcome.stop} after {seconds_text(outcome.seconds)}"],
        *([["disputed", why]] if (why := record["disputed_because"]) else []),
        ["operators", f"{record['operators']:,}, {_amount(left)} after reductions"],
        ["strategies", f"{record['strategies']:,}, {_amount(record['strategies_left'])}"],
        *([key.removesuffix("_file"), text] for key, text in files.items()),
    ]
    for label, text in facts:
        say(f"  {label:<10} {text}")


def check_sharding(problem: ShardingProblem, plan_file: Path, *, as_json: bool) -> Exit:
    """Hold a solution against its problem."""
    from milp_plan.check.sharding import verify_sharding
    from milp_plan.io.iopddl import read_solution

    verdict = verify_sharding(problem, read_solution(plan_file, problem))
    if as_json:
        say_json(_verdict(problem, verdict))
    elif verdict.ok:
        peak = verdict.components["peak_usage"]
        say(f"{problem.name}: valid, {verdict.objective} {verdict.value:,}, {peak:,} bytes at most")
    else:
        count = len(verdict.violations)
        say(f"{problem.name}: not valid, {count} violation{'' if count == 1 else 's'}")
        for violation in verdict.violations:
            say(f"  {violation}")
    return Exit.DONE if verdict.ok else Exit.NOT_VALID


def sharding_value(problem: ShardingProblem, plan_file: Path) -> int | None:
    """Cost of a solution that is a plan.

    Raises
    ------
    InputError
        It is none.
    """
    from milp_plan.check.sharding import verify_sharding
    from milp_plan.io.iopddl import read_solution

    verdict = verify_sharding(problem, read_solution(plan_file, problem))
    if not verdict.ok:
        raise InputError(
            Finding(v.rule, v.message, "a valid plan", "see milp-plan check", str(plan_file))
            for v in verdict.violations
        )
    return verdict.value


def _verdict(problem: ShardingProblem, verdict: Verdict) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "instance": problem.name,
        "verdict": "ok" if verdict.ok else "violated",
        "objective": verdict.objective,
        "value": verdict.value,
        "violations": [asdict(violation) for violation in verdict.violations],
        "components": dict(verdict.components),
    }


def sharding_summary(problem: ShardingProblem) -> dict[str, Any]:
    """Return the figures of a problem as plain data."""
    s, t = problem.strategies, problem.transitions
    lasting = problem.intervals[:, 0] < problem.intervals[:, 1]
    return {
        "instance": problem.name,
        "objective": "total_cost",
        "fingerprint": problem.fingerprint,
        "operators": len(problem.operators),
        "strategies": len(s.cost),
        "strategies_per_operator": {"least": int(s.counts.min()), "most": int(s.counts.max())},
        "strategies_not_allowed": int((~s.allowed).sum()),
        "edges": len(t),
        "pairs": len(t.cost),
        "pairs_not_allowed": int((~t.allowed).sum()),
        "operators_without_interval": int((~lasting).sum()),
        "limit_bytes": problem.limit,
        "provenance": dict(problem.provenance),
    }


def show_info(problem: ShardingProblem, *, as_json: bool) -> None:
    """Say what is in a problem."""
    facts = sharding_summary(problem)
    if as_json:
        say_json(facts)
        return
    least, most = facts["strategies_per_operator"].values()
    limit = facts["limit_bytes"]
    rows = [
        ["objective", facts["objective"]],
        ["operators", f"{facts['operators']:,}"],
        ["strategies", f"{facts['strategies']:,}, {least} to {most} per operator"],
        ["not allowed", f"{facts['strategies_not_allowed']:,} strategies"],
        ["edges", f"{facts['edges']:,} with {facts['pairs']:,} pairs"],
        ["not allowed", f"{facts['pairs_not_allowed']:,} pairs"],
        ["memory limit", "none" if limit is None else f"{limit:,} bytes"],
        *([f"from: {key}", text] for key, text in facts["provenance"].items()),
    ]
    say(problem.name)
    say_table(["", ""], rows)


def show_bound(problem: ShardingProblem, time_limit_s: float, *, as_json: bool) -> Exit:
    """Say what no plan can beat."""
    from dataclasses import asdict

    from milp_plan.run.sharding import bound_sharding

    found, why = bound_sharding(problem, time_limit_s)
    if as_json:
        told = {
            "instance": problem.name,
            "objective": "total_cost",
            "bound": None if found is None else found.value,
            "bound_name": None if found is None else found.name,
            "infeasible_because": why,
            "bounds": [] if found is None else [asdict(found)],
        }
        say_json(told)
    elif why is not None:
        say(f"{problem.name}: no plan exists: {why}")
    elif found is not None:
        say(f"{problem.name}: total_cost at least {found.value:,} by {found.name}: {found.detail}")
    return Exit.DONE if why is None else Exit.INFEASIBLE


def refuse_options(given: dict[str, object], path: Path) -> None:
    """Refuse options that mean nothing for sharding problems.

    Raises
    ------
    InputError
        With a finding for each that was given.
    """
    findings = [
        Finding(name, "an option of placement", "none for sharding problems", "leave it out")
        for name, value in given.items()
        if value
    ]
    if findings:
        raise InputError(findings).in_file(str(path))
