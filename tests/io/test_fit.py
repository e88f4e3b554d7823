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
from milp_plan.io import oversized


def problem(memory, duration=1, options=None, law=MemoryLaw.INSTANT):
    """An operator that holds 1 (workspace) + 10 (weights) + 100 (input) + 1000 (output) bytes."""
    options = options or (Option("o", {"C": duration}, 1, 1),)
    graph = ComputationGraph(
        (Operator("before", (Option("o", {"C": duration}),)), Operator("op", options)),
        (
            Value("w", None, ("op",), {"full": 10}),
            Value("x", "before", ("op",), {"full": 100, "half": 50}),
            Value("y", "op", (), {"full": 1000, "half": 500}),
        ),
    )
    classes = (DeviceClass("C", None), DeviceClass("D", None))
    devices = tuple(Device(f"d{i}", "C", limit) for i, limit in enumerate(memory))
    groups = (("d0", "d1"),) if len(memory) > 1 else ()
    return PlanningProblem("p", graph, Cluster(classes, devices, (), groups), memory_law=law)


def subjects(instance):
    return [finding.where for finding in oversized(instance)]


def test_exact_fit():
    assert subjects(problem([1111])) == []
    assert subjects(problem([1110])) == ["operator 'op'"]


def test_one_device_that_fits_is_enough():
    assert subjects(problem([5, 1111])) == []
    assert subjects(problem([5, None])) == []


def test_every_operator_is_listed():
    assert subjects(problem([99])) == ["operator 'before'", "operator 'op'"]


def test_smallest_need_and_largest_memory_are_named():
    finding = oversized(problem([400, 600]))[0]
    assert "at least 1.08496 KiB" in finding.found
    assert "600 B ('d1')" in finding.expected


def gangs():
    split = Option("split", {"C": 1}, 2, 0, {"x": "half"}, {"y": "half"})
    return (Option("o", {"C": 1}), split)


def test_an_option_with_smaller_layouts_fits():
    assert subjects(problem([560, 560], options=gangs())) == []


def test_a_gang_needs_room_on_each_of_its_devices():
    found = oversized(problem([560, 559], options=gangs()))
    assert [finding.where for finding in found] == ["operator 'op'"]
    assert "'split' on d0+d1, which has 559 B" in found[0].found


@pytest.mark.parametrize(
    ("memory", "law", "bad"),
    [
        (0, MemoryLaw.INSTANT, []),
        (10, MemoryLaw.STATIC, ["operator 'before'", "operator 'op'"]),
    ],
)
def test_what_takes_no_time_holds_nothing(memory, law, bad):
    assert subjects(problem([memory], duration=0, law=law)) == bad


def test_weights_of_an_operator_without_duration_count_while_others_run():
    timed = problem([109], duration=0)
    operators = (
        Operator("before", (Option("o", {"C": 0}),)),
        Operator("op", (Option("o", {"C": 0}),)),
        Operator("other", (Option("o", {"C": 1}),)),
    )
    timed = replace(timed, graph=replace(timed.graph, operators=operators))
    assert subjects(timed) == []
    assert subjects(timed.with_memory_scale(9, 109)) == ["operator 'op'"]
