"""How much memory a model would take, estimated before it is built."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import PlanningProblem, UnsupportedProblemError

if TYPE_CHECKING:
    from milp_plan.run.model import FormulationSolver

GIB = 2**30

PART = 0.7
"""Part of the memory that is free which a model may take unless somebody says otherwise."""

BYTES_PER_COEFFICIENT = 750
"""While a model is built and compiled. Measured on three models of 46,000 to 98,000 coefficients,
whose rows are short: 510 to 750; less where rows are long."""

FEW = 150
"""Tasks up to which a model is small: at most 0.5 GiB where it was measured."""

PILOT = 40
"""Operators of the problem that is built to see how many coefficients a pair of tasks brings. That
lies between 2 and 80, by devices, memory, and how much the order of the graph settles."""

DEFAULTS = 20.0
"""Coefficients of a pair, where a pilot has none."""

LARGE = "operator_schedule"
"""The formulation whose models grow with the square of the tasks."""

SEVERAL = 64
"""Parts of the larger of two problems that are built to see how a model grows."""

MOST_POWER = 3.0
"""Of the number of parts: no formulation here grows faster."""

REMEDY = "make the problem smaller (a schedule: --target 25), or allow more (--model-memory)"


def free_bytes() -> int | None:
    """Memory that is free; ``None`` where the system does not say."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def estimate(problem: Any, solver: FormulationSolver) -> int | None:
    """Bytes that building a model takes, about, or ``None`` where it is small or not known.

    The same problem, made much smaller, is built. Where nothing is known, the limit still
    applies, by :func:`at_most`.
    """
    if solver.found.name == LARGE and isinstance(problem, PlanningProblem):
        return _of_pairs(problem, solver)
    return _of_parts(problem, solver)


def _of_parts(problem: Any, solver: FormulationSolver) -> int | None:
    """Build the model of some of its parts and of half of them; go on as it grows between these.

    A problem of some of its parts may have no plan, or be none that the formulation is for, as
    where all micro-batches have to be alike: then nothing is known.
    """
    from milp_plan.run.kinds import kind_of

    reasons = kind_of(problem).reasons()
    parts = list(reasons.parts(problem))
    if len(parts) <= SEVERAL:
        return None
    found = 0.0
    for spread in (False, True):  # a chain shows in parts beside each other, a crowd in others
        sizes = []
        for count in (SEVERAL // 2, SEVERAL):
            every = len(parts) // count if spread else 1
            chosen = parts[: every * count : every]
            sizes.append(_entries(reasons.keep(problem, set(chosen)), solver))
        if all(sizes):
            power = min(MOST_POWER, max(1.0, log2(sizes[1] / sizes[0])))
            found = max(found, sizes[1] * (len(parts) / SEVERAL) ** power)
    return int(BYTES_PER_COEFFICIENT * found) or None


def _entries(pilot: Any, solver: FormulationSolver) -> int:
    """Coefficients and columns of a model; 0 where there is none."""
    from milp_plan.api import Guide
    from milp_plan.core import InputError
    from milp_plan.models.validated import compile_source

    try:
        if solver.unsupported(pilot) is not None:
            return 0
        model = compile_source(solver.formulation.build(pilot, solver.options, Guide()))
    except (InputError, UnsupportedProblemError):  # some parts alone make no problem
        return 0
    return int(model.matrix.nnz) + model.num_columns


def _of_pairs(problem: PlanningProblem, solver: FormulationSolver) -> int | None:
    """Build the model of the coarsened problem: coefficients grow with the square of the tasks."""
    count = _tasks(problem)
    if count <= FEW:
        return None
    from milp_plan.api import Guide
    from milp_plan.kinds.schedule.coarsen.steps import coarsen
    from milp_plan.models.validated import compile_source

    pilot = coarsen(problem, PILOT).problem
    if solver.unsupported(pilot) is not None:
        return None
    model = compile_source(solver.formulation.build(pilot, solver.options, Guide()))
    known = model.num_columns > 0  # else no plan exists of the pilot, and it has no rows
    brought = model.matrix.nnz / _tasks(pilot) ** 2 if known else DEFAULTS
    return int(BYTES_PER_COEFFICIENT * brought * count**2)


def _tasks(problem: PlanningProblem) -> int:
    """Operators, and values that may be sent."""
    several = len(problem.cluster.devices) > 1
    sent = sum(value.producer is not None for value in problem.graph.values) if several else 0
    return len(problem.graph.operators) + sent


def refuse_large(problem: Any, solver: FormulationSolver, limit: int | None) -> int | None:
    """Refuse a model that would take more than a limit; return the estimate.

    Raises
    ------
    UnsupportedProblemError
        Says how much, and what to do.
    """
    wanted = estimate(problem, solver)
    if wanted is not None and limit is not None and wanted > limit:
        found = f"the model takes about {wanted / GIB:.1f} GiB to build, {limit / GIB:.1f} GiB"
        raise UnsupportedProblemError(f"{problem.name}: {found} are allowed; {REMEDY}")
    return wanted


@contextmanager
def at_most(name: str, limit: int | None) -> Iterator[None]:
    """End what is done inside once it takes more memory than this; where the system can.

    Raises
    ------
    UnsupportedProblemError
        It took more.
    """
    try:
        import resource

        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        used = int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError):
        limit = None
    if limit is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = used + limit if before[1] == resource.RLIM_INFINITY else min(before[1], used + limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    except MemoryError:
        text = f"the model takes more than the {limit / GIB:.1f} GiB allowed; {REMEDY}"
        raise UnsupportedProblemError(f"{name}: {text}") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class MemorySize(click.ParamType[int]):
    """Bytes, as people write them."""

    name = "SIZE"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Read it."""
        from milp_plan.run.change import size

        try:
            return int(size(str(value)))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def allowed(given: int | None) -> int | None:
    """Bytes that a model may take: what was asked for, or most of what is free."""
    if given is not None:
        return min(given, sys.maxsize // 2)  # with what is in use, no system can be told more
    free = free_bytes()
    return None if free is None else int(PART * free)
