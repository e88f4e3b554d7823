"""Search near a plan by small models from arrays."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.backends import SolverReport, Stop
from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.kind import KIND
from milp_plan.kinds.schedule.planners.indexed import Indexed, indexed
from milp_plan.kinds.schedule.window_search import search as window_search
from milp_plan.kinds.schedule.window_search.search import search_windows
from milp_plan.kinds.schedule.window_search.timeline import Timeline, timed
from milp_plan.kinds.schedule.window_search.windows import MOST_SITES, random_window
from milp_plan.run import Settings
from milp_plan.run.ledger import Ledger
from tests.check.cases import cluster, lazy, op, plan, problem, run, value
from tests.run.cases import trap
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan

pytestmark = pytest.mark.untraced

REPEATABLE = Settings(node_limit=200, rounds=16)


def searched(a_problem, a_plan, settings=REPEATABLE, bound=None, seconds=60.0):
    """Books with a plan, after a search near it."""
    books = Ledger(KIND, a_problem, settings, Budget(seconds, settings.node_limit))
    books.offer(a_plan, "given", "start")
    if bound is not None:
        books.prove(Bound("given", bound, ""))
    search_windows(books)
    return books


def drawn(seed):
    """A random problem with a plan of it, memory and all."""
    return random_problem_with_plan(seed, objective=Objective.MAKESPAN)


def test_a_bad_plan_gets_better():
    books = searched(*lazy())
    assert books.value == 30
    assert verify(books.problem, books.plan).value == 30
    reported = books.details["window_search"]
    improvements = [p for p in books.trace if p.phase == window_search.PLANNER_NAME]
    assert reported["improvements"] == len(improvements) > 0
    assert 0 < reported["models"] <= reported["rounds"] == 16
    assert (books.disputed, books.defects) == ("", [])


def test_random_plans_get_better_and_stay_valid():
    improved = 0
    for seed in range(60, 68):
        a_problem, a_plan = drawn(seed)
        value, best = verify(a_problem, a_plan).value, brute_force(a_problem)[0]
        books = searched(a_problem, a_plan, bound=best)
        verdict = verify(a_problem, books.plan)
        assert verdict.ok
        assert best <= verdict.value == books.value <= value
        assert (books.disputed, books.defects) == ("", [])
        improved += books.value < value
    assert improved >= 4


def test_runs_repeat_under_a_node_limit():
    a_problem, a_plan = drawn(61)
    one, other = (searched(a_problem, a_plan) for _ in range(2))
    assert one.plan == other.plan
    assert one.details["window_search"] == other.details["window_search"]


def test_what_memory_does_not_admit_is_not_taken():
    entry = trap("memory-forces-delay")
    _, best = brute_force(entry.problem)
    books = searched(entry.problem, best)
    assert books.plan is best
    assert (books.disputed, books.defects) == ("", [])


def test_threads_share_the_best_plan():
    settings = Settings(threads=2, rounds=40)
    books = searched(*lazy(), settings, bound=30)
    assert books.value == 30
    assert books.defects == []


@pytest.mark.parametrize(
    ("settings", "bound", "seconds"),
    [
        (Settings(rounds=0), None, 60.0),
        (REPEATABLE, 60, 60.0),
        (Settings(), None, 0.1),
    ],
    ids=["no rounds", "at the bound", "no time"],
)
def test_there_may_be_nothing_to_do(settings, bound, seconds):
    books = searched(*lazy(), settings, bound, seconds)
    assert books.value == 60
    assert (books.details.get("window_search") or {"rounds": 0})["rounds"] == 0


class Scripted:
    """A session that answers what it is told to."""

    def __init__(self, answers):
        self.answers, self.models = answers, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def solve(self, model, limits, *, options):
        self.models.append(model)
        return next(self.answers)

    def interrupt(self):
        pass


def scripted(monkeypatch, *answers, settings=REPEATABLE):
    """Books after a search whose solver answers so."""
    monkeypatch.setattr(window_search, "Session", lambda: Scripted(iter(answers)))
    return searched(*lazy(), settings)


def test_failures_are_reported_and_not_repeated_for_ever(monkeypatch):
    dead = [SolverReport(Stop.KILLED)] * 25
    books = scripted(monkeypatch, *dead)
    assert books.details["window_search"]["rounds"] == window_search.MOST_FAILURES
    assert books.defects == ["the solver process was ended from outside or crashed"]
    assert books.value == 60


def test_an_interruption_ends_the_run_and_keeps_the_plan(monkeypatch):
    a_problem, a_plan = lazy()
    monkeypatch.setattr(
        window_search, "Session", lambda: Scripted(iter([SolverReport(Stop.INTERRUPTED)]))
    )
    books = Ledger(KIND, a_problem, REPEATABLE, Budget(60.0, 200))
    books.offer(a_plan, "given", "start")
    with pytest.raises(KeyboardInterrupt):
        search_windows(books)
    assert books.plan is a_plan


def test_a_solution_that_promises_too_much_is_disputed(monkeypatch):
    """All columns zero: the makespan is said to be less than any plan's."""

    class Liar(Scripted):
        def solve(self, model, limits, *, options):
            return SolverReport(Stop.PROVED, solution=np.zeros(model.num_columns))

    monkeypatch.setattr(window_search, "Session", lambda: Liar(iter(())))
    books = searched(*lazy())
    assert "was claimed to take" in books.disputed


# -- parts -----------------------------------------------------------------------------------------


def test_windows_grow_and_shrink_within_limits():
    a_problem, a_plan = lazy()
    books = Ledger(KIND, a_problem, REPEATABLE, Budget(60.0, 200))
    books.offer(a_plan, "given", "start")
    search = window_search.WindowSearch(books, books.budget)
    assert search.size == window_search.FIRST
    for factor, end in (
        (window_search.GROWTH, window_search.LARGEST),
        (window_search.SHRINKAGE, window_search.SMALLEST),
    ):
        for _ in range(100):
            search.resize(factor)
        assert search.size == end


def test_times_beyond_arrays_are_searched_in_units():
    ticks = 10**25 + 7
    names = "abcdef"
    operators = [op(name, ticks) for name in names]
    values = [value("v", "a", "f", 10**9)]
    where = cluster()
    slow = [replace(channel, bandwidth_bytes_per_s=1) for channel in where.channels]
    a_problem = problem(operators, values, replace(where, channels=tuple(slow)))
    stops = [n * ticks for n in range(len(names) + 1)]
    runs = [run(name, "d0", *stops[n : n + 2]) for n, name in enumerate(names)]
    books = searched(a_problem, plan(*runs))
    assert books.value == 3 * ticks
    assert verify(books.problem, books.plan).ok
    assert not books.defects


@pytest.mark.parametrize("above", [1, 30, 300])
def test_the_last_part_above_a_bound_is_asked_for(above):
    """A step of 500 of a million ticks was asked for where 300 are above the bound."""
    long, short = 10**6, above
    a_problem = problem([op("a", long), op("b", short)])
    a_plan = plan(run("a", "d0", 0, long), run("b", "d0", long, long + short))
    books = searched(a_problem, a_plan, bound=long)
    assert books.value == long
    assert verify(books.problem, books.plan).ok


def test_what_is_less_than_a_step_is_found_after_rounds_without_improvement():
    """Whatever the bound, no plan was asked for that is better by less than 500 of a million."""
    long, short = 10**6, 40
    a_problem = problem([op("a", long), op("b", short)])
    a_plan = plan(run("a", "d0", 0, long), run("b", "d0", long, long + short))
    books = searched(a_problem, a_plan, Settings(node_limit=200, rounds=6 * window_search.PATIENCE))
    assert books.value == long
    assert books.lower is None, "a bound near the value would ask for less as well"


@given(value=st.integers(1, 10**15), above=st.integers(1, 10**15), vain=st.integers(0, 10**6))
def test_a_round_never_asks_for_less_than_a_bound(value, above, vain):
    bound = max(0, value - above)
    assert bound <= window_search.target_makespan(value, bound, vain) < value


def test_units_of_time_keep_order_and_sums():
    for seed in range(20):
        a_problem, a_plan = drawn(seed)
        exact = Timeline(indexed(a_problem), a_plan)
        for tick in (1, 3, 1000):
            timeline = Timeline(Indexed(a_problem, tick), a_plan)
            assert timeline.order.tolist() == exact.order.tolist()
            assert exact.makespan <= timeline.makespan * tick
            assert timeline.makespan * tick <= exact.makespan + tick * timeline.num_tasks
            sent = [timeline.exact(number) for number in range(len(timeline.journeys))]
            assert sent == exact.journeys


def test_windows_free_operators_once_around_a_critical_task():
    completed, hit = 0, 0
    for seed in range(30):
        a_problem, a_plan = drawn(seed)
        timeline = Timeline(indexed(a_problem), a_plan)
        for size in (1, 3, 100):
            window = random_window(timeline, Random(seed), size)
            assert window == random_window(timeline, Random(seed), size)
            assert len(set(window.free)) == len(window.free) > 0
            assert set(window.free) <= set(range(len(timeline.spots)))
            assert window.sites is None or 0 < len(window.sites) <= MOST_SITES
            completed += len(window.free) > size
            hit += bool(set(window.free) & set(np.flatnonzero(timeline.slack == 0).tolist()))
    assert completed > 0
    assert hit > 60


def test_a_plan_timed_by_its_own_order_is_no_later():
    for seed in range(40):
        a_problem, a_plan = drawn(seed)
        timeline = Timeline(indexed(a_problem), a_plan)
        n = timeline.view.num_operators
        names = [*range(n), *(journey.key for journey in timeline.journeys)]
        after = [(names[a], names[b]) for row in timeline.chains for a, b in pairwise(row)]
        known = {journey.key: journey for journey in timeline.journeys}
        again = timed(timeline.view, timeline.spots, known, after, {})
        free = replace(a_plan, value=None)
        assert again.stop_ticks == timeline.makespan <= free.stop_ticks
        for device in timeline.view.problem.cluster.device_names:
            order = [
                [r.operator for r in sorted(p.runs, key=lambda r: (r.start_ticks, r.stop_ticks))
                 if device in r.devices and r.start_ticks < r.stop_ticks]
                for p in (again, a_plan)
            ]  # fmt: skip
            assert order[0] == order[1]
