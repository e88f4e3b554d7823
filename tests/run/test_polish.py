"""Neighbourhood search around a plan, and compaction."""

from random import Random

import pytest

from milp_plan.backends import SolverReport, Stop
from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.models.registry import get
from milp_plan.planners import Rule, dispatch
from milp_plan.run import Settings, polish
from milp_plan.run.kinds.schedule import KIND
from milp_plan.run.ledger import Ledger
from milp_plan.run.model import Solver, make_options
from milp_plan.run.model_answer import ModelAnswer
from milp_plan.run.polish import LARGEST, SMALLEST, Search
from milp_plan.run.ways import compaction
from milp_plan.run.ways.compaction import compact
from tests.check.cases import op, plan, problem, run
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan

from .cases import trap

pytestmark = pytest.mark.untraced

SETTINGS = Settings(node_limit=50, rounds=3)


def real_solver():
    """The shipped formulation by HiGHS."""
    found = get("operator_schedule")
    return Solver(found, make_options(found, {}))


class Scripted:
    """A solver that answers what it is told to."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def run(self, a_problem, guide, limits, budget, *, start):
        self.asked.append((guide, limits, start))
        return self.answers.pop(0)


def answer(stop, a_plan=None, value=None, disputed=""):
    report = SolverReport(stop, message="said")
    return ModelAnswer(report, a_plan, None, value, None, disputed, "", 0, 0, "scripted", True)


def lazy():
    """Six operators one after the other on one of two devices: 60 ticks, where 30 are enough."""
    names = "abcdef"
    runs = [run(name, "d0", 10 * n) for n, name in enumerate(names)]
    return problem([op(name) for name in names]), plan(*runs)


def near(a_problem, a_plan, solver, settings=SETTINGS, bound=None, seconds=60.0):
    """Books with a plan, and a search near it that is done."""
    budget = Budget(seconds, settings.node_limit)
    books = Ledger(KIND, a_problem, settings, budget, solver=solver)
    books.offer(a_plan, "given", "start")
    if bound is not None:
        books.prove(Bound("given", bound, ""))
    search = Search(books, budget)
    search.run()
    return search, books


def searched(solver, settings=SETTINGS, bound=None):
    return near(*lazy(), solver, settings, bound)


def test_a_bad_plan_gets_better():
    search, books = searched(real_solver())
    assert books.value == 30
    assert verify(books.problem, books.plan).value == 30
    made = books.details["polish"]["improvements"]
    heard = [p.phase for p in books.trace if p.phase.startswith("polish: ")]
    assert made == {kind: heard.count(f"polish: {kind}") for kind in made}
    assert made
    assert search.rounds == 3
    assert (books.disputed, books.defects) == ("", [])


@pytest.mark.slow
def test_random_plans_get_better_and_stay_valid():
    improved = 0
    for seed in range(60, 68):
        a_problem, a_plan = random_problem_with_plan(seed)
        value, best = verify(a_problem, a_plan).value, brute_force(a_problem)[0]
        _, books = near(a_problem, a_plan, real_solver(), bound=best)
        verdict = verify(a_problem, books.plan)
        assert verdict.ok
        assert best <= verdict.value == books.value <= value
        assert not books.disputed
        improved += books.value < value
    assert improved >= 2


def test_plans_that_the_checker_refuses_are_not_taken(monkeypatch):
    """Without memory rows the model prefers a plan that needs more memory than there is."""
    monkeypatch.setattr(polish, "MOST_WITH_MEMORY", 0)
    entry = trap("memory-forces-delay")
    _, best = brute_force(entry.problem)
    _, books = near(entry.problem, best, real_solver())
    assert books.plan is best
    assert books.details["polish"]["improvements"] == {}
    assert books.disputed == "", "a model without memory rows claims nothing about memory"


def test_a_plan_at_the_bound_needs_no_search():
    solver = Scripted()
    search, _ = searched(solver, bound=60)
    assert (search.rounds, solver.asked) == (0, [])


def test_no_round_begins_in_the_last_second():
    search, _ = near(*lazy(), Scripted(), seconds=0.5)
    assert search.rounds == 0


def test_rounds_default_to_a_number_where_runs_are_repeatable():
    nothing = [answer(Stop.NODE_LIMIT)] * polish.ROUNDS_WITH_NODE_LIMIT
    search, _ = searched(Scripted(*nothing), Settings(node_limit=1))
    assert search.rounds == polish.ROUNDS_WITH_NODE_LIMIT


def test_neighbourhoods_grow_when_exhausted_and_shrink_at_limits():
    search, _ = searched(Scripted(*[answer(Stop.PROVED)] * 2), Settings(rounds=2))
    assert search.size == pytest.approx(12 * 1.1**2)
    search, _ = searched(Scripted(*[answer(Stop.TIME_LIMIT)] * 2), Settings(rounds=2))
    assert search.size == pytest.approx(12 * 0.8**2)
    search, _ = searched(Scripted(*[answer(Stop.PROVED)] * 30), Settings(rounds=30))
    assert search.size == LARGEST
    search, _ = searched(Scripted(*[answer(Stop.NODE_LIMIT)] * 30), Settings(rounds=30))
    assert search.size == SMALLEST


def test_the_best_plan_is_start_and_centre_of_the_next_round():
    _, better = brute_force(lazy()[0])
    solver = Scripted(answer(Stop.PROVED, better, 30), answer(Stop.PROVED, better, 30))
    search, books = searched(solver, Settings(rounds=2))
    assert sum(books.details["polish"]["improvements"].values()) == 1
    assert search.size == 12 * 1.1
    (first, _, start), (second, limits, again) = solver.asked
    assert (first.cutoff, first.neighbourhood.plan) == (60, start)
    assert (second.cutoff, second.neighbourhood.plan) == (30, again)
    assert again is better
    assert second.memory
    assert limits.time_s <= polish.ROUND_S


def test_a_plan_that_is_no_better_is_left():
    other = lazy()[1]
    _, books = searched(Scripted(answer(Stop.PROVED, other, 60)), Settings(rounds=1))
    assert books.details["polish"]["improvements"] == {}
    assert books.plan is not other


def test_disputes_and_failures_are_remembered_and_an_interruption_ends_it():
    script = Scripted(
        answer(Stop.PROVED, disputed="it is not"),
        answer(Stop.KILLED),
        answer(Stop.INTERRUPTED),
        answer(Stop.PROVED),
    )
    a_problem, a_plan = lazy()
    books = Ledger(KIND, a_problem, Settings(rounds=4), Budget(60.0), solver=script)
    books.offer(a_plan, "given", "start")
    with pytest.raises(KeyboardInterrupt):
        Search(books, books.budget).run()
    assert books.disputed == "it is not"
    assert books.defects == ["the solver process was ended from outside or crashed"]
    assert len(script.answers) == 1


# -- compaction ----------------------------------------------------------------------------------


def test_gaps_are_closed():
    a_problem = problem("a b")
    loose = plan(run("a", "d0", 30), run("b", "d0", 70))
    tight = compact(a_problem, loose)
    assert (tight.run("a").start_ns, tight.run("b").start_ns) == (0, 10)


def test_compacted_plans_are_valid_and_no_worse():
    found = 0
    for seed in range(260, 300):
        a_problem, loose = random_problem_with_plan(seed, objective=Objective.MAKESPAN)
        rng = Random(seed)
        priority = {operator.name: rng.random() for operator in a_problem.graph.operators}
        dispatched = [dispatch(a_problem, priority=priority, rule=rule) for rule in Rule]
        for before in (loose, *dispatched):
            tight = None if before is None else compact(a_problem, before)
            if before is None or tight is None:
                continue
            found += 1
            verdict = verify(a_problem, tight)
            assert verdict.ok
            assert verdict.value <= before.stop_ns
            placements = [{r.operator: r.placement for r in p.runs} for p in (before, tight)]
            assert placements[0] == placements[1]
    assert found > 150


def test_a_compacted_plan_that_ends_later_is_none(monkeypatch):
    a_problem, before = lazy()
    later = plan(*(run(name, "d0", 10 * n + 1) for n, name in enumerate("abcdef")))
    monkeypatch.setattr(compaction, "dispatch_order", lambda *_: later)
    assert compact(a_problem, before) is None
    monkeypatch.setattr(compaction, "dispatch_order", lambda *_: None)
    assert compact(a_problem, before) is None
    monkeypatch.setattr(compaction, "dispatch_order", lambda *_: before)
    assert compact(a_problem, before) is before
