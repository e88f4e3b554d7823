"""Search over sequences: valid plans, waiting devices, and the optimum over all orders."""

from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.decoder import NEVER, Decoder
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.kinds.schedule.planners.search import sequences
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing
from milp_plan.kinds.schedule.planners.search.sequences import Sequences
from milp_plan.kinds.schedule.planners.search.tasks import new_tasks, read_tasks, settle
from tests.check.cases import cluster, op, plan, problem, run, send, value
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan

pytestmark = pytest.mark.untraced


def without_memory(a_problem):
    """The same where memory admits every order."""
    roomy = a_problem.cluster.with_memory(dict.fromkeys(a_problem.cluster.device_names))
    return a_problem.variant(cluster=roomy)


@cache
def cases():
    """Problems with gangs, groups, options and all communication models, each with a plan."""
    found = [random_problem_with_plan(seed, objective=Objective.MAKESPAN) for seed in range(40)]
    return tuple((without_memory(a_problem), start) for a_problem, start in found)


def searched(a_problem, start, moves, seed=0, relocate_share=0.3):
    """A search after so many moves."""
    search = Sequences(a_problem, seed)
    assert search.begin(start)
    search.run(
        lambda: search.tried / moves if moves else 1.0,
        0.05,
        0.001,
        most=moves,
        relocate_share=relocate_share,
    )
    return search


def test_the_cases_have_all_that_a_task_can_hold():
    problems = [a_problem for a_problem, _ in cases()]
    assert len({p.cluster.communication for p in problems}) == 3
    assert any(o.gang > 1 for p in problems for op in p.graph.operators for o in op.options)
    assert any(p.graph.groups for p in problems)


@pytest.mark.parametrize("moves", [0, 1, 3, 300])
def test_what_it_stands_at_and_what_is_best_are_valid_plans(moves: int):
    for seed, (a_problem, start) in enumerate(cases()):
        search = searched(a_problem, start, moves, seed)
        decoder, best = Decoder(a_problem), search.best
        found = best.plan(decoder, "sequences")
        verdict = verify(a_problem, found)
        assert verdict.ok, verdict.violations[0]
        assert verdict.value <= decoder.ticks(best.value)
        if decoder.compiled.exact:
            assert verdict.value == decoder.ticks(best.value)
            assert verdict.value <= start.stop_ticks
        assert search.tried == moves


def test_a_state_is_what_its_tasks_say_after_any_moves():
    """Starts are those of its order, and the row of tasks is that of its placement."""
    for seed, (a_problem, start) in enumerate(cases()):
        search = searched(a_problem, start, 77, seed)
        s, k = search.state, int(search.state.now[2])
        count = int(search.tasks.number[k])
        memory = search.decoder.memory
        assert sequences.admits(memory.a, memory.t)
        anew = new_tasks(search.decoder)
        read_tasks(memory.a, memory.t, anew, 0)
        for name in ("number", "length", "before_ptr", "before", "held_ptr", "held", "tail"):
            mine, its = getattr(search.tasks, name)[k], getattr(anew, name)[0]
            size = count if name in ("length", "tail") else len(np.atleast_1d(its))
            if name in ("before", "held"):
                size = int(getattr(anew, f"{name}_ptr")[0][count])
            if name.endswith("_ptr"):
                size = count + 1
            assert (np.atleast_1d(mine)[:size] == np.atleast_1d(its)[:size]).all(), name
        assert sorted(s.order[:count]) == list(range(count))
        again = np.zeros_like(s.start)
        value = settle(anew, 0, s.order, 0, again, s.last, NEVER)
        assert value == search.value
        assert (again[:count] == s.start[:count]).all()


def least_of_all_orders(search):
    """Least last stop of the placement that a search stands at, over every order of its tasks."""
    tasks, k = search.tasks, int(search.state.now[2])
    count = int(tasks.number[k])
    before = [
        set(tasks.before[k, tasks.before_ptr[k, i] : tasks.before_ptr[k, i + 1]].tolist())
        for i in range(count)
    ]
    least, room = NEVER, np.zeros_like(search.state.start)
    for order in permutations(range(count)):
        seen: set[int] = set()
        for task in order:
            if not before[task] <= seen:
                break
            seen.add(task)
        else:
            found = settle(tasks, k, np.array(order), 0, room, search.state.last, NEVER)
            least = min(least, found)
    return least


def test_orders_alone_reach_the_best_of_all_orders():
    compared = 0
    for seed, (a_problem, start) in enumerate(cases()):
        search = Sequences(a_problem, seed)
        assert search.begin(start)
        if not 3 <= search.tasks.number[0] <= 7:
            continue
        compared += 1
        least = least_of_all_orders(search)
        assert searched(a_problem, start, 3_000, seed, relocate_share=-1.0).best.value == least
    assert compared >= 5


def test_tiny_problems_reach_their_optimum():
    reached = compared = 0
    for seed, (a_problem, start) in enumerate(cases()[:12]):
        if not Decoder(a_problem).compiled.exact:
            continue
        compared += 1
        optimum, _ = brute_force(a_problem)
        search = searched(a_problem, start, 20_000, seed)
        best = search.decoder.ticks(search.best.value)
        assert best >= optimum
        reached += best == optimum
    assert reached >= 0.8 * compared >= 8


def test_a_device_waits_for_a_more_urgent_operator():
    """``d0`` is free for ``x`` (10 ticks) at once, but ``c`` (20 ticks) waits for ``b`` there."""
    operators = [op("a", 2), op("b", 2), op("c", 20), op("x", 10)]
    values = [value("p", "a", "b", 0), value("q", "b", "c", 0)]
    a_problem = problem(operators, values)
    start = plan(
        run("a", "d1", 0, 2),
        run("x", "d0", 0, 10),
        run("b", "d0", 10, 12),
        run("c", "d1", 14, 34),
        send("p", "d1", "d0", 2, 4),
        send("q", "d0", "d1", 12, 14),
    )
    assert verify(a_problem, start).value == 34
    decoder = Decoder(a_problem)
    site, choice = decoder.place({entry.operator: entry.placement for entry in start.runs})
    listed = [
        decoder.decode(site, choice, np.array(rank), holding=holding)
        for rank in permutations(range(4))
        for holding in (False, True)
    ]
    assert min(listed) == 34
    assert searched(a_problem, start, 50, relocate_share=-1.0).best.value == 28


@pytest.mark.parametrize("over", [0, 1], ids=["with a unit", "rounded"])
def test_a_plan_whose_times_fit_into_no_array_is_a_start(over: int):
    """The same problem with longer times than 2^63 ticks; with ``over`` they have no unit."""
    t = 3**60
    operators = [op("a", 2 * t), op("b", 2 * t), op("c", 20 * t), op("x", 10 * t + over)]
    values = [value("p", "a", "b", 0), value("q", "b", "c", 0)]
    where = cluster()
    channels = tuple(replace(channel, latency_ticks=2 * t) for channel in where.channels)
    a_problem = problem(operators, values, replace(where, channels=channels))
    late = 10 * t + over
    start = plan(
        run("a", "d1", 0, 2 * t),
        run("x", "d0", 0, late),
        run("b", "d0", late, late + 2 * t),
        run("c", "d1", late + 4 * t, late + 24 * t),
        send("p", "d1", "d0", 2 * t, 4 * t),
        send("q", "d0", "d1", late + 2 * t, late + 4 * t),
    )
    assert verify(a_problem, start).value == 34 * t + over
    search = searched(a_problem, start, 50, relocate_share=-1.0)
    assert search.decoder.compiled.exact is not bool(over)
    verdict = verify(a_problem, search.best.plan(search.decoder, "sequences"))
    assert verdict.ok, verdict.violations[0]
    assert 28 * t <= verdict.value < 29 * t


def test_memory_that_binds_is_refused():
    values = [value("x", "a", "c", 50), value("y", "b", "d", 50)]
    a_problem = problem("a b c d", values, cluster("d0", memory=60))
    start, _ = best_plan(a_problem)
    assert start is not None
    assert not Sequences(a_problem).begin(start)


def test_only_makespans_are_searched_by_sequences():
    a_problem, start = cases()[0]
    for objective in (Objective.MAKESPAN, Objective.BOTTLENECK):
        annealing = ParallelAnnealing(replace(a_problem, objective=objective), threads=2)
        annealing.add(start)
        annealing.run(Budget(60.0), 400)
        assert (annealing.sequences is not None) == (objective is Objective.MAKESPAN)
