import pytest

from milp_plan.check import verify
from milp_plan.core import MemoryLaw, Objective

from .cases import broken, cluster, op, option, plan, problem, run, send, value


def test_back_to_back_is_fine_and_one_tick_earlier_is_not():
    p = problem("a b")
    assert broken(p, plan(run("a", "d0", 0), run("b", "d0", 10))) == []
    (violation,) = verify(p, plan(run("a", "d0", 0), run("b", "d0", 9))).violations
    assert violation.rule == "exclusion"
    assert violation.subjects == ("device d0", "a", "b")
    assert (violation.needed, violation.available) == (10, 9)


def test_other_devices_run_at_the_same_time():
    assert broken(problem("a b"), plan(run("a", "d0", 0), run("b", "d1", 0))) == []


def test_a_short_task_does_not_hide_a_long_one():
    p = problem([op("long", 30), op("short", 5), op("late", 5)])
    # short [5, 10) lies in long [0, 30), and late [12, 17) does too, though short is over.
    inside = plan(run("long", "d0", 0, 30), run("short", "d0", 5, 10), run("late", "d0", 12, 17))
    found = verify(p, inside).violations
    assert [v.subjects for v in found] == [
        ("device d0", "long", "short"),
        ("device d0", "long", "late"),
    ]


@pytest.mark.parametrize(("time", "rules"), [(0, []), (10, []), (1, ["exclusion"])])
def test_a_task_of_no_length_stands_at_a_boundary_only(time, rules):
    p = problem([op("a"), op("z", 0)])
    assert broken(p, plan(run("a", "d0", 0), run("z", "d0", time, time))) == rules


def test_tasks_of_no_length_share_an_instant():
    p = problem([op("a"), op("y", 0), op("z", 0), op("b")])
    tasks = [run("a", "d0", 0), run("b", "d0", 10)]
    assert broken(p, plan(*tasks, run("y", "d0", 10, 10), run("z", "d0", 10, 10))) == []


def test_a_gang_holds_all_its_devices():
    pair = (option("o"), option("pair", gang=2))
    p = problem([op("a", options=pair), op("b")], (), cluster(groups="d0+d1"))
    assert broken(p, plan(run("a", "d0+d1", 0, option="pair"), run("b", "d1", 10))) == []
    assert broken(p, plan(run("a", "d0+d1", 0, option="pair"), run("b", "d1", 5))) == ["exclusion"]


# Values v and w of 8 bytes travel for 10 ticks each.
def _two_values(model, names="d0 d1 d2"):
    return problem(
        "a b c e",
        [value("v", "a", "c"), value("w", "b", "e")],
        cluster(names, model=model),
    )


@pytest.mark.parametrize(
    ("model", "rules"), [("channel", ["exclusion"]), ("endpoint", ["exclusion"] * 2), ("delay", [])]
)
def test_two_transfers_over_the_same_channel(model, rules):
    """Endpoint: both the send port of d0 and the receive port of d1 are overrun."""
    tasks = [run("a", "d0", 0), run("b", "d0", 10), run("c", "d1", 40), run("e", "d1", 50)]
    one_by_one = [send("v", "d0", "d1", 20), send("w", "d0", "d1", 30)]
    assert broken(_two_values(model), plan(*tasks, *one_by_one)) == []
    at_once = [send("v", "d0", "d1", 20), send("w", "d0", "d1", 25)]
    assert broken(_two_values(model), plan(*tasks, *at_once)) == rules


@pytest.mark.parametrize(
    ("model", "rules"), [("channel", []), ("endpoint", ["exclusion"]), ("delay", [])]
)
@pytest.mark.parametrize("ends", [("d0", "d0", "d1", "d2"), ("d0", "d1", "d2", "d2")])
def test_two_transfers_from_or_to_the_same_device(model, rules, ends):
    a, b, c, e = ends
    tasks = [run("a", a, 0), run("b", b, 10), run("c", c, 40), run("e", e, 50)]
    at_once = [send("v", a, c, 20), send("w", b, e, 20)]
    assert broken(_two_values(model), plan(*tasks, *at_once)) == rules


@pytest.mark.parametrize("model", ["channel", "endpoint", "delay"])
def test_both_directions_at_once(model):
    """A device sends and receives at the same time: ports are one for each direction."""
    tasks = [run("a", "d0", 0), run("b", "d1", 0), run("c", "d1", 40), run("e", "d0", 50)]
    at_once = [send("v", "d0", "d1", 20), send("w", "d1", "d0", 20)]
    assert broken(_two_values(model), plan(*tasks, *at_once)) == []


# A reshard of x from d0+d1 to d2 (6 ticks of change, 8 + 2 of moving) against a send of w.
def _reshard(model, gaps=()):
    pair = option("pair", gang=2, writes={"x": "half"})
    return problem(
        [op("a", options=(pair,)), op("b"), op("c"), op("e")],
        [
            value("x", "a", "c", {"full": 8, "half": 4}, reshard_ticks={("half", "full"): 6}),
            value("w", "b", "e"),
        ],
        cluster("d0 d1 d2 d3", groups="d0+d1", model=model, gaps=gaps),
    )


def _reshard_plan(b, e):
    """Return the plan with x on its way in [20, 36) and w from b to e in [20, 30)."""
    return plan(
        run("a", "d0+d1", 0, option="pair"),
        send("x", "d0+d1", "d2", 20, 36),
        run("c", "d2", 36),
        run("b", b, 10),
        send("w", b, e, 20),
        run("e", e, 50),
    )


@pytest.mark.parametrize(
    ("model", "b", "e", "count"),
    [
        ("channel", "d1", "d2", 1),  # d1->d2 is held
        ("channel", "d1", "d3", 0),
        ("channel", "d2", "d1", 0),  # the other direction
        ("endpoint", "d1", "d3", 1),  # send d1
        ("endpoint", "d1", "d2", 2),  # send d1, receive d2
        ("endpoint", "d3", "d2", 1),  # receive d2
        ("endpoint", "d3", "d1", 0),  # receive d1 is not held: x only leaves there
        ("delay", "d1", "d2", 0),
    ],
)
def test_a_reshard_holds_every_pair(model, b, e, count):
    assert broken(_reshard(model), _reshard_plan(b, e)) == ["exclusion"] * count


def test_pairs_without_a_channel_are_occupied_as_well():
    """x may go d0->d2 alone, and a plan cannot use a channel d1->d2 that is not there."""
    p = _reshard("channel", gaps=[("d1", "d2")])
    assert broken(p, _reshard_plan("d1", "d3")) == []
    held = verify(p, _reshard_plan("d1", "d3")).components
    assert held["busy d1->d2"] == held["busy d0->d2"] == 16


def test_a_reshard_within_its_site_holds_ports_for_both_directions():
    """From d0+d1 to d0+d1 every device sends to the other."""
    cut, pair = option("cut", gang=2, writes={"x": "half"}), option("pair", gang=2)
    p = problem(
        [op("a", options=(cut,)), op("c", options=(pair,))],
        [value("x", "a", "c", {"full": 8, "half": 4}, reshard_ticks={("half", "full"): 6})],
        cluster(groups="d0+d1", model="endpoint"),
    )
    whole = plan(
        run("a", "d0+d1", 0, option="cut"),
        send("x", "d0+d1", "d0+d1", 10, 16),
        run("c", "d0+d1", 16, option="pair"),
    )
    assert broken(p, whole) == []
    busy = verify(p, whole).components
    for port in ("send d0", "send d1", "receive d0", "receive d1"):
        assert busy[f"busy {port}"] == 6


def test_a_plan_without_schedule_has_nothing_to_exclude():
    p = problem("a b", objective=Objective.BOTTLENECK, memory_law=MemoryLaw.STATIC)
    assert broken(p, plan(run("a", "d0"), run("b", "d0"))) == []
