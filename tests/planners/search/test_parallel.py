"""Local search over places, options and priorities: repeatable, valid, never worse."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.search import annealing
from milp_plan.kinds.schedule.planners.search import parallel as parallel_module
from milp_plan.kinds.schedule.planners.search import rounds as rounds_module
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing
from milp_plan.kinds.schedule.planners.search.rounds import ENOUGH
from milp_plan.kinds.schedule.planners.search.states import State
from milp_plan.zoo import generate
from tests.check.cases import cluster, op, option, plan, problem, run, value
from tests.support.brute import brute_force
from tests.support.problems import random_problem_with_plan

pytestmark = pytest.mark.untraced

MOVES = 400
BEGUN = 10_000
"""Where searches of three and more epochs begin."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch):
    """Count moves often: a block of these small problems would be tens of thousands."""
    monkeypatch.setattr(annealing, "BLOCK", 1_000)


@cache
def cases():
    """Problems with tight memory, gangs and groups among them, each with a valid plan."""
    return tuple(random_problem_with_plan(seed, objective=Objective.MAKESPAN) for seed in range(20))


def searched(a_problem, start, seed=0, moves=MOVES, threads=1):
    """Plans in the order in which they were found."""
    heard = []
    annealing = ParallelAnnealing(a_problem, seed, threads)
    annealing.add(start)
    annealing.run(Budget(60.0), moves, heard.append)
    return annealing, heard


def test_the_cases_have_memory_gangs_and_groups():
    found = [a_problem for a_problem, _ in cases()]
    assert any(d.memory_bytes is not None for p in found for d in p.cluster.devices)
    assert any(o.gang > 1 for p in found for op in p.graph.operators for o in op.options)
    assert any(p.graph.groups for p in found)


def test_plans_are_valid_and_better_and_better():
    better = 0
    for seed, (a_problem, start) in enumerate(cases()):
        _, heard = searched(a_problem, start, seed)
        verdicts = [verify(a_problem, found) for found in heard]
        assert all(verdict.ok for verdict in verdicts)
        values = [verdict.value for verdict in verdicts]
        assert values == sorted(set(values), reverse=True), "only what is better is said"
        better += bool(values) and values[-1] < start.stop_ticks
    assert better >= 7


def test_tiny_problems_come_near_their_optimum():
    gaps = []
    for seed, (a_problem, start) in enumerate(cases()[:12]):
        optimum, _ = brute_force(a_problem)
        _, heard = searched(a_problem, start, seed)
        reached = min([start.stop_ticks, *(found.stop_ticks for found in heard)])
        assert reached >= optimum
        gaps.append(reached / optimum)
    assert sum(gaps) / len(gaps) < 1.05


@pytest.mark.parametrize("threads", [1, 2])
def test_a_seed_and_a_number_of_moves_repeat_a_run(threads: int):
    for seed, (a_problem, start) in enumerate(cases()[:3]):
        one, two = (searched(a_problem, start, seed, threads=threads) for _ in range(2))
        assert one[0].tried == two[0].tried
        for mine, its in zip(one[0].searches, two[0].searches, strict=True):
            assert mine.best.value == its.best.value
            assert (mine.best.rank == its.best.rank).all()


@pytest.mark.parametrize("moves", [1, 2, 7, 1_000, 3_001])
def test_each_search_makes_as_many_moves_as_it_is_asked_to(moves: int):
    a_problem, start = cases()[0]
    annealing, _ = searched(a_problem, start, moves=moves, threads=2)
    assert annealing.tried == 2 * moves
    assert annealing.searches[0].tried == moves


def test_constructions_are_reported_as_they_become_better(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel_module, "REPORT_INTERVAL_FACTOR", 0)
    a_problem = generate("gpt-tiny", "2xA100", mode="training", batch=8, micro_batches=2)
    heard: list[int] = []
    annealing = ParallelAnnealing(a_problem)
    annealing.construct(Budget(), on_better=lambda found: heard.append(found.stop_ticks), most=60)
    assert len(heard) > 1
    assert heard == sorted(set(heard), reverse=True)
    assert heard[-1] == annealing.first.stop_ticks


def test_no_time_no_moves():
    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem)
    annealing.add(start)
    annealing.run(Budget(0.0))
    assert annealing.tried == 0


def test_the_clock_ends_a_run_without_a_number_of_moves():
    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem)
    annealing.add(start)
    annealing.run(Budget(0.3))
    assert annealing.tried > 2


def test_a_group_moves_as_one():
    operators = [op("a", group="g"), op("b", group="g"), op("c"), op("d")]
    start = plan(*(run(name, "d0", 10 * n) for n, name in enumerate("abcd")))
    _, heard = searched(problem(operators), start)
    assert heard[-1].stop_ticks == 20
    assert heard[-1].run("a").devices == heard[-1].run("b").devices


def test_a_group_goes_only_where_all_its_members_can_run():
    wide = (option(), option("both", 6, gang=2))
    operators = [op("a", group="g", options=wide), op("b", group="g")]
    a_problem = problem(operators, where=cluster(groups="d0+d1"))
    annealing = ParallelAnnealing(a_problem)
    units = annealing.searches[0].units
    assert units.sites[units.site_ptr[0] : units.site_ptr[1]].tolist() == [0, 1]


def test_the_fastest_option_is_found():
    slow, fast = option("slow", 10), option("fast", 4)
    a_problem = problem([op("a", options=(slow, fast))])
    _, heard = searched(a_problem, plan(run("a", "d0", 0, option="slow")))
    assert heard[-1].stop_ticks == 4


def test_on_one_device_only_priorities_change():
    values = [value("x", "a", "c", 50), value("y", "b", "d", 50)]
    a_problem = problem("a b c d", values, cluster("d0", memory=100))
    start = plan(*(run(name, "d0", 20 * n) for n, name in enumerate("abcd")))
    _, heard = searched(a_problem, start)
    assert heard[-1].stop_ticks == 40


def test_loads_count_where_the_objective_is_the_bottleneck():
    better = 0
    for seed in range(10):
        a_problem, start = random_problem_with_plan(seed, objective=Objective.PEAK_MEMORY)
        a_problem = replace(a_problem, objective=Objective.BOTTLENECK)
        known = verify(a_problem, start).value
        _, heard = searched(a_problem, start, seed)
        values = [verify(a_problem, found).value for found in heard]
        assert values == sorted(set(values), reverse=True)
        better += bool(values) and values[-1] < known
    assert better >= 2


def test_an_error_in_a_thread_is_an_error_of_the_search(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> int:
        raise ArithmeticError("no schedule")

    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem, threads=2)
    annealing.add(start)
    monkeypatch.setattr(parallel_module.Annealing, "run", broken)
    with pytest.raises(ArithmeticError, match="no schedule"):
        annealing.run(Budget(60.0), MOVES)


def test_what_was_found_before_an_interruption_is_reported(monkeypatch: pytest.MonkeyPatch):
    def interrupt(found: object) -> None:
        heard.append(found)
        if len(heard) == 1:
            raise KeyboardInterrupt

    heard: list[object] = []
    a_problem, start = next(case for case in cases() if len(case[0].graph.operators) > 5)
    annealing = ParallelAnnealing(a_problem, threads=2)
    annealing.add(start)
    with pytest.raises(KeyboardInterrupt):
        annealing.run(Budget(60.0), MOVES, interrupt)
    assert len(heard) >= 1


def test_reporting_takes_a_small_part_of_the_time_and_the_last_plan_is_reported(
    monkeypatch: pytest.MonkeyPatch,
):
    clock, heard = [0.0], []

    def slowly(_annealing: ParallelAnnealing, state: State, on_better: object) -> None:
        clock[0] += 1.0
        heard.append(state.value)

    a_problem, _ = cases()[0]
    annealing = ParallelAnnealing(a_problem)
    monkeypatch.setattr(parallel_module, "now", lambda: clock[0])
    monkeypatch.setattr(ParallelAnnealing, "_report", slowly)
    nothing = np.zeros(1, dtype=np.int64)
    for reached in range(100, 40, -1):
        annealing._collect(State(nothing, nothing, nothing, reached), print)
        clock[0] += 0.5
    assert heard == [100, 80, 60], "once a second of telling is ten seconds old"
    annealing._collect(None, print, last=True)
    assert heard[-1] == 41


@pytest.mark.parametrize(("coolings", "part"), [(0.1, 0.25), (0.5, 0.5), (4.0, 1.0)])
def test_what_has_few_moves_begins_cooler(
    coolings: float, part: float, monkeypatch: pytest.MonkeyPatch
):
    a_problem, start = cases()[0]
    annealing, heats = ParallelAnnealing(a_problem), []
    annealing.add(start)
    monkeypatch.setattr(
        ParallelAnnealing, "_round", lambda _annealing, _begins, _clock, how, *_: heats.append(how)
    )
    size = annealing.decoder.size
    annealing.run(Budget(60.0), int(coolings * rounds_module.ROUND_MOVES_EACH * size))
    assert heats[0].temperature == pytest.approx(part, rel=0.02)


@pytest.mark.parametrize("ahead", [True, False])
def test_what_comes_later_begins_half_way_if_it_is_the_best(ahead, monkeypatch):
    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem, threads=2)
    annealing.add(start)
    later = annealing.starts[0]._replace(value=0 if ahead else annealing.starts[0].value + 1)
    annealing.begin_later(later)
    rounds = []

    def searched(_annealing: ParallelAnnealing, begins, *_) -> None:
        rounds.append(list(begins))
        annealing.searches[0].begin(begins[0])

    monkeypatch.setattr(ParallelAnnealing, "_round", searched)
    annealing.run(Budget(60.0), MOVES)
    assert not any(begin is later for begins in rounds[: len(rounds) // 2] for begin in begins)
    assert any(begin is later for begin in rounds[len(rounds) // 2]) == ahead


def test_what_comes_later_is_a_start_where_there_is_none():
    a_problem, start = cases()[0]
    other = ParallelAnnealing(a_problem)
    other.add(start)
    annealing = ParallelAnnealing(a_problem)
    annealing.begin_later(other.starts[0])
    assert annealing.starts


@pytest.mark.parametrize(("threads", "given"), [(1, True), (1, False), (2, True)])
def test_a_lone_search_does_not_stay_in_the_valley_of_a_given_plan(threads, given, monkeypatch):
    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem, threads=threads)
    annealing.add(start)
    best = annealing.starts[0]
    other = best._replace(value=best.value + 1)
    annealing.starts.append(other)
    if not given:
        annealing._given.clear()
    rounds = []
    monkeypatch.setattr(
        ParallelAnnealing,
        "_round",
        lambda _, begins, *__: rounds.append([begin.value for begin in begins]),
    )
    annealing.run(Budget(60.0), MOVES)
    one, two = best.value, other.value
    assert rounds[0] == ([one, two] if threads == 2 else [two] if given else [one])
    assert threads == 2 or not given or rounds[1] == [one]


def test_a_rival_of_a_given_plan_takes_no_moves_from_the_number_of_all():
    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem)
    annealing.construct(Budget(60.0))
    annealing.add(start)
    worse = annealing.starts[-1]._replace(value=annealing.starts[0].value + 1)
    annealing._given, annealing.starts = {annealing.starts[0].value}, [annealing.starts[0], worse]
    annealing.run(Budget(60.0), MOVES)
    assert annealing.tried == MOVES


def test_rounds_bring_nothing_until_one_finds_a_better_plan(monkeypatch: pytest.MonkeyPatch):
    a_problem, start = cases()[0]
    annealing, heats = ParallelAnnealing(a_problem), []
    annealing.add(start)

    def searched(_annealing: ParallelAnnealing, begins, _clock, how, *_) -> None:
        heats.append(how.temperature)
        if len(heats) == 3:
            annealing.searches[0].best_state.value[0] = annealing.starts[0].value - 1

    monkeypatch.setattr(ParallelAnnealing, "_round", searched)
    annealing.run(Budget(60.0), 8 * rounds_module.ROUND_MOVES_EACH * annealing.decoder.size)
    assert heats[:5] == [1.0, 2.0, 4.0, 1.0, 2.0]
    assert heats[-2:] == list(rounds_module.LAST_TEMPERATURES)


def epochs_of(monkeypatch, *values):
    """Return a search whose epochs end with these values, and where each of its rounds begins."""
    a_problem, start = cases()[0]
    annealing = ParallelAnnealing(a_problem, threads=2)
    rounds: list[list[list[int]]] = [[] for _ in values]
    annealing.add(start)
    annealing.starts = [annealing.starts[0]._replace(value=BEGUN)]
    annealing.searches[0].forget()
    monkeypatch.setattr(ParallelAnnealing, "load", lambda _: None)

    early, share = len(values) - 1, float(rounds_module.EARLY)

    def searched(_annealing: ParallelAnnealing, begins, clock, *_) -> None:
        epoch = min(early, int(clock.since * early / share + 1e-9))
        rounds[epoch].append([begin.value for begin in begins])
        kept = annealing.searches[0].best_state.value
        kept[0] = min(kept[0], values[epoch])

    monkeypatch.setattr(ParallelAnnealing, "_round", searched)
    wanted = int(ENOUGH * early / share) + 2  # a little more than is enough
    annealing.run(Budget(60.0), wanted * rounds_module.ROUND_MOVES_EACH * annealing.decoder.size)
    return annealing, rounds


def test_epochs_begin_at_the_starts_and_the_last_at_the_best_ends(monkeypatch):
    annealing, epochs = epochs_of(monkeypatch, 9_970, 9_960, 9_980, 9_950)
    assert [rounds[0] for rounds in epochs[:3]] == [[BEGUN, BEGUN]] * 3
    assert epochs[3][0] == [9_960, 9_970]
    assert annealing.best.value == 9_950


def test_an_epoch_forgets_what_the_others_found_but_the_search_does_not(monkeypatch):
    annealing, epochs = epochs_of(monkeypatch, 9_910, 9_990, 9_980)
    assert epochs[1][1] == [9_990, 9_990], "the second round goes on where its own epoch stands"
    assert annealing.best.value == 9_910


def test_ends_far_worse_than_the_best_are_not_begun_at(monkeypatch):
    _, epochs = epochs_of(monkeypatch, 9_990, 5_000, 9_980)
    assert epochs[2][0] == [5_000, 5_000]


def test_only_what_is_better_than_all_before_is_reported_in_later_epochs():
    heard = []
    a_problem = generate("gpt-tiny", "2xA100", mode="training", batch=4, micro_batches=1)
    annealing = ParallelAnnealing(a_problem)
    annealing.construct(Budget(60.0), most=5)
    moves = (
        rounds_module.ENOUGH_FOR_EPOCHS * rounds_module.ROUND_MOVES_EACH * annealing.decoder.size
    )
    annealing.run(Budget(60.0), moves, lambda found: heard.append(found.stop_ticks))
    assert len(heard) > 1
    assert heard == sorted(set(heard), reverse=True)
    assert annealing.decoder.ticks(annealing.best.value) == heard[-1]
