"""Search over placements and orders, against enumeration of everything and the checker."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.bounds.catalogue import infeasibility
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.schedule.planners.enumeration import search as settings
from milp_plan.kinds.schedule.planners.enumeration.search import Enumeration
from milp_plan.zoo import TRAPS
from tests.support.anything import random_case
from tests.support.brute import brute_force
from tests.support.forks import random_fork
from tests.support.pipeline_of_groups import OPTIMUM, pipeline_of_groups
from tests.support.problems import random_problem
from tests.support.training_graphs import random_training

pytestmark = pytest.mark.untraced

INSTANCES = Path(__file__).parents[3] / "instances"
MOST = 6
"""Operators of problems whose every plan the oracle looks at."""


def last_of(
    search: Enumeration, problem: PlanningProblem, choices: int | None = None
) -> Plan | None:
    """The best plan; all of them are checked, and each is better than the one before."""
    best, value = None, None
    for plan in search.plans(Budget(), choices):
        verdict = verify(problem, plan)
        assert verdict.ok, verdict.violations
        assert verdict.value is not None
        assert value is None or verdict.value < value
        best, value = plan, verdict.value
    return best


def value_of(problem: PlanningProblem, plan: Plan | None) -> int | None:
    return None if plan is None else verify(problem, plan).value


def random_small(seed: int) -> PlanningProblem:
    """A problem of every kind and magnitude in turn; its makespan is what counts."""
    if seed % 3 == 0:
        return random_fork(seed, 2 + seed % 3, back=seed % 2 == 0, longest=1 + seed % 2)
    found = random_case(seed) if seed % 3 == 1 else random_problem(seed, max_operators=MOST)
    if found.serial is None and found.needs_schedule:
        return replace(found, objective=Objective.MAKESPAN)
    return found


def random_groups(seed: int) -> PlanningProblem:
    """A problem with colocation groups, some of which only one class of devices can run."""
    found = random_training(seed, 2, batches=1 + seed % 2)
    draw = Random(seed)
    if draw.random() < 0.5:
        return found
    wide = {device.device_class for device in found.cluster.devices} == {"fast", "slow"}
    there = {name: draw.choice(["fast", "slow"]) for name in ("l0", "l1")} if wide else {}
    operators = []
    for operator in found.graph.operators:
        kind = there.get(operator.group or "")
        option = operator.options[0]
        ticks = option.duration_ticks if kind is None else {kind: option.duration_ticks[kind]}
        operators.append(replace(operator, options=(replace(option, duration_ticks=dict(ticks)),)))
    graph = replace(found.graph, operators=tuple(operators))
    most = sum(max(value.bytes.values()) for value in graph.values)
    limit = draw.choice([None, most, most // 2])
    cluster = replace(
        found.cluster,
        devices=tuple(replace(d, memory_bytes=limit) for d in found.cluster.devices),
    )
    return replace(found, graph=graph, cluster=cluster)


def compare(
    seeds: range, draw: Callable[[int], PlanningProblem] = random_small
) -> tuple[int, int, int]:
    """Compare with the oracle: problems compared, proved, and proved to have no plan."""
    compared = proved = barren = 0
    for seed in seeds:
        problem = draw(seed)
        if not Enumeration.suits(problem) or len(problem.graph.operators) > MOST:
            continue
        search = Enumeration(problem)
        value = value_of(problem, last_of(search, problem))
        found = brute_force(problem)
        compared += 1
        if found is None:
            assert value is None, seed
            barren += 1
            continue
        assert value is None or value >= found[0], seed
        if search.least is not None:
            assert search.least <= found[0], seed
            proved += search.least == value
    return compared, proved, barren


def test_never_better_than_possible_and_mostly_proved() -> None:
    compared, proved, barren = compare(range(45))
    assert compared > 20
    assert proved + barren > 0.6 * compared


@pytest.mark.slow
def test_never_better_than_possible_on_many() -> None:
    compared, proved, _ = compare(range(1000, 6000))
    assert compared > 1500
    assert proved > 0.6 * compared


@pytest.fixture
def by_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every problem like one of many operators and few placements; first passes give up."""
    monkeypatch.setattr(settings, "LARGEST", 0)
    monkeypatch.setattr(settings, "FIRST_SCHEDULES", 1)


@pytest.mark.usefixtures("by_passes")
@pytest.mark.parametrize("draw", [random_small, random_groups])
def test_passes_over_few_placements_prove_nothing_false(
    draw: Callable[[int], PlanningProblem],
) -> None:
    compared, proved, barren = compare(range(60), draw)
    assert compared > 25
    assert proved + barren > 0.6 * compared


@pytest.mark.slow
@pytest.mark.usefixtures("by_passes")
@pytest.mark.parametrize("draw", [random_small, random_groups])
def test_passes_over_few_placements_prove_nothing_false_on_many(
    draw: Callable[[int], PlanningProblem],
) -> None:
    compared, proved, barren = compare(range(6000, 7000), draw)
    assert compared > 300
    assert proved + barren > 0.6 * compared


def test_few_groups_of_many_operators_are_proved() -> None:
    problem = pipeline_of_groups()
    assert len(problem.graph.operators) == 45 > settings.LARGEST
    assert Enumeration.suits(problem)
    search = Enumeration(problem)
    assert value_of(problem, last_of(search, problem)) == search.least == OPTIMUM


def test_many_operators_without_groups_are_left_to_others() -> None:
    problem = pipeline_of_groups()
    free = tuple(replace(operator, group=None) for operator in problem.graph.operators)
    assert not Enumeration.suits(replace(problem, graph=replace(problem.graph, operators=free)))


def test_traps_are_proved_but_for_those_about_memory_in_time() -> None:
    open_ones = []
    for trap in TRAPS:
        if not Enumeration.suits(trap.problem) or infeasibility(trap.problem) is not None:
            continue
        search = Enumeration(trap.problem)
        value = value_of(trap.problem, last_of(search, trap.problem))
        if search.least != trap.optimum or value != trap.optimum:
            open_ones.append(trap.name)
    assert open_ones == ["memory-forces-delay"]


@pytest.mark.parametrize(
    ("name", "optimum"),
    [
        ("unet-inference-2xH100", 1_462_844),  # as the model proves
        ("moe-tiny-meshed-2xH100", 95_706),
        ("moe-tiny-inference-4xA100", 726_753),
        ("gpt-tiny-training-2xA100", 584_614),
    ],
)
def test_shipped_instances_are_proved(name: str, optimum: int) -> None:
    problem = read(INSTANCES / f"{name}.json")
    assert isinstance(problem, PlanningProblem)
    search = Enumeration(problem)
    assert value_of(problem, last_of(search, problem)) == search.least == optimum


def test_what_is_known_is_proved_without_a_plan() -> None:
    problem = next(trap.problem for trap in TRAPS if trap.name == "fan-out-one-send")
    search = Enumeration(problem)
    search.cut(70)
    assert last_of(search, problem) is None
    assert search.least == 70


def test_a_search_that_is_stopped_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CHOICES_PER_CHECK", 50)
    problem = read(INSTANCES / "unet-inference-2xH100.json")
    assert isinstance(problem, PlanningProblem)
    search = Enumeration(problem)
    before = 0
    for _ in range(20):
        last_of(search, problem, 50)
        assert search.least is not None
        assert before <= search.least <= 1_462_844
        before = search.least
    assert 1_399_652 <= before < 1_462_844


def test_a_search_goes_on_with_a_plan_from_elsewhere() -> None:
    problem = read(INSTANCES / "unet-inference-2xH100.json")
    assert isinstance(problem, PlanningProblem)
    search = Enumeration(problem)
    last_of(search, problem, 1000)
    assert search.least is not None
    assert search.least < 1_462_844
    search.cut(1_462_844)
    assert last_of(search, problem) is None
    assert search.least == 1_462_844
