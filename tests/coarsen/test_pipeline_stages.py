"""Stages: what they keep apart, how many there are, and that plans come back."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from math import inf

import pytest

from milp_plan.check import verify
from milp_plan.core import FULL, Operator, PlanningProblem, Value
from milp_plan.kinds.schedule.coarsen.cuts import Rest, StageLine
from milp_plan.kinds.schedule.coarsen.forecast import Forecast, packs
from milp_plan.kinds.schedule.coarsen.pipeline_stages import ALIKE, best_cut
from milp_plan.kinds.schedule.coarsen.steps import coarsen
from tests.support.training_graphs import random_training

from .drafts import problem_of, random_plan, single, small_cluster, unlimited


def pipeline(layers: int, batches: int) -> PlanningProblem:
    """Forward, input gradient and weight gradient of each layer and micro-batch, and updates."""
    operators, values = [], []
    for batch, layer in product(range(batches), range(layers)):
        for name, kind in (("F", "forward"), ("B", "backward-input"), ("W", "backward-weight")):
            operators.append(
                Operator(
                    f"{name}{layer}@{batch}", single(4), kind, group=f"l{layer}", micro_batch=batch
                )
            )
        after = f"F{layer + 1}@{batch}" if layer + 1 < layers else f"B{layer}@{batch}"
        before = f"B{layer - 1}@{batch}"
        values.append(Value(f"x{layer}@{batch}", f"F{layer}@{batch}", (after,), {FULL: 1}))
        readers = (f"W{layer}@{batch}", *([before] if layer else []))
        values.append(Value(f"g{layer}@{batch}", f"B{layer}@{batch}", readers, {FULL: 1}))
        readers = (f"U{layer}",)
        values.append(Value(f"w{layer}@{batch}", f"W{layer}@{batch}", readers, {FULL: 1}))
    operators += [Operator(f"U{n}", single(1), "update", group=f"l{n}") for n in range(layers)]
    return problem_of(operators, values, small_cluster(3))


def test_micro_batches_and_passes_are_kept_apart() -> None:
    cut = StageLine(pipeline(6, 4), 1).cut(2 * 52)
    assert (cut.stages, cut.batches) == (3, 4)
    sorts = [{(name[0], name.partition("@")[2]) for name in names} for names in cut.clusters]
    assert all(len({batch for _, batch in sort}) == 1 for sort in sorts)
    passes = [{letter for letter, _ in sort} for sort in sorts]
    # no stage waits for the gradients of the first one, and the last one turns back at once
    assert passes.count({"B", "W"}) == passes.count({"F", "B"}) == 4
    assert [passes.count({letter}) for letter in "FBWU"] == [8, 4, 8, 3]


def test_the_cut_whose_schedule_ends_first_is_taken() -> None:
    """More micro-batches at once, or fewer stages: a forecast decides."""
    problem = pipeline(6, 8)
    cut, excess = best_cut(problem, 60)
    assert excess is None
    lines = [StageLine(problem, size) for size in (1, 2, 4, 8)]
    others = [other for line in lines for rest in Rest for other in line.cuts(60, rest)]
    forecast = Forecast(problem, cut.line.ticks)
    values = [forecast.value(other.clusters, other.parts) for other in others]
    best = {
        (o.batches, o.rest) for o, v in zip(others, values, strict=True) if v <= ALIKE * min(values)
    }
    assert (cut.batches, cut.rest) in best
    assert len(best) < 6
    assert 45 < len(cut.clusters) <= 60


def test_forecast_is_a_schedule() -> None:
    """Two stages on two devices: the second begins when the first batch has come through."""
    problem = pipeline(2, 3)
    stages = StageLine(problem, 1)
    names = [[f"F0@{m}" for m in range(3)], [f"F1@{m}" for m in range(3)]]
    single = [[name] for row in names for name in row]
    rest = [o.name for o in problem.graph.operators if o.name[0] != "F"]
    forecast = Forecast(problem, dict.fromkeys(stages.ticks, 4) | dict.fromkeys(rest, 0))
    travel = 2  # latency 1, one byte in one tick
    parts = [*"aaabbb", "b"]
    assert forecast.value([*single, rest], parts) == 4 + travel + 3 * 4
    assert forecast.value([*names, rest], ["a", "b", "b"]) == 12 + 3 * travel + 12
    assert forecast.value([*single, rest], ["a"] * 7) == 6 * 4
    crossed = [["F0@0", "F1@1"], ["F0@1", "F1@0"], ["F0@2"], ["F1@2"], rest]
    assert forecast.value(crossed, "abcde") == inf


def test_stages_are_refined_up_to_the_target() -> None:
    problem = pipeline(8, 1)
    cut = StageLine(problem, 1).cut(8 * 14)
    finer = cut.refined(20)
    assert len(cut.clusters) < len(finer.clusters) <= 20
    owner = {name: i for i, names in enumerate(cut.clusters) for name in names}
    assert all(len({owner[name] for name in names}) == 1 for names in finer.clusters)


@pytest.mark.parametrize("rest", Rest)
def test_all_work_is_in_one_cluster_each(rest: Rest) -> None:
    problem = pipeline(5, 3)
    cut = StageLine(problem, 1).cut(74, rest)
    assert cut.stages == 3
    assert sorted(name for names in cut.clusters for name in names) == sorted(
        operator.name for operator in problem.graph.operators
    )
    apart = [names for names in cut.clusters if {name[0] for name in names} == {"W"}]
    assert bool(apart) == (rest is Rest.APART)


def test_stages_pack_into_memory() -> None:
    assert packs([(3, 0), (3, 0), (2, 0)], [5, 3])
    assert not packs([(3, 0), (3, 0), (3, 0)], [5, 4])
    assert packs([(99, 0)], [1, None])
    # what comes and goes shares its room, what stays does not
    assert packs([(3, 2), (1, 2)], [6])
    assert not packs([(3, 2), (1, 3)], [6])
    weights = [Value(f"p{n}", None, (f"F{n}@0",), {FULL: 10}) for n in range(6)]
    free = pipeline(6, 4)
    graph = replace(free.graph, values=(*free.graph.values, *weights))
    for room, most in ((None, 30), (25, 2)):
        problem = replace(free, graph=graph, cluster=small_cluster(3, room))
        cut, _ = best_cut(problem, 45)
        assert len(cut.clusters) <= 90
        assert max(len({n[1] for n in names}) for names in cut.clusters) <= most


def test_what_runs_backward_stands_where_it_came_from() -> None:
    """Backward operators without a group do not make stages of their own behind the last one."""
    grouped = pipeline(6, 2)
    operators = [replace(o, group=None) if o.name[0] == "B" else o for o in grouped.graph.operators]
    line = StageLine(problem_of(operators, list(grouped.graph.values), small_cluster(3)), 1)
    assert line.cut(10**9).stages == 1
    halves = line.cut(sum(line.work.values()) // 2)
    assert halves.stages == 2
    for names in halves.clusters:
        layers = {int(name[1]) for name in names}
        assert layers <= {0, 1, 2, 3} or layers <= {3, 4, 5}


def test_micro_batches_are_joined_where_few_clusters_are_wanted() -> None:
    few, _ = best_cut(pipeline(6, 8), 15)
    assert few.batches < 8
    assert len(few.clusters) <= 30
    many, excess = best_cut(pipeline(6, 8), 200)
    assert (many.batches, excess) == (8, None)


@pytest.mark.parametrize(
    ("batches", "target", "reason"),
    [(8, 20, "20 clusters are clearly slower"), (3, 12, "12 clusters do not fit into memory")],
)
def test_the_target_is_exceeded_where_it_is_too_few(batches: int, target: int, reason: str) -> None:
    """Later steps do not undo it, and the table of steps says why."""
    free = pipeline(6, batches)
    weights = [Value(f"p{n}", None, (f"F{n}@0",), {FULL: 1000}) for n in range(6)]
    graph = replace(free.graph, values=(*free.graph.values, *weights))
    room = 2010 if "memory" in reason else None
    problem = replace(free, graph=graph, cluster=small_cluster(3, room))
    coarsening = coarsen(problem, target, stages=True)
    count = len(coarsening.problem.graph.operators)
    assert coarsening.excess is not None
    assert target < count <= coarsening.excess.operators <= 2 * target
    assert [row.excess for row in coarsening.table() if row.excess] == [reason]
    assert coarsen(problem, count, stages=True).excess is None


@pytest.mark.parametrize("seed", range(12))
def test_visits_count_how_often_paths_come_back(seed: int) -> None:
    """Against the definition, path by path, over stages drawn by chance."""
    rng = random.Random(f"visits {seed}")
    problem = random_training(seed, rng.randint(2, 4), batches=rng.randint(1, 2), branches=seed % 3)
    line = StageLine(problem, 1)
    stage = {name: rng.randrange(rng.randint(1, 6)) for name in line.order}
    latest: dict[str, dict[int, int]] = {}
    for name in line.order:
        own = stage[name]
        rows = [(latest[b], stage[b] != own) for b in problem.graph.predecessors[name]]
        visit = max((row[own] + left for row, left in rows if own in row), default=0)
        stages = {s for row, _ in rows for s in row} - {own}
        latest[name] = {s: max(row.get(s, 0) for row, _ in rows) for s in stages} | {own: visit}
    found = line._visits([stage[name] for name in line.order])
    assert found == [latest[name][stage[name]] for name in line.order]


def test_branches_of_a_stage_are_kept_apart() -> None:
    names = [f"{tower}{i}" for tower in "ab" for i in range(3)]
    operators = [Operator(name, single(2)) for name in names]
    values = [
        Value(f"{name}.y", name, (f"{name[0]}{int(name[1]) + 1}",), {FULL: 1})
        for name in names
        if name[1] != "2"
    ]
    cut = StageLine(problem_of(operators, values), 1).cut(100)
    assert cut.stages == 1
    assert sorted(cut.clusters) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


@pytest.mark.parametrize("seed", range(40))
def test_plans_of_the_coarse_problem_come_back(seed: int) -> None:
    rng = random.Random(f"stages {seed}")
    problem = unlimited(
        random_training(seed, rng.randint(2, 5), batches=rng.randint(1, 3), branches=seed % 3)
    )
    coarsening = coarsen(problem, rng.randint(2, 12), stages=True)
    plan = random_plan(coarsening.problem, rng)
    assert plan is not None
    fine = verify(problem, coarsening.undo(plan))
    assert fine.ok, fine.violations
    assert fine.value is not None
    assert fine.value <= (verify(coarsening.problem, plan).value or 0)
