from dataclasses import replace

import pytest

from milp_plan.core import CommunicationModel, Operator, Option, PlanningProblem
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, infeasibility
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .samples import cluster, operator, problem, value


def named(p: PlanningProblem) -> dict[str, int]:
    return {bound.name: bound.value for bound in all_bounds(p)}


def unrolled(p: PlanningProblem, batches: int) -> PlanningProblem:
    return replace(p, graph=p.graph.unroll(batches))


def test_last_micro_batch_waits_for_its_turn():
    # Two stages of 2 and 3, crossing 4: apart 2 + 2 + 4 + 3 = 11 or more, together 10.
    p = unrolled(
        problem([operator("a", 2), operator("b", 3)], [value("v", "a", "b", 4)]), batches=2
    )
    found = brute_force(p)
    assert found is not None
    assert found[0] == 10
    assert named(p)["load"] == 5
    assert named(p)["critical path with sharing"] == 10


def test_stages_apart_pay_crossings_and_the_longest_turn():
    # Weights keep the stages apart. Free transfers: 2 + 4 + 3 + 3; in turn: 2 + 4 + 4 + 3.
    for model, expected in ((CommunicationModel.DELAY, 12), (CommunicationModel.CHANNEL, 13)):
        p = unrolled(
            problem(
                [operator("a", 2), operator("b", 3)],
                [value("v", "a", "b", 4), value("wa", None, "a", 60), value("wb", None, "b", 60)],
                cluster([100, 100], communication=model),
            ),
            batches=2,
        )
        found = brute_force(p)
        assert found is not None
        assert found[0] == expected == max(named(p).values())


def test_option_that_holds_several_devices_ends_on_all_of_them():
    # The gang of a covers both devices, so b on either of them needs no transfer.
    wide = Operator("a", (Option("both", {"x": 2}, gang=2), Option("one", {"x": 4})))
    p = unrolled(
        problem(
            [wide, operator("b", 0)],
            [value("v", "a", "b", 6)],
            cluster([None] * 3, groups=(("d0", "d1"), ("d1", "d2"))),
        ),
        batches=3,
    )
    found = brute_force(p)
    assert found is not None
    assert found[0] == 6
    assert max(named(p).values()) <= 6


@pytest.mark.untraced
def test_no_bound_exceeds_the_optimum_of_unrolled_problems():
    tight = checked = 0
    for seed in range(36):
        p = unrolled(random_problem(seed, max_operators=3), batches=2)
        found = brute_force(p) if len(p.graph.operators) <= 6 else None
        if found is None:
            continue
        checked += 1
        assert infeasibility(p) is None
        best = max(bound.value for bound in all_bounds(p))
        assert best <= found[0]
        tight += best == found[0]
    assert checked > 12
    assert tight > checked // 3
