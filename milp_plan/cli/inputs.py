"""Arguments that name files, and the changes a command line can make to a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

from milp_plan.core import Finding, InputError, Objective, Plan, PlanningProblem

_Function = TypeVar("_Function", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
"""A path that need not exist: readers say more about what is wrong with a file than click."""


def positive_fraction(text: str) -> Fraction:
    """Read an exact positive number, such as ``0.8`` or ``4/5``.

    Raises
    ------
    click.BadParameter
        It is none.
    """
    try:
        fraction = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{text!r} is no number; write for example 0.8 or 4/5") from None
    if fraction <= 0:
        raise click.BadParameter(f"{text} is not positive")
    return fraction


@dataclass(frozen=True)
class Variation:
    """How a problem differs from its file.

    Parameters
    ----------
    memory_scale
        Factor on every limited device memory, exact.
    objective
        Another objective.
    """

    memory_scale: Fraction | None = None
    objective: str | None = None

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem as the command line wants it."""
        if self.memory_scale is not None:
            scale = self.memory_scale
            problem = problem.with_memory_scale(scale.numerator, scale.denominator)
        if self.objective is not None:
            problem = replace(problem, objective=Objective(self.objective))
        return problem


def varied(function: _Function) -> _Function:
    """Give a command the options ``--memory-scale`` and ``--objective``."""
    scale = click.option(
        "--memory-scale",
        type=positive_fraction,
        metavar="FRACTION",
        help="Factor on the memory of every device, exact: 0.8 or 4/5.",
    )
    objective = click.option(
        "--objective",
        type=click.Choice([entry.value for entry in Objective]),
        help="Objective, if not the instance's own.",
    )
    return scale(objective(function))


def problems(
    files: tuple[Path, ...], variation: Variation
) -> Iterator[tuple[Path, PlanningProblem | InputError]]:
    """Read file after file; a bad one gives its error in place of a problem."""
    from milp_plan.io import read_many

    for path, item in read_many(files):
        yield path, item if isinstance(item, InputError) else variation.apply(item)


def problem(file: Path, variation: Variation | None = None) -> PlanningProblem:
    """Read one problem.

    Raises
    ------
    InputError
        The file is not what its format says.
    """
    from milp_plan.io import read

    return (variation or Variation()).apply(read(file))


def plan_of(problem: PlanningProblem, file: Path) -> Plan:
    """Read a plan that says it is for this problem.

    Raises
    ------
    InputError
        The file is no plan file, or it is a plan for another instance.
    """
    from milp_plan.io import read_plan

    plan = read_plan(file)
    if plan.problem != problem.name:
        finding = Finding(
            "problem",
            f"a plan for {plan.problem!r}",
            f"a plan for {problem.name!r}",
            "name the instance and the plan that belong together",
            str(file),
        )
        raise InputError([finding])
    return plan


def drawable(problem: PlanningProblem, plan: Plan, file: Path) -> None:
    """Refuse a plan that cannot be drawn: it names what the problem does not have.

    Raises
    ------
    InputError
        With a finding per unknown operator or device.
    """
    devices = set(problem.cluster.device_names)
    used = {name for run in plan.runs for name in run.devices}
    used |= {name for trip in plan.transfers for name in (*trip.source, *trip.target)}
    unknown = [("device", name) for name in sorted(used - devices)]
    unknown += [
        ("operator", run.operator)
        for run in plan.runs
        if not problem.graph.has_operator(run.operator)
    ]
    if unknown:
        raise InputError(
            Finding(what, repr(name), f"a known {what}", "plan the instance again", str(file))
            for what, name in unknown
        )
