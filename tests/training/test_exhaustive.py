"""The search with the real costs against every configuration, on parts of named models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.training import Configuration, Precision, Recompute, Schedule, model
from milp_plan.kinds.training.api import check, training_problem
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.exports import FORMATS, refusals
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.replay import NoScheduleError
from milp_plan.kinds.training.search import search
from milp_plan.kinds.training.space import Space
from milp_plan.kinds.training.step import TrainingStep, derive, excess_of, host_excess
from tests.support.seeds import few

MODELS = (
    *("llama3-8b", "gpt3-175b", "qwen3-0.6b", "mixtral-8x7b", "deepseek-v2-lite", "deepseek-v3"),
    *("gpt-oss-20b", "llava-7b", "vit-l"),
)
CLUSTERS = (
    *("1x4xH100", "2x2xA100", "1x8xH100", "1x6xH800", "1x2xA100+1x2xV100"),
    *("1x4xA100+1x2xV100", "2x1xA100+1x1xV100+1x1xH100"),
)


def drawn(seed: int) -> TrainingProblem:
    """Return some blocks of a model on a small cluster whose memory is about what plans need."""
    rng = Random(f"exhaustive {seed}")
    while not any(Space(problem := one(rng, MODELS[seed % len(MODELS)]), problem.fixed)):
        pass
    return problem


def one(rng: Random, name: str) -> TrainingProblem:
    """Return what may have no configuration at all."""
    whole = model(name)
    count = rng.randint(1, 6)
    uneven = [i for i, block in enumerate(whole.blocks[1:], 1) if block != whole.blocks[i - 1]]
    first = max(0, rng.choice(uneven or [3]) - rng.randint(0, count))
    part = replace(whole, blocks=whole.blocks[first : first + count])
    fixed = {
        name: value
        for name, value, often in (
            ("micro_batch", rng.choice((1, 2)), 0.4),
            ("pipeline", rng.choice((1, 2, 4)), 0.4),
            ("schedule", rng.choice(list(Schedule)), 0.4),
            ("precision", Precision.FP8, 0.1),
            ("zero", rng.choice((1, 2, 3)), 0.1),
            ("recompute", rng.choice(list(Recompute)), 0.1),
            ("recomputed", rng.randint(0, 2), 0.1),
            ("sequence_parallel", False, 0.1),
        )
        if rng.random() < often
    }
    asked = {
        "global_batch": rng.choice((2, 4, 6, 8, 16)),
        "sequence": rng.choice((512, 4096, 16384)),
        "fixed": fixed,
        "host": rng.random() < 0.4,
        "framework": rng.choice(list(FORMATS)) if rng.random() < 0.3 else "",
    }
    cluster = rng.choice(CLUSTERS)
    free = training_problem(part, cluster, reserve_bytes=0, **asked)
    costs, peaks = PlanCosts(free), [8 * 10**10]
    for c in sorted(Space(free, fixed), key=lambda _: rng.random())[:6]:
        step = stepped(costs, c)
        peaks += [max(step.peaks)] if step else []
    memory = int(rng.choice(peaks) * rng.choice((1, 1, 0.97, 1.05))) - rng.choice((0, 0, 1))
    return training_problem(part, cluster, reserve_bytes=0, memory_bytes=memory, **asked)


def stepped(costs: PlanCosts, c: Configuration) -> TrainingStep | None:
    try:
        return derive(c, costs.priced(c))
    except NoScheduleError:
        return None


def every(problem: TrainingProblem, costs: PlanCosts) -> Iterator[Configuration]:
    """Yield the space: each way to save memory, of each number of blocks, in each partition."""
    space, fixed = Space(problem, problem.fixed, refusals(problem)), problem.fixed
    some = not {"recompute", "recomputed"} & set(fixed)
    for base in space:
        split = [base, *costs.variants(base)]
        for recompute, offload in product(space.recomputes, space.offloads):
            for one in split:
                way = replace(one, recompute=recompute, offload=offload)
                most = max(way.chunk_layers(problem.architecture))
                more = range(1, most if some and recompute is not Recompute.NONE else 1)
                for c in (way, *(replace(way, recomputed=number) for number in more)):
                    if problem.why_not(c) is None:
                        yield c


@pytest.mark.parametrize("seed", few(range(300), 8))
def test_nothing_that_fits_is_faster_than_what_is_proved_best(seed: int) -> None:
    problem = drawn(seed)
    costs, refused = PlanCosts(problem), refusals(problem)
    found = search(problem, costs, problem.fixed, Budget(None), refused)
    best = found.best[0] if found.best else None
    assert found.finished
    assert found.bound_ns == (best.step_ns if best else None)
    if best:
        verdict = check(problem, best.configuration)
        assert (verdict.ok, verdict.value) == (True, best.step_ns)
    for c in every(problem, costs):
        step = stepped(costs, c)
        if step is None:
            continue
        assert costs.evenly_ns(c) <= step.step_ns
        assert costs.first_peak(c) <= step.peaks[0]
        if excess_of(problem, c, step.peaks)[0] > 0:
            continue
        bound = costs.saving_ns(c)
        assert bound is not None
        assert bound <= step.step_ns
        if host_excess(problem, c, step.host_peaks) <= 0 and not refused(c):
            assert best is not None
            assert best.step_ns <= step.step_ns, c
    for miss in found.misses:
        broken = check(problem, miss.configuration)
        assert {each.rule for each in broken.violations} == {"memory"}
        lacking = max((each.needed or 0) - (each.available or 0) for each in broken.violations)
        assert (broken.value, lacking) == (miss.step_ns, miss.excess_bytes)
        assert best is None or miss.step_ns < best.step_ns
