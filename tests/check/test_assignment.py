from milp_plan.check import verify
from milp_plan.core import (
    Channel,
    Cluster,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    OperatorRun,
)

from .cases import broken, cluster, messages, op, option, plan, problem, run, value

P = problem("a b", [value("v", "a", "b")])


def test_each_operator_once():
    assert broken(P, plan(run("a", "d0", 0), run("b", "d0", 10))) == []


def test_a_missing_operator():
    violations = verify(P, plan(run("a", "d0", 0))).violations
    assert [(v.rule, v.subjects, v.needed, v.available) for v in violations] == [
        ("assignment", ("b",), 1, 0)
    ]
    assert verify(P, plan(run("a", "d0", 0))).value is None


def test_an_operator_that_runs_twice():
    twice = plan(run("a", "d0", 0), run("b", "d0", 10), run("b", "d0", 20))
    violations = verify(P, twice).violations
    assert [(v.rule, v.subjects, v.available) for v in violations] == [("assignment", ("b",), 2)]


def test_a_second_run_holds_its_device_too():
    twice = plan(run("a", "d0", 0), run("b", "d0", 10), run("b", "d0", 15))
    assert broken(P, twice) == ["assignment", "exclusion"]


def test_the_duration_is_exact():
    assert messages(P, plan(run("a", "d0", 0, 11), run("b", "d0", 11))) == (
        "assignment: operator 'a' has the wrong duration on d0 (needed 10, available 11)"
    )
    assert broken(P, plan(run("a", "d0", 0, 9), run("b", "d0", 9))) == ["assignment"]


def test_the_slowest_class_of_a_site_counts():
    mixed = Cluster(
        (DeviceClass("c", None), DeviceClass("k", None), DeviceClass("none", None)),
        (Device("d0", "c", None), Device("d1", "k", None), Device("d2", "none", None)),
        (Channel("d0", "d1", 2, 10**9),),
        (("d0", "d1"), ("d0", "d2")),
    )
    pair = option("pair", {"c": 4, "k": 7}, gang=2)
    p = problem([op("a", options=(option(), pair))], (), mixed)
    assert broken(p, plan(run("a", "d0+d1", 0, 7, "pair"))) == []
    assert broken(p, plan(run("a", "d0+d1", 0, 4, "pair"))) == ["assignment"]
    # d2 is of a class the option has no duration for: no duration is expected then.
    wrong = messages(p, plan(run("a", "d0+d2", 0, 4, "pair")))
    assert wrong == (
        "assignment: operator 'a' with option 'pair' cannot run on 'd2' of class 'none'"
    )


def test_a_site_is_a_device_or_a_group_in_its_order():
    pair = option("pair", gang=2)
    p = problem([op("a", options=(option(), pair))], (), cluster("d0 d1 d2", groups="d0+d1"))
    assert broken(p, plan(run("a", "d0+d1", 0, option="pair"))) == []
    assert "no process group" in messages(p, plan(run("a", "d1+d0", 0, option="pair")))
    assert "no process group" in messages(p, plan(run("a", "d0+d2", 0, option="pair")))
    assert "(needed 2, available 1)" in messages(p, plan(run("a", "d0", 0, option="pair")))
    assert "(needed 1, available 2)" in messages(p, plan(run("a", "d0+d1", 0)))


def test_devices_are_named_and_different():
    p = problem("a")
    assert "has no device" in messages(p, plan(OperatorRun("a", "o", (), 0, 10)))
    assert "names a device twice" in messages(p, plan(run("a", "d0+d0", 0)))


def test_times_are_exact_integers_from_zero_on():
    p = problem("a")
    assert broken(p, plan(run("a", "d0", 0))) == []
    assert broken(p, plan(run("a", "d0"))) == ["assignment"]
    assert "no exact times" in messages(p, plan(run("a", "d0", 0.0, 10.0)))
    assert "before time 0" in messages(p, plan(run("a", "d0", -1)))
    assert "stops before it starts" in messages(p, plan(run("a", "d0", 10, 5)))


def test_times_beyond_64_bits_stay_exact():
    p = problem([op("a", 10**30)])
    assert verify(p, plan(run("a", "d0", 1, 10**30 + 1))).value == 10**30 + 1
    assert broken(p, plan(run("a", "d0", 1, 10**30))) == ["assignment"]


def test_an_operator_of_no_length():
    p = problem([op("a", 0)])
    assert broken(p, plan(run("a", "d0", 0, 0))) == []
    assert verify(p, plan(run("a", "d0", 0, 0))).value == 0


def test_a_schedule_is_whole_or_absent():
    p = problem("a b", objective=Objective.BOTTLENECK, memory_law=MemoryLaw.STATIC)
    assert broken(p, plan(run("a", "d0"), run("b", "d1"))) == []
    assert broken(p, plan(run("a", "d0", 0), run("b", "d1", 0))) == []
    assert broken(p, plan(run("a", "d0", 0), run("b", "d1"))) == ["assignment"]
    # Times that are there are held against the laws.
    assert broken(p, plan(run("a", "d0", 0), run("b", "d0", 5))) == ["exclusion"]
