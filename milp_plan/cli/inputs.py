"""Arguments that name files, and the changes a command line can make to a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from milp_plan.core import Finding, InputError, Objective, Plan, PlanningProblem

if TYPE_CHECKING:
    from milp_plan.core.sharding import ShardingProblem
    from milp_plan.io import Goal

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
    """How a problem differs from its file: the options of :func:`varied`, by their names.

    Parameters
    ----------
    memory_scale
        Factor on every limited device memory, exact.
    objective, contiguous, separate_passes, calls
        See :class:`milp_plan.io.Goal`.
    """

    memory_scale: Fraction | None = None
    objective: str | None = None
    contiguous: bool = False
    separate_passes: bool = False
    calls: int | None = None

    @property
    def goal(self) -> Goal:
        """What is asked of the file."""
        from milp_plan.io import Goal

        objective = None if self.objective is None else Objective(self.objective)
        return Goal(objective, self.contiguous, self.separate_passes, self.calls)

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem, read for the goal, as the command line wants it."""
        if self.memory_scale is not None:
            scale = self.memory_scale
            problem = problem.with_memory_scale(scale.numerator, scale.denominator)
        return problem


_VARIED = (
    click.option(
        "--memory-scale",
        type=positive_fraction,
        metavar="FRACTION",
        help="Factor on the memory of every device, exact: 0.8 or 4/5.",
    ),
    click.option(
        "--objective",
        type=click.Choice([entry.value for entry in Objective]),
        help="Objective, if not the instance's own.",
    ),
    click.option(
        "--contiguous",
        is_flag=True,
        help="Objective bottleneck, serial law: consecutive parts of the forward pass.",
    ),
    click.option(
        "--separate-passes",
        is_flag=True,
        help="Objective bottleneck, serial law: largest forward plus largest backward load.",
    ),
    click.option(
        "--calls",
        type=click.IntRange(min=1),
        help="Objective latency: invocations per accelerator.  [default: 1]",
    ),
)


def varied(function: _Function) -> _Function:
    """Give a command the options of :class:`Variation`; it receives them as ``variation``."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        chosen = {entry.name: options.pop(entry.name) for entry in fields(Variation)}
        return function(*args, variation=Variation(**chosen), **options)

    for option in reversed(_VARIED):
        command = option(command)
    return cast(_Function, command)


def problems(
    files: tuple[Path, ...], variation: Variation
) -> Iterator[tuple[Path, PlanningProblem | InputError]]:
    """Read file after file; a bad one gives its error in place of a problem."""
    from milp_plan.io import read_many

    for path, item in read_many(files, variation.goal):
        yield path, item if isinstance(item, InputError) else variation.apply(item)


def instances(
    files: tuple[Path, ...], variation: Variation
) -> Iterator[tuple[Path, PlanningProblem | ShardingProblem | InputError]]:
    """Read file after file like :func:`problems`; some may be sharding problems."""
    from milp_plan import run

    for path in files:
        try:
            yield path, run.read(path, vars(variation))[1]
        except InputError as error:
            yield path, error


def instance(file: Path, variation: Variation) -> PlanningProblem | ShardingProblem:
    """Read one problem of either kind.

    Raises
    ------
    InputError
        The file is not what its format says.
    """
    _, item = next(iter(instances((file,), variation)))
    if isinstance(item, InputError):
        raise item
    return item


def problem(file: Path, variation: Variation | None = None) -> PlanningProblem:
    """Read one problem.

    Raises
    ------
    InputError
        The file is not what its format says.
    """
    from milp_plan.io import read

    chosen = variation or Variation()
    return chosen.apply(read(file, chosen.goal))


def plan_of(problem: PlanningProblem, file: Path, instance_file: Path) -> Plan:
    """Read a plan that says it is for this problem, which was read from the instance file.

    Raises
    ------
    InputError
        The file is no plan file, or it is a plan for another instance.
    """
    from milp_plan.io import read_plan

    plan = read_plan(file, problem, instance_file)
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
