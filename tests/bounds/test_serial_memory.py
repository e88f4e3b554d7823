"""Under the serial law memory is static and inputs are streamed: nothing is refused wrongly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    SerialLaw,
    Value,
)
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, infeasibility
from tests.support.anything import optimum, serial_case, uneven_case
from tests.support.seeds import few


def streamed(memory: Sequence[int | None], last: bool = True) -> PlanningProblem:
    """Two operators of one group, of which the first reads 5 bytes from elsewhere."""
    names = ["o0", "o1", "o2"] if last else ["o0", "o1"]
    values = [Value("o0>", "o0", ("o1",), {FULL: 5})]
    if last:
        values.append(Value("w", None, ("o2",), {FULL: 4}))
    devices = tuple(Device(f"d{i}", "x", limit) for i, limit in enumerate(memory))
    return PlanningProblem(
        "streamed",
        ComputationGraph(
            tuple(
                Operator(
                    name,
                    (Option("run", {"x": 3}, workspace_bytes=int(name == "o1")),),
                    group=None if name == "o0" or not last else "g",
                )
                for name in names
            ),
            tuple(values),
        ),
        Cluster(
            (DeviceClass("x", None),),
            devices,
            tuple(
                Channel(a.name, b.name, 0, TICKS_PER_SECOND)
                for a in devices
                for b in devices
                if a is not b
            ),
        ),
        Objective.BOTTLENECK,
        MemoryLaw.STATIC,
        serial=SerialLaw(("x",)),
    )


def test_what_comes_from_elsewhere_needs_no_memory():
    problem = streamed([5, 5])
    runs = tuple(
        OperatorRun(name, "run", (device,))
        for name, device in (("o0", "d0"), ("o1", "d1"), ("o2", "d1"))
    )
    verdict = verify(problem, Plan("streamed", runs))
    assert verdict.ok
    assert verdict.value == 11
    assert infeasibility(problem) is None


def test_the_reader_takes_an_operator_whose_input_is_streamed():
    problem = streamed([5, 1], last=False)
    assert optimum(problem) is not None
    assert infeasibility(problem) is None


@pytest.mark.parametrize(
    ("memory", "subjects", "needed", "available"),
    [
        ([4, 4], ("o0",), 5, 4),
        ([5, 3], ("o0", "g"), 9, 8),
    ],
)
def test_what_cannot_lie_anywhere_is_proved(memory, subjects, needed, available):
    problem = streamed(memory)
    assert optimum(problem) is None
    found = infeasibility(problem)
    assert found is not None
    assert found.subjects == subjects
    assert (found.needed, found.available) == (needed, available)


@pytest.mark.parametrize("make", [serial_case, uneven_case])
@pytest.mark.parametrize("first", few(range(0, 2600, 65), 4))
def test_no_random_problem_with_a_plan_is_called_infeasible(first, make) -> None:
    feasible = 0
    for seed in range(first, first + 65):
        problem = make(seed)
        best = optimum(problem)
        if best is None:
            continue
        feasible += 1
        assert infeasibility(problem) is None, seed
        assert max(bound.value for bound in all_bounds(problem)) <= best, seed
    assert feasible > 20
