"""Schedules for torch: what is written, how micro-batches are numbered, and what is refused."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milp_plan.check import verify
from milp_plan.core import (
    InputError,
    MissingFacetError,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Words, times
from milp_plan.kinds.pipeline.torch_schedule import (
    torch_actions,
    torch_remarks,
    torch_schedule_csv,
)

CHUNKS = {"line": 1, "v": 2, "interleaved": 2, "wave": 4}


def shop(family: str = "line", devices: int = 2, batches: int = 3, *, joint: bool = False) -> Shop:
    template, _ = uniform(
        devices, batches, (10, 12, 7), chunks=CHUNKS[family], transfer=1, joint_backward=joint
    )
    found = shop_of(pipeline_problem("case", template, place(family, devices)))
    assert found is not None
    return found


def plan_of(case: Shop, words: Words) -> Plan:
    plan = case.plan(times(case, words), "test")
    assert verify(case.problem, plan).ok
    return plan


def words(case: Shop, *rows: str) -> Words:
    """Words from names of kinds, such as ``F0 F0 B0 W0``."""
    number = {kind.name: k for k, kind in enumerate(case.kinds)}
    return [[number[name] for name in row.split()] for row in rows]


def gpipe(case: Shop) -> Words:
    """All forwards, then all input gradients, then all weight gradients."""
    return [
        [
            kind
            for letter in ("F", "B", "W")
            for kind in kinds
            if case.kinds[kind].name.startswith(letter)
            for _ in range(case.kinds[kind].count)
        ]
        for kinds in case.on_machine
    ]


def timed(problem: PlanningProblem, *rows: Sequence[str]) -> Plan:
    """Plan that runs operators in the given order on each device, as early as they can."""
    place = {name: problem.placements(name)[0] for row in rows for name in row}
    lag = problem.cluster.channels[0].latency_ticks
    stops: dict[str, int] = {}
    runs, trips = [], []
    queues, free = [list(row) for row in rows], [0] * len(rows)
    while any(queues):
        ready = [
            device
            for device, queue in enumerate(queues)
            if queue and all(name in stops for name in problem.graph.predecessors[queue[0]])
        ]
        assert ready, "these orders wait for each other"
        for device in ready:
            name = queues[device].pop(0)
            start = free[device]
            for value in problem.graph.inputs[name]:
                assert value.producer is not None
                arrival = stops[value.producer]
                if place[value.producer] != place[name]:
                    route = (place[value.producer].devices, place[name].devices)
                    trips.append(Transfer(value.name, *route, "full", arrival, arrival + lag))
                    arrival += lag
                start = max(start, arrival)
            stop = start + problem.duration_ticks(name, place[name])
            runs.append(OperatorRun(name, "run", place[name].devices, start, stop))
            stops[name] = free[device] = stop
    plan = Plan(problem.name, tuple(runs), tuple(trips))
    assert verify(problem, plan).ok
    return plan


def shuffled_gpipe(problem: PlanningProblem, order: Callable[[str], Sequence[int]]) -> Plan:
    """All forwards, then all backwards; each kind takes micro-batches in an order of its own."""
    rows: list[list[str]] = [[] for _ in problem.cluster.devices]
    names = {operator.name.split("@")[0] for operator in problem.graph.operators}
    forward = sorted((name for name in names if name[0] == "F"), key=lambda name: int(name[1:]))
    backward = sorted(names - set(forward), key=lambda name: (name[0], -int(name[1:])))
    for name in [*forward, *backward]:
        device = problem.placements(f"{name}@0")[0].devices[0]
        rows[int(device[1:])] += [f"{name}@{batch}" for batch in order(name)]
    return timed(problem, *rows)


# -- what is written ---------------------------------------------------------------------------


def test_one_forward_one_backward(tmp_path: Path) -> None:
    case = shop()
    plan = plan_of(case, words(case, "F0 F0 B0 W0 F0 B0 W0 B0 W0", "F1 B1 W1 F1 B1 F1 W1 B1 W1"))
    path = tmp_path / "schedule.csv"
    path.write_text(torch_schedule_csv(case.problem, plan))
    assert path.read_bytes() == (
        b"0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1W0,1F1,1I1,1F2,1W1,1I2,1W2\n"
    )


def test_a_joint_backward_is_torchs_b() -> None:
    case = shop(joint=True)
    plan = plan_of(case, words(case, "F0 F0 B0 F0 B0 B0", "F1 B1 F1 B1 F1 B1"))
    assert torch_schedule_csv(case.problem, plan).splitlines() == [
        "0F0,0F1,0B0,0F2,0B1,0B2",
        "1F0,1B0,1F1,1B1,1F2,1B2",
    ]


@pytest.mark.parametrize(
    ("family", "stages"),
    [
        ("line", [[0], [1], [2]]),
        ("v", [[0, 5], [1, 4], [2, 3]]),
        ("interleaved", [[0, 3], [1, 4], [2, 5]]),
        ("wave", [[0, 5, 6, 11], [1, 4, 7, 10], [2, 3, 8, 9]]),
    ],
)
def test_placements_come_out_as_rows(family: str, stages: list[list[int]]) -> None:
    case = shop(family, 3, 4)
    rows = torch_actions(case.problem, plan_of(case, gpipe(case)))
    assert [sorted({action.stage for action in row}) for row in rows] == stages
    for row, own in zip(rows, stages, strict=True):
        assert sorted(str(action) for action in row) == sorted(
            f"{stage}{letter}{batch}" for stage in own for letter in "FIW" for batch in range(4)
        )
        for letter in "FIW":
            for stage in own:
                ran = [a.micro_batch for a in row if (a.stage, a.letter) == (stage, letter)]
                assert ran == [0, 1, 2, 3]


def test_any_placement_goes() -> None:
    template, _ = uniform(1, 2, chunks=4)
    problem = pipeline_problem("irregular", template, [(0, 1, 0, 0)])
    case = shop_of(problem)
    assert case is not None
    rows = torch_schedule_csv(problem, plan_of(case, gpipe(case))).splitlines()
    assert rows[1] == "1F0,1F1,1I0,1I1,1W0,1W1"
    assert {cell[0] for cell in rows[0].split(",")} == {"0", "2", "3"}


def test_a_free_placement_is_read_from_the_plan() -> None:
    """The problem leaves the devices open; the shop of the same words says where stages went."""
    template, _ = uniform(2, 3)
    fixed = shop_of(pipeline_problem("case", template, [(1, 0)]))
    assert fixed is not None
    plan = fixed.plan(times(fixed, gpipe(fixed)), "test")
    free = pipeline_problem("case", template, None, devices=2)
    assert verify(free, plan).ok
    assert torch_schedule_csv(free, plan).splitlines()[1][:3] == "0F0"


def test_no_time_at_all_still_gives_an_order_that_runs() -> None:
    template, _ = uniform(2, 2, (0, 0, 0), chunks=2)
    problem = pipeline_problem("instant", template, place("v", 2))
    case = shop_of(problem)
    assert case is not None
    plan = plan_of(case, gpipe(case))
    assert all(run.stop_ticks == 0 for run in plan.runs)
    rows = torch_actions(problem, plan)
    assert sorted(len(row) for row in rows) == [12, 12]


# -- numbers of micro-batches ------------------------------------------------------------------


@pytest.mark.untraced
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_micro_batches_are_numbered_by_the_last_stage(data: st.DataObject) -> None:
    """Every kind runs micro-batches in any order; the numbers follow the last stage's forwards."""
    family = data.draw(st.sampled_from(["line", "v", "interleaved"]))
    case = shop(family, 2, 4)
    last = f"F{2 * CHUNKS[family] - 1}"
    orders = {kind.name: data.draw(st.permutations(range(4))) for kind in case.kinds}
    rows = torch_actions(case.problem, shuffled_gpipe(case.problem, orders.__getitem__))
    number = {batch: at for at, batch in enumerate(orders[last])}
    for row in rows:
        for stage, letter in {(action.stage, action.letter) for action in row}:
            ran = [a.micro_batch for a in row if (a.stage, a.letter) == (stage, letter)]
            kind = f"{letter.replace('I', 'B')}{stage}"
            assert ran == [number[batch] for batch in orders[kind]]


def test_micro_batches_need_not_count_from_zero() -> None:
    case = shop(batches=2)
    operators = tuple(
        replace(o, micro_batch=10 - (o.micro_batch or 0)) for o in case.problem.graph.operators
    )
    problem = replace(case.problem, graph=replace(case.problem.graph, operators=operators))
    plan = plan_of(case, gpipe(case))
    assert torch_actions(problem, plan) == torch_actions(case.problem, plan)


def longer(case: Shop, name: str) -> PlanningProblem:
    """The problem with one operator of the second device twice as long."""
    longer = Option("run", {"d1": 20})
    return changed(case.problem, name, options=(longer,))


def test_micro_batches_that_differ_are_not_renumbered() -> None:
    """The long one keeps its number; those that are alike change places."""
    problem = longer(shop(), "F1@2")
    allowed = shuffled_gpipe(problem, lambda name: (1, 0, 2))
    assert torch_schedule_csv(problem, allowed).startswith("0F0,0F1,0F2")
    for order in ((2, 1, 0), (0, 2, 1)):
        message = refused(problem, shuffled_gpipe(problem, lambda name, order=order: order))
        assert message.startswith("stage 1: found micro-batch")
        assert "silently take gradients of the wrong ones" in message


def test_micro_batches_of_other_sizes_differ_too() -> None:
    case = shop()
    graph = case.problem.graph
    values = tuple(
        replace(value, bytes={"full": 5}) if value.name == "a1@2" else value
        for value in graph.values
    )
    problem = replace(case.problem, graph=replace(graph, values=values))
    plan = shuffled_gpipe(problem, lambda name: (2, 1, 0))
    assert "micro-batch 2 forward where micro-batch 0 is due" in refused(problem, plan)


# -- what is refused ---------------------------------------------------------------------------


def refused(problem: PlanningProblem, plan: Plan) -> str:
    with pytest.raises(InputError) as error:
        torch_actions(problem, plan)
    assert len(error.value.findings) == 1
    return str(error.value)


def changed(problem: PlanningProblem, name: str, **changes: object) -> PlanningProblem:
    """The problem with one operator changed."""
    operators = tuple(
        replace(o, **changes) if o.name == name else o  # type: ignore[arg-type]
        for o in problem.graph.operators
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))


def without(problem: PlanningProblem, *values: str) -> PlanningProblem:
    """The problem without some values."""
    kept = tuple(value for value in problem.graph.values if value.name not in values)
    return replace(problem, graph=replace(problem.graph, values=kept))


def with_value(problem: PlanningProblem, producer: str, consumer: str) -> PlanningProblem:
    """The problem with one more value."""
    value = Value("extra", producer, (consumer,), {"full": 0})
    graph = replace(problem.graph, values=(*problem.graph.values, value))
    return replace(problem, graph=graph)


def test_bidirectional_placements_are_refused() -> None:
    template, _ = uniform(4, 8)
    case = shop_of(pipeline_problem("dual", template, place("dualpipe", 4)))
    assert case is not None
    message = refused(case.problem, plan_of(case, gpipe(case)))
    assert message.startswith("stage 0: found copies on d0 and d3, expected one device; torch has")
    assert "DualPipe" in message


def test_a_device_without_a_stage_is_refused() -> None:
    template, _ = uniform(2, 2)
    problem = pipeline_problem("wide", template, place("line", 2), devices=3)
    case = shop_of(problem)
    assert case is not None
    message = refused(problem, plan_of(case, gpipe(case)))
    assert message.startswith("device 'd2': found no stage")


def test_a_stage_on_two_devices_together_is_refused() -> None:
    case = shop()
    plan = plan_of(case, gpipe(case))
    first = replace(plan.runs[0], devices=("d0", "d1"))
    message = refused(case.problem, replace(plan, runs=(first, *plan.runs[1:])))
    assert "a run on d0 and d1 together" in message


@pytest.mark.parametrize("kind", ["update", "offload", "overlapped"])
def test_other_kinds_of_operators_are_refused(kind: str) -> None:
    case = shop()
    message = refused(changed(case.problem, "W0@0", kind=kind), plan_of(case, gpipe(case)))
    assert message.startswith(f"operator 'W0@0': found the kind '{kind}'")


@pytest.mark.parametrize("lack", ["block", "micro_batch"])
def test_operators_must_say_stage_and_micro_batch(lack: str) -> None:
    case = shop()
    message = refused(changed(case.problem, "F1@0", **{lack: None}), plan_of(case, gpipe(case)))
    assert f"found no {lack.replace('_', '-')}" in message


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("W1@2", "backward", "F+I+B"),  # torch: I and W must have equal counts
        ("B1@2", "backward", "F+W+B"),  # torch accepts it if another one has neither
    ],
)
def test_mixtures_of_joint_and_split_backward_are_refused(name: str, kind: str, found: str) -> None:
    case = shop()
    message = refused(changed(case.problem, name, kind=kind), plan_of(case, gpipe(case)))
    assert message.startswith(f"stage 1, micro-batch 2: found {found}, expected F+I+W or F+B")


def test_a_forward_pass_alone_is_refused() -> None:
    case = shop()
    graph = case.problem.graph
    operators = tuple(o for o in graph.operators if o.kind == "forward")
    values = tuple(value for value in graph.values if value.name.startswith("y"))
    problem = replace(case.problem, graph=replace(graph, operators=operators, values=values))
    plan = plan_of(case, gpipe(case))
    plan = replace(plan, runs=tuple(run for run in plan.runs if run.operator[0] == "F"))
    assert "found F, expected" in refused(problem, plan)


def test_a_second_operator_of_a_kind_is_refused() -> None:
    case = shop()
    graph = case.problem.graph
    again = replace(graph.operator("F0@0"), name="F0b@0")
    problem = replace(case.problem, graph=replace(graph, operators=(*graph.operators, again)))
    message = refused(problem, plan_of(case, gpipe(case)))
    assert "a second forward of stage 0, micro-batch 0, in addition to 'F0@0'" in message


@pytest.mark.parametrize(
    ("producer", "consumer", "expected"),
    [
        ("F0@0", "F2@0", "stage 0 to stage 1 only"),  # a skip connection
        ("F0@0", "F1@1", "within a micro-batch"),
        ("F0@0", "B2@0", "F to F, or back from gradient to input"),
        ("B2@0", "B0@0", "a gradient to the stage before"),
        ("W0@0", "W0@1", "within a micro-batch"),
        ("W1@0", "B0@0", "F to F, or back"),
        ("F0@0", "B0@0", None),  # that is how it is anyway
    ],
)
def test_only_chains_are_written(producer: str, consumer: str, expected: str | None) -> None:
    case = shop(devices=3)
    problem = with_value(case.problem, producer, consumer)
    plan = plan_of(case, gpipe(case))
    if expected is None:
        assert torch_actions(problem, plan) == torch_actions(case.problem, plan)
    else:
        message = refused(problem, plan)
        assert message.startswith(f"value 'extra': found data from {producer!r} to {consumer!r}")
        assert f"expected {expected}" in message


def test_stages_that_are_not_connected_are_refused() -> None:
    case = shop(devices=3)
    problem = without(case.problem, *(f"y1@{n}" for n in range(3)))
    message = refused(problem, plan_of(case, gpipe(case)))
    assert "forward passes that start at stage 0, stage 2" in message


def test_stages_that_follow_each_other_in_a_ring_are_refused() -> None:
    """Stage 2 follows stage 1 in one micro-batch, and goes before it in another."""
    case = shop(devices=3)
    cut = without(case.problem, *(f"y0@{n}" for n in range(3)), "y1@1", "y1@2")
    problem = with_value(cut, "F2@1", "F1@1")
    message = refused(problem, plan_of(case, gpipe(case)))
    assert message.startswith("stages: found stage 1, stage 2 outside the chain")


def test_a_gradient_that_follows_the_weights_is_refused() -> None:
    case = shop()
    problem = with_value(without(case.problem, "g0@0"), "W0@0", "B0@0")
    assert "expected forward before backward" in refused(problem, plan_of(case, gpipe(case)))


def test_an_order_that_torch_would_wait_for_is_refused() -> None:
    """A problem without gradients between stages allows orders that torch cannot run."""
    case = shop()
    problem = without(case.problem, *(f"x1@{n}" for n in range(3)))
    loose = shop_of(problem)
    assert loose is not None
    plan = loose.plan(
        times(loose, words(loose, "F0 B0 W0 F0 B0 W0 F0 B0 W0", "F1 F1 B1 W1 F1 B1 W1 B1 W1")),
        "test",
    )
    assert verify(problem, plan).ok
    assert refused(problem, plan).startswith("rank 0: found action 0I0 before what it needs")


def test_a_plan_without_times_is_refused() -> None:
    case = shop()
    plan = plan_of(case, gpipe(case))
    runs = tuple(replace(run, start_ticks=None, stop_ticks=None) for run in plan.runs)
    with pytest.raises(MissingFacetError, match="no schedule"):
        torch_schedule_csv(case.problem, replace(plan, runs=runs))


def test_what_is_written_reads_back_as_torch_reads_it(tmp_path: Path) -> None:
    """Every row is a rank, none is blank, and each cell is digits, a letter, digits."""
    case = shop("v", 4, 5)
    path = tmp_path / "v.csv"
    path.write_text(torch_schedule_csv(case.problem, plan_of(case, gpipe(case))))
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 4
    assert sum(map(len, rows)) == 8 * 3 * 5
    assert all(cell[0].isdigit() and cell[1] in "FIW" and cell[2:].isdigit() for cell in rows[0])


# -- forward passes that run again -------------------------------------------------------------

AGAIN = "F0@0 F0@1 F0@2 B0@0 F0@1 B0@1 F0@2 B0@2"
LAST = "F1@0 B1@0 F1@1 B1@1 F1@2 B1@2"


def rerun(*rows: str, joint: bool = True) -> tuple[PlanningProblem, Plan]:
    """A plan whose orders name some forward passes twice."""
    problem = shop(joint=joint).problem.with_recomputation()
    return problem, timed(problem, *(row.split() for row in rows))


def test_a_forward_pass_directly_before_its_backward_pass_is_that_of_a_checkpoint() -> None:
    problem, plan = rerun(AGAIN, LAST)
    assert torch_schedule_csv(problem, plan).splitlines() == [
        "0F0,0F1,0F2,0B0,0B1,0B2",
        "1F0,1B0,1F1,1B1,1F2,1B2",
    ]
    (remark,) = torch_remarks(problem, plan)
    assert remark.startswith("stage 0 computes micro-batches 1, 2 again: ")
    assert "torch.utils.checkpoint" in remark
    problem, plan = rerun(AGAIN.replace("B0@0 F0@1 B0@1 F0@2", "B0@0 B0@1"), LAST)
    assert torch_remarks(problem, plan) == []


@pytest.mark.parametrize(
    ("rows", "joint", "message"),
    [
        (("F0@0 F0@1 F0@0 F0@2 B0@0 B0@1 B0@2", LAST), True, "a second run, then 'F0@2'"),
        (
            ("F0@0 F0@1 F0@2 F0@0 B0@0 W0@0 B0@1 W0@1 B0@2 W0@2",
             "F1@0 B1@0 W1@0 F1@1 B1@1 W1@1 F1@2 B1@2 W1@2"),
            False,
            "a second run, then 'B0@0', expected its own joint backward pass next",
        ),
    ],
)  # fmt: skip
def test_other_forward_passes_that_run_again_are_refused(
    rows: tuple[str, str], joint: bool, message: str
) -> None:
    problem, plan = rerun(*rows, joint=joint)
    found = refused(problem, plan)
    assert message in found
    assert "plan without --recompute" in found


def test_runs_again_elsewhere_of_gradients_or_from_an_input_sent_again_are_refused() -> None:
    problem, plan = rerun(AGAIN, LAST)
    second = [run for run in plan.runs if run.operator == "F0@1"][1]
    other = tuple(run for run in plan.runs if run is not second)
    elsewhere = replace(second, devices=("d1",))
    assert "copies on d0 and d1" in refused(problem, replace(plan, runs=(*other, elsewhere)))
    gradient = next(run for run in plan.runs if run.operator == "B0@1")
    found = refused(problem, replace(plan, runs=(*plan.runs, gradient)))
    assert "forward passes alone run again" in found
    twice = replace(plan, transfers=(*plan.transfers, plan.transfers[0]))
    assert "sent twice" in refused(problem, twice)
