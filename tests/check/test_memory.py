from dataclasses import replace

import pytest

from milp_plan.check import replay, verify
from milp_plan.core import MemoryLaw, Objective

from .cases import broken, cluster, messages, op, option, plan, problem, run, send, value


def _steps(p, a_plan, device="d0"):
    return replay(p, a_plan).devices[device].steps


def _fits_exactly(p, a_plan, peaks):
    """Devices with exactly these peaks are enough, one byte less on any of them is not."""
    exact = replace(p, cluster=p.cluster.with_memory(peaks))
    assert broken(exact, a_plan) == []
    for device, peak in peaks.items():
        if peak:
            less = replace(p, cluster=p.cluster.with_memory({**peaks, device: peak - 1}))
            (violation,) = verify(less, a_plan).violations
            assert violation.rule == "memory"
            assert violation.subjects[0] == device
            assert (violation.needed, violation.available) == (peak, peak - 1)


def test_a_native_copy_lives_from_its_producers_start_to_its_last_readers_stop():
    p = problem("a b c", [value("v", "a", "b", 8), value("w", "b", "c", 5)])
    good = plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d0", 25))
    # v: [0, 20), w: [10, 35)
    assert _steps(p, good) == ((0, 8), (10, 13), (20, 5), (35, 0))
    _fits_exactly(p, good, {"d0": 13, "d1": 0})


def test_an_unused_value_lives_while_it_is_made():
    p = problem("a b", [value("v", "a", "", 8, kept=False)])
    good = plan(run("a", "d0", 5), run("b", "d0", 15))
    assert _steps(p, good) == ((0, 0), (5, 8), (15, 0))


def test_what_nothing_reads_is_a_result_and_stays():
    p = problem("a b", [value("v", "a", "", 8), value("w", "b", "", 5)])
    good = plan(run("a", "d0", 5), run("b", "d0", 15))
    assert _steps(p, good) == ((0, 0), (5, 8), (15, 13))
    _fits_exactly(p, good, {"d0": 13, "d1": 0})
    apart = plan(run("a", "d0", 5), run("b", "d1", 15))
    _fits_exactly(p, apart, {"d0": 8, "d1": 5})


def test_a_result_may_be_read():
    """The native copy stays, on all of its site; what was sent is released as ever."""
    p = problem("a b", [value("v", "a", "b", 8, kept=True)])
    good = plan(run("a", "d0", 0), send("v", "d0", "d1", 15), run("b", "d1", 30))
    assert _steps(p, good, "d0") == ((0, 8),)
    assert _steps(p, good, "d1") == ((0, 0), (15, 8), (40, 0))
    wide = problem(
        [op("a", options=(option(gang=2),)), op("b")],
        [value("v", "a", "b", 8, kept=True)],
        cluster(groups="d0+d1"),
    )
    good = plan(run("a", "d0+d1", 0), run("b", "d1", 10))
    assert _steps(wide, good, "d0") == _steps(wide, good, "d1") == ((0, 8),)


def test_a_result_that_is_made_at_the_last_instant_counts():
    p = problem([op("a"), op("b", 0)], [value("v", "a", "b", 8), value("w", "b", "", 5)])
    good = plan(run("a", "d0", 0), run("b", "d0", 10, 10))
    assert _steps(p, good) == ((0, 8), (10, 5))
    nothing = problem([op("b", 0)], [value("w", "b", "", 5)])
    at_once = plan(run("b", "d0", 0, 0))
    assert _steps(nothing, at_once) == ((0, 5),)
    _fits_exactly(nothing, at_once, {"d0": 5, "d1": 0})
    free = problem([op("b", 0)], [value("w", "b", "", 5, kept=False)])
    assert _steps(free, at_once) == ((0, 0),)


def test_intervals_are_half_open():
    """One is released at the instant the next is allocated: they do not meet."""
    values = [value("v", "a", "", 8, kept=False), value("w", "b", "", 8, kept=False)]
    p = problem("a b", values)
    good = plan(run("a", "d0", 0), run("b", "d0", 10))
    assert _steps(p, good) == ((0, 8), (20, 0))
    _fits_exactly(p, good, {"d0": 8, "d1": 0})


def test_a_transfer_holds_both_ends():
    p = problem("a b", [value("v", "a", "b", 8)])
    good = plan(run("a", "d0", 0), send("v", "d0", "d1", 15), run("b", "d1", 30))
    assert _steps(p, good, "d0") == ((0, 8), (25, 0))  # until the transfer stops
    assert _steps(p, good, "d1") == ((0, 0), (15, 8), (40, 0))  # from its start to b's stop
    _fits_exactly(p, good, {"d0": 8, "d1": 8})


def test_a_transferred_copy_serves_all_readers_on_its_device():
    p = problem("a b c", [value("v", "a", "b c", 8)])
    good = plan(
        run("a", "d0", 0), send("v", "d0", "d1", 10), run("b", "d1", 20), run("c", "d1", 50)
    )
    assert _steps(p, good, "d1") == ((0, 0), (10, 8), (60, 0))


def test_each_end_has_its_own_size():
    """3 bytes travel, 8 lie on each device. 2 + 3 ticks."""
    p = problem("a b", [value("v", "a", "b", 8, transfer_bytes={"full": 3})])
    good = plan(run("a", "d0", 0), send("v", "d0", "d1", 10, 15), run("b", "d1", 15))
    _fits_exactly(p, good, {"d0": 8, "d1": 8})


def test_workspace_lives_while_its_operator_runs():
    p = problem([op("a", options=(option(workspace_bytes=7),)), op("b")], [value("v", "a", "b", 8)])
    good = plan(run("a", "d0", 2), run("b", "d0", 12))
    assert _steps(p, good) == ((0, 0), (2, 15), (12, 8), (22, 0))
    _fits_exactly(p, good, {"d0": 15, "d1": 0})


def test_what_lasts_no_time_holds_nothing():
    p = problem(
        [op("a", options=(option(ns=0, workspace_bytes=7),)), op("b", 0)], [value("v", "a", "b", 8)]
    )
    at_once = plan(run("a", "d0", 5, 5), run("b", "d0", 5, 5))
    assert _steps(p, at_once) == ((0, 0),)
    _fits_exactly(p, at_once, {"d0": 0, "d1": 0})
    # The workspace lasts no time, the copy waits for its reader.
    later = plan(run("a", "d0", 5, 5), run("b", "d0", 6, 6))
    assert _steps(p, later) == ((0, 0), (5, 8), (6, 0))


def test_persistent_values_lie_once_per_device_and_layout():
    whole, cut = option("o"), option("cut", gang=2, reads={"w": "half"})
    p = problem(
        [op(name, options=(whole, cut)) for name in "abc"],
        [value("w", None, "a b c", {"full": 8, "half": 5})],
        cluster(groups="d0+d1"),
    )
    same = plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d0", 20))
    assert _steps(p, same, "d0") == ((0, 8),)  # once for three readers
    assert _steps(p, same, "d1") == ((0, 0),)  # not where nobody reads it
    two = plan(run("a", "d0", 0), run("b", "d1", 0), run("c", "d0+d1", 10, option="cut"))
    assert _steps(p, two, "d0") == ((0, 13),)
    assert _steps(p, two, "d1") == ((0, 13),)
    assert replay(p, two).devices["d0"].persistent_bytes == 13
    _fits_exactly(p, two, {"d0": 13, "d1": 13})


def test_persistent_values_count_in_a_plan_that_lasts_no_time():
    p = problem([op("a", 0)], [value("w", None, "a", 8)], cluster(memory=7))
    assert broken(p, plan(run("a", "d0", 0, 0))) == ["memory"]


# Gangs: x is 8 bytes in full, 4 in half.
def _gang(writes="full", reads="full", reader=2):
    a = option("o", gang=2, writes={"x": writes})
    b = option("o", gang=reader, reads={"x": reads})
    return problem(
        [op("a", options=(a,)), op("b", options=(b,))],
        [
            value(
                "x",
                "a",
                "b",
                {"full": 8, "half": 4},
                reshard_ticks={("full", "half"): 6, ("half", "full"): 7},
            )
        ],
        cluster("d0 d1 d2", groups="d0+d1 d1+d2"),
    )


def test_a_reader_on_a_part_of_the_site_keeps_only_that_part():
    p = _gang(reader=1)
    good = plan(run("a", "d0+d1", 0), run("b", "d1", 10))
    assert _steps(p, good, "d0") == ((0, 8), (10, 0))
    assert _steps(p, good, "d1") == ((0, 8), (20, 0))


def test_a_reader_partly_on_the_site_reads_natively_there_and_the_copy_elsewhere():
    p = _gang()
    good = plan(run("a", "d0+d1", 0), send("x", "d0", "d2", 15), run("b", "d1+d2", 30))
    assert _steps(p, good, "d0") == ((0, 8), (25, 0))  # source of the send
    assert _steps(p, good, "d1") == ((0, 8), (40, 0))  # read natively by b
    assert _steps(p, good, "d2") == ((0, 0), (15, 8), (40, 0))


def test_a_reshard_holds_the_native_copy_on_every_source_device():
    p = _gang("half", "full", reader=1)
    good = plan(run("a", "d0+d1", 0), send("x", "d0+d1", "d1", 12, 19), run("b", "d1", 20))
    assert _steps(p, good, "d0") == ((0, 4), (19, 0))
    # d1: 4 in half until the reshard stops, and 8 in full from its start.
    assert _steps(p, good, "d1") == ((0, 4), (12, 12), (19, 8), (30, 0))
    _fits_exactly(p, good, {"d0": 4, "d1": 12, "d2": 0})


def test_a_copy_for_another_site_is_not_kept_for_this_reader():
    """b on d1+d2 and c on d2 read full copies of a half value: two reshards, two copies on d2."""
    a = option("o", gang=2, writes={"x": "half"})
    p = problem(
        [op("a", options=(a,)), op("b", options=(option(gang=2),)), op("c")],
        [value("x", "a", "b c", {"full": 8, "half": 4}, reshard_ticks={("half", "full"): 7})],
        cluster("d0 d1 d2", groups="d0+d1 d1+d2"),
    )
    good = plan(
        run("a", "d0+d1", 0),
        send("x", "d0+d1", "d1+d2", 10, 27),  # 7 + 2 + 8
        send("x", "d0+d1", "d2", 27, 44),
        run("b", "d1+d2", 27),
        run("c", "d2", 50),
    )
    assert broken(p, good) == []
    assert _steps(p, good, "d2") == ((0, 0), (10, 8), (27, 16), (37, 8), (60, 0))


def test_no_limit():
    p = problem("a b", [value("v", "a", "b", 10**30)], cluster(memory=None))
    good = plan(run("a", "d0", 0), run("b", "d0", 10))
    assert broken(p, good) == []
    assert replay(p, good).devices["d0"].limit_bytes is None
    assert verify(p, good).components["peak_memory d0"] == 10**30


def test_every_device_that_is_too_full_is_reported_with_its_holders():
    p = problem(
        [op("a"), op("b"), op("c")],
        [value("big", "a", "b", 8), value("small", "a", "b", 1), value("w", None, "c", 9)],
        cluster(memory=7),
    )
    found = verify(p, plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d1", 0))).violations
    assert [(v.rule, v.subjects, v.needed, v.available) for v in found] == [
        ("memory", ("d0", "big", "small"), 9, 7),
        ("memory", ("d1", "w"), 9, 7),
    ]
    assert found[0].message == (
        "device 'd0' holds 9 B at 0 ns: big (native) 8 B, small (native) 1 B"
    )


def test_long_lists_of_holders_are_cut():
    values = [value(f"v{i}", "a", "b", 1) for i in range(6)]
    p = problem("a b", values, cluster(memory=5))
    assert "and 2 more" in messages(p, plan(run("a", "d0", 0), run("b", "d0", 10)))


STATIC = {"memory_law": MemoryLaw.STATIC}


def test_the_static_law_adds_up_everything_ever_in_memory():
    """d0: w 3 + v 8 + u 5 + the larger workspace 7; d1: the copy of u 5. No clock."""
    p = problem(
        [
            op("a", options=(option(workspace_bytes=7),)),
            op("b", options=(option(workspace_bytes=6),)),
            op("c"),
        ],
        [value("v", "a", "b", 8), value("u", "b", "c", 5), value("w", None, "a b", 3)],
        **STATIC,
    )
    # 5 bytes travel 7 ticks.
    good = plan(
        run("a", "d0", 0), run("b", "d0", 10), send("u", "d0", "d1", 20, 27), run("c", "d1", 27)
    )
    assert _steps(p, good, "d0") == ((0, 23),)
    assert _steps(p, good, "d1") == ((0, 5),)
    _fits_exactly(p, good, {"d0": 23, "d1": 5})
    assert replay(p, good).devices["d0"].persistent_bytes == 3
    kinds = {h.kind for h in replay(p, good).holders("d0", 99)}
    assert kinds == {"persistent", "native", "workspace"}


def test_the_static_law_charges_what_lasts_no_time_too():
    p = problem([op("a", 0), op("b", 0)], [value("v", "a", "b", 8)], cluster(memory=7), **STATIC)
    assert "holds 8 B in all" in messages(p, plan(run("a", "d0", 0, 0), run("b", "d0", 0, 0)))


def test_the_static_law_needs_no_schedule():
    p = problem(
        "a b",
        [value("v", "a", "b", 8)],
        cluster(memory=7),
        objective=Objective.BOTTLENECK,
        **STATIC,
    )
    found = verify(p, plan(run("a", "d0"), send("v", "d0", "d1"), run("b", "d1"))).violations
    assert [v.subjects for v in found] == [("d0", "v"), ("d1", "v")]


def test_holders_at_an_instant_largest_first():
    p = problem([op("a", options=(option(workspace_bytes=9),)), op("b")], [value("v", "a", "b", 8)])
    tape = replay(p, plan(run("a", "d0", 0), run("b", "d0", 10)))
    assert [(h.name, h.kind) for h in tape.holders("d0", 0)] == [
        ("a", "workspace"),
        ("v", "native"),
    ]
    assert [h.name for h in tape.holders("d0", 10)] == ["v"]
    assert tape.holders("d0", 20) == ()
    assert (tape.makespan_ticks, tape.peak_bytes) == (20, 17)


@pytest.mark.parametrize("broken_start", [None, 0.5])
def test_what_has_no_times_is_left_out(broken_start):
    p = problem("a b", [value("v", "a", "b", 8)])
    partly = plan(run("a", "d0", 0), run("b", "d0", broken_start, 20))
    assert _steps(p, partly) == ((0, 8), (10, 0))
    partly = plan(run("a", "d0", broken_start, 10), run("b", "d0", 10))
    assert _steps(p, partly) == ((0, 0),)
