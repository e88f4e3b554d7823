"""A small problem of every kind."""

from __future__ import annotations

from typing import Any

from milp_plan.core.sharding import sharding_problem
from milp_plan.kinds.jobs.problem import Job, JobsProblem, Option, Pool, Unit
from milp_plan.kinds.local_updates.problem import LocalUpdatesProblem, Stage
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from milp_plan.kinds.rematerialisation.problem import Computation, RematerialisationProblem
from milp_plan.kinds.resharding.problem import Card, ReshardingProblem, Slice
from milp_plan.run.kinds import kinds
from tests.run.cases import trap
from tests.support.hybrid import chain
from tests.support.serving import drawn as served
from tests.support.training import drawn


def problems() -> dict[str, Any]:
    """Name of the kind -> problem."""
    remat = [Computation("a", 3, 4), Computation("b", 2, 4, ("a",)), Computation("c", 2, 4, ("b",))]
    remat.append(Computation("d", 1, 4, ("a", "c")))
    units = (Unit((Option("fsdp", "gpus", 2, 30), Option("one", "gpus", 1, 50))),)
    return {
        "schedule": trap("gang-beats-single").problem,
        "sharding": sharding_problem(
            "two",
            [[9, 1], [9, 1]],
            usages=[[0, 5], [0, 5]],
            edges={(0, 1): [[0, 3], [3, None]]},
            limit=5,
        ),
        "hybrid": chain(3, 2, 2),
        "packing": PackingProblem("two", (Buffer("a", 0, 2, 4), Buffer("b", 1, 3, 6)), 10),
        "rematerialisation": RematerialisationProblem("four", tuple(remat), 12),
        "resharding": ReshardingProblem(
            "slices",
            (Card("x", 10**9), Card("y", 10**9), Card("z", 10**9)),
            (Slice("s", 1000, ("x", "y"), ("z",)), Slice("t", 500, ("x",), ("z",))),
        ),
        "local-updates": LocalUpdatesProblem(
            "line", (Stage("a", 10, 20, most=1), Stage("b", 10, 20)), 3, 5
        ),
        "training": drawn(0, pipeline=2, micro_batch=1),
        "serving": served(0, fixed={"pipeline": 2, "prompts": 1}),
        "jobs": JobsProblem("jobs", (Pool("gpus", 2),), (Job("j", units), Job("k", units))),
    }


PROBLEMS = problems()
assert set(PROBLEMS) == {kind.name for kind in kinds()}
