"""Each family of ``operator_schedule`` alone: what it allows and what it forbids."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from milp_plan.api import Guide, MemoryLaw, Objective, PlanningProblem, interchangeable_devices
from milp_plan.check import verify
from milp_plan.core import (
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
)
from milp_plan.lp.from_pyomo import compile_pyomo
from tests.support.brute import brute_force
from tests.support.problems import random_problem

from .hand import at, equal_memory, fixed, on, op, possible, problem, value
from .solving import formulation, limits_for, optimise, solve_here

CHANNEL, ENDPOINT, DELAY = (
    CommunicationModel.CHANNEL,
    CommunicationModel.ENDPOINT,
    CommunicationModel.DELAY,
)


def test_an_operator_runs_exactly_once() -> None:
    two = problem([op("x", 3)], [])
    assert possible(two, on(x="a"))
    assert not possible(two, {**on(x="a"), ("place", ("x", "run on b")): 1.0})
    assert not possible(two, {("place", ("x", "run on a")): 0.0, ("place", ("x", "run on b")): 0.0})


def test_a_group_stays_together() -> None:
    choice = (Option("run", {"G": 3}), Option("slow", {"G": 5}))
    pair = problem([Operator("x", choice, group="g"), Operator("y", choice, group="g")], [])
    assert possible(pair, on(x="a", y="a"))
    assert not possible(pair, on(x="a", y="b"))
    shared = problem([op("x", 3, group="g"), op("y", 3, group="g")], [])
    source = formulation("operator_schedule").build(
        shared, formulation("operator_schedule").Options(), Guide()
    )
    assert {name for name, _ in source.place} == {"x"}, "one set of columns for the whole group"
    assert optimise("operator_schedule", shared).verdict.value == 6


def test_values_flow_only_where_they_can_travel() -> None:
    one_way = problem([op("x", 3), op("y", 1)], [value("v", "x", "y")], links=["ab"])
    assert possible(one_way, on(x="a", y="b"))
    assert not possible(one_way, on(x="b", y="a"))


@pytest.mark.parametrize("model", list(CommunicationModel))
def test_consumers_wait_for_producers_and_journeys(model: CommunicationModel) -> None:
    chain = problem([op("x", 3), op("y", 1)], [value("v", "x", "y")], model=model)
    near, far = on(x="a", y="a"), on(x="a", y="b")
    assert possible(chain, {**near, **at(x=0, y=3)})
    assert not possible(chain, {**near, **at(x=0, y=2)})
    assert possible(chain, {**far, **at(x=0, y=5)})
    assert not possible(chain, {**far, **at(x=0, y=4)})
    assert not possible(chain, {**near, **at(x=1, y=3)})


def test_a_device_runs_one_at_a_time() -> None:
    free = problem([op("x", 3), op("y", 4), op("z", 0)], [])
    assert possible(free, {**on(x="a", y="a"), **at(x=0, y=3)})
    assert possible(free, {**on(x="a", y="a"), **at(x=4, y=0)})
    assert not possible(free, {**on(x="a", y="a"), **at(x=0, y=2)})
    assert possible(free, {**on(x="a", y="b"), **at(x=0, y=2)})
    for tick, allowed in ((0, True), (1, False), (2, False), (3, True)):
        assert possible(free, {**on(x="a", z="a"), **at(x=0, z=tick)}) is allowed


def test_a_gang_holds_all_its_devices() -> None:
    wide = Operator("w", (Option("run", {"G": 3}, gang=2),))
    made = problem([wide, op("x", 2)], [], groups=(("a", "b"),))
    for device in "ab":
        assert not possible(made, {**on(x=device), **at(w=0, x=2)})
        assert possible(made, {**on(x=device), **at(w=0, x=3)})


@pytest.mark.parametrize(
    ("model", "one_link", "one_sender", "one_receiver"),
    [(CHANNEL, 7, 5, 5), (ENDPOINT, 7, 7, 7), (DELAY, 5, 5, 5)],
)
def test_transfers_wait_for_what_they_hold(
    model: CommunicationModel, one_link: int, one_sender: int, one_receiver: int
) -> None:
    """Two values made in 3 ticks travel 2 ticks each, to readers that take no time."""
    readers = [op("p", 0), op("q", 0)]
    fork = problem(
        [op("x", 3), *readers],
        [value("v", "x", "p"), value("w", "x", "q")],
        model=model,
        devices="abc",
    )
    assert fixed(fork, on(x="a", p="b", q="b"), symmetry=False).objective == approx(one_link)
    assert fixed(fork, on(x="a", p="b", q="c"), symmetry=False).objective == approx(one_sender)
    meet = problem(
        [op("x", 3), op("y", 3), *readers],
        [value("v", "x", "p"), value("w", "y", "q")],
        model=model,
        devices="abc",
    )
    placed = on(x="a", y="b", p="c", q="c")
    assert fixed(meet, placed, symmetry=False).objective == approx(one_receiver)


def test_a_value_travels_once_for_all_readers_on_a_device() -> None:
    """Shared by p and q on b: one journey. On b and c: two, both over the sender's port."""
    shared = problem(
        [op("x", 3), op("p", 0), op("q", 0)],
        [value("v", "x", "p", "q")],
        model=ENDPOINT,
        devices="abc",
    )
    assert fixed(shared, on(x="a", p="b", q="b"), symmetry=False).objective == approx(5)
    assert fixed(shared, on(x="a", p="b", q="c"), symmetry=False).objective == approx(7)
    source = formulation("operator_schedule").build(
        shared, formulation("operator_schedule").Options(), Guide()
    )
    calls = [index for index in source.use if index[0] == "send v to b"]
    assert calls
    unused = {("use", index): 0.0 for index in calls}
    assert not possible(shared, {**on(x="a", p="b", q="b"), **unused})
    assert possible(shared, {**on(x="a", p="c", q="c"), **unused})


def test_persistent_values_and_workspaces_fill_memory() -> None:
    kept = problem([op("x", 3)], [value("w", None, "x", size=5)], memory={"a": 4, "b": 5})
    assert not possible(kept, on(x="a"))
    assert possible(kept, on(x="b"))
    twice = problem(
        [op("x", 3), op("y", 1)],
        [value("w", None, "x", "y", size=5), value("u", None, "y", size=2)],
        memory={"a": 7, "b": 6},
    )
    assert possible(twice, on(x="a", y="a"))
    assert not possible(twice, on(x="b", y="b"))
    for ticks, allowed in ((2, False), (0, True)):
        room = problem([op("x", 1), op("y", ticks, space=5)], [], memory=4)
        assert possible(room, on(y="a")) is allowed, "what takes no time holds nothing"


def six(memory: int | dict[str, int | None]) -> PlanningProblem:
    """Two values of 6 bytes: x -> v -> r and y -> w -> s."""
    return problem(
        [op("x", 3), op("r", 1), op("y", 3), op("s", 1)],
        [value("v", "x", "r", size=6), value("w", "y", "s", size=6)],
        memory=memory,
    )


@pytest.mark.parametrize(
    ("times", "allowed"),
    [
        ({"x": 0, "r": 3, "y": 4, "s": 7}, True),
        ({"x": 4, "r": 7, "y": 0, "s": 3}, True),
        ({"x": 0, "r": 6, "y": 3, "s": 7}, False),
        ({"x": 3, "r": 6, "y": 0, "s": 7}, False),
        ({"x": 0, "r": 7, "y": 3, "s": 6}, False),
    ],
)
def test_a_copy_is_alive_until_its_last_reader_stops(times: dict[str, int], allowed: bool) -> None:
    together = on(x="a", r="a", y="a", s="a")
    assert possible(six(10), {**together, **at(**times)}) is allowed
    assert possible(six(12), {**together, **at(**times)})


def test_an_outgoing_transfer_is_a_reader() -> None:
    """v leaves a during [3, 5); y needs its room on a."""
    placed = on(x="a", r="b", y="a", s="a")
    tight = six({"a": 10, "b": None})
    assert possible(tight, {**placed, **at(x=0, y=5)})
    assert not possible(tight, {**placed, **at(x=0, y=4)})
    assert possible(six({"a": 12, "b": None}), {**placed, **at(x=0, y=4)})


def test_an_incoming_copy_takes_room_from_the_start_of_its_transfer() -> None:
    """w holds 6 of 10 bytes on b until s stops at 10; only then can v set out."""
    placed = {**on(x="a", r="b", y="b", s="b"), **at(x=0, y=0, s=9)}
    tight = six({"a": None, "b": 10})
    assert possible(tight, {**placed, **at(r=12)})
    assert not possible(tight, {**placed, **at(r=11)})
    assert possible(six({"a": None, "b": 12}), {**placed, **at(r=11)})


def test_memory_rows_can_be_left_out() -> None:
    clash = {**on(x="a", r="a", y="a", s="a"), **at(x=0, r=6, y=3, s=7)}
    assert possible(six(10), clash, guide=Guide(memory=False))


def test_peak_memory_is_the_largest_sum() -> None:
    two = problem(
        [op("x", 3), op("r", 1), op("y", 3), op("s", 1)],
        [value("v", "x", "r", size=6), value("w", "y", "s", size=5)],
        devices="a",
        objective=Objective.PEAK_MEMORY,
    )
    assert fixed(two, {}).objective == approx(6)
    assert fixed(two, at(x=0, y=3, r=6)).objective == approx(11)


def test_a_span_is_from_the_first_start_to_the_last_stop_of_a_device() -> None:
    """On b runs y, then z, which waits for x on a: y starts late and b is short."""
    case = problem(
        [op("x", 4), op("y", 1), op("z", 1)],
        [value("v", "x", "z")],
        objective=Objective.SPAN,
    )
    placed = on(x="a", y="b", z="b")
    assert fixed(case, {**placed, **at(x=0, y=0, z=6)}, symmetry=False).objective == approx(7)
    assert fixed(case, {**placed, **at(x=0, y=5, z=6)}, symmetry=False).objective == approx(4)
    assert fixed(case, placed, symmetry=False).objective == approx(4)
    best = optimise("operator_schedule", case)
    starts = {run.operator: run.start_ticks for run in best.plan.runs}
    assert best.verdict.value == 4
    assert starts["z"] - starts["y"] <= 3


def test_a_device_is_busy_no_longer_than_its_span() -> None:
    """The rows of device loads cut nothing, and lift the relaxation."""
    case = problem([op(name, 3) for name in "xyz"], [], objective=Objective.SPAN)
    assert without(case, "device_load") == optimise("operator_schedule", case).verdict.value == 6


@pytest.mark.parametrize(("model", "least"), [(CHANNEL, 4), (ENDPOINT, 6), (DELAY, 3)])
def test_a_bottleneck_is_the_work_of_one_device_channel_or_port(
    model: CommunicationModel, least: int
) -> None:
    """x sends two values of 2 ticks to b and one to c."""
    case = problem(
        [op("x", 3), op("p", 1), op("q", 1), op("r", 1)],
        [value("v", "x", "p"), value("w", "x", "q"), value("u", "x", "r")],
        devices="abc",
        model=model,
        objective=Objective.BOTTLENECK,
    )
    placed = on(x="a", p="b", q="b", r="c")
    assert fixed(case, placed, symmetry=False).objective == approx(least)


def test_static_memory_counts_everything_at_once() -> None:
    """Whatever the order: 6 bytes of v, 6 of w, the larger workspace, and persistent u."""
    for law, least in ((MemoryLaw.INSTANT, 12), (MemoryLaw.STATIC, 18)):
        case = problem(
            [op("x", 3, space=1), op("r", 1, space=4), op("y", 3), op("s", 0, space=3)],
            [
                value("v", "x", "r", size=6),
                value("w", "y", "s", size=6),
                value("u", None, "x", size=2),
            ],
            devices="a",
            objective=Objective.PEAK_MEMORY,
            law=law,
        )
        assert fixed(case, {}).objective == approx(least)
        limited = replace(case, cluster=case.cluster.with_memory({"a": least}))
        assert possible(limited, {})
        limited = replace(case, cluster=case.cluster.with_memory({"a": least - 1}))
        assert not possible(limited, {})


def approx(number: float) -> object:
    return pytest.approx(number, abs=1e-4)


def without(case: PlanningProblem, family: str, **switches: bool) -> int | None:
    """Optimum without a family of rows."""
    form = formulation("operator_schedule")
    options = form.Options(**switches)
    source = form.build(case, options, Guide())
    if hasattr(source, family):
        source.component(family).deactivate()
    model = compile_pyomo(source)
    answer = solve_here(model, limits_for(form.scale(case, options, Guide())))
    assert answer.vector is not None
    plan = form.decode(case, options, Guide(), model.name_values(answer.vector))
    return verify(case, plan).value


def test_symmetry_rows_cut_no_optimum() -> None:
    cases = [equal_memory(random_problem(seed, max_operators=4)) for seed in range(20)]
    alike = [case for case in cases if interchangeable_devices(case)]
    assert len(alike) >= 5
    for case in alike:
        full = optimise("operator_schedule", case)
        assert len(full.source.first_use) > 0
        assert without(case, "first_use", symmetry=False) == full.verdict.value, case.name


def test_workload_rows_cut_no_optimum() -> None:
    loaded = 0
    for seed in range(12):
        case = random_problem(seed, max_operators=4, objective=Objective.MAKESPAN)
        full = optimise("operator_schedule", case)
        loaded += len(full.source.workload) > 0
        assert without(case, "workload") == full.verdict.value, case.name
    assert loaded >= 7


def test_windows_follow_bound_and_cutoff() -> None:
    chain = problem([op("x", 3), op("y", 2)], [value("v", "x", "y")])
    assert not possible(chain, {}, guide=Guide(cutoff=4))
    assert possible(chain, {}, guide=Guide(cutoff=5))
    assert fixed(chain, {}, guide=Guide(bound=6)).objective == approx(6)
    source = formulation("operator_schedule").build(
        chain, formulation("operator_schedule").Options(), Guide(cutoff=7)
    )
    assert (source.start["x"].lb, source.start["x"].ub) == (0, 2)
    assert (source.start["y"].lb, source.start["y"].ub) == (3, 5)


@pytest.mark.parametrize(
    ("model", "readers", "optimum"),
    [
        (CHANNEL, "c", 7),
        (CHANNEL, "cd", 6),
        (ENDPOINT, "c", 8),
        (ENDPOINT, "cd", 6),
        (DELAY, "c", 7),
        (DELAY, "cd", 6),
    ],
)
def test_sends_of_a_process_group(model: CommunicationModel, readers: str, optimum: int) -> None:
    """Two values lie on a and b; sent from both, they need not wait for each other."""
    wide = Operator("x", (Option("run", {"G": 3}, gang=2),))
    ends = [Operator(name, (Option("run", {"H": 1}),)) for name in "pq"]
    devices = [Device(name, "G" if name in "ab" else "H", None) for name in "ab" + readers]
    links = [Channel(s.name, t.name, 1, 10**30) for s in devices for t in devices if s != t]
    case = PlanningProblem(
        "two sources",
        ComputationGraph((wide, *ends), (value("v", "x", "p"), value("w", "x", "q"))),
        Cluster(
            (DeviceClass("G", None), DeviceClass("H", None)),
            tuple(devices),
            tuple(links),
            (("a", "b"),),
            model,
        ),
    )
    known = brute_force(case)
    assert known is not None
    assert known[0] == optimum
    assert optimise("operator_schedule", case).verdict.value == optimum


def pipeline(stages: int, batches: int) -> PlanningProblem:
    """Forward and backward steps of stages, each a group, on as many devices."""
    steps = [("F", s) for s in range(stages)] + [("B", s) for s in reversed(range(stages))]
    names = [[f"{kind}{s}.{batch}" for kind, s in steps] for batch in range(batches)]
    ticks = {"F": 10, "B": 20}
    operators = [op(n, ticks[n[0]], group=f"g{n[1]}") for line in names for n in line]
    values = [value(f"v{a}", a, b) for line in names for a, b in pairwise(line)]
    return problem(operators, values, devices="abcd"[:stages])


def test_rows_of_groups_see_how_a_pipeline_fills_and_drains() -> None:
    """Stage 2 of 3 begins after F0, and B0 follows it: no device is named, no order decided."""
    case = pipeline(3, 3)
    form = formulation("operator_schedule")

    def relaxation(levels: int) -> float:
        options = form.Options(load_thresholds=levels)
        model = compile_pyomo(form.build(case, options, Guide())).relaxed()
        found = solve_here(model, limits_for(form.scale(case, options, Guide()))).objective
        assert found is not None
        return found * form.scale(case, options, Guide()).unit

    assert relaxation(12) > 1.3 * relaxation(0)


def test_rows_of_groups_cut_no_optimum() -> None:
    grouped = 0
    for seed in range(40):
        case = random_problem(seed, max_operators=5, objective=Objective.MAKESPAN)
        if not any(len(names) > 1 for names in case.graph.groups.values()):
            continue
        best = brute_force(case)
        assert best is not None
        full = optimise("operator_schedule", case, Guide(best[0]))
        grouped += hasattr(full.source, "occupied") and len(full.source.occupied) > 0
        assert full.verdict.value == best[0], case.name
    assert grouped >= 5


def test_columns_do_not_grow_with_pairs_of_operators_between_groups() -> None:
    def columns(batches: int, family: str) -> int:
        case = pipeline(3, batches)
        form = formulation("operator_schedule")
        return len(form.build(case, form.Options(), Guide()).component(family))

    assert columns(1, "flow") == columns(4, "flow") == 2 * 3 * 3
    assert columns(4, "conflict") <= 15


def test_memory_has_no_columns_per_device_where_devices_are_identical() -> None:
    def alive(devices: str, memory: int | dict[str, int | None]) -> int:
        form = formulation("operator_schedule")
        operators = [op(n, 3) for n in ("x", "r", "y", "s")]
        values = [value("v", "x", "r", size=6), value("w", "y", "s", size=6)]
        case = problem(operators, values, devices=devices, memory=memory, model=DELAY)
        return len(form.build(case, form.Options(), Guide()).alive)

    alike = alive("ab", 10)
    assert 0 < alike < alive("ab", {"a": 10, "b": 11})
