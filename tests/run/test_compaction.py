"""Expanded plans, tightened."""

from random import Random

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.kinds.schedule.planners.dispatch import Rule, dispatch
from milp_plan.kinds.schedule.strategies import compaction
from milp_plan.kinds.schedule.strategies.compaction import compact
from tests.check.cases import lazy, plan, problem, run
from tests.support.problems import random_problem_with_plan


def test_gaps_are_closed():
    a_problem = problem("a b")
    loose = plan(run("a", "d0", 30), run("b", "d0", 70))
    tight = compact(a_problem, loose)
    assert (tight.run("a").start_ticks, tight.run("b").start_ticks) == (0, 10)


def test_compacted_plans_are_valid_and_no_worse():
    found = 0
    for seed in range(260, 300):
        a_problem, loose = random_problem_with_plan(seed, objective=Objective.MAKESPAN)
        rng = Random(seed)
        priority = {operator.name: rng.random() for operator in a_problem.graph.operators}
        dispatched = [dispatch(a_problem, priority=priority, rule=rule) for rule in Rule]
        for before in (loose, *dispatched):
            tight = None if before is None else compact(a_problem, before)
            if before is None or tight is None:
                continue
            found += 1
            verdict = verify(a_problem, tight)
            assert verdict.ok
            assert verdict.value <= before.stop_ticks
            placements = [{r.operator: r.placement for r in p.runs} for p in (before, tight)]
            assert placements[0] == placements[1]
    assert found > 120


def test_a_compacted_plan_that_ends_later_is_none(monkeypatch):
    a_problem, before = lazy()
    later = plan(*(run(name, "d0", 10 * n + 1) for n, name in enumerate("abcdef")))
    monkeypatch.setattr(compaction, "dispatch_order", lambda *_: later)
    assert compact(a_problem, before) is None
    monkeypatch.setattr(compaction, "dispatch_order", lambda *_: None)
    assert compact(a_problem, before) is None
    monkeypatch.setattr(compaction, "dispatch_order", lambda *_: before)
    assert compact(a_problem, before) is before
