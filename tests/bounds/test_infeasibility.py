import pytest

from milp_plan.core import MemoryLaw, Operator, Option, PlanningProblem
from milp_plan.core.bound import Infeasible
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import infeasibility
from tests.support.brute import brute_force

from .samples import cluster, operator, problem, value


def proof(p: PlanningProblem) -> Infeasible:
    found = infeasibility(p)
    assert found is not None
    assert brute_force(p) is None
    assert str(found) == found.reason
    return found


def test_operator_larger_than_every_device():
    found = proof(
        problem(
            [Operator("a", (Option("only", {"x": 1}, workspace_bytes=3),)), operator("b", 1)],
            [value("w", None, "a", 4), value("v", "a", "b", 2)],
            cluster([8, 6]),
        )
    )
    assert found.subjects == ("a",)
    assert (found.needed, found.available) == (9, 8)
    assert "'a' needs at least 9 B" in found.reason


def test_what_lasts_no_time_holds_nothing():
    p = problem(
        [Operator("a", (Option("only", {"x": 0}, workspace_bytes=30),)), operator("b", 1)],
        [],
        cluster([8, 8]),
    )
    assert infeasibility(p) is None
    assert brute_force(p) is not None
    # But persistent values lie there also when the whole plan lasts no time.
    still = problem([operator("a", 0)], [value("w", None, "a", 9)], cluster([8, 8]))
    assert infeasibility(still) is not None
    assert brute_force(still) is None


def test_static_memory_has_no_clock():
    found = proof(
        problem(
            [operator("a", 0), operator("b", 0)],
            [value("v", "a", "b", 9)],
            cluster([8, 8]),
            memory_law=MemoryLaw.STATIC,
        )
    )
    assert (found.needed, found.available) == (9, 8)


def test_group_holds_the_persistent_values_of_all_its_members():
    found = proof(
        problem(
            [operator("a", 1, "g"), operator("b", 1, "g")],
            [value("wa", None, "a", 5), value("wb", None, "b", 5)],
            cluster([8, 8]),
        )
    )
    assert (found.needed, found.available) == (10, 8)


def test_group_without_a_common_place():
    # a is too large for d0 and b cannot run on the class of d1.
    found = proof(
        problem(
            [
                Operator("a", (Option("only", {"x": 1, "y": 1}, workspace_bytes=5),), group="g"),
                operator("b", {"x": 1, "y": 1}, "g"),
                Operator("c", (Option("only", {"x": 1}),), group="h"),
                Operator("d", (Option("only", {"x": 1, "y": 1}, workspace_bytes=6),), group="h"),
            ],
            [],
            cluster([4, 8], classes=["x", "y"]),
        )
    )
    assert "group 'h'" in found.reason
    assert set(found.subjects) == {"c", "d"}


@pytest.mark.parametrize(
    ("sizes", "memory", "needed", "available"),
    [
        ([5, 5, 5, 5], [8, 8], 20, 16),  # more bytes than memory
        ([5, 5, 5], [8, 8], 24, 16),  # three halves on two devices
        ([3, 3, 3, 3, 3], [8, 8], 24, 16),  # thirds, two per device
    ],
)
def test_persistent_values_do_not_fit(sizes, memory, needed, available):
    found = proof(
        problem(
            [operator(f"o{i}", 1) for i in range(len(sizes))],
            [value(f"w{i}", None, f"o{i}", size) for i, size in enumerate(sizes)],
            cluster(memory),
        )
    )
    assert (found.needed, found.available) == (needed, available)
    assert len(found.subjects) == len(sizes)


def test_persistent_values_leave_no_room_to_run():
    # Two weights of 4 fit beside each other, but not with a workspace of 3: one per device.
    ops = [Operator(f"o{i}", (Option("only", {"x": 1}, workspace_bytes=3),)) for i in range(3)]
    found = proof(
        problem(ops, [value(f"w{i}", None, f"o{i}", 4) for i in range(3)], cluster([10, 10]))
    )
    assert "3 B are kept for inputs, outputs and workspace" in found.reason


def test_shared_persistent_value_is_counted_once():
    p = problem([operator("a", 1), operator("b", 1)], [value("w", None, "a b", 8)], cluster([8]))
    assert infeasibility(p) is None
    assert brute_force(p) is not None


def test_values_alive_at_one_instant():
    found = proof(
        problem(
            [operator("a", 1), operator("b", 1), operator("m", 1), operator("z", 1)],
            [
                value("va", "a", "m z", 3),
                value("vb", "b", "m z", 3),
                value("vm", "m", "z", 1),
            ],
            cluster([6], missing=[]),
        )
    )
    assert (found.needed, found.available) == (7, 6)


def test_nothing_is_claimed_about_devices_without_limit():
    p = problem([operator("a", 1)], [value("w", None, "a", 10**30)], cluster([8, None]))
    assert infeasibility(p) is None


def test_missing_channels_between_all_placements():
    found = proof(
        problem(
            [operator("a", {"x": 1}), operator("b", {"y": 1})],
            [value("v", "a", "b", 1)],
            cluster([None, None], classes=["x", "y"], missing=[("d0", "d1")]),
        )
    )
    assert "no route leads 'v' from any placement of 'a' to any placement of 'b'" in found.reason
    assert found.subjects == ("a", "b")


def test_change_of_layout_that_no_table_lists():
    reader = Operator("b", (Option("only", {"x": 1}, reads={"v": "rows"}),))
    v = value("v", "a", "b", 1)
    v = v.__class__(v.name, v.producer, v.consumers, {"full": 1, "rows": 1})
    assert "'v'" in proof(problem([operator("a", 1), reader], [v])).reason


def test_states_fall_one_after_another():
    # b cannot leave y, c cannot leave x; a fits either, but no channel leads from x to y.
    found = proof(
        problem(
            [
                operator("a", {"x": 1, "y": 1}),
                operator("b", {"y": 1}),
                operator("c", {"x": 1}),
                operator("d", {"x": 1, "y": 1}, "g"),
                operator("e", {"x": 1, "y": 1}, "g"),
            ],
            [
                value("v", "a", "b", 1),
                value("w", "a", "c", 1),
                value("u", "d", "e", 1),
                value("t", "b", "e", 1),
            ],
            cluster([None, None], classes=["x", "y"], missing=[("d0", "d1"), ("d1", "d0")]),
        )
    )
    assert found.subjects[0] == "a"


def test_ancestors_that_cannot_be_elsewhere_leave_no_memory():
    # Without channels a and b must be where c is, but their weights do not fit together.
    found = proof(
        problem(
            [operator(n, 1) for n in "abc"],
            [
                *(value(f"w{n}", None, n, 3) for n in "abc"),
                value("ac", "a", "c"),
                value("bc", "b", "c"),
            ],
            cluster([8, 8], missing=[("d0", "d1"), ("d1", "d0")]),
        )
    )
    assert found.subjects == ("c",)


def test_search_stops_at_its_limit():
    p = problem([operator("a", 1), operator("b", 1)], [value("v", "a", "b", 1)], cluster([8]))
    assert infeasibility(p, Budget(0.0)) is None
