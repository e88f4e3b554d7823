"""Problems without a plan: what is at odds, and what is enough, against brute force."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from milp_plan.run import conflict as module
from milp_plan.run import kind_of
from milp_plan.run.conflict import Infeasibility, why_infeasible

LIMIT_S = 300.0


def _best(problem: ShardingProblem) -> int | None:
    """Cheapest choice, by looking at all."""
    kind = kind_of(problem)
    from milp_plan.core.sharding import ShardingPlan

    values = []
    for chosen in itertools.product(*(range(c) for c in problem.strategies.counts.tolist())):
        verdict = kind.verify(problem, ShardingPlan(problem.name, chosen))
        if verdict.ok and verdict.value is not None:
            values.append(verdict.value)
    return min(values, default=None)


def _random(seed: int) -> ShardingProblem:
    """Few operators that often need more than there is, or forbid each other."""
    random = Random(seed)
    count = random.randint(2, 4)
    scale = random.choice([1, 10**6, 10**10])
    usages = [[random.randint(1, 9) * scale for _ in range(2)] for _ in range(count)]
    spans = []
    for _ in range(count):
        start = random.randint(0, 2)
        spans.append((start, start + random.randint(1, 2)))
    edges = {
        pair: [[random.choice([1, None]) for _ in range(2)] for _ in range(2)]
        for pair in itertools.combinations(range(count), 2)
        if random.random() < 0.4
    }
    costs = [[random.randint(0, 9) for _ in range(2)] for _ in range(count)]
    return sharding_problem(
        f"random{seed}",
        costs,
        usages=usages,
        intervals=spans,
        edges=edges,
        limit=random.randint(3, 14) * scale,
    )


def _members_are_needed(problem: ShardingProblem, told: Infeasibility) -> None:
    """The set has no plan; and where it is called smallest, each part less of it has one."""
    found, reasons = told.conflict, kind_of(problem).reasons()
    assert found is not None
    lifted = {} if found.limits else {"memory limit": None}
    only = reasons.keep(reasons.resized(problem, lifted), found.parts)
    assert _best(only) is None
    assert found.smallest
    for part in found.parts if len(found.parts) > 1 else ():
        assert _best(reasons.keep(only, set(found.parts) - {part})) is not None
    if found.limits:
        assert _best(reasons.resized(only, {"memory limit": None})) is not None


def test_random_sharding_problems_against_brute_force() -> None:
    seen = relaxed = 0
    for seed in range(60):
        problem = _random(seed)
        proof = kind_of(problem).obstacle(problem, module.Budget(LIMIT_S))
        if proof is None:
            continue
        assert _best(problem) is None
        seen += 1
        told = why_infeasible(problem, proof, LIMIT_S)
        _members_are_needed(problem, told)
        for least in told.relaxations:
            relaxed += 1
            (raised,) = least.raised
            with_more = kind_of(problem).reasons().resized(problem, {raised.name: raised.enough})
            best = _best(with_more)
            assert best is not None
            assert best <= least.value
            assert least.least  # tiny: every step is settled
            below = raised.amount * (least.percent - 1) // 100
            assert _best(kind_of(problem).reasons().resized(problem, {raised.name: below})) is None
        if told.helpless:
            freed = kind_of(problem).reasons().resized(problem, {"memory limit": None})
            assert _best(freed) is None
    assert seen >= 8
    assert relaxed >= 4


def test_without_time_nothing_is_claimed() -> None:
    buffers = tuple(Buffer(f"b{n}", n, n + 3, 4) for n in range(6))
    problem = PackingProblem("six", buffers, 9)
    proof = kind_of(problem).obstacle(problem, module.Budget(LIMIT_S))
    assert proof is not None
    told = why_infeasible(problem, proof, 1e-9)
    assert told.conflict is not None
    assert not told.conflict.smallest
    assert told.conflict.open
    assert told.relaxations == ()


def test_an_interruption_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PackingProblem("two", (Buffer("a", 0, 1, 4), Buffer("b", 0, 1, 4)), 7)

    def interrupted(*_: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        why_infeasible(problem, "too small", LIMIT_S)
