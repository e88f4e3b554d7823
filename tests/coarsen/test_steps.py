"""Stage one as a whole: targets, the way back, guides, real instances."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    PLAIN_OBJECTIVES,
    Channel,
    CommunicationModel,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.coarsen.clustering import (
    AcyclicClustering,
    ChainContraction,
)
from milp_plan.kinds.schedule.coarsen.contraction import contract
from milp_plan.kinds.schedule.coarsen.folding import BlockFolding, repeated_blocks
from milp_plan.kinds.schedule.coarsen.steps import DEFAULT_TARGET, coarsen
from milp_plan.kinds.schedule.formats import read
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .drafts import problem_of, random_plan, single, small_cluster, unlimited

INSTANCES = Path(__file__).parents[2] / "instances"


def chain(*ticks: int, cluster=None, groups=None) -> PlanningProblem:
    names = [f"o{i}" for i in range(len(ticks))]
    groups = groups or {}
    operators = [
        Operator(name, single(t), group=groups.get(name))
        for name, t in zip(names, ticks, strict=True)
    ]
    values = [Value(f"v{i}", names[i], (names[i + 1],), {FULL: 1}) for i in range(len(names) - 1)]
    return problem_of(operators, values, cluster)


def layered(layers: int, width: int) -> PlanningProblem:
    """Blocks of ``width`` branches between a split and a join, one after the other."""
    operators, values = [], []
    for b in range(layers):
        block = f"block{b}"
        branches = [f"{block}.b{k}" for k in range(width)]
        operators.append(Operator(f"{block}.split", single(2), block=block))
        operators += [Operator(name, single(1), block=block) for name in branches[:-1]]
        operators.append(Operator(branches[-1], single(8), block=block))
        operators.append(Operator(f"{block}.join", single(2), block=block))
        values.append(Value(f"{block}.x", f"{block}.split", tuple(branches), {FULL: 2}))
        values += [Value(f"{name}.y", name, (f"{block}.join",), {FULL: 2}) for name in branches]
        if b:
            values.append(
                Value(f"{block}.in", f"block{b - 1}.join", (f"{block}.split",), {FULL: 3})
            )
    return problem_of(operators, values, small_cluster(3))


def test_nothing_to_do_gives_the_problem_itself():
    problem = chain(3, 4)
    coarsening = coarsen(problem)
    plan = random_plan(problem, random.Random(0))
    assert coarsening.problem is problem
    assert coarsening.exact
    assert coarsening.table() == ()
    assert coarsening.undo(plan) is plan
    assert coarsening.members == {"o0": ("o0",), "o1": ("o1",)}


def test_table_members_and_exactness():
    problem = layered(8, 3)
    coarsening = coarsen(problem, 6)
    rows = coarsening.table()
    assert rows[0].operators_before == len(problem.graph.operators)
    assert rows[-1].operators_after == len(coarsening.problem.graph.operators) <= 6
    assert not coarsening.exact
    found = [member for members in coarsening.members.values() for member in members]
    assert sorted(found) == sorted(problem.graph.topological_order)


def test_default_target():
    coarsening = coarsen(layered(12, 3))
    assert len(coarsening.problem.graph.operators) <= DEFAULT_TARGET
    assert coarsen(layered(12, 3), exact_only=True).problem.graph == layered(12, 3).graph


def test_same_problem_same_result():
    first, second = coarsen(layered(9, 4), 7), coarsen(layered(9, 4), 7)
    assert first.problem.fingerprint == second.problem.fingerprint


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("stages", [False, True])
def test_optimum_of_the_coarse_problem_comes_back(seed, stages):
    problem = random_problem(seed, max_operators=6)
    coarsening = coarsen(problem, 2, stages=stages)
    best = brute_force(coarsening.problem)
    if best is None:
        assert not coarsening.exact or brute_force(problem) is None
        return
    verdict = verify(problem, coarsening.undo(best[1]))
    assert best[1].stop_ticks == 0 or verdict.ok, verdict.violations
    assert verdict.value is None or verdict.value <= best[0]


@pytest.mark.parametrize(
    "name",
    [
        "gpt-mini-inference-4xV100",
        "gpt-tiny-tensor-2xA100",
        "unet-training-4xA100",
        "moe-tiny-inference-4xA100",
    ],
)
@pytest.mark.parametrize("stages", [False, True])
def test_shipped_instances_come_back(name, stages):
    problem = unlimited(read(INSTANCES / f"{name}.json"))
    rng = random.Random(1)
    for target in (3, 8):
        coarsening = coarsen(problem, target, stages=stages)
        most = coarsening.excess.operators if coarsening.excess else target
        assert len(coarsening.problem.graph.operators) <= most <= 2 * target
        plan = random_plan(coarsening.problem, rng)
        assert plan is not None
        verdict = verify(problem, coarsening.undo(plan))
        assert verdict.ok, verdict.violations
        assert verdict.value <= verify(coarsening.problem, plan).value


def test_guide_keeps_its_sites_and_orders():
    """A pipeline of two halves, four samples: the coarse problem still has the guide's value."""
    operators, values = [], []
    for m in range(4):
        for k in range(6):
            group = f"g{k}"
            operators.append(Operator(f"l{k}@{m}", single(5), group=group, micro_batch=m))
            if k:
                values.append(Value(f"v{k}@{m}", f"l{k - 1}@{m}", (f"l{k}@{m}",), {FULL: 0}))
    cluster = replace(
        small_cluster(),
        channels=tuple(
            Channel(c.source, c.target, 0, c.bandwidth_bytes_per_s)
            for c in small_cluster().channels
        ),
    )
    problem = problem_of(operators, values, cluster)
    halves = contract(
        problem,
        [[f"l{k}@{m}" for k in range(h, h + 3)] for m in range(4) for h in (0, 3)],
        name="halves",
    )
    best = brute_force(halves.after)
    assert best is not None
    guide = halves.undo(best[1])
    assert verify(problem, guide).value == 75
    coarsening = coarsen(problem, 8, guide=guide)
    assert len(coarsening.problem.graph.operators) == 8
    assert brute_force(coarsening.problem)[0] == 75
    for members in coarsening.members.values():
        assert len({guide.run(member).devices for member in members}) == 1


def test_guide_is_kept_whatever_the_target():
    """Fewer clusters would be on several of its sites: there are more than the target."""
    problem = layered(4, 3)
    guide = random_plan(problem, random.Random(3))
    coarsening = coarsen(problem, 2, guide=guide)
    assert 2 < len(coarsening.problem.graph.operators) < len(problem.graph.operators)
    rough = coarsening.project(guide)
    assert {run.operator: run.devices for run in rough.runs} == {
        name: guide.run(members[0]).devices for name, members in coarsening.members.items()
    }


def test_bad_arguments():
    problem = chain(3, 4)
    with pytest.raises(ValueError, match="target is 0"):
        coarsen(problem, 0)
    plan = random_plan(problem, random.Random(0))
    bare = replace(plan, runs=tuple(replace(run, start_ticks=None) for run in plan.runs))
    with pytest.raises(ValueError, match="no times"):
        coarsen(problem, 1, guide=bare)


def test_chains_contract_and_forks_do_not():
    reduction = ChainContraction(2).apply(chain(1, 1, 1, 1))
    assert len(reduction.after.graph.operators) == 2
    fork = problem_of(
        [Operator(name, single(3)) for name in "abc"], [Value("v", "a", ("b", "c"), {FULL: 1})]
    )
    assert ChainContraction(1).apply(fork) is None


def test_chain_stops_at_its_share_of_work():
    assert ChainContraction(3).apply(chain(5, 5, 5, 5, 5, 5)) is not None
    assert ChainContraction(6).apply(chain(9, 9, 9, 9, 9, 9, 1)) is not None
    assert ChainContraction(7).apply(chain(9, 9, 9, 9, 9, 9, 1)) is None


def test_blocks_fold_equally():
    problem = layered(6, 3)
    assert [len(blocks) for blocks in repeated_blocks(problem.graph)] == [6]
    reduction = BlockFolding(8).apply(problem)
    shapes = {}
    for members in reduction.members.values():
        block = members[0].split(".")[0]
        shapes.setdefault(block, set()).add(tuple(m.split(".")[1] for m in members))
    assert len(shapes) == 6
    assert len({frozenset(shape) for shape in shapes.values()}) == 1
    assert BlockFolding(2).apply(chain(1, 2, 3)) is None


def test_unlike_blocks_are_not_one_class():
    problem = layered(2, 3)
    slower = replace(problem.graph.operators[1], options=single(99))
    operators = (problem.graph.operators[0], slower, *problem.graph.operators[2:])
    assert repeated_blocks(replace(problem.graph, operators=operators)) == ()


def test_memory_stops_a_merge():
    operators = [Operator(name, single(3)) for name in "abc"]
    values = [Value(f"w{name}", None, (name,), {FULL: 6}) for name in "abc"]
    values += [Value("x", "a", ("b",), {FULL: 0}), Value("y", "b", ("c",), {FULL: 0})]
    roomy = problem_of(operators, values, small_cluster(3, memory=18))
    tight = problem_of(operators, values, small_cluster(3, memory=12))
    assert len(AcyclicClustering(1).apply(roomy).after.graph.operators) == 1
    assert len(AcyclicClustering(1).apply(tight).after.graph.operators) == 2


def test_values_that_wait_on_a_site_stop_a_tie():
    """Both stages keep their large value until the way back; one device has room for one."""
    operators, values = [], []
    for k in (0, 1):
        operators += [Operator(f"f{k}", single(3), group=f"g{k}")]
    for k in (1, 0):
        operators += [Operator(f"b{k}", single(3), group=f"g{k}")]
    values += [Value(f"s{k}", f"f{k}", (f"b{k}",), {FULL: 6}) for k in (0, 1)]
    values += [Value("x", "f0", ("f1",), {FULL: 0}), Value("y", "b1", ("b0",), {FULL: 0})]
    problem = problem_of(operators, values, small_cluster(memory=11))
    coarsening = coarsen(problem, 1)
    assert brute_force(coarsening.problem) is not None
    assert len(coarsening.problem.graph.groups) == 1


def test_sites_stop_a_merge():
    cluster = replace(small_cluster(2), groups=(("d0", "d1"),))
    wide = Operator("b", (Option("pair", {"fast": 2}, gang=2),))
    problem = problem_of(
        [Operator("a", single(2)), wide], [Value("x", "a", ("b",), {FULL: 1})], cluster
    )
    assert AcyclicClustering(1).apply(problem) is None


@pytest.mark.parametrize("model", CommunicationModel)
@pytest.mark.parametrize("objective", PLAIN_OBJECTIVES)
def test_every_model_and_objective(model, objective):
    rng = random.Random(5)
    problem = replace(
        layered(4, 3), cluster=small_cluster(3, communication=model), objective=objective
    )
    coarsening = coarsen(problem, 4)
    plan = random_plan(coarsening.problem, rng)
    fine, coarse = verify(problem, coarsening.undo(plan)), verify(coarsening.problem, plan)
    assert fine.ok
    assert fine.value <= coarse.value
