"""Coarse problems, and what a formulation, an enumeration and CP-SAT make of a small problem.

Shared by the studies of the two-stage method. Every method gets the same seconds and threads; all
of them return the same members, so that a page can show them beside each other: ``value`` and
``bound`` (ticks), ``proved``, ``gap``, ``seconds`` and the size of a model where there is one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import floor
from pathlib import Path
from typing import Any

import cpsat
import study

from milp_plan.backends import Limits, Stop, highs
from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.core.gap import proved_optimal, relative_gap
from milp_plan.kinds.schedule.coarsen.reduction import Coarsening
from milp_plan.kinds.schedule.coarsen.steps import coarsen
from milp_plan.kinds.schedule.formats import write
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.enumeration.every import EveryPlan
from milp_plan.kinds.schedule.planners.enumeration.search import Enumeration
from milp_plan.kinds.schedule.planners.learning import ClauseLearning
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.kinds.schedule.strategies.coarse_series import LEARN_SHARE, LISTS
from milp_plan.models import validated
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import Found, discover
from milp_plan.run.kinds import kind_of
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.run.model_answer import SAFETY
from milp_plan.run.restart import make_start
from milp_plan.study.rows import ABSENT

KINDS = STAGES, PAIRWISE, GUIDED = ("stages", "pairwise", "guided")
"""Kinds of coarsening: stages of the graph, pairs of operators, and along a list schedule."""

EXACT = "operator_schedule"
"""The formulation of stage two."""

CPSAT, ENUMERATION, LEARNING = "CP-SAT", "enumeration", "clause learning"
LISTS_S = 10.0
"""Seconds that list schedules of one problem may take."""

Row = dict[str, Any]
Case = Mapping[str, Any]


@contextmanager
def instance(case: Case) -> Iterator[tuple[Path, Path]]:
    """Yield the file of a case, which may not be there, and a folder to work in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield study.instance_file(case["file"], folder), folder


def absent(case: Case) -> Row:
    """Return the row of a case whose file is not there."""
    variable = os.environ.get("MILP_PLAN_BENCHMARKS")
    where = "is not set" if variable is None else f"is {variable}, which has no such file"
    return {"stop": ABSENT, "reason": f"{case['file']}: MILP_PLAN_BENCHMARKS {where}"}


def list_plan(problem: PlanningProblem) -> Plan | None:
    """Return the best plan of the list schedules; ``None`` where none of them keeps the laws."""
    return best_plan(problem, LISTS, budget=Budget(LISTS_S))[0]


def best_list(*baselines: Mapping[str, int | None]) -> int | None:
    """Return the least value of a list schedule in what runs report of simple planners."""
    found = [v for each in baselines for name, v in each.items() if name in LISTS]
    return min((value for value in found if value is not None), default=None)


def coarsened(problem: PlanningProblem, case: Case) -> tuple[Coarsening, Plan | None]:
    """Return the coarse problem of a case with ``target`` and ``kind``, and a plan to start from.

    The start is the best of its list schedules; of a guided one also the guide.

    Raises
    ------
    ValueError
        There is no such kind.
    """
    kind = case["kind"]
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
    guide = list_plan(problem) if kind == GUIDED else None  # without one, pairs merge freely
    coarsening = coarsen(problem, case["target"], guide=guide, stages=kind == STAGES)
    small = coarsening.problem
    plans = [list_plan(small)]
    rough = None if guide is None else coarsening.project(guide)
    if rough is not None:
        plans.append(make_start(kind_of(small), small, rough).plan)
    valued = [(verify(small, plan).value, plan) for plan in plans if plan is not None]
    known = [(value, place) for place, (value, _) in enumerate(valued) if value is not None]
    if not known:
        return coarsening, None
    value, place = min(known)
    return coarsening, replace(valued[place][1], value=value)


def written(problem: PlanningProblem, folder: Path) -> Path:
    """Write a problem as an instance file, for programs that read files."""
    path = folder / "small.json"
    write(problem, path)
    return path


def memory_binds(problem: PlanningProblem) -> bool:
    """Return whether a list schedule that is made without limits of memory breaks them."""
    roomy = tuple(replace(device, memory_bytes=None) for device in problem.cluster.devices)
    without = replace(problem, cluster=replace(problem.cluster, devices=roomy))
    plan = PLANNERS["list_critical_path"](without)
    broken = () if plan is None else verify(problem, plan).violations
    return any(violation.rule == "memory" for violation in broken)


# -- methods --------------------------------------------------------------------------------------


def answer(value: int | None, bound: int | None, seconds: float, **more: Any) -> Row:
    """Return what every method reports; a proof is a value that equals its bound."""
    return {
        "value": value,
        "bound": bound,
        "proved": proved_optimal(value, bound),
        "gap": relative_gap(value, bound),
        "seconds": round(seconds, 2),
        **more,
    }


def formulations(problem: PlanningProblem) -> Iterator[tuple[str, FormulationSolver]]:
    """Yield the name and solver of each registered formulation that can model a problem."""
    for name, found in discover().items():
        if found.formulation is None:
            continue
        solver = _solver(found)
        if solver.unsupported(problem) is None:
            yield name, solver


def exact_stage() -> FormulationSolver:
    """Return the solver of stage two."""
    return _solver(discover()[EXACT])


def _solver(found: Found) -> FormulationSolver:
    return FormulationSolver(found, make_options(found, {}))


def uses_model(
    problem: PlanningProblem, solver: FormulationSolver, case: Case, start: Plan | None = None
) -> tuple[Row, Plan | None]:
    """Solve a formulation's model; return its figures and its plan."""
    guide = Guide(None if start is None else start.value)
    budget = Budget(case["limit"])
    limits = Limits(time_s=case["limit"], seed=case["seed"], threads=case["threads"])
    found = solver.run(problem, guide, limits, budget, start=start)
    bound = found.bound if found.proves and not found.disputed else None
    result = answer(
        found.value,
        bound if bound is None or found.value is None else min(bound, found.value),
        budget.elapsed_s,
        columns=found.columns,
        rows=found.rows,
        root_bound=found.root_bound if bound is not None else None,
        nodes=found.report.nodes,
        start_accepted=found.report.start_accepted,
        failure=found.failure or found.disputed or None,
    )
    return result, found.plan


def lp_bound(problem: PlanningProblem, solver: FormulationSolver, case: Case) -> int | None:
    """Return what the linear relaxation of a formulation's model proves, if it ends in time."""
    guide = Guide()
    source = validated.built(solver.formulation, problem, solver.options, guide)
    model = validated.compiled(solver.formulation, source)
    scale = validated.scale_of(solver.formulation, problem, solver.options, guide)
    limits = Limits(time_s=case["limit"], threads=case["threads"])
    report = highs.solve(model.relaxed(), limits)
    if report.stop is not Stop.PROVED or report.objective is None:
        return None
    safe = report.objective - scale.slack - SAFETY * max(1.0, abs(report.objective))
    return floor(safe * scale.unit)


def enumerated(problem: PlanningProblem, case: Case) -> Row | None:
    """Look at every placement and order; ``None`` where there are too many for that."""
    budget = Budget(case["limit"])
    if EveryPlan.suits(problem):
        every = EveryPlan(problem)
        for _ in every.plans(budget):
            pass
        return answer(every.best, every.best if every.complete else None, budget.elapsed_s)
    if not Enumeration.suits(problem):
        return None
    search, value = Enumeration(problem), None
    for plan in search.plans(budget):
        value = verify(problem, plan).value
    return answer(value, search.least, budget.elapsed_s)


def learned(
    problem: PlanningProblem, case: Case, start: Plan | None = None
) -> tuple[Row, Plan | None] | None:
    """Search by clause learning; ``None`` where it does not suit the problem."""
    if not ClauseLearning.suits(problem):
        return None
    budget, best = Budget(case["limit"]), start
    search = ClauseLearning(problem, None if start is None else start.value)
    if start is not None:
        search.follow(start)
    for plan in search.plans(budget):
        best = replace(plan, value=verify(problem, plan).value)
    value = None if best is None else best.value
    more = {"conflicts": search.conflicts, "failure": None}
    return answer(value, search.least, budget.elapsed_s, **more), best


def staged(problem: PlanningProblem, case: Case, start: Plan | None) -> tuple[Row, Plan | None]:
    """Solve a coarse problem as stage two does: clause learning first, then the model."""
    first = learned(problem, {**case, "limit": LEARN_SHARE * case["limit"]}, start)
    spent, best = 0.0, start
    if first is not None:
        spent, best = first[0]["seconds"], first[1]
        if first[0]["proved"]:
            return first
    left = {**case, "limit": max(1.0, case["limit"] - spent)}
    result, plan = uses_model(problem, exact_stage(), left, best)
    result["seconds"] = round(result["seconds"] + spent, 2)
    if first is not None and result["value"] is None:
        return first
    if first is not None and first[0]["bound"] is not None:
        bound = max(first[0]["bound"], result["bound"] or 0)
        result |= answer(result["value"], bound, result["seconds"])
    return result, plan


def by_cpsat(file: Path, case: Case, folder: Path) -> Row | None:
    """Run the CP-SAT peer on an instance file; ``None`` where the peer cannot model it."""
    found = study.peer(Path(cpsat.__file__), file, dict(case), folder)
    if found["value"] is None and found["bound"] is None:
        return None
    check = found["check"]
    return answer(found["value"], found["bound"], found["wall_s"], by=found["by"], check=check)
