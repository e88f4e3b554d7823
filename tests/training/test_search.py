"""The search against trying everything, with simple costs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.training import Configuration, Recompute, Schedule, model, training_cluster
from milp_plan.kinds.training.api import training_problem
from milp_plan.kinds.training.misses import MOST, enough_memory, nearest_misses
from milp_plan.kinds.training.problem import TrainingProblem
from milp_plan.kinds.training.replay import ChunkCost, replay
from milp_plan.kinds.training.result import KEPT, Candidate
from milp_plan.kinds.training.search import search
from milp_plan.kinds.training.space import Refused, Space, no_reason, not_considered
from milp_plan.kinds.training.step import excess_of

from .roofline import Roofline


def problem(memory: int | None = None, batch: int = 8) -> TrainingProblem:
    (group,) = training_cluster("4xH100").groups
    alone = replace(group, device=replace(group.device, host=None))
    cluster = replace(training_cluster("4xH100"), groups=(alone,))
    if memory is not None:
        cluster = cluster.with_memory(memory)
    return TrainingProblem(model("llama3-8b"), cluster, 4096, batch)


def replays(
    of: TrainingProblem, costs: Roofline, refused: Refused = no_reason
) -> dict[Configuration, tuple[int, int]]:
    """Step of every configuration of the space, and the bytes that it lacks; by replays alone."""
    made = {}
    every = [replace(c, recompute=r) for c in Space(of, {}, refused) for r in Recompute]
    for c in (each for each in every if of.why_not(each) is None):
        step, peaks = _replayed(c, costs.chunks(c), costs.resident_bytes(c), costs.after_ns(c))
        made[c] = step, excess_of(of, c, peaks)[0]
    return made


@cache
def _replayed(
    c: Configuration, chunks: tuple[ChunkCost, ...], resident: tuple[int, ...], after: int
) -> tuple[int, tuple[int, ...]]:
    played = replay(c, chunks)
    peaks = tuple(map(sum, zip(resident, played.activation_peaks, strict=True)))
    return played.makespan_ns + after, peaks


def every(
    of: TrainingProblem, costs: Roofline, refused: Refused = no_reason
) -> dict[Configuration, int]:
    """Step of every configuration of the space that fits."""
    return {c: step for c, (step, lacking) in replays(of, costs, refused).items() if lacking <= 0}


@pytest.mark.parametrize("memory", [80 * 10**9, 50 * 10**9, 40 * 10**9])
def test_the_best_and_the_next_best_are_those_of_trying_everything(memory: int) -> None:
    of = problem(memory)
    costs = Roofline(of)
    steps = every(of, costs)
    found = search(of, costs, {}, Budget(None))
    assert len(steps) > 20
    distinct: dict[tuple[int, ...], int] = {}
    for c, step in sorted(steps.items(), key=lambda entry: entry[1]):
        distinct.setdefault(Candidate(c, step, ()).degrees, step)
    assert [c.step_ns for c in found.best] == list(distinct.values())[:KEPT]
    assert found.finished
    assert found.bound_ns == min(steps.values())
    assert found.replayed < len(steps)
    for candidate in found.best:
        assert steps[candidate.configuration] == candidate.step_ns


@pytest.mark.parametrize("memory", [40 * 10**9, 20 * 10**9, 10**9])
def test_rejected_ones_are_the_nearest_to_fit_of_those_that_are_faster(memory: int) -> None:
    of = problem(memory)
    costs = Roofline(of)
    found = search(of, costs, {}, Budget(None))
    value = found.best[0].step_ns if found.best else 10**30
    assert bool(found.best) == (memory == 40 * 10**9)
    lacking: dict[tuple[object, ...], int] = {}
    steps = replays(of, costs)
    for c, (step, bytes_) in steps.items():
        if step < value and bytes_ > 0:
            key = (c.tensor, c.context, c.pipeline, c.recompute)
            lacking[key] = min(bytes_, lacking.get(key, bytes_))
    assert [miss.excess_bytes for miss in found.misses] == sorted(lacking.values())[:MOST]
    assert found.misses
    for miss in found.misses:
        assert steps[miss.configuration] == (miss.step_ns, miss.excess_bytes)


@pytest.mark.parametrize("reserve", [None, 0, 3 * 10**9])
def test_with_enough_memory_the_nearest_fits_and_with_a_byte_less_it_does_not(
    reserve: int | None,
) -> None:
    asked = {"global_batch": 8, "sequence": 4096, "reserve_bytes": reserve}
    of = training_problem("llama3-8b", "4xH100", memory_bytes=5 * 10**9, **asked)
    (miss, *_) = search(of, Roofline(of), {}, Budget(None)).misses
    enough = enough_memory(of, miss)
    assert enough is not None
    for memory, fits in ((enough, True), (enough - 2, False)):
        more = training_problem("llama3-8b", "4xH100", memory_bytes=memory, **asked)
        peak = of.limit_bytes(miss.configuration, miss.stage) + miss.excess_bytes
        assert (peak <= more.limit_bytes(miss.configuration, miss.stage)) is fits


def test_an_effort_that_is_spent_lists_less_but_nothing_wrong() -> None:
    of = problem(10**9)
    bounds = [(1, c) for c in Space(of, {})]
    assert nearest_misses(of, Roofline(of), bounds, 0, Budget(None)) == ()
    assert nearest_misses(of, Roofline(of), bounds, 10**30, Budget(0.0)) == ()


def test_a_search_without_time_says_so_and_its_bound_holds() -> None:
    of = problem()
    best = search(of, Roofline(of), {}, Budget(None)).best[0].step_ns
    stopped = search(of, Roofline(of), {}, Budget(0.0))
    assert not stopped.finished
    assert stopped.bound_ns is None or stopped.bound_ns <= best


def test_fixed_fields_have_their_value_in_every_configuration() -> None:
    fixed = {
        "tensor": 2,
        "schedule": Schedule.INTERLEAVED,
        "recompute": Recompute.FULL,
        "micro_batch": 1,
    }
    listed = [c for c in Space(problem(), fixed) if c.pipeline > 1]
    assert listed
    assert all(getattr(c, name) == value for c in listed for name, value in fixed.items())


@pytest.mark.parametrize(
    ("name", "value", "listed"),
    [
        ("tensor", 2, True),
        ("data", 2, True),
        ("micro_batches", 4, True),
        ("micro_batches", 3, False),
        ("virtual", 4, True),
        ("expert", 2, False),
        ("schedule", Schedule.GPIPE, True),
        ("layers", (12, 20), True),
        ("sequence_parallel", False, True),
    ],
)
def test_any_fixed_field_has_its_value(name: str, value: object, listed: bool) -> None:
    made = list(Space(problem(), {name: value}))
    assert bool(made) is listed
    assert all(getattr(c, name) == value for c in made)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"tensor": 3}, "tensor 3 does not divide 4 devices"),
        ({"data": 8}, "data 8 does not divide 4 devices"),
        ({"tensor": 4, "pipeline": 2}, "tensor 4 x pipeline 2 does not divide 4 devices"),
        ({"micro_batch": 5}, "micro_batch 5 does not divide the batch of 8"),
        ({"data": 4, "micro_batch": 4}, "micro_batch 4 does not divide 2 samples of a rank"),
        ({"layers": (19, 20)}, "layers sum to 39, the model has 32 blocks"),
        ({"micro_batches": 3}, "micro_batches 3 does not divide the batch of 8"),
    ],
)
def test_a_space_that_is_empty_names_the_culprit(fixed: dict[str, object], words: str) -> None:
    assert not list(Space(problem(), fixed))
    assert words in Space(problem(), fixed).why_empty()


def test_the_space_lists_nothing_twice_and_nothing_that_cannot_run() -> None:
    for name, cluster in (("mixtral-8x7b", "2x8xH100"), ("llama3-8b", "8xH100")):
        of = TrainingProblem(model(name), training_cluster(cluster), 4096, 64)
        listed = list(Space(of, {}))
        assert len(listed) == len(set(listed)) > 100
        for c in listed:
            assert of.why_not(c) is None


def test_what_no_configuration_of_the_space_has_is_said() -> None:
    """The list in full left out schedules, context degrees, sharding and sequence parallelism."""
    of = TrainingProblem(model("llama3-8b"), training_cluster("3x8xH100"), 3 * 8192, 96)
    listed, said = list(Space(of, {})), not_considered(of)
    used = [schedule for schedule in Schedule if any(c.schedule is schedule for c in listed)]
    assert f"other than {', '.join(used[:-1])} and {used[-1]}" in said["other schedules"]
    assert {c.context for c in listed} == {1, 2, 4}
    assert "no power of two" in said["short context ranks"]
    assert all(c.zero == 1 for c in listed if c.pipeline > 1)
    assert "with a pipeline" in said["other sharding"]
    assert all(c.sequence_parallel for c in listed if c.tensor > 1)
    assert "without sequence parallelism" in said["whole norms"]


def test_too_few_micro_batches_for_dualpipe_v_are_no_lack_of_memory() -> None:
    """The answer was proved to fit nowhere, with any memory, as its schedule is not defined."""
    fixed = {"pipeline": 4, "schedule": Schedule.DUALPIPE_V, "virtual": 2}
    few, enough = problem(batch=4), problem(batch=8)
    assert not list(Space(few, fixed))
    assert "needs at least 8 micro-batches" in Space(few, fixed).why_empty()
    assert search(enough, Roofline(enough), fixed, Budget(None)).best
