"""Tiny problems with offload lanes, and a serial plan that fits into each."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.check import verify
from milp_plan.contract import Instance
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.kinds.pipeline.holds import read_offload
from milp_plan.kinds.pipeline.offload import Lanes, chain_problem, offload_problem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.template import Stage, Template

PAYS = (27, 42, 56, 62)
"""Seeds of pipelines in which it pays to offload."""


def chain(seed: int) -> PlanningProblem:
    """Three or four layers on one device."""
    rng = Random(seed)
    lanes = Lanes(rng.randint(1, 4), rng.randint(1, 4))
    times = (rng.randint(1, 2), rng.randint(1, 3))
    layers = rng.choice([3, 4])
    return chain_problem(f"chain-{seed}", layers, times, lanes, memory_bytes=rng.randint(3, layers))


def pipeline(seed: int, objective: Objective = Objective.MAKESPAN) -> PlanningProblem:
    """One or two stages, two or three micro-batches; some with two values per stage."""
    rng = Random(seed)
    stages, batches = rng.choice([(1, 2), (1, 3), (2, 2)])
    joint = stages == 2 or rng.random() < 0.5
    both = rng.random() < 0.3 and not joint

    def stage() -> Stage:
        return Stage(
            rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 2),
            backward_bytes=int(both), weight_bytes=1 + int(rng.random() < 0.3),
            gradient_bytes=int(rng.random() < 0.3), parameter_bytes=int(rng.random() < 0.2),
        )  # fmt: skip

    same = stage()
    found = (same,) * stages if rng.random() < 0.6 else tuple(stage() for _ in range(stages))
    template = Template(found, batches, transfer_ns=rng.choice([0, 1]), joint_backward=joint)
    least = max(
        s.backward_bytes + s.weight_bytes + s.gradient_bytes + s.parameter_bytes for s in found
    )
    return offload_problem(
        f"pipeline-{seed}", template, place("line", stages),
        Lanes(rng.randint(1, 3), rng.randint(1, 3)),
        memory_bytes=least + rng.randint(0, 2), objective=objective,
    )  # fmt: skip


def serial(problem: PlanningProblem) -> Plan:
    """One step after the other, depth first over micro-batches; every activation stays."""
    shop = read_offload(problem)
    assert not isinstance(shop, str)
    starts: dict[str, int] = {}
    stops: dict[str, int] = {}
    now = 0
    waiting = sorted(
        shop.steps, key=lambda n: (shop.steps[n].micro_batch, list(shop.steps).index(n))
    )
    for name in waiting:
        ready = [stops[a] + lag for a, b, lag in shop.arcs if b == name]
        starts[name] = now = max([now, *ready])
        now += shop.steps[name].ticks
        stops[name] = now
    return shop.plan(starts, {}, "serial")


def cases(objective: Objective = Objective.MAKESPAN) -> list[PlanningProblem]:
    """Problems for the contract."""
    seeds = PAYS if objective is Objective.MAKESPAN else range(3)
    return [pipeline(seed, objective) for seed in (*seeds, 10)]


def instances(objective: Objective) -> list[Instance]:
    """The cases in which the serial plan fits, each with its value."""
    found = []
    for problem in cases(objective):
        plan = replace(serial(problem), fingerprint=problem.fingerprint)
        verdict = verify(problem, plan)
        if verdict.ok and verdict.value is not None:
            found.append(Instance(problem, plan, verdict.value))
    return found
