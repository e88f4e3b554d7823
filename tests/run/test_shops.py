"""Pipelines planned in turns: optima, proofs, honest ends."""

from __future__ import annotations

import threading
import time
from fractions import Fraction

import pytest

from milp_plan.backends import Stop
from milp_plan.check import verify
from milp_plan.core import Objective, PlanningProblem
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.experts import SEARCHES, WORDS
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.span import best_times
from milp_plan.kinds.pipeline.strategies import shop as shops
from milp_plan.kinds.pipeline.strategies.slot_bound import slot_bound
from milp_plan.kinds.pipeline.timing import fits, value_of
from milp_plan.run import Settings, solve
from tests.support.seeds import few
from tests.support.shops import random_tiny_shop
from tests.support.words import least_value


def case(
    family: str,
    devices: int,
    batches: int,
    memory: int | None = None,
    times: tuple[int, int, int] = (1, 1, 1),
    transfer: int = 0,
    **more: object,
) -> PlanningProblem:
    model = Model.from_share(times, transfer)
    return build(Case(model, devices, batches, family, memory=memory, **more)).problem  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", few(range(25), 8))
def test_tiny_pipelines_are_solved_to_their_optimum(seed: int) -> None:
    shop = random_tiny_shop(seed)
    best = least_value(shop)
    outcome = solve(shop.problem, Settings(time_limit_s=30))
    assert not outcome.disputed
    if best is None:
        assert outcome.plan is None
        assert outcome.stop is Stop.INFEASIBLE
        assert outcome.infeasible_reason
        return
    assert outcome.plan is not None
    assert verify(shop.problem, outcome.plan).ok
    assert outcome.value == best
    assert outcome.bound is not None
    assert outcome.bound <= best


@pytest.mark.parametrize(
    ("devices", "batches", "makespan"),
    [
        (4, 8, 25),
        pytest.param(6, 12, 38, marks=pytest.mark.slow),
        pytest.param(8, 16, 51, marks=pytest.mark.slow),
        (8, 20, 63),
    ],
)
def test_half_of_dualpipes_bubble_is_proved(devices: int, batches: int, makespan: int) -> None:
    """Source: core-problem reference, measured with a constraint solver and by head bounds."""
    outcome = solve(case("dualpipe", devices, batches, devices + 1), Settings(time_limit_s=60))
    assert outcome.value == outcome.bound == makespan
    assert outcome.stop is Stop.PROVED


@pytest.mark.slow  # the tour of the README proves this value, too
def test_real_times_need_the_search() -> None:
    problem = case("dualpipe", 4, 8, 5, (10, 12, 7), 1)
    outcome = solve(problem, Settings(time_limit_s=60))
    assert outcome.value == outcome.bound == 244
    assert outcome.value < min(v for v in outcome.baselines.values() if v is not None)


def test_the_span_is_shorter_than_the_makespan() -> None:
    problem = case("line", 4, 8, 8, objective=Objective.SPAN)
    outcome = solve(problem, Settings(time_limit_s=30))
    assert outcome.verdict is not None
    assert outcome.value == outcome.bound == 24
    assert outcome.verdict.components["makespan"] > 24


@pytest.mark.untraced
def test_memory_for_less_than_one_micro_batch_is_proved_infeasible() -> None:
    problem = case("v", 2, 2, Fraction(1, 2))  # type: ignore[arg-type]
    outcome = solve(problem, Settings(time_limit_s=30))
    assert outcome.plan is None
    assert outcome.stop is Stop.INFEASIBLE


@pytest.mark.untraced
def test_nothing_depends_on_the_clock_with_a_node_limit() -> None:
    problem = case("line", 3, 4, 2, (3, 5, 2), 1)
    one, two = (solve(problem, Settings(node_limit=50)) for _ in range(2))
    assert one.plan == two.plan
    assert one.record["model_hash"] == two.record["model_hash"]


def test_channels_that_transfers_hold_are_planned_too() -> None:
    problem = case("line", 3, 3, 2, (2, 2, 2), 3, channels=True)
    outcome = solve(problem, Settings(time_limit_s=30))
    assert outcome.proved
    assert outcome.verdict is not None
    assert outcome.verdict.ok


@pytest.mark.untraced
def test_a_formulation_named_by_the_user_is_used() -> None:
    problem = case("line", 2, 2)
    settings = Settings(time_limit_s=30, formulation="operator_schedule", only=True)
    outcome = solve(problem, settings)
    assert outcome.record["formulation"]["name"] == "operator_schedule"
    assert outcome.value == solve(problem, Settings(time_limit_s=30)).value
    assert shop_of(problem) is not None


def test_a_switch_that_leaves_out_plans_proves_nothing() -> None:
    problem = case("dualpipe", 2, 2, None, (1, 2, 1), 1)
    whole = solve(problem, Settings(time_limit_s=30))
    settings = Settings(time_limit_s=30, formulation="pipeline_order", options={"mirror": True})
    mirrored = solve(problem, settings)
    assert whole.proved
    assert mirrored.value is not None
    assert mirrored.bound is not None
    assert mirrored.bound <= whole.value  # type: ignore[operator]
    assert mirrored.bound_name != "pipeline_order"


# -- what runs beside, and what ends in time -----------------------------------------------------


def test_the_second_thread_ends_when_it_is_asked_to() -> None:
    began = threading.Event()

    def work(watch: shops._Watch) -> None:
        began.set()
        watch.stopped.wait(60)

    watch = shops._Watch(work)
    assert began.wait(60)
    watch.end()
    assert not watch.thread.is_alive()


def test_a_concurrent_error_is_an_error_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ArithmeticError("beside")

    monkeypatch.setattr(shops, "slot_bound", broken)
    problem = case("v", 4, 12, 4, (10, 12, 7), 1)
    with pytest.raises(ArithmeticError, match="beside"):
        solve(problem, Settings(time_limit_s=4, threads=2))


def test_a_concurrent_solve_is_interrupted_when_the_run_is_proved() -> None:
    """The bound's linear programs would take far longer than the plan."""
    threads = threading.active_count()
    problem = case("v", 4, 12, 4, (10, 12, 7), 1)
    shop = shop_of(problem)
    assert shop is not None
    left: list[object] = []

    def work(beside: shops._Watch) -> None:
        stop = beside.stopped.is_set
        left.append(slot_bound(shop, None, 600.0, session=beside.session, stop=stop))

    beside = shops._Watch(work)
    while beside.session._process is None:
        time.sleep(0.01)
    beside.end()
    assert not beside.thread.is_alive()
    assert threading.active_count() == threads
    assert len(left) == 1


def test_a_run_of_two_threads_leaves_none_behind() -> None:
    threads = threading.active_count()
    outcome = solve(case("line", 4, 8, 4, (3, 5, 2), 1), Settings(time_limit_s=2, threads=2))
    assert outcome.plan is not None
    assert threading.active_count() == threads


@pytest.mark.untraced
def test_experts_that_search_end_when_they_are_asked_to() -> None:
    problem = case("v", 4, 12, 3, (10, 12, 7), 1)
    shop = shop_of(problem)
    assert shop is not None
    assert set(SEARCHES) < set(WORDS)
    for search in SEARCHES.values():
        hasty, patient = search(shop, time.monotonic()), search(shop, None)
        assert hasty is not None
        assert patient is not None
        values = [value_of(shop, best_times(shop, words)) for words in (hasty, patient)]
        assert values[1] <= values[0]
        assert fits(shop, hasty)
