"""The formulation of address packing keeps the contract and finds what enumeration finds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from milp_plan.api import Guide
from milp_plan.check.packing import verify_packing
from milp_plan.core.packing import Buffer, PackingObjective, PackingPlan, PackingProblem, Place
from milp_plan.models.contract import FormulationContract
from milp_plan.run import Settings, solve
from tests.kinds.test_packing import drawn, lowest
from tests.support.seeds import few

from .solving import formulation, limits_for, solve_here

NAME = "packing_order"


def planted(seed):
    """Return a problem of some buffers, sizes up to 1e9, and a packing of it, as tight as found."""
    rng = Random(seed)
    most, alignments = rng.choice((3, 40, 10**9)), rng.choice(((1,), (1, 4)))
    buffers = []
    for number in range(rng.randint(4, 6)):
        lower = rng.randint(0, 5)
        size, alignment = rng.randint(1, most), rng.choice(alignments)
        buffers.append(Buffer(f"b{number}", lower, lower + rng.randint(1, 4), size, alignment))
    order = sorted(buffers, key=lambda b: (-b.size, b.name))
    placed: list[Place] = []
    for buffer in order:
        tops = [0] + [
            p.offset + p.buffer.size
            for p in placed
            if p.buffer.lower < buffer.upper and buffer.lower < p.buffer.upper
        ]
        placed.append(Place(buffer, -(-max(tops) // buffer.alignment) * buffer.alignment))
    height = max(place.offset + place.buffer.size for place in placed)
    problem = PackingProblem(f"planted-packing-{seed}", tuple(buffers), height)
    at = {place.buffer.name: place for place in placed}
    return problem, PackingPlan(problem.name, tuple(at[b.name] for b in buffers), height, "")


class TestPackingOrder(FormulationContract):
    reference = NAME
    seeds = range(8)
    least = 6

    def planted(self, seed, objective):
        assert objective is PackingObjective.HEIGHT
        return planted(seed)

    def verdict(self, problem, plan):
        return verify_packing(problem, plan)

    def starved(self, problem):
        return replace(problem, capacity=0)

    def optimum(self, problem):
        return lowest(problem)


@pytest.mark.parametrize("alignments", [(1,), (1, 2, 6)])
@pytest.mark.parametrize("seed", few(range(60), 12))
def test_the_optimum_is_that_of_enumeration(seed, alignments):
    problem = replace(drawn(seed, alignments), capacity=None)
    form, guide = formulation(NAME), Guide()
    model, scale = form.build(problem, form.Options(), guide), form.scale(problem, None, guide)
    answer = solve_here(model, limits_for(scale))
    assert answer.vector is not None
    plan = form.decode(problem, form.Options(), guide, model.name_values(answer.vector))
    verdict = verify_packing(problem, plan)
    assert verdict.ok, verdict.violations
    best = lowest(problem)
    assert best <= verdict.value <= best + 1e-8 * best  # no solver sees less
    assert answer.objective * scale.unit == pytest.approx(verdict.value, rel=1e-5, abs=1e-5)


def test_it_is_asked_when_it_is_named_and_refuses_crowds():
    problem = replace(drawn(1, (1,)), capacity=None)
    answer = solve(problem, Settings(time_limit_s=20, formulation=NAME, only=True))
    assert answer.proved
    assert answer.value == lowest(problem)
    crowd = PackingProblem("crowd", tuple(Buffer(f"b{i}", 0, 1, 1) for i in range(91)))
    reason = formulation(NAME).unsupported(crowd, formulation(NAME).Options())
    assert reason is not None
    assert "4095 pairs" in reason
