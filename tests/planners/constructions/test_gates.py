"""Plans of problems with gates obey the laws without them, and fit where others do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    InputError,
    Operator,
    Option,
    Placement,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.planners.constructions.gates import best_gated, gated, ungated
from milp_plan.kinds.schedule.planners.constructions.layouts import layouts
from milp_plan.kinds.schedule.planners.constructions.portfolio import best_starts
from milp_plan.kinds.schedule.planners.constructions.structure import structure
from milp_plan.kinds.schedule.planners.decoder import Decoder
from milp_plan.kinds.schedule.planners.indexed import indexed
from milp_plan.zoo import generate

pytestmark = pytest.mark.untraced


def tight(scale: str, model: str = "channel") -> PlanningProblem:
    return generate(
        "gpt2-small",
        "8xA100",
        batch=32,
        micro_batches=8,
        granularity="block",
        memory_scale=scale,
        communication=model,
    )


@pytest.mark.parametrize("window", [1, 3, 7])
def test_a_micro_batch_begins_when_an_earlier_one_has_ended(window: int) -> None:
    problem = tight("1")
    narrow = gated(problem, window)
    gates = narrow.graph.values[len(problem.graph.values) :]
    assert len(gates) == 8 - window
    found = structure(problem)
    number = found.view.index
    for gate in gates:
        assert gate.producer is not None
        (reader,) = gate.consumers
        assert found.batch[number[reader]] - found.batch[number[gate.producer]] == window
        assert set(gate.bytes.values()) == {0}
        # Both ends stand on one device.
        assert found.view.unit[number[reader]] == found.view.unit[number[gate.producer]]


@pytest.mark.parametrize(("scale", "model"), [("13/1000", "channel"), ("12/1000", "endpoint")])
def test_gates_let_fit_what_does_not_fit_without(scale: str, model: str) -> None:
    problem = tight(scale, model)
    assert best_starts(problem, Decoder(problem), most=60) == []
    found = best_gated(problem, most=60)
    assert found is not None
    assert found.window is not None
    verdict = verify(problem, found.plan)
    assert verdict.ok, verdict.violations[0]
    assert verdict.value == found.plan.stop_ticks


def test_no_gate_where_memory_does_not_bind() -> None:
    problem = generate("gpt-tiny", "4xH100", batch=8, micro_batches=4)
    found = best_gated(problem, most=20)
    assert found is not None
    assert found.window is None
    assert verify(problem, found.plan).ok


def test_a_gate_between_devices_leaves_no_transfer_behind() -> None:
    # The first layer has no weights, so nothing of its unit runs backward.
    problem = generate("gpt-tiny", "2xA100", batch=16, micro_batches=4)
    forward = {op.name for op in problem.graph.operators if op.kind == "forward"}
    operators = tuple(
        replace(op, group=None if op.name in forward else op.group)
        for op in problem.graph.operators
    )
    problem = replace(problem, graph=replace(problem.graph, operators=operators))
    narrow = gated(problem, 1)
    decoder = Decoder(narrow)
    crossed = 0
    for layout in islice(layouts(narrow), 12):
        names = indexed(narrow).names
        placements = {
            name: Placement(
                narrow.graph.operator(name).options[layout.assigned.options[n]].name,
                indexed(narrow).site_names[layout.assigned.sites[indexed(narrow).unit[n]]],
            )
            for n, name in enumerate(names)
        }
        value = decoder.decode(*decoder.place(placements), np.arange(len(names)))
        assert value is not None
        plan = decoder.plan()
        assert verify(narrow, plan).ok
        verdict = verify(problem, ungated(problem, plan))
        assert verdict.ok, verdict.violations[0]
        assert verdict.value == decoder.ticks(value)
        crossed += len(plan.transfers) > len(ungated(problem, plan).transfers)
    assert crossed


def test_gates_that_would_close_a_cycle_are_left_out() -> None:
    """The earlier micro-batch by number waits for the later one, so none may wait for it."""
    options = (Option("one", {"A": 5}),)
    operators = tuple(
        Operator(f"{name}{batch}", options, group=name, micro_batch=batch)
        for batch in (0, 1)
        for name in "ab"
    )
    values = (
        Value("first", "a1", ("a0",), {FULL: 8}),
        *(Value(f"v{m}", f"a{m}", (f"b{m}",), {FULL: 8}, kept=False) for m in (0, 1)),
    )
    names = ("d0", "d1")
    cluster = Cluster(
        (DeviceClass("A", 16),),
        tuple(Device(name, "A", 16) for name in names),
        tuple(Channel(a, b, 1, 10**9) for a in names for b in names if a != b),
    )
    problem = PlanningProblem("crossed", ComputationGraph(operators, values), cluster)
    with pytest.raises(InputError, match="cycle"):
        gated(problem, 1)
    found = best_gated(problem, most=20)
    assert found is None or verify(problem, found.plan).ok
