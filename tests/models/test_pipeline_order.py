"""``pipeline_order`` proves what enumerating all words finds, and each of its rules is needed."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import combinations
from random import Random

import pytest

from formulations.pipeline_order.mirror import image_around, is_mirrored
from milp_plan.api import Guide, Neighbourhood, Objective, Plan, PlanningProblem
from milp_plan.backends import Limits, Stop
from milp_plan.check import verify
from milp_plan.contract import FormulationContract
from milp_plan.core import CommunicationModel
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import fits, times, words_of
from milp_plan.kinds.schedule.model.planted import planted_pipeline, planted_words
from milp_plan.lp import CompiledModel
from milp_plan.lp.from_pyomo import compile_pyomo
from tests.support.shops import shop
from tests.support.words import least_value

from .solving import formulation, optimise, solve_here

NAME = "pipeline_order"


class TestPipelineOrder(FormulationContract):
    """The inherited contract, on tiny pipelines; enumeration of words is the oracle."""

    reference = NAME
    seeds = range(6)
    least = 12

    def planted(self, seed: int, objective: Objective) -> tuple[PlanningProblem, Plan]:
        if objective in self.formulation.card.objectives:
            return planted_pipeline(seed, objective)
        return super().planted(seed, objective)


def tiny(family: str, micro_batches: int, **options: object) -> PlanningProblem:
    """A pipeline on two devices with uneven times."""
    objective = options.pop("objective", Objective.MAKESPAN)
    caps = options.pop("memory", None)
    channels = options.pop("channels", False)
    devices = options.pop("devices", 2)
    chunks = {"v": 2, "interleaved": 2}.get(family, 1)
    times = options.pop("times", (3, 5, 2))
    template, activation = uniform(devices, micro_batches, times, chunks=chunks, **options)  # type: ignore[arg-type]
    if channels:
        template = dataclasses.replace(template, transfers=CommunicationModel.CHANNEL)
    memory = None if caps is None else int(caps * activation)  # type: ignore[operator]
    return pipeline_problem(
        f"{family}-{micro_batches}", template, place(family, devices), memory_bytes=memory,  # type: ignore[arg-type]
        objective=objective,  # type: ignore[arg-type]
    )  # fmt: skip


CASES = [
    ("line", 2, {"memory": 1}),
    ("line", 2, {"transfer": 4}),
    ("line", 3, {"memory": 2}),
    ("line", 3, {"memory": 1.5, "freed_at_backward": Fraction(1, 2), "transfer": 1}),
    ("line", 3, {"transfer": 4, "channels": True}),
    ("line", 2, {"devices": 3, "memory": 1, "times": (1, 1, 1)}),
    ("line", 2, {"devices": 3, "memory": 2, "transfer": 1}),
    ("v", 2, {"joint_backward": True}),
    ("v", 2, {"joint_backward": True, "memory": 1.5, "transfer": 1}),
    ("v", 2, {"joint_backward": True, "memory": 1.5, "transfer": 1, "channels": True}),
    ("interleaved", 2, {"joint_backward": True, "memory": 1.5}),
    ("dualpipe", 2, {"memory": 1}),
    ("dualpipe", 2, {"transfer": 1, "memory": 2}),
    ("dualpipe", 2, {"transfer": 2, "channels": True}),
    ("dualpipe", 4, {"joint_backward": True, "memory": 1, "times": (1, 1, 1)}),
]


NEAR = [
    ("line", 3, {"devices": 3, "memory": 2, "transfer": 1}),
    ("v", 2, {"memory": 1.5, "transfer": 1}),
    ("dualpipe", 4, {"memory": 2, "transfer": 1}),
    ("dualpipe", 4, {"memory": 2, "transfer": 1, "channels": True}),
    ("line", 4, {"devices": 3, "memory": 3, "objective": Objective.SPAN}),
    ("dualpipe", 4, {"memory": 3, "transfer": 2, "objective": Objective.SPAN}),
]


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
@pytest.mark.parametrize(("family", "micro_batches", "options"), CASES)
def test_the_model_proves_the_optimum(
    family: str, micro_batches: int, options: dict[str, object], objective: Objective
) -> None:
    problem = tiny(family, micro_batches, objective=objective, **options)
    found = optimise(NAME, problem)
    assert found.verdict.ok, found.verdict.violations
    assert found.verdict.value == least_value(shop(problem))


def random_plan(problem: PlanningProblem, seed: int) -> Plan:
    """A valid plan in which any task may run next that memory lets run, and that dead-locks not."""
    case, rng = shop(problem), Random(seed)
    for _ in range(1000):
        words = planted_words(rng, case)
        if fits(case, words):
            return case.plan(times(case, words), "random")
    raise AssertionError(f"{problem.name}: no random plan fits")


# -- rules ---------------------------------------------------------------------------------------


def without(problem: PlanningProblem, *families: str) -> tuple[CompiledModel, float]:
    """The model without some families of rows, and without the value's known floor; its unit."""
    form = formulation(NAME)
    options = form.Options()
    source = form.build(problem, options, Guide())
    for family in families:
        source.component(family).deactivate()
    source.value.setlb(0)
    return compile_pyomo(source), form.scale(problem, options, Guide()).unit


def optimum(model: CompiledModel, unit: float) -> float:
    answer = solve_here(model, Limits(gap=1e-9))
    assert answer.stop is Stop.PROVED
    assert answer.objective is not None
    return answer.objective * unit


HARD = ("dualpipe", 4, {"memory": 1, "joint_backward": True})


@pytest.mark.parametrize(
    "families", [("precede",), ("order",), ("finish", "work_after"), ("memory",)], ids="+".join
)
def test_without_a_rule_the_optimum_falls(families: tuple[str, ...]) -> None:
    kind, micro_batches, options = HARD
    problem = tiny(kind, micro_batches, **options)
    assert optimum(*without(problem)) == pytest.approx(least_value(shop(problem)))
    assert optimum(*without(problem, *families)) < optimum(*without(problem)) - 0.5


@pytest.mark.parametrize("family", ["work_before", "work_after"])
def test_a_work_cut_keeps_the_optimum_and_lifts_the_relaxation(family: str) -> None:
    kind, micro_batches, options = HARD
    problem = tiny(kind, micro_batches, **options)
    (whole, unit), (less, _) = without(problem), without(problem, family)
    assert optimum(less, unit) == pytest.approx(optimum(whole, unit))
    assert optimum(less.relaxed(), unit) < optimum(whole.relaxed(), unit) - 1e-3


def test_staircases_cut_off_fractional_orders_and_no_plan() -> None:
    broken = 0
    for kind, micro_batches, options in [HARD, *CASES[:4]]:
        problem = tiny(kind, micro_batches, **options)
        (whole, unit), (less, _) = without(problem), without(problem, "staircase")
        assert optimum(less, unit) == pytest.approx(optimum(whole, unit))
        answer = solve_here(less.relaxed(), Limits())
        assert answer.vector is not None
        amount, where = whole.relaxed().violation(answer.vector)
        broken += amount > 1e-6 and where == "row of family staircase"
    assert broken


def test_a_plan_beyond_the_cutoff_is_no_start_and_below_the_optimum_is_none() -> None:
    problem = tiny("line", 3, memory=2)
    best = optimise(NAME, problem)
    assert best.verdict.value is not None
    form = formulation(NAME)
    guide = Guide(cutoff=best.verdict.value - 1)
    source = form.build(problem, form.Options(), guide)
    assert form.encode(problem, form.Options(), source, best.plan) is None
    assert solve_here(compile_pyomo(source), Limits()).stop is Stop.INFEASIBLE


def test_what_it_is_not_for_is_explained_in_words() -> None:
    form = formulation(NAME)
    free = pipeline_problem("free", uniform(2, 2)[0], None, devices=2)
    assert "2 placements" in str(form.unsupported(free, form.Options()))
    instant = tiny("line", 2, memory=2, times=(0, 1, 1))
    assert form.unsupported(instant, form.Options()) == "F0 lasts no time and holds memory"
    line = tiny("line", 2)
    assert "mirror images" in str(form.unsupported(line, form.Options(mirror=True)))
    assert "spread is 0.5" in str(form.unsupported(line, form.Options(spread=0.5)))


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
def test_large_ticks_are_counted_in_larger_units(objective: Objective) -> None:
    problem = tiny("line", 3, times=(29718, 29444, 19927), transfer=527, memory=2)
    problem = dataclasses.replace(problem, objective=objective)
    found = optimise(NAME, problem)
    assert found.scale.unit > 1
    assert found.verdict.value == least_value(shop(problem))


# -- neighbourhoods ------------------------------------------------------------------------------


def orders(case: Shop, plan: Plan) -> list[list[str]]:
    """Machine -> its operators by start."""
    lines: dict[str, list[tuple[int, str]]] = {}
    for run in plan.runs:
        lines.setdefault(run.devices[0], []).append((run.start_ticks or 0, run.operator))
    return [[name for _, name in sorted(lines[d])] for d in sorted(lines)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("family", "micro_batches", "options"), NEAR)
def test_only_pairs_of_free_tasks_change_their_order(
    family: str, micro_batches: int, options: dict[str, object], seed: int
) -> None:
    problem = tiny(family, micro_batches, **options)
    case = shop(problem)
    plan = random_plan(problem, seed)
    known = verify(problem, plan).value
    assert known is not None
    by_start = sorted(plan.runs, key=lambda run: (run.start_ticks or 0, run.operator))
    first = Random(seed).randrange(len(by_start) // 2)
    free = frozenset(run.operator for run in by_start[first : first + len(by_start) // 3])
    found = optimise(NAME, problem, Guide(cutoff=known, neighbourhood=Neighbourhood(plan, free)))
    assert found.verdict.ok, found.verdict.violations
    assert found.verdict.value is not None
    assert found.verdict.value <= known
    if family != "v":  # micro-batches keep their names where the plan has them in order
        for old, new in zip(orders(case, plan), orders(case, found.plan), strict=True):
            for one, two in combinations(old, 2):
                if one not in free or two not in free:
                    assert new.index(one) < new.index(two) or not in_order(case, plan)
    whole = optimise(NAME, problem).verdict.value
    assert whole is not None
    assert found.verdict.value >= whole


def in_order(case: Shop, plan: Plan) -> bool:
    """Whether every kind runs in micro-batch order."""
    start = {run.operator: run.start_ticks or 0 for run in plan.runs}
    rows = [
        [start[name] for name in kind.members]
        for kind in case.kinds
        if kind.machine < case.num_devices
    ]
    return all(row == sorted(row) for row in rows)


def test_neighbourhoods_find_something() -> None:
    better = 0
    for seed in range(6):
        problem = tiny("dualpipe", 4, memory=2, transfer=1)
        plan = random_plan(problem, seed)
        known = verify(problem, plan).value
        free = frozenset(run.operator for run in plan.runs if run.devices == ("d0",))
        found = optimise(NAME, problem, Guide(known, None, Neighbourhood(plan, free)))
        assert known is not None
        assert found.verdict.value is not None
        better += found.verdict.value < known
    assert better >= 3


@pytest.mark.parametrize(("family", "micro_batches", "options"), NEAR)
def test_the_plan_is_a_start_of_every_neighbourhood(
    family: str, micro_batches: int, options: dict[str, object]
) -> None:
    problem = tiny(family, micro_batches, **options)
    form = formulation(NAME)
    for seed in range(3):
        plan = random_plan(problem, seed)
        known = verify(problem, plan).value
        names = problem.graph.topological_order
        for size in (0, len(names) // 3, len(names) - 1):
            free = frozenset(Random(seed).sample(names, size))
            for memory in (True, False):
                guide = Guide(known, 0, Neighbourhood(plan, free), memory=memory)
                source = form.build(problem, form.Options(), guide)
                values = form.encode(problem, form.Options(), source, plan)
                assert values is not None
                model = compile_pyomo(source)
                amount, where = model.violation(model.vector(values))
                assert amount <= 1e-6, f"{where} by {amount}"
                again = form.decode(problem, form.Options(), guide, values)
                reached = verify(problem, again).value
                assert reached is not None
                assert known is not None
                assert reached <= known


# -- mirrored orders, and early starts -----------------------------------------------------------


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
@pytest.mark.parametrize("channels", [False, True])
def test_mirrored_orders_are_a_restriction_that_claims_no_bound(
    objective: Objective, channels: bool
) -> None:
    problem = tiny("dualpipe", 4, memory=2, transfer=1, objective=objective, channels=channels)
    case = shop(problem)
    whole, half = optimise(NAME, problem), optimise(NAME, problem, mirror=True)
    assert half.verdict.ok
    assert half.verdict.value is not None
    assert whole.verdict.value is not None
    assert half.verdict.value >= whole.verdict.value
    image = image_around(case)
    assert image is not None
    assert is_mirrored(case, image, words_of(case, half.plan))
    assert half.model.num_columns <= whole.model.num_columns // 2 + 3
    assert half.answer.bound is not None
    assert half.answer.bound - half.scale.slack <= 0
    form = formulation(NAME)
    assert form.restricts(form.Options(mirror=True))
    assert not form.restricts(form.Options())


def test_a_neighbourhood_that_is_not_its_own_image_is_searched_whole() -> None:
    problem = tiny("dualpipe", 4, memory=2, transfer=1)
    plan = optimise(NAME, problem, mirror=True).plan
    half = frozenset(run.operator for run in plan.runs if run.devices == ("d0",))
    for free, narrow in ((half, False), (frozenset(problem.graph.topological_order), True)):
        guide = Guide(neighbourhood=Neighbourhood(plan, free))
        found = optimise(NAME, problem, guide, mirror=True)
        assert found.verdict.value == verify(problem, plan).value
        assert (found.scale.slack > 0) == narrow


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
def test_early_starts_break_ties_and_keep_the_optimum(objective: Objective) -> None:
    problem = tiny("line", 3, memory=2, transfer=1, objective=objective)
    plain, early = optimise(NAME, problem), optimise(NAME, problem, spread=0.4)
    assert early.verdict.value == plain.verdict.value == least_value(shop(problem))
    claim = early.answer.objective
    assert claim is not None
    assert early.verdict.value is not None
    low = early.verdict.value / early.scale.unit
    assert low < claim <= low + early.scale.slack
