"""Files and runs for the tests of the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from milp_plan.cli.main import main
from milp_plan.core import Plan, PlanningProblem
from milp_plan.io.plan_file import write_plan
from milp_plan.kinds.schedule.formats import write
from tests.report.plans import plan_of_two_devices, two_devices

REPOSITORY = Path(__file__).resolve().parents[2]
INSTANCES = REPOSITORY / "instances"
VALUE_NS = 14_000
"""Makespan of the plan of two devices."""


def call(*arguments: str | Path) -> Result:
    """Run the command in this process; anything but an exit is a failure of the test."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def instance_file(folder: Path, problem: PlanningProblem | None = None) -> Path:
    """Write an instance as ``<name>.json``."""
    problem = problem or two_devices()
    path = folder / f"{problem.name}.json"
    write(problem, path)
    return path


def plan_file(folder: Path, plan: Plan | None = None, name: str = "plan.json") -> Path:
    """Write a plan."""
    path = folder / name
    write_plan(plan or plan_of_two_devices(), path)
    return path


def late_plan() -> Plan:
    """The plan of two devices with an operator that starts before its input is there."""
    plan = plan_of_two_devices()
    runs = (
        plan.runs[0],
        replace(plan.runs[1], start_ticks=4_000, stop_ticks=7_000),
        plan.runs[2],
    )
    return replace(plan, runs=runs)
