import itertools
import logging

import pytest

from milp_plan.core import (
    Cluster,
    CommunicationModel,
    ComputationGraph,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds import catalogue
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, best_bound
from tests.support.brute import brute_force

from .samples import cluster, operator, problem, value


def named(problem: PlanningProblem) -> dict[str, int]:
    return {bound.name: bound.value for bound in all_bounds(problem)}


def optimum(problem: PlanningProblem) -> int:
    found = brute_force(problem)
    assert found is not None
    return found[0]


def test_chain_is_its_critical_path():
    p = problem(
        [operator("a", 3), operator("b", 4), operator("c", 5)],
        [value("ab", "a", "b", 9), value("bc", "b", "c", 9)],
    )
    best = best_bound(p)
    assert (best.name, best.value) == ("critical path", 12)
    assert optimum(p) == 12


def test_critical_path_pays_the_transfer_between_classes():
    # a runs on class x only, b on class y only, so the 7 bytes must travel: 3 + (2 + 7) + 4.
    p = problem(
        [operator("a", {"x": 3}), operator("b", {"y": 4})],
        [value("ab", "a", "b", 7)],
        cluster(classes=["x", "y"], latency=2, memory=[None, None]),
    )
    assert named(p)["critical path"] == 16 == optimum(p)


def test_critical_path_weighs_a_fast_class_against_the_way_there():
    # b: 1 on y after a journey of 5, or 4 on x at once.
    p = problem(
        [operator("a", {"x": 3}), operator("b", {"x": 4, "y": 1})],
        [value("ab", "a", "b", 5)],
        cluster(classes=["x", "y"], memory=[None, None]),
    )
    assert named(p)["critical path"] == 7 == optimum(p)


def test_several_values_of_an_edge_take_turns_unless_nothing_is_occupied():
    def p(model: CommunicationModel) -> PlanningProblem:
        machines = cluster(classes=["x", "y"], memory=[None, None], communication=model)
        return problem(
            [operator("a", {"x": 1}), operator("b", {"y": 1})],
            [value("v", "a", "b", 4), value("w", "a", "b", 6)],
            machines,
        )

    assert named(p(CommunicationModel.CHANNEL))["critical path"] == 12
    assert named(p(CommunicationModel.ENDPOINT))["critical path"] == 12
    assert named(p(CommunicationModel.DELAY))["critical path"] == 8
    assert all(
        optimum(p(model)) == named(p(model))["critical path"] for model in CommunicationModel
    )


def test_a_change_of_layout_costs_on_the_same_device_too():
    reader = Operator("b", (Option("only", {"x": 1}, reads={"v": "rows"}),))
    v = Value("v", "a", ("b",), {"full": 5, "rows": 5}, reshard_ticks={("full", "rows"): 3})
    p = problem([operator("a", 2), reader], [v])
    assert named(p)["critical path"] == 6 == optimum(p)


def test_fork_and_join_on_two_devices():
    # Both branches on one device: 22. On two, with d where c is: 1 + 10 + 4 + 1 = 16.
    p = problem(
        [operator("a", 1), operator("b", 10), operator("c", 10), operator("d", 1)],
        [value("a1", "a", "b c", 4), value("b1", "b", "d", 4), value("c1", "c", "d", 4)],
    )
    bounds = named(p)
    assert bounds["critical path"] == 12
    # The segment between a and d: (20 of work + idle 0 + 4 before + 0 + 4 after) / 2 = 14.
    assert bounds["critical path with sharing"] == 16 == optimum(p)


def test_join_shares_a_device_or_waits_for_a_transfer():
    # c on the device of one producer: the other's value takes 6, or both run there in turn: 10.
    p = problem(
        [operator("a", 5), operator("b", 5), operator("c", 1)],
        [value("a1", "a", "c", 20), value("b1", "b", "c", 20)],
    )
    best = best_bound(p)
    assert (best.name, best.value) == ("critical path with sharing", 11)
    assert optimum(p) == 11


def test_fan_out_shares_a_device_or_sends():
    # The same backwards: tails, not heads.
    p = problem(
        [operator("a", 1), operator("b", 5), operator("c", 5)],
        [value("v", "a", "b c", 20)],
    )
    assert named(p)["critical path with sharing"] == 11 == optimum(p)


def test_group_members_must_run_in_turn_before_the_reader():
    p = problem(
        [operator("a", 5, "g"), operator("b", 5, "g"), operator("c", 1, "g")],
        [value("a1", "a", "c"), value("b1", "b", "c")],
    )
    assert named(p)["critical path with sharing"] == 11 == optimum(p)


def test_memory_cuts_a_chain():
    # Weights of 4 each on devices of 8: any two fit, so four operators need one crossing of 3.
    names = "abcd"
    weights = [value(f"w{n}", None, n, 4) for n in names]
    edges = [value(f"{a}{b}", a, b, 0) for a, b in itertools.pairwise(names)]
    p = problem([operator(n, 2) for n in names], [*weights, *edges], cluster([8, 8], latency=3))
    bounds = named(p)
    assert bounds["critical path"] == 8
    assert bounds["critical path with sharing"] == 11 == optimum(p)


def test_memory_keeps_neighbours_apart():
    weights = [value("wa", None, "a", 5), value("wb", None, "b", 5)]
    p = problem(
        [operator("a", 2), operator("b", 2)],
        [*weights, value("ab", "a", "b", 0)],
        cluster([8, 8], latency=3),
    )
    assert named(p)["critical path"] == 7 == optimum(p)


def test_load_on_equal_devices():
    p = problem([operator(f"o{i}", 3) for i in range(4)])
    best = best_bound(p)
    assert (best.name, best.value) == ("load", 6)


def test_whole_operators_are_packed():
    # Five operators of 3 on two devices: 7.5 on average, but one device gets three of them.
    p = problem([operator(f"o{i}", 3) for i in range(5)])
    bounds = named(p)
    assert bounds["load"] == 8
    assert bounds["packing"] == 9 == optimum(p)


def test_a_gang_takes_all_its_devices():
    gang = Operator("g", (Option("both", {"x": 4}, gang=2),))
    p = problem([gang, operator("a", 3), operator("b", 3)], [], cluster(groups=(("d0", "d1"),)))
    assert named(p)["load"] == 7 == optimum(p)


def test_unlike_devices_share_work_by_their_speed():
    # Six operators of 2 on x, of 4 on y: fractions 4 and 2 of them give 8 each.
    p = problem(
        [operator(f"o{i}", {"x": 2, "y": 4}) for i in range(6)],
        [],
        cluster(classes=["x", "y"], memory=[None, None]),
    )
    bounds = named(p)
    assert bounds["load"] == 6
    assert bounds["unrelated load"] == 8 == optimum(p)


def test_memory_limits_what_a_fast_device_may_do():
    # Each operator brings 5 bytes of weights; the fast device holds two of four.
    p = problem(
        [operator(f"o{i}", {"x": 1, "y": 10}) for i in range(4)],
        [value(f"w{i}", None, f"o{i}", 5) for i in range(4)],
        cluster(classes=["x", "y"], memory=[10, 30]),
    )
    bounds = named(p)
    assert bounds["load"] == 2
    assert bounds["unrelated load"] == 20 == optimum(p)


def test_devices_that_start_late_are_idle_before():
    # One operator feeds four of 6: the second device idles for 4 + 1; (28 + 5) / 2 rounded up.
    p = problem(
        [operator("a", 4), *(operator(f"o{i}", 6) for i in range(4))],
        [value("v", "a", "o0 o1 o2 o3", 0)],
    )
    bounds = named(p)
    assert bounds["load"] == 14
    assert bounds["head + work + tail"] == 16 == optimum(p)


def test_layers_in_series_add_up():
    # Two layers of two branches of 6, one behind the other: load alone sees 27 / 2.
    ops = [operator(n, t) for n, t in [("a", 1), ("b", 6), ("c", 6), ("d", 1), ("e", 6), ("f", 6)]]
    p = problem(
        [*ops, operator("z", 1)],
        [
            value("v0", "a", "b c"),
            value("v1", "b", "d"),
            value("v2", "c", "d"),
            value("v3", "d", "e f"),
            value("v4", "e", "z"),
            value("v5", "f", "z"),
        ],
        cluster([None] * 2, latency=2),
    )
    # Per layer 12 on one device, (12 + 2 + 2) / 2 = 8 on two; with the ends 1 + 8 + 1 + 8 + 1.
    assert named(p)["critical path with sharing"] == 19 == optimum(p)


def test_bottleneck_counts_work_only():
    p = problem(
        [operator("a", 5), operator("b", 5), operator("c", 4, "g"), operator("d", 4, "g")],
        [value("v", "a", "b", 9)],
        objective=Objective.BOTTLENECK,
        memory_law=MemoryLaw.STATIC,
    )
    bounds = named(p)
    assert bounds == {"load": 9, "packing": 10}
    assert optimum(p) == 10


def test_no_time_leaves_the_cheap_bounds(caplog: pytest.LogCaptureFixture):
    p = problem([operator("a", 3), operator("b", 4)], [value("v", "a", "b", 1)])
    with caplog.at_level(logging.INFO):
        bounds = tuple(all_bounds(p, Budget(0.0)))
    assert [bound.name for bound in bounds] == ["critical path", "load"]
    assert "left out" in caplog.text


def test_large_graphs_get_the_bounds_that_scale(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalogue, "LARGEST_PAIRS", 1)
    p = problem([operator("a", 3), operator("b", 4)], [value("v", "a", "b", 1)])
    assert "critical path with sharing" not in named(p)
    assert best_bound(p).value == 7


def test_huge_times_and_sizes_stay_valid_and_close():
    factor = 10**24
    p = problem(
        [operator("a", 5 * factor), operator("b", 5 * factor), operator("c", factor)],
        [value("a1", "a", "c", 20 * factor), value("b1", "b", "c", 20 * factor)],
        cluster([10**30, 10**30]),
    )
    bounds = named(p)
    assert bounds["critical path"] == 6 * factor
    assert 10.999 * factor < bounds["critical path with sharing"] <= 11 * factor


def test_bounds_of_an_infeasible_problem_say_so():
    p = problem([operator("a", 1)], [value("w", None, "a", 9)], cluster([8, 8]))
    (bound,) = all_bounds(p)
    assert bound.name == "infeasible"
    assert best_bound(p).value == 0


def test_devices_are_distinguished_by_their_links():
    # d0 and d1 have a fast pair of channels, d2 hangs on slow ones; all work fits on the pair.
    machines = cluster([None] * 3, latency=50)
    fast = tuple(
        channel.__class__(channel.source, channel.target, 1, 10**9)
        if "d2" not in (channel.source, channel.target)
        else channel
        for channel in machines.channels
    )
    machines = Cluster(machines.device_classes, machines.devices, fast)
    graph = ComputationGraph(
        (operator("a", 5), operator("b", 5), operator("c", 5)),
        (value("v", "a", "c", 0), value("w", "b", "c", 0)),
    )
    p = PlanningProblem("links", graph, machines)
    assert best_bound(p).value == 11 == optimum(p)
