"""Every problem under the serial law gets a plan, and the exact model proves it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import FULL, Channel, ComputationGraph, Device, Operator, Option, Value
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.placement.serial.graph import read_serial
from milp_plan.kinds.placement.serial.places import read_places
from milp_plan.models.protocol import Guide
from milp_plan.run import Settings, solve
from milp_plan.run.model import FormulationSolver
from tests.support.anything import optimum, random_case, serial_case, uneven_case
from tests.support.seeds import few
from tests.support.serial_brute import serial_plans


@pytest.mark.parametrize("first", few(range(0, 400, 25), 2))
def test_scores_are_what_the_checker_says(first: int) -> None:
    checked = 0
    for seed in range(first, first + 25):
        for problem in (serial_case(seed), uneven_case(seed)):
            tables = read_places(problem)
            for plan in list(serial_plans(problem))[::9]:
                verdict, places = verify(problem, plan), tables.places(plan)
                score = tables.score(places)
                assert verdict.ok == (score.broken == 0), problem.name
                assert not verdict.ok or verdict.value == score.value, problem.name
                assert tables.plan(places).runs == plan.runs
                checked += 1
    assert checked > 50


def settled(problem) -> None:
    best = optimum(problem)
    outcome = solve(problem, Settings(time_limit_s=300.0))
    assert outcome.record["strategy"] == "places"
    assert not outcome.disputed
    if best is None:
        assert outcome.infeasible_reason is not None
        assert outcome.stop is Stop.INFEASIBLE
        return
    assert outcome.value == best
    assert outcome.bound is not None
    assert outcome.bound <= best
    assert outcome.bound >= best * (1 - 1e-6)


@pytest.mark.parametrize("calls", [1, 2])
def test_latency_with_workspaces_is_planned_and_proved(calls: int) -> None:
    problem, _ = planted_serial(4, calls=calls)
    graph = problem.graph
    operators = tuple(
        replace(one, options=(replace(one.options[0], workspace_bytes=2 + place % 3),))
        for place, one in enumerate(graph.operators)
    )
    problem = replace(problem, graph=replace(graph, operators=operators))
    memory = {
        device.name: device.memory_bytes and device.memory_bytes + 4
        for device in problem.cluster.devices
    }
    problem = replace(problem, cluster=problem.cluster.with_memory(memory))
    assert read_serial(problem) == "operators need workspace"
    settled(problem)


def test_latency_uses_every_host_where_their_memory_is_limited() -> None:
    problem = next(
        p for p in map(serial_case, range(500)) if p.serial.calls and len(p.cluster.devices) == 3
    )
    rate = problem.cluster.channels[0].bandwidth_bytes_per_s
    names = ("p0", "h", "h2")
    cluster = replace(
        problem.cluster,
        devices=(Device("p0", "payer", 0), Device("h", "host", 3), Device("h2", "host", 3)),
        channels=tuple(Channel(a, b, 0, rate) for a in names for b in names if a != b),
    )
    option = Option("run", {"host": 2, "payer": 1})
    graph = ComputationGraph(
        (Operator("a", (option,)), Operator("b", (option,))),
        (Value("x", None, ("a",), {FULL: 3}), Value("y", None, ("b",), {FULL: 2})),
    )
    settled(replace(problem, graph=graph, cluster=cluster))


def of_no_special_way(make, seeds) -> list:
    return [p for p in map(make, seeds) if isinstance(read_serial(p), str)]


@pytest.mark.parametrize("problem", few(of_no_special_way(serial_case, range(150)), 4))
def test_workspaces_and_shared_values_are_planned(problem) -> None:
    settled(problem)


@pytest.mark.parametrize("problem", few(of_no_special_way(uneven_case, range(150)), 4))
def test_unequal_devices_are_planned(problem) -> None:
    settled(problem)


def test_a_run_with_nodes_repeats_itself() -> None:
    problem = serial_case(0)
    runs = [solve(problem, Settings(time_limit_s=300.0, node_limit=50)) for _ in range(2)]
    assert runs[0].plan == runs[1].plan
    assert runs[0].record["model_hash"] == runs[1].record["model_hash"]


def test_a_model_is_not_asked_again_and_again_for_what_tolerances_hide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Value and bound differ by a millionth here: within what the solver can tell apart."""
    asked: list[Guide] = []
    run = FormulationSolver.run

    def counted(
        self: FormulationSolver, problem: object, guide: Guide, *rest: object, **more: object
    ) -> object:
        asked.append(guide)
        assert len(asked) < 4
        return run(self, problem, guide, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(FormulationSolver, "run", counted)
    monkeypatch.setattr(
        "milp_plan.kinds.placement.strategies.places.is_tiny", lambda _ledger: False
    )
    problem = random_case(700)
    outcome = solve(problem, Settings(node_limit=20_000, gap=0.0))
    assert outcome.value == optimum(problem)
    assert outcome.record["strategy"] == "places"
    assert asked
