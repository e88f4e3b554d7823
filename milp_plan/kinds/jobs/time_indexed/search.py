"""Asking models by slots: targets between bound and value, slots as fine as they have to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from milp_plan.backends import Limits, SolverReport, Stop
from milp_plan.core.budget import Budget
from milp_plan.core.quantity import ceil_div
from milp_plan.run.confirmation import SolveContext, unconfirmed

from ..bounds import Sizes
from ..problem import JobsObjective, JobsPlan, JobsProblem
from .model import Blocks, Slotted, decoded

SLOTS = (24, 48, 96, 192, 384)
"""Slots of a horizon, coarse ones first."""

FINE = 512
"""Slots up to which those that divide every time are taken at once: then the model is exact."""

MOST_COLUMNS = 40_000
"""Larger models are not asked: they seldom end."""

STEP = 100
"""First asked for is a plan that is better by this part: nearly all that people ask for."""

LEAST_S = 0.2

Ask = Callable[..., SolverReport]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a model is about to be asked: a value, and a bound."""

    value: int
    lower: int


@dataclass(frozen=True, slots=True)
class SlotAnswer:
    """What became of a model.

    Parameters
    ----------
    target
        The value that was asked for.
    plan
        Of its solution; it may be worse than the target, or break a law.
    bound
        Proved by it.
    slots, columns, rows
        Its size.
    """

    target: int
    plan: JobsPlan | None
    bound: int | None
    slots: int
    columns: int
    rows: int


def refine(
    problem: JobsProblem, ask: Ask, limits: Limits, budget: Budget, known: Callable[[], Known]
) -> Iterator[SlotAnswer]:
    """Ask models, until value and bound meet, or nothing more is to be had.

    Parameters
    ----------
    problem
        Each unit has an option that fits.
    ask
        The solver: model, limits and start to a report.
    limits
        Its time is a limit for each model.
    budget
        Of everything.
    known
        Best value and bound so far, asked for before each model.
    """
    blocks = Blocks(problem)
    level, reach = 0, STEP
    while budget.left_s > LEAST_S:
        state = known()
        if state.lower >= state.value:
            return
        target = max(state.lower, state.value - 1 - state.value // reach)
        model = _model(blocks, target, level)
        if model is None or _size(model) > MOST_COLUMNS:
            return
        answer, stop = _asked(model, ask, limits, budget)
        yield answer
        after = known()
        if answer.bound is not None:
            reach = min(reach * 4, 10**18)  # closer to the value
        elif answer.plan is not None or stop is Stop.PROVED:
            if after.value >= state.value and not _finer(model, level):
                return
            level += after.value >= state.value
        elif reach > 8 and target > state.lower:
            reach //= 2  # what is further off is refuted sooner
        else:
            return


def _finer(model: Slotted, level: int) -> bool:
    """Whether there are finer slots, and they would say more."""
    return level + 1 < len(SLOTS) and model.slot > model.blocks.grain


def _model(blocks: Blocks, target: int, level: int) -> Slotted | None:
    horizon = _horizon(blocks, target)
    slot = blocks.grain
    if horizon // slot > FINE:
        slot = max(slot, ceil_div(horizon + 1, SLOTS[level]))
    return Slotted(blocks, target, horizon, slot)


def _horizon(blocks: Blocks, target: int) -> int:
    """When all is done in some plan of a value, if there is any.

    For the weighted objective: no job of weight is complete later than what the others leave of the
    target; and as long as there is something to do, something is done, each thing once.
    """
    problem = blocks.problem
    if problem.objective is JobsObjective.MAKESPAN:
        return target
    serial = max(job.release for job in problem.jobs)
    for job, units in zip(problem.jobs, problem.fits, strict=True):
        for number, options in enumerate(units):
            weights = job.weights_of(number)
            serial += max(option.ticks for _, option in options)
            serial += 0 if weights is None else weights.load + weights.store
    jobs, lengths = problem.jobs, Sizes(problem).lengths
    if any(job.weight == 0 for job in jobs):
        return serial
    alone = sum(j.weight * (j.release + n) for j, n in zip(jobs, lengths, strict=True))
    latest = max(
        (target - alone) // j.weight + j.release + n for j, n in zip(jobs, lengths, strict=True)
    )
    return max(0, min(serial, latest))


def _size(model: Slotted) -> int:
    """Columns at most, without making them."""
    return len(model.blocks.all) * (model.horizon // model.slot + 1)


def _asked(model: Slotted, ask: Ask, limits: Limits, budget: Budget) -> tuple[SlotAnswer, Stop]:
    compiled = model.compiled
    if compiled is None:
        return SlotAnswer(model.target, None, model.target + 1, 0, 0, 0), Stop.INFEASIBLE
    left = min(limits.time_s, budget.left_s)
    report = ask(compiled, dataclasses.replace(limits, time_s=left), None)
    if report.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    plan = None
    if report.solution is not None:
        chosen = [model.columns[at] for at in (report.solution > 0.5).nonzero()[0].tolist()]
        plan = decoded(model, chosen)
    bound = None
    if report.stop is Stop.INFEASIBLE and not unconfirmed(
        compiled, SolveContext(ask, limits, budget)
    ):
        bound = model.target + 1
    size = (model.horizon // model.slot + 1, compiled.num_columns, compiled.num_rows)
    return SlotAnswer(model.target, plan, bound, *size), report.stop
