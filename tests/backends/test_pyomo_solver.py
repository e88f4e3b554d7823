"""Other solvers through Pyomo; HiGHS plays one of them."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyomo.opt import TerminationCondition

from milp_plan.backends import Limits, Stop, TracePoint, highs, pyomo_solver
from milp_plan.backends.pyomo_solver import solve_with
from milp_plan.core import BackendUnavailableError

from .models import CANARIES, knapsack, market_split, model


@pytest.mark.parametrize("name", ["appsi_highs", "highs"])
def test_agrees_with_the_backend(name: str) -> None:
    solve = solve_with(name)
    for canary, optimum in CANARIES.values():
        report = solve(canary, Limits(gap=1e-9))
        assert report.stop is Stop.PROVED
        assert report.objective == pytest.approx(optimum)
        assert report.bound == pytest.approx(optimum)
        assert report.solution is not None
        assert canary.violation(report.solution)[0] <= 1e-6
    shifted = model([1, 1], [(1, [1, 1], 1)], [(0, 1), (0, 1)], [0], offset=5.0)
    points: list[TracePoint] = []
    report = solve(shifted, Limits(), on_progress=points.append)
    assert report.objective == highs.solve(shifted, Limits()).objective == 6.0
    assert report.trace == tuple(points)
    assert [point.incumbent for point in points] == [6.0]


def test_infeasible_and_endless_models() -> None:
    solve = solve_with("appsi_highs")
    rows = [(2, [1, 1], inf)]
    assert solve(model([1, 1], rows, [(0, 0.5)] * 2), Limits()).stop is Stop.INFEASIBLE
    assert solve(model([-1, 0], rows, [(0, inf)] * 2), Limits()).stop is Stop.ERROR
    empty = solve(model([1], [(1, [0], inf)], [(0, 1)]), Limits())
    assert (empty.stop, empty.message) == (Stop.INFEASIBLE, "a row without columns")
    assert solve(model([0], [(0, [0], 1)], [(0, 1)]), Limits()).objective == 0.0


def test_limits_and_starts() -> None:
    solve = solve_with("appsi_highs")
    hard, start = market_split()
    report = solve(hard, Limits(nodes=0), start)
    assert report.stop is Stop.NODE_LIMIT
    assert report.start_accepted
    assert report.objective is not None
    assert report.objective <= hard.cost @ start
    late = solve(hard, Limits(time_s=0.3), start)
    assert late.stop is Stop.TIME_LIMIT
    refused = solve(knapsack()[0], Limits(), np.ones(4))
    assert (refused.start_accepted, refused.objective) == (False, -23.0)


@pytest.mark.parametrize(
    ("error", "stop"), [(KeyboardInterrupt(), Stop.INTERRUPTED), (OSError("lost"), Stop.ERROR)]
)
def test_a_start_outlives_a_solver_that_fails(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, stop: Stop
) -> None:
    def fail(*args: Any, **words: Any) -> None:
        raise error

    solve = solve_with("appsi_highs")
    monkeypatch.setattr(type(pyomo_solver.pyo.SolverFactory("appsi_highs")), "solve", fail)
    start = np.array([0.0, 1.0, 0.0, 1.0])
    report = solve(knapsack()[0], Limits(), start)
    assert (report.stop, report.objective, report.bound) == (stop, -21.0, None)
    assert report.solution is not None
    assert report.solution.tolist() == start.tolist()
    assert report.message == ("OSError: lost" if stop is Stop.ERROR else "")


def test_solvers_that_are_not_here() -> None:
    with pytest.raises(BackendUnavailableError, match="Pyomo knows no such solver"):
        solve_with("no_such_solver")
    with pytest.raises(BackendUnavailableError, match="install it and put it on the path"):
        solve_with("cplex_direct")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gurobi", {"TimeLimit": 7.0, "MIPGap": 1e-3, "Seed": 4, "Threads": 2}),
        ("scip", {"limits/time": 7.0, "limits/gap": 1e-3}),
        ("cbc", {"seconds": 7.0, "ratioGap": 1e-3}),
        ("appsi_highs", {"time_limit": 7.0, "mip_detect_symmetry": False}),
        ("glpk", {}),
    ],
)
def test_limits_in_the_solvers_own_words(name: str, words: dict[str, Any]) -> None:
    found = pyomo_solver._switches(name, Limits(time_s=7.0, gap=1e-3, seed=4, threads=2))
    assert found.items() >= words.items()
    assert bool(found) == bool(words)
    assert not any("node" in word.lower() for word in found)


def results(condition: TerminationCondition, bound: float | None, message: str = "") -> Any:
    return SimpleNamespace(
        solver=SimpleNamespace(termination_condition=condition, message=message or None),
        problem=SimpleNamespace(lower_bound=bound),
        solution=[],
    )


def test_what_pyomo_says_becomes_what_we_say() -> None:
    bounded, _ = knapsack()
    endless = model([-1], [(0, [1], inf)], [(0, inf)])
    either = results(TerminationCondition.infeasibleOrUnbounded, None)
    one, other = (pyomo_solver._Solve("appsi_highs", m, None) for m in (bounded, endless))
    assert one._stop(either) == (Stop.INFEASIBLE, "infeasibleOrUnbounded")
    assert other._stop(either)[0] is Stop.ERROR
    stated = results(TerminationCondition.licensingProblems, None, "no licence")
    assert one._stop(stated) == (Stop.ERROR, "no licence")
    for condition, stop in pyomo_solver.STOPS.items():
        assert one._stop(results(condition, None))[0] is stop


def test_a_bound_that_is_not_given_follows_from_the_gap() -> None:
    solve = pyomo_solver._Solve("appsi_highs", knapsack()[0], None)
    vector = np.array([1.0, 1.0, 0.0, 0.0])
    silent = results(TerminationCondition.optimal, None)
    limits = Limits(gap=0.1, gap_abs=0.5)
    assert solve._bound(silent, Stop.PROVED, vector, limits) == pytest.approx(-25.3)
    assert solve._bound(silent, Stop.TIME_LIMIT, vector, limits) is None
    assert (
        solve._bound(results(TerminationCondition.optimal, -24.0), Stop.PROVED, None, limits) == -24
    )
    assert (
        solve._bound(results(TerminationCondition.optimal, -inf), Stop.ERROR, None, limits) is None
    )
