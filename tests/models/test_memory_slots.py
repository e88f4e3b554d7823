"""``memory_slots`` keeps the contract and proves what enumeration finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from benchmarks.memory_saving import HALVES, WAYS, chain
from milp_plan.api import Guide
from milp_plan.backends import Limits, Stop
from milp_plan.contract import FormulationContract, Instance
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models.registry import get
from milp_plan.run import Settings
from milp_plan.run.kinds import kind_of
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import FormulationSolver
from milp_plan.run.model_answer import HORIZON_TOO_SHORT
from tests.support.memory_saving import tiny_ways
from tests.support.memory_saving_brute import brute_force_ways
from tests.support.named import case

from .solving import formulation, optimise, solve_here


@lru_cache(maxsize=256)
def _case(seed: int) -> tuple[PlanningProblem, int, Plan] | None:
    """A tiny problem on one device, where everything lasts and the host has room."""
    problem = tiny_ways(seed)
    if len(problem.cluster.devices) > 2:
        return None
    graph, cluster = problem.graph, problem.cluster
    operators = []
    for op in graph.operators:
        option = op.options[0]
        longer = replace(option, duration_ticks={"fast": 1 + option.duration_ticks["fast"]})
        operators.append(replace(op, options=(longer,)))
    cluster = cluster.with_memory({"host": None})
    problem = replace(problem, graph=replace(graph, operators=tuple(operators)), cluster=cluster)
    found = brute_force_ways(problem)
    return None if found is None else (problem, *found)


class TestMemorySlots(FormulationContract):
    """The inherited contract; enumeration is the oracle."""

    reference = "memory_slots"
    least = 2

    def instances(self) -> Iterator[Instance]:
        for seed in range(2):
            case = _case(seed)
            if case is not None:
                problem, value, plan = case
                yield Instance(problem, plan, value)

    def optimum(self, problem: PlanningProblem) -> int | None:
        found = brute_force_ways(problem)
        assert found is not None
        return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_it_proves_what_enumeration_finds(first: int) -> None:
    seen = {"again": 0, "away": 0}
    for seed in range(first, first + 20):
        case = _case(seed)
        if case is None:
            continue
        problem, value, plan = case
        answer = optimise("memory_slots", problem)
        assert answer.verdict.value == value, f"seed {seed}"
        seen["again"] += len(plan.runs) > len(problem.graph.operators)
        seen["away"] += bool(plan.transfers)
    assert min(seen.values()) >= 1, seen


@pytest.mark.parametrize(
    ("transfer", "memory", "way", "value"),
    [(3, 7, "both", 38), (8, 7, "both", 40), (5, 7, "both", 39), (8, 7, "recompute", 41)],
)
def test_it_proves_the_chain(transfer: float, memory: int, way: str, value: int) -> None:
    """No plan of the chain is half a unit shorter than the table says."""
    problem, guide = chain(memory, transfer, WAYS[way]), Guide(cutoff=HALVES * value - 1)
    form = formulation("memory_slots")
    model = compile_pyomo(form.build(problem, form.Options(), guide))
    answer = solve_here(model, Limits(time_s=60.0))
    assert answer.stop is Stop.INFEASIBLE


def test_what_must_be_away_settles_the_chain_with_slow_lanes() -> None:
    """F1, four values gone, F10, B10, four values back, B1: 6 + 8 times 8, and a plan does it."""
    problem = chain(6, 8.0, WAYS["offload"], num_layers=10)
    answer = optimise("memory_slots", problem, Guide(cutoff=70 * HALVES))
    assert answer.verdict.ok
    assert answer.verdict.value == 70 * HALVES


def test_what_it_does_not_express_is_explained_in_words() -> None:
    form = formulation("memory_slots")
    options = form.Options()
    problem = chain(7, 3, WAYS["both"])
    assert form.unsupported(problem, options) is None
    tight = replace(problem, cluster=problem.cluster.with_memory({"host": 3}))
    assert "host" in str(form.unsupported(tight, options))
    span = problem.variant(objective=Objective.SPAN)
    assert "makespan" in str(form.unsupported(span, options))


def test_a_solution_beyond_the_horizon_is_no_plan_and_no_dispute() -> None:
    """A solver stopped early leaves it as its best solution."""
    problem, best = case("memory_slots", 33)
    form: Any = get("memory_slots").formulation
    guide = Guide()
    builder = guide.keep(form.builder, problem, form.Options())
    assert builder.guess
    assert form.decode(problem, form.Options(), guide, {"beyond": {0: 1.0}}) is None

    class Beyond:
        """The formulation whose solutions all lie beyond its horizon."""

        def __getattr__(self, name: str) -> Any:
            return getattr(form, name)

        def decode(self, *_: Any) -> None:
            return None

    solver = FormulationSolver(replace(get("memory_slots"), formulation=Beyond()), form.Options())
    answer = solver.run(problem, Guide(), Limits(time_s=20.0), Budget(20.0))
    assert (answer.plan, answer.disputed) == (None, "")
    ledger: Ledger[Any, Any] = Ledger(kind_of(problem), problem, Settings(20.0, only=True))
    ledger.accept_answer(answer)
    assert not ledger.disputed
    assert ledger.unproved_reason == HORIZON_TOO_SHORT
    assert ledger.lower is None or ledger.lower <= (best or 0)
