from milp_plan.core import MemoryLaw, Objective, PlanningProblem
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, best_bound
from tests.support.brute import brute_force

from .samples import cluster, operator, problem, value


def peak(operators, values, memory=(None, None), law=MemoryLaw.INSTANT) -> PlanningProblem:
    return problem(operators, values, cluster(memory), Objective.PEAK_MEMORY, law)


def check(p: PlanningProblem, name: str, number: int) -> None:
    best = best_bound(p)
    assert (best.name, best.value) == (name, number)
    found = brute_force(p)
    assert found is not None
    assert found[0] == number


def test_one_operator_needs_its_inputs_outputs_and_weights_at_once():
    p = peak(
        [operator("a", 1), operator("b", 1), operator("c", 1)],
        [value("w", None, "b", 4), value("v", "a", "b", 3), value("u", "b", "c", 2)],
    )
    check(p, "largest operator", 9)


def test_persistent_bytes_are_shared_out_whole():
    p = peak(
        [operator(f"o{i}", 1) for i in range(3)],
        [value(f"w{i}", None, f"o{i}", 5) for i in range(3)],
    )
    check(p, "persistent bytes", 10)


def test_bytes_alive_are_spread_at_best():
    # While m runs, the four values for z are alive: 12 bytes on one device.
    readers = [value(f"v{i}", f"o{i}", "m z" if i == 0 else "z", 3) for i in range(4)]
    p = peak(
        [*(operator(f"o{i}", 1) for i in range(4)), operator("m", 1), operator("z", 1)],
        [*readers, value("u", "m", "z", 9)],
        [None],
    )
    check(p, "largest operator", 21)
    orders = [value(f"x{i}", f"o{i}", "m", 0) for i in range(1, 4)]
    split = peak(
        [*(operator(f"o{i}", 1) for i in range(4)), operator("m", 1), operator("z", 0)],
        [*readers, *orders, value("u", "m", "z", 1)],
        [None],
    )
    check(split, "bytes alive", 13)


def test_nothing_runs_for_a_time():
    p = peak([operator("a", 0), operator("b", 0)], [value("v", "a", "b", 3)])
    assert {b.name: b.value for b in all_bounds(p)} == {
        "largest operator": 0,
        "persistent bytes": 0,
    }
    found = brute_force(p)
    assert found is not None
    assert found[0] == 0


def test_static_law_adds_everything_up():
    p = peak(
        [operator("a", 1), operator("b", 1), operator("c", 1)],
        [value("v", "a", "b", 3), value("u", "b", "c", 2)],
        [None],
        MemoryLaw.STATIC,
    )
    assert best_bound(p).value == 5
    found = brute_force(p)
    assert found is not None
    assert found[0] == 5
