"""Exact steps keep the optimum: against brute force, and where they must hold back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.check import verify
from milp_plan.core import FULL, MemoryLaw, Objective, Operator, Option, PlanningProblem, Value
from milp_plan.kinds.schedule.coarsen.options import UselessOptions
from milp_plan.kinds.schedule.coarsen.steps import coarsen
from milp_plan.kinds.schedule.coarsen.zero_length import ZeroLengthAbsorption, memory_never_binds
from tests.support.brute import brute_force
from tests.support.problems import random_problem
from tests.support.seeds import few

from .drafts import problem_of, single, small_cluster, with_idle_operators

ZERO = single(0)


def optimum(problem: PlanningProblem) -> int | None:
    found = brute_force(problem)
    return None if found is None else found[0]


@pytest.mark.parametrize("block", few(range(16), 2))
def test_exact_steps_keep_the_optimum(block):
    reduced = 0
    for seed in range(block * 20, block * 20 + 20):
        problem = with_idle_operators(random_problem(seed, max_operators=4), seed)
        coarsening = coarsen(problem, exact_only=True)
        assert coarsening.exact
        if not coarsening.reductions:
            continue
        reduced += 1
        best = brute_force(coarsening.problem)
        assert optimum(problem) == (None if best is None else best[0]), (seed, coarsening.table())
        if best is not None and best[1].stop_ticks > 0:
            verdict = verify(problem, coarsening.undo(best[1]))
            assert verdict.ok, (seed, verdict.violations)
            assert verdict.value == best[0]
    assert reduced > 5


def absorbed(problem: PlanningProblem) -> int:
    """Operators that joined another one; the optimum must be the same."""
    reduction = ZeroLengthAbsorption().apply(problem)
    if reduction is None:
        return 0
    assert optimum(reduction.after) == optimum(problem)
    return len(problem.graph.operators) - len(reduction.after.graph.operators)


def test_weight_node_joins_its_reader_and_looker_its_supplier():
    operators = [Operator("w", ZERO), Operator("a", single(3)), Operator("look", ZERO)]
    values = [Value("wv", "w", ("a",), {FULL: 4}), Value("av", "a", ("look",), {FULL: 4})]
    problem = problem_of(operators, values, small_cluster(memory=8))
    assert absorbed(problem) == 2
    after = ZeroLengthAbsorption().apply(problem).after
    assert after.graph.operators[0].options[0].workspace_bytes == 8
    assert after.graph.values == ()


def test_chain_of_idle_operators_joins_in_running_order():
    operators = [Operator("w", ZERO), Operator("x", ZERO), Operator("a", single(3))]
    values = [Value("v", "w", ("x",), {FULL: 9}), Value("u", "x", ("a",), {FULL: 1})]
    problem = problem_of(operators, values, small_cluster(memory=1))
    reduction = ZeroLengthAbsorption().apply(problem)
    assert list(reduction.members.values()) == [("w", "x", "a")]
    assert absorbed(problem) == 2


def test_persistent_value_stays_where_memory_may_need_it_elsewhere():
    operators = [Operator("w", ZERO), Operator("a", single(3))]
    values = [Value("p", None, ("w",), {FULL: 4}), Value("v", "w", ("a",), {FULL: 4})]
    assert absorbed(problem_of(operators, values, small_cluster(memory=4))) == 0
    assert absorbed(problem_of(operators, values, small_cluster(memory=40))) == 1
    assert absorbed(problem_of(operators, values)) == 1
    peak = problem_of(operators, values, objective=Objective.PEAK_MEMORY)
    assert absorbed(peak) == 0
    tied = [replace(operator, group="g") for operator in operators]
    assert absorbed(problem_of(tied, values, small_cluster(memory=8))) == 1


def test_group_of_another_site_keeps_an_idle_operator_out():
    """Joining would put both long operators on one device: 20 ticks in place of 11."""
    operators = [Operator("w", ZERO, group="g"), Operator("a", single(10), group="g")]
    operators.append(Operator("b", single(10)))
    problem = problem_of(operators, [Value("v", "w", ("b",), {FULL: 0})])
    assert optimum(problem) == 11
    assert absorbed(problem) == 0


def test_idle_operator_between_others_joins_only_in_its_group():
    """Alone it may sit with its supplier, whose value is large, or with its reader."""
    middle = [Operator("a", single(2)), Operator("m", ZERO), Operator("b", single(2))]
    values = [Value("x", "a", ("m",), {FULL: 9}), Value("y", "m", ("b",), {FULL: 1})]
    assert absorbed(problem_of(middle, values)) == 0
    tied = [middle[0], replace(middle[1], group="g"), replace(middle[2], group="g")]
    assert absorbed(problem_of(tied, values)) == 1
    assert absorbed(problem_of(tied, values, small_cluster(memory=19))) == 0


def test_idle_operator_with_two_neighbours_stays():
    """Its large value for z would lie on a's device while a runs."""
    operators = [Operator("w", ZERO), Operator("a", single(3)), Operator("z", ZERO)]
    values = [
        Value("wv", "w", ("a",), {FULL: 1}),
        Value("far", "w", ("z",), {FULL: 9}),
        Value("av", "a", ("z",), {FULL: 1}),
    ]
    assert absorbed(problem_of(operators, values, small_cluster(memory=5))) == 0


def test_idle_operator_needs_a_matching_option():
    pair = Option("pair", {"fast": 2}, gang=2)
    operators = [Operator("w", ZERO), Operator("a", (*single(3), pair))]
    cluster = replace(small_cluster(), groups=(("d0", "d1"),))
    problem = problem_of(operators, [Value("v", "w", ("a",), {FULL: 1})], cluster)
    assert absorbed(problem) == 0
    both = [Operator("w", (*ZERO, Option("pair", {"fast": 0}, gang=2))), operators[1]]
    assert absorbed(problem_of(both, list(problem.graph.values), cluster)) == 1
    packed = Option("single", {"fast": 0}, writes={"v": "packed"})
    sizes = {FULL: 1, "packed": 1}
    values = [Value("v", "w", ("a",), sizes, reshard_ticks={("packed", FULL): 1})]
    unlike = [Operator("w", (packed,)), Operator("a", single(3))]
    assert absorbed(problem_of(unlike, values)) == 0


def test_static_law_is_left_alone():
    operators = [Operator("w", ZERO), Operator("a", single(3))]
    values = [Value("v", "w", ("a",), {FULL: 1})]
    assert absorbed(problem_of(operators, values, law=MemoryLaw.STATIC)) == 0


def test_memory_that_never_binds():
    operators = [Operator("a", single(3, workspace=5))]
    values = [Value("p", None, ("a",), {FULL: 4}), Value("v", "a", (), {FULL: 3})]
    assert memory_never_binds(problem_of(operators, values, small_cluster(memory=15)))
    assert not memory_never_binds(problem_of(operators, values, small_cluster(memory=14)))


def kept_options(options: tuple[Option, ...], memory: int | None = None) -> list[str]:
    values = [Value("v", "a", (), {FULL: 2, "half": 1}), Value("p", None, ("a",), {FULL: 3})]
    problem = problem_of([Operator("a", options)], values, small_cluster(memory=memory))
    reduction = UselessOptions().apply(problem)
    after = problem if reduction is None else reduction.after
    return [option.name for option in after.graph.operators[0].options]


def test_dominated_options_go():
    slow, fast = Option("slow", {"fast": 5}), Option("fast", {"fast": 4})
    assert kept_options((slow, fast)) == ["fast"]
    assert kept_options((fast, slow)) == ["fast"]
    assert kept_options((fast, replace(fast, name="twin"))) == ["fast"]
    lean = Option("lean", {"fast": 5})
    greedy = Option("greedy", {"fast": 4}, workspace_bytes=1)
    assert kept_options((lean, greedy)) == ["lean", "greedy"]
    half = Option("half", {"fast": 5}, writes={"v": "half"})
    assert kept_options((half, fast)) == ["half", "fast"]


def test_impossible_options_go():
    large, small = Option("large", {"fast": 1}, workspace_bytes=6), Option("small", {"fast": 2})
    assert kept_options((large, small), memory=10) == ["small"]
    assert kept_options((large, small), memory=11) == ["large", "small"]
    assert kept_options((large, replace(small, workspace_bytes=6)), memory=1) == ["large", "small"]
    gang = Option("gang", {"fast": 1}, gang=2)
    assert kept_options((gang, small)) == ["small"]


def test_group_without_a_common_site_is_left_to_the_planner():
    """Each operator fits one device only, another one each: infeasible, and still well formed."""
    cluster = small_cluster().with_memory({"d0": 5, "d1": 9})
    pair = replace(cluster, groups=(("d0", "d1"),))
    wide = Option("wide", {"fast": 1}, gang=2)
    operators = [
        Operator("a", (*single(3, workspace=7), wide), group="g"),
        Operator(
            "b", (Option("large", {"fast": 1}, gang=2, workspace_bytes=7), *single(2)), group="g"
        ),
        Operator("c", (Option("wide", {"fast": 1}, gang=2), *single(2, workspace=12)), group="g"),
    ]
    problem = problem_of(operators, [], pair)
    reduction = UselessOptions().apply(problem)
    assert reduction is None
    assert optimum(problem) is None
