"""``resource_load`` proves the optimum that enumeration finds, on 80 random tiny problems."""

from __future__ import annotations

from collections import Counter

import pytest

from milp_plan.api import Guide, MemoryLaw, Objective
from milp_plan.core import CommunicationModel
from tests.support.brute import brute_force
from tests.support.problems import random_problem
from tests.support.seeds import few

from .solving import formulation, optimise

SEEDS, CHUNK = 80, 8


@pytest.mark.parametrize("first", few(range(0, SEEDS, CHUNK), 1))
def test_the_model_proves_the_optimum(first: int) -> None:
    for seed in range(first, first + CHUNK):
        problem = random_problem(seed, objective=Objective.BOTTLENECK)
        assert formulation("resource_load").unsupported(problem, None) is None
        best = brute_force(problem)
        assert best is not None
        found = optimise("resource_load", problem)
        assert found.verdict.ok, f"seed {seed}: {found.verdict.violations}"
        assert found.verdict.value == best[0], f"seed {seed}"
        assert not found.plan.has_schedule
        assert found.answer.bound is not None
        assert found.scale.slack == 0.0
        assert found.answer.bound * found.scale.unit > best[0] - found.scale.grain


@pytest.mark.slow
def test_the_sample_is_rich() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        problem = random_problem(seed, objective=Objective.BOTTLENECK)
        assert problem.memory_law is MemoryLaw.STATIC
        seen[problem.cluster.communication.value] += 1
        seen["groups"] += bool(problem.graph.groups)
        options = [o for operator in problem.graph.operators for o in operator.options]
        seen["gangs"] += any(option.gang > 1 for option in options)
        seen["limits"] += any(d.memory_bytes is not None for d in problem.cluster.devices)
        source = formulation("resource_load").build(problem, None, Guide())
        seen["sources"] += any(len(ways) > 1 for ways in source.builder.ways.values())
        seen["kept"] += len(source.keep) > 0
    assert min(seen[model.value] for model in CommunicationModel) >= 15
    assert min(seen[kind] for kind in ("groups", "gangs", "limits", "kept")) >= 20
    assert seen["sources"] >= 2
