"""Pipelines whose activations may be made again or wait on a host: reading, bound, search, way."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.planners.stashing import Stashing
from milp_plan.kinds.pipeline.stash import StashShop, read_stashes, with_hosts
from milp_plan.kinds.pipeline.stash_bounds import stash_bound
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.run import Settings, solve
from tests.support.memory_saving_brute import brute_force_ways


def case(memory: int | None, *, recompute: bool = False, lane: int | None = None) -> Case:
    model = Model.from_share((2, 3, 2), 1)
    return Case(model, 3, 5, memory=memory, recompute=recompute, lane=lane)


def shop_of(problem: PlanningProblem) -> StashShop:
    found = read_stashes(problem)
    assert isinstance(found, StashShop), found
    return found


def tiny(seed: int) -> PlanningProblem:
    """A pipeline small enough to enumerate; ticks up to 1e9, bytes up to 1e10."""
    rng = Random(f"stash {seed}")
    scale, bytes_scale = rng.choice([1, 10**8]), rng.choice([1, 10**9])
    stages, batches = rng.choice([(1, 2), (2, 1), (1, 2), (2, 2)])
    split = batches == 2 and stages == 1

    def some(least: int = 1) -> int:
        return rng.randint(least, 4)

    made = tuple(
        Stage(
            some() * scale, some() * scale, some() * scale,
            0 if split else some() * bytes_scale, some() * bytes_scale if split else 0,
        )
        for _ in range(stages)
    )  # fmt: skip
    template = Template(made, batches, rng.randint(0, 1) * scale, joint_backward=not split)
    need = max(s.backward_bytes + s.weight_bytes for s in made)
    most = sum(s.backward_bytes + s.weight_bytes for s in made) * batches
    memory = rng.randint(need, max(need, most // stages))
    problem = pipeline_problem(
        f"tiny-{seed}", template, place("line", stages), memory_bytes=memory
    )  # fmt: skip
    few = stages * batches <= 2
    ways = "again" if split else rng.choice(["again", "away", "both"] if few else ["again", "away"])
    if ways != "again":
        problem = with_hosts(problem, some() * scale)
    return problem if ways == "away" else problem.with_recomputation()


def searched(problem: PlanningProblem, seed: int, lower: int) -> Plan | None:
    """One round of the search, from a plan that knows no limit."""
    search = Stashing(shop_of(problem), seed)
    roomy = problem.without_memory_saving
    free = roomy.cluster.with_memory(dict.fromkeys(roomy.cluster.device_names))
    start, _ = best_plan(roomy.variant(cluster=free))
    assert start is not None
    search.add(start, "roomy")
    search.run(Budget(float("inf")), lambda *_: None, lower=lower, rounds=1)
    return search.best


def test_bounds_are_below_the_optimum_and_the_search_often_meets_it() -> None:
    met = pressed = 0
    for seed in range(40):
        problem = tiny(seed)
        best = brute_force_ways(problem)
        if best is None:
            continue
        pressed += 1
        assert stash_bound(shop_of(problem)) <= best[0], seed
        plan = searched(problem, seed, best[0])
        if plan is not None:
            verdict = verify(problem, plan)
            assert verdict.ok, (seed, verdict.violations)
            assert verdict.value is not None
            assert verdict.value >= best[0]
            met += verdict.value == best[0]
    assert pressed >= 30
    assert met >= pressed - 3


def test_words_of_a_plan_give_the_plan_back() -> None:
    problem = build(case(1, recompute=True, lane=3)).problem
    plan = solve(problem, Settings(time_limit_s=4.0, rounds=1, threads=1)).plan
    assert plan is not None
    search = Stashing(shop_of(problem), 0)
    again = search.plan(search.words_of(plan))
    assert again.stop_ticks == plan.stop_ticks
    assert verify(problem, again).ok
    assert _counts(again) == _counts(plan)


def _counts(plan: Plan) -> tuple[int, int]:
    return len(plan.runs), len(plan.transfers)


@pytest.mark.slow
def test_with_more_ways_no_plan_is_slower() -> None:
    known: list[Plan] = []
    values = []
    for recompute, lane in ((False, None), (True, None), (True, 4)):
        problem = build(case(1, recompute=recompute, lane=lane)).problem
        answer = solve(problem, Settings(time_limit_s=30, hints=tuple(known)))
        assert answer.plan is not None
        assert not answer.defects
        assert verify(problem, answer.plan).ok
        assert (answer.record["strategy"] == "stash") == recompute
        known.append(answer.plan)
        values.append(answer.value or 0)
    assert values[0] > values[1] >= values[2]


def test_a_bound_that_lanes_alone_explain() -> None:
    """One activation at a time on four devices: out and back again take the memory as well."""
    problem = build(Case(Model.from_share((1, 1, 1)), 4, 8, memory=1, lane=2)).problem
    assert Fraction(stash_bound(shop_of(problem)), problem.units.time_scale) == 58


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": Objective.SPAN}, "not makespan"),
        ({"endpoint": True}, "ports"),
        ({"plain": True}, "nothing may run again"),
    ],
)
def test_other_forms_are_refused_in_words(changes: dict[str, object], said: str) -> None:
    problem = build(case(2, recompute=True)).problem
    if changes.pop("plain", False):
        problem = problem.without_memory_saving
    if changes.pop("endpoint", False):
        cluster = replace(problem.cluster, communication=CommunicationModel.ENDPOINT)
        changes["cluster"] = cluster
    found = read_stashes(problem.variant(**changes))
    assert isinstance(found, str)
    assert said in found


def test_inputs_with_bytes_are_refused() -> None:
    problem = build(case(2, recompute=True)).problem
    values = tuple(
        replace(v, bytes={"full": 1}) if v.name.startswith("y0") else v
        for v in problem.graph.values
    )
    found = read_stashes(problem.variant(graph=replace(problem.graph, values=values)))
    assert isinstance(found, str)
    assert "takes memory on two devices" in found
