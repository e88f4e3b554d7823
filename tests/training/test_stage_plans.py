"""Layers of named models on stages: against the even split, the replay and the other algorithm."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from milp_plan.kinds.training import Configuration, Recompute, Schedule, api
from milp_plan.kinds.training.check_stages import verify_training_stages
from milp_plan.kinds.training.configuration import even_layers
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.stage_costs import stages_problem
from milp_plan.kinds.training.stage_plans import fastest_stages, split_as, with_stages
from milp_plan.kinds.training.stages import balanced_layers
from milp_plan.kinds.training.stages_problem import (
    Chunk,
    Device,
    Load,
    Run,
    TrainingStagesProblem,
    peaks_of,
    step_of,
)
from milp_plan.kinds.training.step import derive, excess_of
from tests.support.planted_stages import planted_training_stages
from tests.support.seeds import few

NONE, FULL = Recompute.NONE, Recompute.FULL


def of(
    name: str, cluster: str, batch: int, sequence: int = 4096, memory: int | None = None
) -> TrainingProblem:
    return api.training_problem(
        name, cluster, global_batch=batch, sequence=sequence, memory_bytes=memory
    )


CASES = {
    "llama": (
        of("llama3-70b", "4x8xH100", 64),
        Configuration(tensor=8, pipeline=4, micro_batches=64),
    ),
    "deepseek": (
        of("deepseek-v3", "256x8xH800", 1920 * 4, memory=96 * 10**9),
        Configuration(pipeline=16, data=128, expert=64, micro_batches=60, recompute=FULL),
    ),
    "vision": (
        of("llava-7b", "2x8xA100", 64, 2048),
        Configuration(pipeline=8, data=2, micro_batches=32),
    ),
}


@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, Schedule.ZB_H1])
@pytest.mark.parametrize("name", CASES)
def test_named_models_are_not_slower_than_evenly_split_and_uneven_ones_faster(
    name: str, schedule: Schedule
) -> None:
    problem, configuration = CASES[name]
    costs = PlanCosts(problem)
    found = fastest_stages(costs, replace(configuration, schedule=schedule), (NONE, FULL))
    assert found.proved
    assert found.plan is not None
    assert found.even is not None
    assert found.plan.value <= found.even.value
    (best, step), (_, even) = found.candidates[0], found.candidates[-1]
    assert step.step_ns <= even.step_ns
    assert problem.why_not(best) is None
    assert api.check(problem, best).ok
    if name != "llama":
        assert step.step_ns < 0.95 * even.step_ns
    assert step.played.makespan_ns == pytest.approx(found.plan.value, rel=0.03)


def test_variants_of_the_search_are_about_as_fast_as_the_model() -> None:
    problem, configuration = CASES["deepseek"]
    costs, configuration = PlanCosts(problem), replace(configuration, recompute=NONE)
    found = fastest_stages(costs, configuration, (NONE, FULL))
    steps = [
        step.step_ns
        for c in costs.lighter(replace(configuration, recompute=FULL))
        for step in [derive(c, costs.priced(c))]
        if excess_of(problem, c, step.peaks)[0] <= 0
    ]
    assert min(steps) == pytest.approx(found.candidates[0][1].step_ns, rel=0.01)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.ZB_H1])
def test_memory_and_times_of_chunks_are_those_of_the_costs(name: str, schedule: Schedule) -> None:
    problem, configuration = CASES[name]
    virtual = 2 if schedule is Schedule.INTERLEAVED else 1
    c = replace(configuration, schedule=schedule, virtual=virtual, micro_batches=64)
    costs = PlanCosts(problem)
    stages = stages_problem(costs, replace(c, recompute=NONE), (NONE,))
    layers = c.chunk_layers(problem.architecture)
    free = replace(stages, devices=tuple(replace(d, limit=None) for d in stages.devices))
    plan = split_as(free, layers)
    assert plan is not None
    even = with_stages(c, free, plan)
    assert even is not None
    step = derive(even, costs.priced(even))
    for ours, theirs in zip(peaks_of(stages, plan.counts), step.peaks, strict=True):
        assert theirs <= ours + 10
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1000)


@pytest.mark.parametrize("seed", range(20))
def test_bisection_and_model_agree_where_memory_does_not_bind(seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.randint(1, 20) for _ in range(rng.randint(1, 3))]
    times = [rng.choice((0, rng.randint(1, 10**9), rng.randint(1, 10))) for _ in sizes]
    stages = rng.randint(1, min(6, sum(sizes)))
    opens, ends = rng.randint(0, 10**9), rng.randint(0, 10**9)
    blocks = [time for time, size in zip(times, sizes, strict=True) for _ in range(size)]
    layers, *_ = balanced_layers([blocks] * stages, [opens] * stages, [ends] * stages)
    beside = [0] * stages
    beside[0] += opens
    beside[-1] += ends
    problem = TrainingStagesProblem(
        "agreement",
        ("kept",),
        tuple(
            Run(f"run {n}", size, ((Load(backward=time),),))
            for n, (time, size) in enumerate(zip(times, sizes, strict=True))
        ),
        tuple(Device(0, None, ((1,),)) for _ in range(stages)),
        tuple(Chunk(k, Load(forward=time)) for k, time in enumerate(beside)),
        rng.randint(1, 100),
    )
    other = split_as(problem, layers)
    assert other is not None
    assert optimum(problem) == step_of(problem, other.counts)


def optimum(problem: TrainingStagesProblem) -> int:
    """Return the optimum by the model."""
    from tests.models.test_training_stages import solved

    value = solved(problem)[1]
    assert value is not None
    return value


def test_what_has_no_stages_is_refused_in_words() -> None:
    problem, configuration = CASES["llama"]
    costs = PlanCosts(problem)
    with pytest.raises(ValueError, match="one stage"):
        stages_problem(costs, replace(configuration, pipeline=1, data=4))
    with pytest.raises(ValueError, match="v-half has no closed form"):
        stages_problem(costs, replace(configuration, schedule=Schedule.V_HALF, virtual=2))


@pytest.mark.parametrize("seed", few(range(100), 15))
def test_no_even_split_of_random_layers_is_faster(seed: int) -> None:
    problem, _ = planted_training_stages(seed, layers=9)
    split = split_as(problem, even_layers(problem.layers, len(problem.chunks)))
    if split is not None:
        assert split.value is not None
        assert verify_training_stages(problem, split).ok
        assert optimum(problem) <= split.value


def test_a_plan_that_says_which_blocks_recompute_becomes_a_configuration_that_fits() -> None:
    """The model recomputed dense blocks of DeepSeek-V3; as a number of blocks it lacked 1.1 GB."""
    problem = api.training_problem("deepseek-v3", "256x8xH800", global_batch=15360, sequence=4096)
    c = Configuration(pipeline=8, data=256, expert=64, micro_batches=60, sequence_parallel=False)
    found = fastest_stages(PlanCosts(problem), c, (NONE, FULL), 20)
    (best, step), *_, (_, even) = found.candidates
    assert api.check(problem, best).ok
    assert step.step_ns < 0.95 * even.step_ns
