"""Sharding problems of several micro-batches, against those of one and by enumeration."""

import itertools
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from milp_plan.core import InputError
from milp_plan.core.sharding import ShardingPlan
from milp_plan.cost.mesh import ADAM, MeshGraph, Setting, elementwise, matmul, mesh_problem, norm
from milp_plan.cost.mesh.strategies import storage_of, strategies
from milp_plan.kinds.sharding.check import verify_sharding
from tests.support.sharding import optimum

from .figures import line

GRAPH = MeshGraph(
    "block",
    ("norm", "up", "act"),
    (norm(4, 2, 8), matmul(4, 2, 16, 8), elementwise((4, 2, 16))),
    ((None,), (0,), (1,)),
)
TWO = MeshGraph("two", ("up", "down"), (matmul(4, 1, 8, 4), matmul(4, 1, 4, 8)), ((None,), (0,)))
HEAVY = MeshGraph("heavy", ("up",), (matmul(4, 1, 64, 64),), ((None,),))


def setting(micro_batches, training=ADAM, zero_levels=(0, 1, 2, 3)):
    return Setting(line(4), training, zero_levels, micro_batches)


def places(problem, names, chosen):
    """Strategies by name, as a plan."""
    picks = []
    for number, name in enumerate(names):
        first, last = problem.strategies.offsets[number : number + 2]
        picks.append(problem.labels[first:last].index(name))
    return ShardingPlan(problem.name, tuple(picks + chosen))


@pytest.mark.parametrize("training", [ADAM, None])
def test_the_same_strategies_every_time_cost_what_one_pays_less_what_a_step_pays_once(training):
    times = 3
    several = mesh_problem(GRAPH, setting(times, training))
    rows = GRAPH.strategies(setting(times, training))
    assert several.operators[:3] == ("norm.weights", "up.weights", "norm@0")
    assert several.operators[-1] == "act@2"
    once = mesh_problem(GRAPH, Setting(line(4), training, (0, 1, 2, 3)))
    names = [once.labels[a:b] for a, b in itertools.pairwise(once.strategies.offsets)]
    own = [[f"{row.name} -> {row.writes.text}" for row in found] for found in rows]
    checked = 0
    for picks in itertools.product(*(range(len(found)) for found in rows)):
        ways = [
            storage_of(operator, setting(times, training), found[pick]).text
            for operator, found, pick in zip(GRAPH.operators, rows, picks, strict=True)
            if operator.parameters
        ]
        same = [mine[pick] for mine, pick in zip(own, picks, strict=True)]
        if any(name not in there for name, there in zip(same, names, strict=True)):
            continue
        alone = ShardingPlan(
            once.name,
            tuple(there.index(name) for name, there in zip(same, names, strict=True)),
        )
        single = verify_sharding(once, alone)
        found = verify_sharding(several, places(several, ways, list(picks) * times))
        assert found.ok == single.ok
        if found.ok:
            paid = sum(mine[pick].once_ns for mine, pick in zip(rows, picks, strict=True))
            assert found.value == times * single.value - (times - 1) * paid
            assert found.components["peak_usage"] == single.components["peak_usage"]
            checked += 1
    assert checked > 10


def test_weights_stay_as_they_are_but_each_micro_batch_may_choose_its_own():
    several = mesh_problem(TWO, setting(2, None, (0,)))
    rows = TWO.strategies(setting(2, None, (0,)))
    ways = [
        [storage_of(operator, setting(2, None), row).text for row in found]
        for operator, found in zip(TWO.operators, rows, strict=True)
    ]
    mixed = moved = 0
    count = len(TWO.operators)
    for picks in itertools.product(*(range(len(found)) for found in rows * 2)):
        own = [ways[place % count][pick] for place, pick in enumerate(picks)]
        plan = places(several, own[:count], list(picks))
        verdict = verify_sharding(several, plan)
        broken = [one for one in verdict.violations if "weights" in one.subjects[0]]
        assert bool(broken) == (own[:count] != own[count:])
        moved += bool(broken)
        mixed += not broken and picks[:count] != picks[count:]
    assert mixed
    assert moved


def test_gradients_are_summed_once_a_step_where_they_are_kept_whole():
    rows = {row.zero: row for row in strategies(matmul(4, 1, 8, 8), setting(2)) if "b" in row.name}
    assert rows[0].once_ns == rows[0].cost_ns - rows[0].forward_ns - rows[0].backward_ns > 0
    assert 0 < rows[2].once_ns < rows[2].cost_ns - rows[2].forward_ns - rows[2].backward_ns
    assert rows[3].once_ns == 0


@pytest.mark.parametrize("share", [0, 25, 50, 75, 100])
def test_strategies_that_are_left_out_leave_an_optimum(share, monkeypatch):
    fewer = mesh_problem(HEAVY, setting(2))
    module = import_module("milp_plan.cost.mesh.strategies")
    monkeypatch.setattr(module, "undominated", lambda found, _=None: list(found))
    every = mesh_problem(HEAVY, setting(2))
    assert len(every.strategies.cost) >= len(fewer.strategies.cost)
    table = every.strategies
    least, most = (
        int(ends.reduceat(table.usage, table.offsets[:-1]).sum())
        for ends in (np.minimum, np.maximum)
    )
    limit = least + (most - least) * share // 100
    assert optimum(replace(fewer, limit=limit)) == optimum(replace(every, limit=limit))


def test_no_micro_batches_are_refused():
    with pytest.raises(InputError, match="micro_batches"):
        setting(0)
