"""``latency`` keeps the contract and proves what enumeration finds."""

from __future__ import annotations

from milp_plan.api import Guide
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.schedule.model.planted import planted
from tests.support.named import case

from .solving import SerialContract, formulation


class TestOneCall(SerialContract):
    reference = "latency"
    seeds = range(10)
    least = 10
    calls = 1

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        assert objective is Objective.LATENCY
        return planted_serial(seed, calls=self.calls)


class TestTwoCalls(TestOneCall):
    seeds = range(6)
    least = 6
    calls = 2


class TestBare(TestOneCall):
    """Without path potentials."""

    seeds = range(4)
    least = 4

    def make_options(self):
        return self.formulation.Options(potentials=False)


def test_what_it_refuses():
    form = formulation("latency")
    options = form.Options()
    assert form.unsupported(planted_serial(0, calls=2)[0], options) is None
    for problem in (planted_serial(0)[0], planted(3, Objective.MAKESPAN)):
        assert "not one of latency" in form.unsupported(problem, options)


def test_times_that_no_plan_has_do_not_widen_the_numbers():
    """Where bytes leave an operator the host alone, its ticks on a payer are in no row."""
    form = formulation("latency")
    for seed in range(0, 200, 2):
        problem, best = case("latency", seed)
        builder = Guide().keep(form.builder, problem, form.Options())
        if best is not None:
            assert builder.horizon * builder.unit >= best
        heads = max(builder.heads(), default=0)
        assert best is None or heads <= best
        if seed == 194:
            assert heads * 2 > best
