"""Pairs of operators fused into one: the laws stay, plans can be undone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    CommunicationModel,
    InputError,
    Operator,
    OperatorRun,
    Option,
    Placement,
    Plan,
    PlanningProblem,
)
from milp_plan.kinds.pipeline.experts import overlapped_dualpipe
from milp_plan.kinds.pipeline.experts.dualpipe import dualpipe_orders
from milp_plan.kinds.pipeline.overlap import OVERLAPPED, finer, fuse, sequence
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Deadlock
from milp_plan.kinds.schedule.planners.dispatch import dispatch_order

PAIR = ("F0@1", "B0@0", "W0@0")


def unfuse(problem: PlanningProblem, names: Mapping[tuple[str, ...], str], plan: Plan) -> Plan:
    """Run the operators of each pair one after the other, in the time that the pair has.

    Parameters
    ----------
    problem, names
        What was fused, and what :func:`fuse` named its pairs.
    plan
        A plan of the fused problem, on the same ticks.

    Raises ``ValueError`` where a pair is shorter than its operators: their overlap is used.
    """
    pair_of = {name: pair for pair, name in names.items()}
    runs: list[OperatorRun] = []
    for run in plan.runs:
        if run.operator not in pair_of:
            runs.append(run)
            continue
        assert run.start_ticks is not None
        assert run.stop_ticks is not None
        start = run.start_ticks
        for member in pair_of[run.operator]:
            place = problem.placements(member)[0]
            stop = start + problem.duration_ticks(member, place)
            runs.append(OperatorRun(member, place.option, place.devices, start, stop))
            start = stop
        if start > run.stop_ticks:
            raise ValueError(
                f"{run.operator!r} is {start - run.stop_ticks} ticks too short to undo"
            )
    return Plan(problem.name, tuple(runs), plan.transfers, planner=plan.planner)


def small(
    micro_batches: int = 2, model: CommunicationModel = CommunicationModel.DELAY
) -> PlanningProblem:
    """Two stages on two devices: 3 bytes to B, 5 to W, gradients of 2, weights of 100."""
    stages = (Stage(4, 5, 6, 3, 5, 2, 100), Stage(7, 8, 9, 3, 5, 2, 100))
    template = Template(stages, micro_batches, transfer_ticks=1, transfers=model)
    return pipeline_problem("small", template, place("line", 2))


def plan_of(problem: PlanningProblem, orders: dict[str, list[str]]) -> tuple[int, int]:
    """Makespan and peak memory of a checked plan."""
    names = [operator.name for operator in problem.graph.operators]
    placements: dict[str, Placement] = {name: problem.placements(name)[0] for name in names}
    plan = dispatch_order(problem, placements, sequence(problem, orders), insertion=False)
    assert plan is not None
    verdict = verify(problem, plan)
    assert verdict.ok, verdict.violations
    runs = sorted(plan.runs, key=lambda run: run.start_ticks or 0)
    for device, order in orders.items():
        assert [run.operator for run in runs if run.devices == (device,)] == order
    return verdict.components["makespan"], verdict.components["peak_memory"]


def test_a_pair_takes_over_what_its_members_read_and_make() -> None:
    problem = small()
    fused, names = fuse(problem, [PAIR])
    name = names[PAIR]
    operator = fused.graph.operator(name)
    assert operator.kind == OVERLAPPED
    assert operator.micro_batch is None
    assert fused.duration_ticks(name, fused.placements(name)[0]) == 4 + 5 + 6
    assert operator.options[0].workspace_bytes == 2  # the gradient between B and W
    reads = {value.name for value in fused.graph.inputs[name]}
    assert reads == {"a0@0", "s0@0", "x1@0", "weights 0"}
    assert {value.name for value in fused.graph.outputs[name]} == {"a0@1", "s0@1", "y0@1"}
    assert not fused.graph.has_value("g0@0")
    assert len(fused.graph.operators) == len(problem.graph.operators) - 2


def test_a_length_of_its_own() -> None:
    fused, names = fuse(small(), {PAIR: 13})
    name = names[PAIR]
    assert fused.duration_ticks(name, fused.placements(name)[0]) == 13


def test_backwards_of_one_micro_batch_become_a_joint_one() -> None:
    fused, names = fuse(small(), [("B1@0", "W1@0")])
    operator = fused.graph.operator(names["B1@0", "W1@0"])
    assert operator.kind == "backward"
    assert operator.micro_batch == 0
    assert operator.block == "stage 1"


def test_memory_and_time_of_a_fused_plan() -> None:
    """Worked by hand: d0 runs F0@0 [0, 4), the pair when x1@0 is there, then B0@1 and W0@1.

    d1: F [5, 12), B [12, 20); x arrives at 21, the pair runs [21, 36); y arrives at 37. Then d1
    has run W [20, 29), F [37, 44), B [44, 52), W [52, 61); d0: B [53, 58), W [58, 64). During
    the pair d0 holds 8 bytes of each micro-batch, the gradient inside it, and the weights.
    """
    fused, names = fuse(small(), [PAIR])
    orders = {
        "d0": ["F0@0", names[PAIR], "B0@1", "W0@1"],
        "d1": ["F1@0", "B1@0", "W1@0", "F1@1", "B1@1", "W1@1"],
    }
    assert plan_of(fused, orders) == (64, 100 + 8 + 8 + 2)


@pytest.mark.parametrize("model", [CommunicationModel.DELAY, CommunicationModel.CHANNEL])
@pytest.mark.parametrize(("family", "p", "chunks"), [("dualpipe", 4, 1), ("v", 3, 2)])
def test_whole_pairs_can_be_undone(
    family: str, p: int, chunks: int, model: CommunicationModel
) -> None:
    template, _ = uniform(p, 8, (10, 12, 7), transfer=3, chunks=chunks, freed_at_backward=1)
    template = dataclasses.replace(template, transfers=model)
    problem = pipeline_problem("case", template, place(family, p))
    shop = shop_of(problem)
    assert shop is not None
    pairs = [group for row in dualpipe_orders(shop).values() for group in row if len(group) == 3]
    assert pairs is not None
    found = overlapped_dualpipe(problem)
    assert found is not None
    fused, plan = found
    verdict = verify(fused, plan)
    assert verdict.ok, verdict.violations
    groups = [tuple(o.name.split("&")) for o in fused.graph.operators if "&" in o.name]
    assert set(pairs) <= set(groups)
    names = {group: "&".join(group) for group in groups}
    opened = unfuse(problem, names, plan)
    again = verify(problem, opened)
    assert again.ok, again.violations
    assert again.components["makespan"] == verdict.components["makespan"]
    assert again.components["peak_memory"] <= verdict.components["peak_memory"]
    short = overlapped_dualpipe(problem, Fraction(1, 2))
    assert short is not None
    assert verify(*short).ok
    with pytest.raises(ValueError, match="too short to undo"):
        unfuse(finer(problem, short[0].units.time_scale), names, short[1])


def test_a_finer_grid_is_the_same_problem() -> None:
    problem = small(model=CommunicationModel.CHANNEL)
    orders = {
        "d0": ["F0@0", "F0@1", "B0@0", "W0@0", "B0@1", "W0@1"],
        "d1": ["F1@0", "B1@0", "W1@0", "F1@1", "B1@1", "W1@1"],
    }
    coarse = plan_of(problem, orders)
    fine = finer(problem, 12)
    assert fine.units.time_scale == 12
    assert plan_of(fine, orders) == (12 * coarse[0], coarse[1])
    assert finer(problem, 1) is problem
    with pytest.raises(ValueError, match="factor is 0"):
        finer(problem, 0)


def test_bytes_that_travel_have_no_finer_grid() -> None:
    problem = small()
    values = tuple(
        dataclasses.replace(value, transfer_bytes={"full": 7}) if value.name == "y0@0" else value
        for value in problem.graph.values
    )
    heavy = dataclasses.replace(problem, graph=dataclasses.replace(problem.graph, values=values))
    with pytest.raises(ValueError, match="'y0@0' need not scale"):
        finer(heavy, 2)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([PAIR, ("F0@1", "B0@1")], "'F0@1' is in two pairs"),
        ([("F0@0", "B1@1")], "may run on 2 devices"),
    ],
)
def test_what_cannot_be_fused_is_named(pairs: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fuse(small(), pairs)


def test_operators_that_may_run_in_several_ways_are_not_fused() -> None:
    problem = small()
    operators = tuple(
        Operator(o.name, (*o.options, Option("fast", {"d0": 1})), o.kind, micro_batch=o.micro_batch)
        if o.name == "F0@1"
        else dataclasses.replace(o, group=None)
        for o in problem.graph.operators
    )
    graph = dataclasses.replace(problem.graph, operators=operators)
    with pytest.raises(ValueError, match="'F0@1' may run in several ways"):
        fuse(dataclasses.replace(problem, graph=graph), [PAIR])


def test_a_pair_that_waits_for_itself_is_refused() -> None:
    with pytest.raises(InputError, match="cycle"):
        fuse(small(), [("F0@0", "B0@0")])


def test_orders_that_wait_for_each_other_are_named() -> None:
    problem = small(1)
    good = {"d0": ["F0@0", "B0@0", "W0@0"], "d1": ["F1@0", "B1@0", "W1@0"]}
    assert sequence(problem, good) == ["F0@0", "F1@0", "B1@0", "W1@0", "B0@0", "W0@0"]
    for bad in (
        good | {"d0": ["B0@0", "F0@0", "W0@0"]},
        good | {"d0": ["F0@0", "B0@0"]},
        good | {"d0": ["F0@0", "F0@0", "B0@0", "W0@0"]},
    ):
        with pytest.raises(Deadlock):
            sequence(problem, bad)
