"""An operator that no memory can hold is no bad input: that there is no plan is proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.core import (
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.bounds.catalogue import infeasibility
from milp_plan.kinds.schedule.formats import read, write
from milp_plan.run import Settings, find_bounds, solve
from tests.support.anything import optimum, random_case
from tests.support.seeds import few


def problem(memory, duration=1, options=None, law=MemoryLaw.INSTANT):
    """An operator that holds 1 (workspace) + 10 (weights) + 100 (input) + 1000 (output) bytes."""
    options = options or (Option("o", {"C": duration}, 1, 1),)
    graph = ComputationGraph(
        (Operator("before", (Option("o", {"C": duration}),)), Operator("op", options)),
        (
            Value("w", None, ("op",), {"full": 10}),
            Value("x", "before", ("op",), {"full": 100, "half": 50}),
            Value("y", "op", (), {"full": 1000, "half": 500}, kept=False),
        ),
    )
    classes = (DeviceClass("C", None), DeviceClass("D", None))
    devices = tuple(Device(f"d{i}", "C", limit) for i, limit in enumerate(memory))
    groups = (("d0", "d1"),) if len(memory) > 1 else ()
    return PlanningProblem("p", graph, Cluster(classes, devices, (), groups), memory_law=law)


def gangs():
    """One device, or two that share values."""
    split = Option("split", {"C": 1}, 2, 0, {"x": "half"}, {"y": "half"})
    return (Option("o", {"C": 1}), split)


@pytest.mark.parametrize(
    ("instance", "proved"),
    [
        (problem([1111]), False),
        (problem([1110]), True),
        (problem([5, None]), False),
        (problem([99]), True),
        (problem([560, 559], options=gangs()), True),
        (problem([0], duration=0), True),  # weights lie there also in a plan that lasts no time
        (problem([10], duration=0), False),
        (problem([10], duration=0, law=MemoryLaw.STATIC), True),
    ],
)
def test_what_fits_nowhere_is_proved_and_nothing_else(instance, proved):
    assert (infeasibility(instance) is not None) == proved
    assert (optimum(instance) is None) == proved


def test_weights_of_an_operator_without_duration_count_while_others_run():
    operators = (
        Operator("before", (Option("o", {"C": 0}),)),
        Operator("op", (Option("o", {"C": 0}),)),
        Operator("other", (Option("o", {"C": 1}),)),
    )
    timed = problem([109], duration=0)
    timed = replace(timed, graph=replace(timed.graph, operators=operators))
    assert infeasibility(timed) is None
    found = infeasibility(timed.with_memory_scale(9, 109))
    assert found is not None
    assert found.subjects == ("op",)


@pytest.mark.parametrize("first", few(range(0, 400, 20), 1))
def test_a_file_and_a_scale_give_the_same_answer(first, tmp_path):
    """The memory of the file, or a factor on more: the same problem, the same proof or plan."""
    settings = Settings(time_limit_s=60.0, node_limit=2_000, rounds=0)
    never = 0
    for seed in range(first, first + 20):
        roomy = random_case(seed)
        tight = roomy.with_memory_scale(1, 2)
        if tight.fingerprint == roomy.fingerprint:
            continue
        path = tmp_path / f"{seed}.json"
        write(tight, path)
        written = read(path)
        assert written.fingerprint == tight.fingerprint
        outcomes = [solve(entry, settings) for entry in (written, tight)]
        reasons = [outcome.infeasible_reason for outcome in outcomes]
        assert reasons[0] == reasons[1], seed
        if reasons[0] is not None:
            never += 1
            assert optimum(tight) is None, seed
            assert find_bounds(written, 60.0).infeasible_reason is not None, seed
    assert never > 0
