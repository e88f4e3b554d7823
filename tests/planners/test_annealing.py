"""Local search over places and priorities: repeatable, valid, never worse."""

from functools import cache

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.planners import Annealing, annealing
from tests.check.cases import cluster, op, option, plan, problem, run, send, value
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan

pytestmark = pytest.mark.untraced

MOVES = 60


@cache
def cases():
    """Problems with tight memory, gangs and groups among them, each with a valid plan."""
    return tuple(random_problem_with_plan(seed, objective=Objective.MAKESPAN) for seed in range(60))


def test_the_cases_have_memory_gangs_and_groups():
    found = [a_problem for a_problem, _ in cases()]
    assert any(d.memory_bytes is not None for p in found for d in p.cluster.devices)
    assert any(o.gang > 1 for p in found for op in p.graph.operators for o in op.options)
    assert any(p.graph.groups for p in found)


def test_plans_are_valid_and_never_worse():
    better = 0
    for seed, (a_problem, start) in enumerate(cases()):
        heard = []
        search = Annealing(a_problem, start, seed)
        best = search.run(60.0, MOVES, heard.append)
        verdict = verify(a_problem, best)
        assert verdict.violations == ()
        assert verdict.value == search.best_value == best.stop_ns <= start.stop_ns
        values = [start.stop_ns, *(entry.stop_ns for entry in heard)]
        assert values == sorted(set(values), reverse=True), "only what is better is said"
        assert all(verify(a_problem, entry).ok for entry in heard)
        better += best.stop_ns < start.stop_ns
    assert better >= 20


def test_tiny_problems_come_near_their_optimum():
    gaps = []
    for seed, (a_problem, start) in enumerate(cases()[:10]):
        optimum, _ = brute_force(a_problem)
        reached = Annealing(a_problem, start, seed).run(60.0, MOVES).stop_ns
        assert reached >= optimum
        gaps.append(reached / optimum)
    assert sum(gaps) / len(gaps) < 1.1


def test_a_seed_and_a_number_of_moves_repeat_a_run():
    for seed, (a_problem, start) in enumerate(cases()[:20]):
        one, two = (Annealing(a_problem, start, seed) for _ in range(2))
        assert one.run(60.0, MOVES) == two.run(60.0, MOVES)
        assert one.state == two.state
        assert one.tried == two.tried


def test_another_seed_takes_another_way():
    a_problem, start = max(cases(), key=lambda case: len(case[0].graph.operators))
    ways = []
    for seed in range(5):
        search = Annealing(a_problem, start, seed)
        search.run(60.0, MOVES)
        ways.append((search.state.placements, search.state.priority))
    assert any(way != ways[0] for way in ways)


def test_no_time_no_moves():
    a_problem, start = lazy()
    for limits in ((0.0, None), (0.0, 9), (60.0, 0)):
        search = Annealing(a_problem, start)
        tried = search.tried
        search.run(*limits)
        assert search.tried == tried


def lazy():
    """Six operators one after the other, with pauses, on one of two devices."""
    names = "abcdef"
    runs = [run(name, "d0", 25 * n) for n, name in enumerate(names)]
    return problem([op(name) for name in names]), plan(*runs)


def test_the_clock_ends_a_run_without_a_number_of_moves():
    a_problem, start = lazy()
    search = Annealing(a_problem, start)
    assert search.run(0.2).stop_ns <= 60
    assert search.tried > 2


def test_the_plan_itself_is_the_first_state():
    """Scheduled anew, so without its pauses."""
    a_problem, start = lazy()
    search = Annealing(a_problem, start)
    assert search.best_value == search.state.value == 60
    assert search.state.placements == {r.operator: r.placement for r in start.runs}


def test_a_group_moves_as_one():
    operators = [op("a", group="g"), op("b", group="g"), op("c"), op("d")]
    start = plan(*(run(name, "d0", 10 * n) for n, name in enumerate("abcd")))
    a_problem = problem(operators)
    search = Annealing(a_problem, start)
    assert [len(unit) for unit in search.units] == [2, 1, 1]
    best = search.run(60.0, MOVES)
    assert best.stop_ns == 20
    assert verify(a_problem, best).ok


def test_a_group_goes_only_where_all_its_members_can_run():
    wide = [option(), option("both", 6, gang=2)]
    operators = [op("a", group="g", options=tuple(wide)), op("b", group="g")]
    a_problem = problem(operators, where=cluster(groups="d0+d1"))
    search = Annealing(a_problem, plan(run("a", "d0", 0), run("b", "d0", 10)))
    assert set(search.choices[0]) == {("d0",), ("d1",)}


def test_the_fastest_option_of_a_site_is_taken():
    slow, fast = option("slow", 10), option("fast", 4)
    a_problem = problem([op("a", options=(slow, fast))])
    search = Annealing(a_problem, plan(run("a", "d0", 0, option="slow")))
    assert search.choices[0][("d1",)]["a"].option == "fast"
    assert search.run(60.0, 20).stop_ns == 4


def test_on_one_device_only_priorities_change():
    values = [value("x", "a", "c", 50), value("y", "b", "d", 50)]
    a_problem = problem("a b c d", values, cluster("d0", memory=100))
    start = plan(*(run(name, "d0", 20 * n) for n, name in enumerate("abcd")))
    search = Annealing(a_problem, start)
    assert search.movable == []
    best = search.run(60.0, 20)
    assert best.stop_ns == 40
    assert verify(a_problem, best).ok


def test_gangs_are_sites_like_others():
    options = (option("alone", 20), option("both", 8, gang=2))
    a_problem = problem([op("a", options=options), op("b")], where=cluster(groups="d0+d1"))
    start = plan(run("a", "d0", 0, 20, option="alone"), run("b", "d0", 20))
    best = Annealing(a_problem, start).run(60.0, MOVES)
    assert best.stop_ns == 18
    assert best.run("a").devices == ("d0", "d1")


def test_memory_limits_are_kept():
    """Both on one device would be quickest: nothing to send; but there is no room for both."""
    values = [value("x", "a", "b", 8), value("w", None, "a", 50), value("v", None, "b", 50)]
    a_problem = problem("a b", values, cluster(memory=70))
    start = plan(run("a", "d0", 0), send("x", "d0", "d1", 15, 25), run("b", "d1", 30))
    assert verify(a_problem, start).ok
    best = Annealing(a_problem, start).run(60.0, MOVES)
    assert verify(a_problem, best).ok
    assert best.stop_ns == 30


def test_a_plan_that_cannot_be_scheduled_anew_is_kept(monkeypatch):
    monkeypatch.setattr(annealing, "dispatch", lambda *_, **__: None)
    a_problem, start = lazy()
    search = Annealing(a_problem, start)
    assert search.run(60.0, 10, pytest.fail) is start
    assert search.state.value == search.best_value == start.stop_ns
    assert search.tried == 12


def test_worse_states_are_accepted_while_it_is_hot_and_not_when_it_is_cold(monkeypatch):
    a_problem, start = lazy()
    search = Annealing(a_problem, start)
    worse = plan(*(run(name, "d0", 13 * n) for n, name in enumerate("abcdef")))
    monkeypatch.setattr(annealing, "dispatch", lambda *_, **__: worse)
    for _ in range(50):
        search._step(annealing.END_TEMPERATURE)
    assert search.state.value == 60
    for _ in range(50):
        search._step(10.0)
    assert search.state.value == worse.stop_ns
    assert search.best_value == 60
