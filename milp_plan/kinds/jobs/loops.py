"""Compiled loops of the kind, called once on small problems."""

from __future__ import annotations

from milp_plan.core.budget import Budget
from milp_plan.run.loop_parts import END_S, LoopPart

JOBS = LoopPart(
    "jobs",
    "milp_plan.kinds.jobs.loops:run_jobs",
)
PARTS = (JOBS,)
"""All of them."""


def run_jobs() -> None:
    """Call the loops of jobs."""
    from .planners import STARTS, Gangs, JobTables
    from .problem import Job, JobsProblem, Option, Pool, Unit

    options = (Option("loops", "gpu", 1, 3), Option("loops", "gpu", 2, 2))
    jobs = tuple(Job(f"j{i}", (Unit(options),)) for i in range(3))
    problem = JobsProblem("loops", (Pool("gpu", 2),), jobs)
    tables = JobTables(problem)
    tables.plan(tables.anneal(STARTS["soonest end"](tables, 0), 2, 0), "loops")
    Gangs(problem).within(9, Budget(END_S))
