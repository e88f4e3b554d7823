"""Costs of chunks against those of stages, bounds against prices, variants against all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.training import Configuration, Offload, Recompute, Schedule
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.replay import replay, schedule_bound
from milp_plan.kinds.training.search import search
from milp_plan.kinds.training.space import Space
from milp_plan.kinds.training.step import derive, excess_of, least_peaks
from tests.support.training import problem_of

CASES = {
    "dense": problem_of("llama3-8b", "2x8xH100", 64),
    "experts": problem_of("mixtral-8x7b", "2x8xH100", 64),
    "uneven": problem_of("deepseek-v2-lite", "2x8xH800", 64),
    "frozen": problem_of("llava-7b", "2x8xA100", 32, 2048),
    "mixed": problem_of("llama3-8b", "1x8xA100+1x8xV100", 64),
}


def some(problem: TrainingProblem, every: int = 97) -> list[Configuration]:
    return list(Space(problem, {}))[::every]


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_below_the_step_and_peaks_at_least_what_is_counted_first(name: str) -> None:
    problem = CASES[name]
    costs = PlanCosts(problem)
    listed = some(problem, {"experts": 67, "mixed": 11}.get(name, 19))
    assert len(listed) > 5
    for base in listed:
        for c in (base, *costs.variants(base)):
            priced = costs.priced(c)
            step = derive(c, priced)
            assert costs.least_ns(c) <= costs.evenly_ns(base) <= step.step_ns
            assert schedule_bound(c, priced.chunks) <= step.played.makespan_ns
            assert costs.first_peak(c) <= step.peaks[0] + 1
            for least, peak in zip(least_peaks(c, priced), step.peaks, strict=True):
                assert least <= peak


@pytest.mark.parametrize("name", CASES)
def test_ways_to_save_memory_are_bounded_and_none_fits_where_the_bound_says_so(name: str) -> None:
    problem = CASES[name]
    problem = replace(
        problem, cluster=problem.cluster.with_memory(problem.cluster.memory_bytes // 2)
    )
    costs, fitting, lacking = PlanCosts(problem), 0, 0
    for base in some(problem, {"experts": 149, "uneven": 149, "mixed": 11}.get(name, 37)):
        for recompute, offload in product(Recompute, Offload):
            way = replace(base, recompute=recompute, offload=offload)
            bound = costs.saving_ns(way)
            for c in (way, *costs.variants(way), *costs.lighter(way)):
                step = derive(c, costs.priced(c))
                if excess_of(problem, c, step.peaks)[0] > 0:
                    lacking += 1
                else:
                    assert bound is not None
                    assert bound <= step.step_ns
                    fitting += 1
    assert fitting > 5
    assert lacking > 5


def test_no_class_of_a_mixed_cluster_bounds_layers_that_another_one_runs_faster() -> None:
    """The fastest class for the whole model may be slower than another for some of its layers."""
    costs = PlanCosts(CASES["mixed"])
    for c in some(CASES["mixed"]):
        assert costs.evenly_ns(c) == costs.least_ns(c)
    costs = PlanCosts(CASES["dense"])
    assert all(costs.evenly_ns(c) > costs.least_ns(c) for c in some(CASES["dense"]))


def test_the_replay_of_1f1b_is_close_to_the_closed_form() -> None:
    problem = CASES["dense"]
    costs = PlanCosts(problem)
    for c in Space(problem, {"schedule": Schedule.ONE_F_ONE_B, "recompute": Recompute.NONE}):
        step = derive(c, costs.priced(c))
        assert step.step_ns == pytest.approx(costs.step(c).total_ns, rel=0.02)


def ways(hosts: bool) -> tuple[list[Recompute], list[Offload]]:
    if hosts:
        return list(Recompute), list(Offload)
    return [each for each in Recompute if each is not Recompute.OFFLOAD], [Offload.NONE]


TIGHT: dict[str, Any] = {
    **{"tensor": 8, "pipeline": 4, "micro_batch": 1, "schedule": Schedule.ONE_F_ONE_B},
    **{"context": 1, "layers": (20, 20, 20, 20)},
}


@pytest.mark.parametrize("hosts", [True, False])
@pytest.mark.parametrize("sequence", [10240, 12288, 16384])
def test_as_few_blocks_save_memory_as_is_asked_for(sequence: int, hosts: bool) -> None:
    """The best of every way, of every number of blocks."""
    problem = problem_of("llama3-70b", "4x8xH100", 64, sequence)
    problem = replace(problem, host=hosts)
    costs, fixed = PlanCosts(problem), TIGHT | {"recomputed_by_chunk": ()}
    best = search(problem, costs, fixed, Budget(None)).best[0]
    (base,) = Space(problem, fixed)
    steps = {}
    for recompute, offload, count in product(*ways(hosts), range(20)):
        c = replace(base, recompute=recompute, offload=offload, recomputed=count)
        if problem.why_not(c) is None:
            step = derive(c, costs.priced(c))
            if excess_of(problem, c, step.peaks)[0] <= 0:
                steps[c] = step.step_ns
    assert best.configuration.recompute is not Recompute.NONE
    assert best.step_ns == min(steps.values())


def test_stages_where_fewer_micro_batches_wait_recompute_fewer_blocks() -> None:
    problem = problem_of("llama3-70b", "4x8xH100", 64, 16384)
    costs, fixed = PlanCosts(problem), TIGHT
    best = search(problem, costs, fixed, Budget(None)).best[0]
    equal = search(problem, costs, fixed | {"recomputed_by_chunk": ()}, Budget(None)).best[0]
    counts = best.configuration.recomputed_by_chunk
    assert counts == tuple(sorted(counts, reverse=True))
    assert counts[0] == equal.configuration.recomputed > counts[-1]
    assert best.step_ns < equal.step_ns
    for stage, count in enumerate(counts):
        if count:
            less = (*counts[:stage], count - 1, *counts[stage + 1 :])
            c = replace(best.configuration, recomputed_by_chunk=less)
            assert excess_of(problem, c, derive(c, costs.priced(c)).peaks)[0] > 0


def test_every_block_computed_again_costs_what_full_recomputation_does() -> None:
    problem = CASES["dense"]
    costs = PlanCosts(problem)
    full = Configuration(
        pipeline=2, data=8, micro_batches=8, recompute=Recompute.FULL, layers=(16, 16)
    )
    assert costs.priced(replace(full, recomputed=16)).chunks == costs.priced(full).chunks
    by_chunk = costs.priced(replace(full, recomputed_by_chunk=(16, 0)))
    none = costs.priced(replace(full, recompute=Recompute.NONE))
    assert by_chunk.chunks == (costs.priced(full).chunks[0], none.chunks[1])
    assert by_chunk.resident_bytes[1] == none.resident_bytes[1]
    none, half, all_ = (
        costs.priced(c).chunks[0]
        for c in (
            replace(full, recompute=Recompute.NONE),
            replace(full, recomputed=8),
            full,
        )
    )
    assert abs(2 * half.activation_bytes - none.activation_bytes - all_.activation_bytes) <= 2
    assert abs(2 * half.backward_ns - none.backward_ns - all_.backward_ns) <= 2


def test_slower_devices_get_fewer_blocks_and_the_step_is_shorter() -> None:
    problem = CASES["mixed"]
    costs = PlanCosts(problem)
    even = Configuration(tensor=8, pipeline=2, micro_batches=64)
    (balanced,) = (c for c in costs.variants(even) if not c.recomputed)
    assert balanced.layers[0] > balanced.layers[1]
    steps = [replay(c, costs.priced(c).chunks).makespan_ns for c in (balanced, even)]
    assert steps[0] < 0.8 * steps[1]


def test_uneven_models_are_better_off_than_with_the_even_split() -> None:
    problem = problem_of("deepseek-v2-lite", "2x8xH800", 256)
    costs = PlanCosts(problem)
    even = Configuration(expert=2, pipeline=8, data=2, micro_batches=128)
    balanced = [c for c in costs.variants(even) if not c.recomputed]
    *times, last = (replay(c, costs.priced(c).chunks).makespan_ns for c in (*balanced, even))
    assert len(times) == 3
    assert max(times) < last


def test_a_pipeline_of_fifteen_has_no_idle_stages() -> None:
    """By hand: with 2 blocks on most stages and 3 on five the step is shorter than with 0,0,0,2,3.

    Both have the same slowest stage and the same peak.
    """
    problem = problem_of("llama3-8b", "3x5xH100", 64)
    costs = PlanCosts(problem)
    base = Configuration(pipeline=15, micro_batches=64, schedule=Schedule.ZB_H1)
    greedy = replace(base, layers=(0, 0, 0, 2, *[3] * 10, 0))
    by_hand = replace(base, layers=(1, *[2] * 8, *[3] * 5, 0))
    first, hand = (derive(c, costs.priced(c)) for c in (greedy, by_hand))
    assert hand.step_ns < first.step_ns
    assert max(hand.peaks) == max(first.peaks)
    ours = [derive(c, costs.priced(c)).step_ns for c in costs.variants(base)]
    assert min(ours) <= hand.step_ns
