from milp_plan.check import verify

from .cases import broken, cluster, op, option, plan, problem, run

PAIR = (option(), option("pair", gang=2))
P = problem(
    [op(name, options=PAIR, group="g") for name in "abc"] + [op("free", options=PAIR)],
    (),
    cluster("d0 d1", groups="d0+d1 d1+d0"),
)


def test_one_site_for_the_group():
    together = plan(run("a", "d0", 0), run("b", "d0", 10), run("c", "d0", 20), run("free", "d1", 0))
    assert broken(P, together) == []
    pair = plan(
        *(run(n, "d0+d1", 10 * i, option="pair") for i, n in enumerate("abc")),
        run("free", "d1", 30),
    )
    assert broken(P, pair) == []


def test_a_split_group_is_one_violation():
    split = plan(run("a", "d0", 0), run("b", "d1", 10), run("c", "d0", 20), run("free", "d1", 0))
    (violation,) = verify(P, split).violations
    assert violation.rule == "colocation"
    assert violation.subjects == ("g", "a", "c", "b")
    assert violation.message == "group 'g' is split: d0: a, c; d1: b"
    assert (violation.needed, violation.available) == (1, 2)


def test_another_order_of_devices_is_another_site():
    split = plan(
        run("a", "d0+d1", 0, option="pair"),
        run("b", "d1+d0", 10, option="pair"),
        run("c", "d0+d1", 20, option="pair"),
        run("free", "d1", 30),
    )
    assert broken(P, split) == ["colocation"]


def test_a_part_of_the_site_is_another_site():
    split = plan(
        run("a", "d0+d1", 0, option="pair"),
        run("b", "d0", 10),
        run("c", "d0", 20),
        run("free", "d1", 30),
    )
    assert broken(P, split) == ["colocation"]


def test_members_without_a_place_are_left_out():
    partly = plan(
        run("a", "d0", 0), run("b", "nowhere", 10), run("c", "d0", 20), run("free", "d1", 0)
    )
    assert "colocation" not in broken(P, partly)
