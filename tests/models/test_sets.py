"""Sets of schedules and exact times, against what the hand can work out."""

from __future__ import annotations

import pytest

from formulations.operator_schedule.columns import Columns
from formulations.operator_schedule.retention import devices_at_risk, holdings, persistent
from milp_plan.api import FULL, Placement, Value, needed_routes
from milp_plan.check import verify
from milp_plan.core import CommunicationModel, FormulationError, Operator, Option
from milp_plan.kinds.schedule.model.retime import Arc, retime
from milp_plan.kinds.schedule.model.sets import ScheduleSets

from .hand import op, problem, value


def place(device: str) -> Placement:
    return Placement("run", (device,))


def diamond() -> ScheduleSets:
    """Return x (3) -> y (4), z (2) -> s (5); y and s both read v of x."""
    return ScheduleSets(
        problem(
            [op("s", 5), op("x", 3), op("y", 4), op("z", 2)],
            [
                value("v", "x", "y", "s"),
                value("w", "x", "z"),
                value("p", "y", "s"),
                value("q", "z", "s"),
                value("k", None, "x", "s", size=4),
            ],
            memory={"a": 5, "b": 40},
        )
    )


def test_chains_and_windows() -> None:
    sets = diamond()
    assert sets.operators == ("x", "y", "z", "s")
    assert sets.heads == {"x": 0, "y": 3, "z": 3, "s": 7}
    assert sets.tails == {"s": 0, "y": 5, "z": 5, "x": 9}
    assert sets.graph.descendants["x"] == {"y", "z", "s"}
    assert sets.tick == 1
    assert {v.name for v in sets.values_between["x", "s"]} == {"v"}


def test_transfers_shared_and_single() -> None:
    sets = diamond()
    tasks = {task.name: task for task in sets.transfers}
    assert tasks.keys() == {"send v to a", "send v to b", "send w", "send p", "send q"}
    assert tasks["send v to a"].shared
    assert tasks["send v to a"].consumers == ("y", "s")
    assert not tasks["send w"].shared
    assert {task.shortest_ticks for task in sets.transfers} == {2}
    assert sets.serial_ticks == 14 + 5 * 2
    assert sets.surely_after["send v to a"] == {"s"}
    assert sets.surely_after["send w"] == {"z", "s"}


def test_a_group_that_reads_together_is_one_reader() -> None:
    sets = ScheduleSets(
        problem(
            [op("x", 3), op("y", 4, group="g"), op("z", 2, group="g")],
            [value("v", "x", "y", "z"), value("u", "y", "z")],
        )
    )
    assert [(task.name, task.shared, task.consumers) for task in sets.transfers] == [
        ("send v", False, ("y", "z"))
    ]
    assert sets.local_pairs == {("y", "z")}
    columns = Columns(sets, sets.transfers)
    assert columns.group_representatives == ["x", "y"]
    assert columns.represented("z", place("b")) == ("y", place("b"))


def test_needed_routes_name_transfers_and_their_readers() -> None:
    sets = diamond()
    placed = {"x": place("a"), "y": place("b"), "z": place("a"), "s": place("b")}
    found = {name: readers for name, (_, readers) in needed_routes(sets, placed).items()}
    assert found == {"send v to b": ("y", "s"), "send q": ("s",)}
    one_way = problem([op("x", 3), op("y", 1)], [value("v", "x", "y")], links=["ab"])
    with pytest.raises(FormulationError, match="no route"):
        needed_routes(ScheduleSets(one_way), {"x": place("b"), "y": place("a")})


def test_what_may_lie_on_a_device() -> None:
    sets = diamond()
    assert {(item.label, item.bytes) for item in persistent(sets, "a")} == {("k/full", 4)}
    assert {item.label for item in holdings(sets, "a")} == {
        *("v/full", "w/full", "p/full", "q/full"),
        *("send v to a/full on a", "send w/full on a", "send p/full on a", "send q/full on a"),
    }
    assert devices_at_risk(sets) == ["a"]


def test_times_are_longest_paths() -> None:
    sets = diamond()
    placed = {"x": place("a"), "y": place("b"), "z": place("a"), "s": place("b")}
    plan = retime(sets, placed, [], {})
    assert {run.operator: run.start_ticks for run in plan.runs} == {"x": 0, "y": 5, "z": 3, "s": 9}
    late = [Arc("y", "send q"), Arc("send p", "z"), Arc("x", "z", from_stop=False, lag_ticks=4)]
    hint = {name: float(n) for n, name in enumerate(["x", "send v to b", "y", "z", "send q", "s"])}
    later = retime(sets, placed, late, hint)
    assert {run.operator: run.start_ticks for run in later.runs} == {
        "x": 0,
        "y": 5,
        "z": 4,
        "s": 11,
    }
    assert {t.value: t.start_ticks for t in later.transfers} == {"v": 3, "q": 9}
    unconstrained = sets.problem.cluster.with_memory({"a": None})
    free = type(sets.problem)("hand", sets.problem.graph, unconstrained)
    assert not [v for v in verify(free, later).violations if v.rule != "identity"]


def test_orders_that_contradict_each_other_yield_to_the_hint() -> None:
    two = ScheduleSets(problem([op("x", 3), op("y", 2)], []))
    placed = {"x": place("a"), "y": place("a")}
    both = [Arc("x", "y"), Arc("y", "x")]
    for first, other in (("x", "y"), ("y", "x")):
        plan = retime(two, placed, both, {first: 0.0, other: 1.0})
        assert plan.run(first).start_ticks == 0
        assert plan.run(other).start_ticks == plan.run(first).stop_ticks


def test_orders_within_one_instant_hold_where_precedence_says_the_contrary() -> None:
    chain = ScheduleSets(
        problem(
            [op("w", 7), op("x", 0), op("y", 0), op("z", 0)],
            [value("v", "x", "y", size=0), value("u", "y", "z", size=0)],
        )
    )
    placed = {name: place("a") for name in "wxyz"}
    start = {"x": 0.0, "y": 0.0, "z": 0.0}
    held = [Arc("w", "y"), Arc("z", "x"), Arc("y", "x")]
    plan = retime(chain, placed, held, start)
    assert {name: plan.run(name).start_ticks for name in "wxyz"} == {"w": 0, "x": 7, "y": 7, "z": 7}
    never = [Arc("x", "w"), Arc("w", "x")]
    first = retime(chain, placed, never, {"x": 0.0, "w": 1.0})
    assert {name: first.run(name).start_ticks for name in "wxyz"} == dict.fromkeys("wxyz", 0)


def test_layouts_make_transfers_of_their_own() -> None:
    halves = Option("half", {"G": 2}, gang=2, reads={"v": "split"})
    split = Value("v", "x", ("y",), {FULL: 2, "split": 1}, reshard_ticks={(FULL, "split"): 4})
    made = problem(
        [op("x", 3), Operator("y", (Option("run", {"G": 4}), halves))],
        [split],
        groups=(("a", "b"),),
        model=CommunicationModel.ENDPOINT,
    )
    sets = ScheduleSets(made)
    (task,) = sets.transfers
    assert not task.shared
    kinds = {(leg.route.layout, leg.route.duration_ticks) for leg in task.legs}
    assert kinds == {(FULL, 2), ("split", 6)}
    assert {leg.route.resources for leg in task.legs if leg.route.layout == "split"} == {
        ("send a", "receive b"),
        ("send b", "receive a"),
    }
