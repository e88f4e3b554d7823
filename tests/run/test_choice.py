"""Special ways of planning are chosen for their own problems only."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from milp_plan.core import CommunicationModel, MemoryLaw, Objective, PlanningProblem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.stash import with_hosts
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.placement.planted import planted_serial
from milp_plan.kinds.schedule.kind import KIND
from milp_plan.run import Settings, solve
from milp_plan.run.solving import Choice, choose
from tests.support.anything import optimum, random_case
from tests.support.planted_sharding import planted_sharding

from .cases import trap

GENERAL, LOADS = "operator_schedule", "resource_load"
SHOP = "pipeline_order"


def chosen(problem: PlanningProblem, name: str = "auto") -> Choice:
    return choose(KIND, problem, Settings(formulation=name))


def pipeline(objective: Objective = Objective.MAKESPAN) -> PlanningProblem:
    template, activation = uniform(2, 2, (2, 2, 2))
    problem = pipeline_problem("plain", template, place("line", 2), memory_bytes=activation)
    return replace(problem, objective=objective)


def test_orders_of_one_device_need_no_model_unless_one_is_named() -> None:
    problem = trap("depth-first-saves-memory").problem
    way, solver, _, _ = chosen(problem)
    assert (way.name, solver) == ("order", None)
    named = chosen(problem, GENERAL)
    assert named.strategy.name == "order"
    assert named.solver is not None
    assert named.solver.found.name == GENERAL


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (pipeline(), SHOP),
        (pipeline(Objective.SPAN), SHOP),
        (pipeline(Objective.PEAK_MEMORY), GENERAL),
    ],
    ids=lambda thing: getattr(thing, "name", thing),
)
def test_each_problem_gets_a_formulation_that_supports_it(
    problem: PlanningProblem, name: str
) -> None:
    way, solver, left, _ = chosen(problem)
    assert not left or name == GENERAL
    assert solver is not None
    assert solver.found.name == name
    assert (way.name == "pipeline") == (name == SHOP)
    assert solver.unsupported(problem) is None


def test_a_pipeline_with_hosts_is_planned_by_what_may_wait_there() -> None:
    assert chosen(with_hosts(pipeline(), 1)).strategy.name == "stash"


def test_a_graph_of_which_nothing_repeats_is_no_pipeline() -> None:
    """Operators on given devices whose transfers hold channels have the form, but no batches."""
    problem = pipeline()
    operators = tuple(replace(op, micro_batch=None) for op in problem.graph.operators)
    cluster = replace(problem.cluster, communication=CommunicationModel.CHANNEL)
    plain = replace(problem, graph=replace(problem.graph, operators=operators), cluster=cluster)
    way, solver, left, _ = chosen(plain)
    assert way.name == "schedule"
    assert not left
    assert solver is not None
    assert solver.found.name == GENERAL


def test_a_form_that_its_formulation_does_not_support_falls_back_and_says_so() -> None:
    """A zero-length operator that holds memory: orders alone do not say when it is held."""
    problem = pipeline()
    first, *others = problem.graph.operators
    instant = replace(
        first.options[0], duration_ticks=dict.fromkeys(first.options[0].duration_ticks, 0)
    )
    graph = replace(problem.graph, operators=(replace(first, options=(instant,)), *others))
    problem = replace(problem, graph=graph)
    way, solver, left, _ = chosen(problem)
    assert way.name == "schedule"
    assert solver is not None
    assert solver.found.name == GENERAL
    assert "pipeline_order does not apply" in left
    assert "lasts no time" in left
    stated: list[str] = []
    outcome = solve(
        problem, Settings(time_limit_s=60.0), lambda progress: stated.append(progress.note)
    )
    assert outcome.plan is not None
    assert left in stated


def test_plans_without_a_schedule_have_a_formulation_of_their_own() -> None:
    problem = pipeline(Objective.BOTTLENECK)
    roomy = problem.cluster.with_memory(dict.fromkeys(problem.cluster.device_names))
    problem = replace(problem, cluster=roomy, memory_law=MemoryLaw.STATIC)
    outcome = solve(problem, Settings(time_limit_s=60.0))
    assert outcome.proved
    assert outcome.record["formulation"] is None  # enumeration proves it: no model is built
    alone = solve(problem, Settings(time_limit_s=60.0, formulation=LOADS, only=True))
    assert alone.record["formulation"]["name"] == LOADS


@pytest.mark.parametrize(
    "problem",
    [trap("gang-beats-single").problem, pipeline(), planted_serial(5, contiguous=False)[0]],
    ids=["schedule", "pipeline", "serial"],
)
def test_only_the_model_is_heard(problem: PlanningProblem) -> None:
    """The option was there, and heuristics ran all the same."""
    outcome = solve(problem, Settings(time_limit_s=60.0, only=True))
    assert outcome.plan is not None
    assert outcome.planner == outcome.bound_name == outcome.record["formulation"]["name"]
    assert outcome.baselines == {}
    assert outcome.record["window_search"] is None
    assert outcome.value == solve(problem, Settings(time_limit_s=60.0)).value


def test_only_the_model_of_a_sharding_problem_is_heard() -> None:
    problem, _ = planted_sharding(0)
    outcome = solve(problem, Settings(time_limit_s=60.0, formulation="sharding", only=True))
    assert outcome.value == solve(problem).value
    assert outcome.bound_name != "elimination"


@pytest.mark.parametrize("objective", Objective)
def test_every_objective_has_a_plan_a_bound_and_an_exact_model(objective: Objective) -> None:
    """Of graphs of any form: ``span`` and ``bottleneck`` ended without a plan, others disputed."""
    kind = "serial" if objective is Objective.LATENCY else "general"
    drawn = (p for p in map(random_case, range(150)) if p.objective is objective)
    known = ((p, optimum(p)) for p in drawn if p.name.startswith(kind))
    some = list(islice(((p, best) for p, best in known if best), 3))
    assert len(some) == 3
    settings = Settings(time_limit_s=600.0, node_limit=20_000, rounds=0)
    for problem, best in some:
        outcome = solve(problem, settings)
        assert (outcome.value, outcome.bound, outcome.proved) == (best, best, True), problem.name
        alone = solve(problem, replace(settings, only=True))
        assert not alone.disputed, problem.name
        assert alone.value is not None, problem.name
        assert best <= alone.value <= best * (1 + 1e-6), problem.name  # up to its tolerances
        assert alone.bound is None or alone.bound <= best, problem.name
        assert alone.planner == alone.record["formulation"]["name"], problem.name
