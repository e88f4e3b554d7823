from dataclasses import replace

import pytest

from milp_plan.check import Checker, verify
from milp_plan.core import MemoryLaw, Objective

from .cases import broken, cluster, op, option, plan, problem, run, send, value


def _pipeline(objective, model="channel", memory_law=MemoryLaw.INSTANT):
    """Build a -> b -> c with v of 8 bytes (10 ticks on a channel) and u of 20 (22 ticks)."""
    return problem(
        [op("a"), op("b", 15), op("c", 4)],
        [value("v", "a", "b", 8), value("u", "b", "c", 20)],
        cluster(model=model),
        objective=objective,
        memory_law=memory_law,
    )


# a [0, 10) d0, v [10, 20), b [20, 35) d1, u [35, 57), c [57, 61) d0.
TIMED = plan(
    run("a", "d0", 0),
    send("v", "d0", "d1", 10),
    run("b", "d1", 20, 35),
    send("u", "d1", "d0", 35, 57),
    run("c", "d0", 57, 61),
)
UNTIMED = replace(
    TIMED,
    runs=tuple(replace(r, start_ticks=None, stop_ticks=None) for r in TIMED.runs),
    transfers=tuple(replace(t, start_ticks=None, stop_ticks=None) for t in TIMED.transfers),
)


@pytest.mark.parametrize(
    ("objective", "achieved"),
    [
        (Objective.MAKESPAN, 61),
        (Objective.SPAN, 61),  # d0 waits from 10 to 57
        (Objective.BOTTLENECK, 22),  # u on its channel
        (Objective.PEAK_MEMORY, 28),  # d1: v 8 until 35, u 20 from 20 on
    ],
)
def test_each_objective_and_every_component(objective, achieved):
    verdict = verify(_pipeline(objective), TIMED)
    assert verdict.ok
    assert (verdict.objective, verdict.value) == (objective.value, achieved)
    assert verdict.components == {
        "makespan": 61,
        "span": 61,
        "span d0": 61,
        "span d1": 15,
        "peak_memory": 28,
        "bottleneck": 22,
        "peak_memory d0": 20,
        "peak_memory d1": 28,
        "busy d0": 14,
        "busy d1": 15,
        "busy d0->d1": 10,
        "busy d1->d0": 22,
    }


def test_the_bottleneck_counts_ports():
    busy = verify(_pipeline(Objective.BOTTLENECK, "endpoint"), TIMED).components
    ports = {name: ticks for name, ticks in busy.items() if name.split()[1:2] and " d" in name}
    assert ports["busy send d0"] == ports["busy receive d1"] == 10
    assert ports["busy send d1"] == ports["busy receive d0"] == 22


def test_the_bottleneck_counts_no_transfer_that_holds_nothing():
    verdict = verify(_pipeline(Objective.BOTTLENECK, "delay"), TIMED)
    assert verdict.value == 15
    assert "busy d0->d1" not in verdict.components


def test_without_a_schedule_lengths_come_from_the_law():
    p = _pipeline(Objective.BOTTLENECK, memory_law=MemoryLaw.STATIC)
    assert verify(p, UNTIMED).ok
    assert verify(p, UNTIMED).value == 22
    assert "makespan" not in verify(p, UNTIMED).components
    # Static: d0 holds v and the copy of u, d1 the copy of v and u.
    assert verify(p, UNTIMED).components["peak_memory"] == 28
    assert verify(p, TIMED).value == 22


def test_a_schedule_is_needed_for_everything_else():
    for p in (_pipeline(Objective.MAKESPAN), _pipeline(Objective.BOTTLENECK)):
        assert broken(p, UNTIMED) == ["assignment"] * 3 + ["supply"] * 2
    assert verify(_pipeline(Objective.MAKESPAN), UNTIMED).value is None
    assert verify(_pipeline(Objective.PEAK_MEMORY), UNTIMED).value is None


def test_no_value_where_a_length_is_unknown():
    p = _pipeline(Objective.BOTTLENECK, memory_law=MemoryLaw.STATIC)
    no_way = replace(p, cluster=cluster(gaps=[("d0", "d1")]))
    assert verify(no_way, UNTIMED).value is None
    # The producer of v has no place, so nothing is known about its transfer.
    lost = replace(UNTIMED, runs=UNTIMED.runs[1:])
    assert verify(p, lost).value is None
    assert verify(p, lost).components["busy d1"] == 15


def test_no_value_where_a_class_has_no_duration():
    p = problem(
        [op("a", options=(option(), option("other", {"c": 3}, gang=2)))],
        (),
        cluster(groups="d0+d1"),
        objective=Objective.BOTTLENECK,
        memory_law=MemoryLaw.STATIC,
    )
    assert verify(p, plan(run("a", "d0+d1", option="other"))).value == 3
    extra = replace(
        p.cluster,
        device_classes=(*p.cluster.device_classes, replace(p.cluster.device_classes[0], name="k")),
        devices=(p.cluster.devices[0], replace(p.cluster.devices[1], device_class="k")),
    )
    verdict = verify(replace(p, cluster=extra), plan(run("a", "d0+d1", option="other")))
    assert verdict.value is None
    assert [v.rule for v in verdict.violations] == ["assignment"]


def test_a_gang_is_busy_on_every_device():
    p = problem([op("a", options=(option(gang=2),))], (), cluster("d0 d1 d2", groups="d0+d1"))
    busy = verify(p, plan(run("a", "d0+d1", 0))).components
    assert (busy["busy d0"], busy["busy d1"], busy["busy d2"]) == (10, 10, 0)


def test_peak_memory_counts_devices_without_limit():
    p = problem("a", [value("w", None, "a", 50)], objective=Objective.PEAK_MEMORY)
    assert verify(p, plan(run("a", "d0", 0))).value == 50


def test_transfers_at_the_end_do_not_move_the_makespan():
    """Such a transfer is needless, but the objective is about operators."""
    p = problem("a b", [value("v", "a", "b")])
    late = plan(run("a", "d0", 0), run("b", "d0", 10), send("v", "d0", "d1", 90))
    assert verify(p, late).value == 20


def test_one_checker_serves_many_plans():
    checker = Checker(_pipeline(Objective.MAKESPAN))
    assert checker.verify(TIMED) == verify(checker.problem, TIMED)
    assert not checker.verify(UNTIMED).ok
    assert checker.verify(TIMED).ok
    assert checker.replay(TIMED).devices["d1"].peak_bytes == 28
