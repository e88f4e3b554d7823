"""``max_load`` keeps the contract and proves what enumeration finds, with every switch."""

from __future__ import annotations

import dataclasses

import pytest

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.schedule.model.planted import planted
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models.protocol import Guide
from tests.support.serial_brute import brute_serial

from .solving import SerialContract, formulation


class TestMaxLoad(SerialContract):
    reference = "max_load"
    seeds = range(10)
    least = 10

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        assert objective is Objective.BOTTLENECK
        return planted_serial(seed, contiguous=False)


class TestBare(TestMaxLoad):
    """Without anchors and conflicts."""

    seeds = range(4)
    least = 4

    def make_options(self):
        return self.formulation.Options(anchor="no", conflicts=False)


@pytest.mark.parametrize("seed", range(10, 18))
def test_cutoffs_decide(seed):
    """With the optimum as cutoff there is a plan, below it there is none, anchored or not."""
    problem, _ = planted_serial(seed, contiguous=False)
    form, contract = formulation("max_load"), TestMaxLoad()
    best = brute_serial(problem)[0]
    for anchor in ("yes", "no"):
        options = form.Options(anchor=anchor)
        for cutoff in (best, best - 1):
            guide = Guide(cutoff=cutoff)
            model = compile_pyomo(form.build(problem, options, guide))
            solved = contract.solve(model)
            assert solved.infeasible == (cutoff < best)
            if cutoff == best:
                unit = form.scale(problem, options, guide).unit
                assert round(solved.objective * unit) == best


def test_what_it_refuses():
    form = formulation("max_load")
    options = form.Options()
    chain, _ = planted_serial(0, contiguous=True)
    calls, _ = planted_serial(0, calls=1)
    ordinary = planted(3, Objective.BOTTLENECK)
    free, _ = planted_serial(0, contiguous=False)
    assert form.unsupported(free, options) is None
    assert "contiguous" in form.unsupported(chain, options)
    assert "latency" in form.unsupported(calls, options)
    assert "serial law" in form.unsupported(ordinary, options)
    resource = formulation("resource_load")
    assert "serial law" in resource.unsupported(free, resource.Options())


def test_equal_classes_are_not_anchored():
    """Anchors are left out exactly where nearly all of the heaviest classes are alike."""
    problem, _ = planted_serial(4, contiguous=False, separate=False)
    form = formulation("max_load")

    def anchored(problem: PlanningProblem) -> bool:
        return bool(form.build(problem, form.Options(), Guide()).builder.order)

    def with_times(times):
        operators = []
        for place, operator in enumerate(problem.graph.operators):
            option = operator.options[0]
            ticks = {kind: times[place % len(times)] for kind in option.duration_ticks}
            option = dataclasses.replace(option, duration_ticks=ticks)
            operators.append(dataclasses.replace(operator, options=(option,), group=None))
        graph = dataclasses.replace(problem.graph, operators=tuple(operators))
        return dataclasses.replace(problem, graph=graph)

    assert not anchored(with_times([7]))
    assert anchored(with_times([1, 3, 9, 27, 81, 243]))
