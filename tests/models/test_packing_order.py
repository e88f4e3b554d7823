"""The formulation of address packing keeps the contract and finds what enumeration finds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop
from milp_plan.contract import FormulationContract, Solved
from milp_plan.kinds.packing.check import verify_packing
from milp_plan.kinds.packing.problem import (
    Buffer,
    PackingObjective,
    PackingPlan,
    PackingProblem,
    Place,
)
from milp_plan.run import Settings, solve
from tests.kinds.test_packing import drawn
from tests.support.packing import lowest
from tests.support.seeds import few

from .solving import formulation, solve_here

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

    def without_memory(self, problem):
        return replace(problem, capacity=0)

    def optimum(self, problem):
        return lowest(problem)

    def solve(self, model, node_limit=None):
        """Solve as a run does: scipy's tolerances are some addresses of a gigabyte."""
        answer = solve_here(model, Limits(gap=1e-9, gap_abs=1e-9, nodes=node_limit))
        return Solved(answer.objective, answer.vector, answer.stop is Stop.INFEASIBLE)


def problem_of(*buffers, capacity=None):
    """Return a problem of buffers that all meet, each a size and an alignment."""
    alive = tuple(Buffer(f"b{i}", 0, 1, *entry) for i, entry in enumerate(buffers))
    return PackingProblem("drawn", alive, capacity)


@pytest.mark.parametrize(
    ("buffers", "step"),
    [
        ([(6, 1), (9, 1)], 3),
        ([(6, 2), (9, 2)], 2),  # sizes are rounded up to what alignments share
        ([(4096, 512), (8192, 1)], 4096),  # alignments that divide the step change nothing
        ([(4096, 3), (8192, 1)], 1),
        ([(24, 8), (36, 9)], 1),
        ([(12, 8), (24, 3)], 1),  # 12 and 8 have 4 in common, which 3 does not divide
        ([(10**9 + 1, 512), (2, 512)], 512),
    ],
)
def test_sunk_buffers_lie_at_multiples_of_the_step(buffers, step):
    form = formulation(NAME)
    problem = problem_of(*buffers)
    builder = form.builder(problem, form.Options(), Guide())
    assert builder.step == step
    for order in ((0, 1), (1, 0)):
        assert all(at % step == 0 for at in builder.sunk(order))


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_plans_with_gaps_are_complete_starts_of_the_same_height_or_less(seed):
    problem, plan = planted(seed)
    height = plan.value + 2 * 360_360
    spread = tuple(replace(place, offset=place.offset + 360_360) for place in plan.places)
    loose = PackingPlan(problem.name, spread, None, "")
    problem = replace(problem, capacity=height)
    assert verify_packing(problem, loose).ok
    form = formulation(NAME)
    model = form.build(problem, form.Options(), Guide())
    vector = model.vector(form.encode(problem, form.Options(), model, loose))
    assert model.violation(vector)[0] <= 1e-9
    unit = form.scale(problem, form.Options(), Guide()).unit
    assert model.cost @ vector * unit <= plan.value * (1 + 1e-9)


@pytest.mark.parametrize(
    ("buffers", "best"),
    [
        ([(7_000_000_049, 4), (5_000_000_039, 4), (3_000_000_020, 4)], 15_000_000_109),
        ([(7_000_000_049, 512), (5_000_000_039, 512)], 12_000_000_551),
        ([(9 * 10**9, 2**21), (7 * 10**9, 256)], 16_000_000_000),
    ],
)
def test_sizes_of_gigabytes_are_proved_where_alignments_are_few(buffers, best):
    problem = problem_of(*buffers)
    assert lowest(problem) == best
    outcome = solve(problem, Settings(time_limit_s=20, formulation=NAME, only=True))
    assert (outcome.value, outcome.bound, outcome.proved) == (best, best, True)
    below = solve(
        replace(problem, capacity=best - 1),
        Settings(time_limit_s=20, formulation=NAME, only=True),
    )
    assert below.infeasible_reason is not None


def test_alignments_beyond_the_tolerances_prove_nothing_and_say_so():
    problem = problem_of((7_000_000_049, 3), (5_000_000_039, 8), (3_000_000_020, 5))
    outcome = solve(problem, Settings(time_limit_s=20, formulation=NAME, only=True))
    assert outcome.plan is not None
    assert (outcome.bound, outcome.proved, outcome.disputed) == (None, False, False)
    assert outcome.unproved_reason.startswith("the model holds whole columns up to")
    assert outcome.unproved_reason == outcome.record["unproved_because"]


def test_it_is_asked_when_it_is_named_and_refuses_crowds():
    problem = replace(drawn(1, (1,)), capacity=None)
    answer = solve(problem, Settings(time_limit_s=20, formulation=NAME, only=True))
    assert answer.proved
    assert answer.value == lowest(problem)
    crowd = PackingProblem("crowd", tuple(Buffer(f"b{i}", 0, 1, 1) for i in range(91)))
    reason = formulation(NAME).unsupported(crowd, formulation(NAME).Options())
    assert reason is not None
    assert "4095 pairs" in reason
