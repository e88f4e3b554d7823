"""Rules and sums of the serial law, on problems small enough to add up by hand."""

from dataclasses import replace

import pytest

from milp_plan.check import serial_timeline, verify
from milp_plan.check.explain import explain
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    Contiguity,
    Device,
    DeviceClass,
    InputError,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Passes,
    Plan,
    PlanningProblem,
    SerialLaw,
    Transfer,
    Value,
)
from milp_plan.core.graph import ComputationGraph

SECOND = 10**9
FREE = SerialLaw(("acc",))


def operator(name, work, kind="forward", group=None):
    return Operator(name, (Option("run", {"acc": work, "cpu": 10 * work}),), kind, group)


def value(producer, consumers, cost):
    return Value(f"{producer}:out", producer, tuple(consumers), {FULL: 0}, {FULL: cost})


def problem(operators, values, law=FREE, memory=None, devices=3):
    """Problem on so many accelerators and one CPU."""
    names = [f"a{i}" for i in range(devices)]
    every = [Device(name, "acc", memory) for name in names] + [Device("c", "cpu", None)]
    channels = [Channel(a.name, b.name, 0, SECOND) for a in every for b in every if a is not b]
    cluster = Cluster(
        (DeviceClass("acc", memory), DeviceClass("cpu", None)), tuple(every), tuple(channels)
    )
    goal = Objective.BOTTLENECK if law.calls is None else Objective.LATENCY
    graph = ComputationGraph(tuple(operators), tuple(values))
    return PlanningProblem("hand-made", graph, cluster, goal, MemoryLaw.STATIC, serial=law)


def plan(places, **fields):
    runs = []
    for name, place in places.items():
        device, _, call = place.partition(".")
        runs.append(OperatorRun(name, "run", (device,), call=int(call) if call else None))
    return Plan("hand-made", tuple(runs), **fields)


def fan(law=FREE, **fields):
    """One producer with three readers, two of them on from there."""
    operators = [operator("x", 10), *(operator(f"y{i}", 1 + i) for i in range(3))]
    return problem(operators, [value("x", ["y0", "y1", "y2"], 5)], law, **fields)


def rules(found):
    return [violation.rule for violation in found.violations]


def test_a_value_is_charged_once_per_direction_and_device():
    verdict = verify(fan(), plan({"x": "a0", "y0": "a1", "y1": "a1", "y2": "a2"}))
    assert verdict.ok
    loads = {name: verdict.components[f"load {name}"] for name in ("a0", "a1", "a2")}
    assert loads == {"a0": 10 + 5, "a1": 1 + 2 + 5, "a2": 3 + 5}
    assert verdict.value == 15


def test_the_cpu_pays_nothing_but_its_partner_does():
    verdict = verify(fan(), plan({"x": "a0", "y0": "c", "y1": "a0", "y2": "a0"}))
    assert verdict.components["load c"] == 10
    assert verdict.components["load a0"] == 10 + 2 + 3 + 5
    verdict = verify(fan(), plan({"x": "c", "y0": "a0", "y1": "a0", "y2": "c"}))
    assert verdict.components["load c"] == 100 + 30
    assert verdict.components["load a0"] == 1 + 2 + 5


def training(law):
    operators = [
        operator("f0", 3, group="one"),
        operator("f1", 4, group="two"),
        operator("b1", 6, "backward", "two"),
        operator("b0", 5, "backward", "one"),
        operator("late", 2, "backward"),
    ]
    values = [
        value("f0", ["f1"], 1),
        value("f1", ["b1"], 2),
        value("b1", ["b0"], 4),
        value("b0", ["late"], 8),
    ]
    return problem(operators, values, law)


HALVES = {"f0": "a0", "f1": "a1", "b1": "a1", "b0": "a0", "late": "a0"}


def test_separate_passes_add_the_largest_of_each():
    joint = verify(training(FREE), plan(HALVES))
    assert joint.value == max(3 + 1 + 5 + 4 + 2, 4 + 1 + 6 + 4)
    split = verify(training(replace(FREE, passes=Passes.SEPARATE)), plan(HALVES))
    assert split.components["forward a0"] == 3 + 1
    assert split.components["backward a0"] == 5 + 2 + 4
    assert split.value == max(3 + 1, 4 + 1) + max(5 + 2 + 4, 6 + 4)


CHAIN = replace(FREE, contiguity=Contiguity.CHAIN)


def test_a_chain_may_not_come_back():
    operators = [operator(name, 1) for name in ("p", "q", "r")]
    values = [value("p", ["q"], 1), value("q", ["r"], 1)]
    back = {"p": "a0", "q": "a1", "r": "a0"}
    assert verify(problem(operators, values), plan(back)).ok
    found = verify(problem(operators, values, CHAIN), plan(back))
    assert rules(found) == ["contiguity"]
    assert "p:out from a0 to a1; q:out from a1 to a0" in found.violations[0].message
    assert verify(problem(operators, values, CHAIN), plan(back | {"r": "a1"})).ok


def test_the_backward_pass_follows_its_groups():
    assert verify(training(CHAIN), plan(HALVES)).ok


def test_a_group_of_backward_operators_takes_part_turned_round():
    # late reads what b0 makes, so late stands before b0's device in the chain.
    assert verify(training(CHAIN), plan(HALVES | {"late": "a2"})).ok
    found = verify(training(CHAIN), plan(HALVES | {"late": "a1"}))
    assert rules(found) == ["contiguity"]
    assert verify(training(FREE), plan(HALVES | {"late": "a1"})).ok


CALLS = replace(FREE, calls=2)


def test_calls_run_in_order_and_hand_over_at_their_end():
    operators = [operator(name, 2) for name in ("p", "q", "r", "s")]
    values = [value("p", ["q", "r"], 3), value("q", ["s"], 1), value("r", ["s"], 1)]
    there = problem(operators, values, CALLS)
    placed = plan({"p": "a0.0", "q": "a1.0", "r": "c", "s": "a0.1"})
    verdict = verify(there, placed)
    assert verdict.ok
    # a0 call 0: 2 + 3 out; a1: 3 in + 2 + 1 out; c: 20; a0 call 1: both in + 2.
    line = serial_timeline(there, placed)
    assert line.calls == {("a0", 0): (0, 5), ("a1", 0): (5, 11), ("a0", 1): (25, 29)}
    assert line.ready == {"p": 5, "q": 11, "r": 25, "s": 29}
    assert verdict.value == 29
    assert verdict.components["stop a0 call 1"] == 29


def test_operators_outside_calls_run_side_by_side():
    operators = [operator(f"p{i}", 1 + i) for i in range(3)]
    verdict = verify(problem(operators, [], CALLS), plan({f"p{i}": "c" for i in range(3)}))
    assert verdict.ok
    assert verdict.value == 30


def test_a_value_between_two_calls_of_a_device_is_paid_twice():
    operators = [operator("p", 2), operator("q", 3)]
    there = problem(operators, [value("p", ["q"], 4)], CALLS)
    assert verify(there, plan({"p": "a0.0", "q": "a0.1"})).value == 2 + 4 + 4 + 3
    assert verify(there, plan({"p": "a0.1", "q": "a0.1"})).value == 2 + 3


def test_calls_that_wait_for_each_other_are_refused():
    operators = [operator(name, 1) for name in ("p", "q", "r")]
    values = [value("p", ["q"], 1), value("q", ["r"], 1)]
    there = problem(operators, values, CALLS)
    found = verify(there, plan({"p": "a0.0", "q": "a1.0", "r": "a0.0"}))
    assert rules(found) == ["serial"]
    assert found.value is None
    assert "wait for each other" in found.violations[0].message
    backwards = verify(there, plan({"p": "a0.1", "q": "a1.0", "r": "a0.0"}))
    assert rules(backwards) == ["serial"]


@pytest.mark.parametrize("call", ["", ".2", ".-1"])
def test_calls_have_numbers_below_the_limit(call):
    found = verify(fan(CALLS), plan({"x": f"a0{call}", "y0": "a1.0", "y1": "a1.0", "y2": "a1.0"}))
    assert "expected one of 0 to 1" in found.violations[0].message


def test_a_call_where_none_count_is_refused():
    placed = {"x": "a0.0", "y0": "a1", "y1": "a1", "y2": "a1"}
    assert rules(verify(fan(), plan(placed))) == ["serial"]
    on_cpu = {"x": "a0.0", "y0": "a1.0", "y1": "a1.0", "y2": "c.0"}
    assert rules(verify(fan(CALLS), plan(on_cpu))) == ["serial"]


def test_transfers_and_times_follow_and_are_not_listed():
    placed = {"x": "a0", "y0": "a1", "y1": "a1", "y2": "a1"}
    sent = plan(placed, transfers=(Transfer("x:out", ("a0",), ("a1",), FULL),))
    assert rules(verify(fan(), sent)) == ["serial"]
    timed = plan(placed)
    first = replace(timed.runs[0], start_ticks=0, stop_ticks=10)
    found = verify(fan(), replace(timed, runs=(first, *timed.runs[1:])))
    assert "serial" in rules(found)


def test_memory_is_the_sum_over_a_device():
    base = fan(memory=100)
    held = tuple(Value(f"w{i}", None, (f"y{i}",), {FULL: 40}) for i in range(3))
    there = replace(base, graph=replace(base.graph, values=(*base.graph.values, *held)))
    assert verify(there, plan({"x": "a0", "y0": "a1", "y1": "a1", "y2": "a2"})).ok
    full = verify(there, plan({"x": "a0", "y0": "a1", "y1": "a1", "y2": "a1"}))
    assert rules(full) == ["memory"]
    assert verify(there, plan({"x": "a0", "y0": "c", "y1": "c", "y2": "c"})).ok


def test_colocated_operators_share_a_device_but_not_a_call():
    operators = [operator("p", 1, group="g"), operator("q", 1), operator("r", 1, group="g")]
    there = problem(operators, [value("p", ["q"], 1), value("q", ["r"], 1)], CALLS)
    assert verify(there, plan({"p": "a0.0", "q": "a1.0", "r": "a0.1"})).ok
    assert "colocation" in rules(verify(there, plan({"p": "a0.0", "q": "a1.0", "r": "c"})))


def test_an_incomplete_plan_has_no_value():
    found = verify(fan(), plan({"x": "a0", "y0": "a1"}))
    assert found.value is None
    assert "assignment" in rules(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"serial": SerialLaw(("tpu",))}, "unknown device class 'tpu'"),
        ({"serial": SerialLaw(("acc",), calls=1)}, "latency under the serial law with calls"),
        ({"memory_law": MemoryLaw.INSTANT}, "static under the serial law"),
        ({"objective": Objective.MAKESPAN}, "bottleneck under the serial law without calls"),
        ({"serial": None, "objective": Objective.LATENCY}, "a serial law with calls"),
        (
            {"serial": SerialLaw(("acc",), calls=0), "objective": Objective.LATENCY},
            "from 1 to 2147483647",
        ),
    ],
)
def test_laws_that_do_not_go_together_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        replace(fan(), **change)


def test_channels_must_be_equal_and_complete():
    base = fan()
    slow = replace(base.cluster.channels[0], latency_ticks=7)
    for channels, words in (
        ((slow, *base.cluster.channels[1:]), "one latency and bandwidth for all"),
        (base.cluster.channels[1:], "a channel for every ordered pair"),
    ):
        with pytest.raises(InputError, match=words):
            replace(base, cluster=replace(base.cluster, channels=channels))
    several = replace(base.graph.operators[0], options=(*base.graph.operators[0].options,) * 1)
    twice = (*several.options, replace(several.options[0], name="slow"))
    operators = (replace(several, options=twice), *base.graph.operators[1:])
    with pytest.raises(InputError, match="one option on one device"):
        replace(base, graph=replace(base.graph, operators=operators))


def test_a_plan_is_explained_by_its_loads():
    text = explain(fan(), plan({"x": "a0", "y0": "a1", "y1": "a1", "y2": "a2"}))
    assert "a0: 15 ns (10 ns, 0 ns, 5 ns)" in text
    calls = explain(fan(CALLS), plan({"x": "a0.0", "y0": "a1.0", "y1": "a1.0", "y2": "a1.0"}))
    assert "15 ns to 26 ns: a1 call 0" in calls
