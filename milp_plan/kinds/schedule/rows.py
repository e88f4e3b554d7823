"""Plans of placement problems as rows of a table: what runs and what travels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milp_plan.core import OperatorRun, Plan, PlanningProblem, Transfer
from milp_plan.core.schedule import transfer_kind


def placement_rows(problem: PlanningProblem | None, plan: Plan) -> Iterator[dict[str, Any]]:
    """Return runs and transfers by their start, runs first among equals.

    Columns ``what`` (``run``, ``transfer``, ``offload``, ``reload``), ``name``, ``option`` (or the
    layout that travels), ``source`` and ``devices`` (tuples of names), ``start_ticks``,
    ``stop_ticks``; with the problem ``duration_ticks``, ``kind``, ``group``, ``micro_batch`` and
    ``block``; ``call`` where the plan counts calls.
    """
    calls = any(run.call is not None for run in plan.runs)
    tasks: list[OperatorRun | Transfer] = [*plan.runs, *plan.transfers]
    for task in sorted(
        tasks, key=lambda task: -1 if task.start_ticks is None else task.start_ticks
    ):
        row = _run(task) if isinstance(task, OperatorRun) else _transfer(problem, task)
        row |= {"start_ticks": task.start_ticks, "stop_ticks": task.stop_ticks}
        if problem is not None:
            row |= _more(problem, task)
        if calls:
            row["call"] = task.call if isinstance(task, OperatorRun) else None
        yield row


def _run(run: OperatorRun) -> dict[str, Any]:
    head = {"what": "run", "name": run.operator, "option": run.option}
    return {**head, "source": (), "devices": run.devices}


def _transfer(problem: PlanningProblem | None, trip: Transfer) -> dict[str, Any]:
    what = "transfer" if problem is None else transfer_kind(problem.cluster, trip)
    head = {"what": what, "name": trip.value, "option": trip.layout}
    return {**head, "source": trip.source, "devices": trip.target}


def _more(problem: PlanningProblem, task: OperatorRun | Transfer) -> dict[str, Any]:
    """Return what the problem knows of a task; ``None`` for what it does not know."""
    ticks = None if task.start_ticks is None else (task.stop_ticks or 0) - task.start_ticks
    names = ("kind", "group", "micro_batch", "block")
    if not isinstance(task, OperatorRun) or not problem.graph.has_operator(task.operator):
        return {"duration_ticks": ticks, **dict.fromkeys(names)}
    operator = problem.graph.operator(task.operator)
    if ticks is None and task.placement in problem.placements(task.operator):
        ticks = problem.duration_ticks(task.operator, task.placement)
    return {"duration_ticks": ticks, **{name: getattr(operator, name) for name in names}}
