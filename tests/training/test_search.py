"""The search against trying everything, with simple costs."""

from __future__ import annotations

import pytest

from milp_plan.core.budget import Budget
from milp_plan.training import Configuration, Recompute, Schedule, model, training_cluster
from milp_plan.training.problem import TrainingProblem
from milp_plan.training.replay import replay
from milp_plan.training.search import KEPT, Candidate, search
from milp_plan.training.space import Refused, Space, no_reason
from milp_plan.training.step import excess_of

from .roofline import Roofline


def problem(memory: int | None = None, batch: int = 8) -> TrainingProblem:
    cluster = training_cluster("4xH100")
    if memory is not None:
        cluster = cluster.with_memory(memory)
    return TrainingProblem(model("llama3-8b"), cluster, 4096, batch)


def every(
    of: TrainingProblem, costs: Roofline, refused: Refused = no_reason
) -> dict[Configuration, int]:
    """Step of every configuration of the space that fits, by replays alone."""
    steps = {}
    for c in Space(of, {}, refused):
        played = replay(c, costs.chunks(c))
        resident = costs.resident_bytes(c)
        peaks = tuple(map(sum, zip(resident, played.activation_peaks, strict=True)))
        if excess_of(of, c, peaks)[0] <= 0:
            steps[c] = played.makespan_ns + costs.after_ns(c)
    return steps


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


def test_what_would_be_faster_with_more_memory_is_listed() -> None:
    of = problem(40 * 10**9)
    found = search(of, Roofline(of), {}, Budget(None))
    assert found.misses
    for miss in found.misses:
        assert miss.least_ns < found.best[0].step_ns
        assert miss.excess_bytes > 0
    more = search(problem(80 * 10**9), Roofline(problem()), {}, Budget(None))
    assert more.best[0].step_ns < found.best[0].step_ns


def test_no_configuration_fits_a_tiny_memory_and_the_nearest_are_said() -> None:
    of = problem(10**9)
    found = search(of, Roofline(of), {}, Budget(None))
    assert (found.best, found.bound_ns, found.finished) == ([], None, True)
    assert found.misses


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


def test_the_space_lists_nothing_twice_and_nothing_that_cannot_run() -> None:
    for name, cluster in (("mixtral-8x7b", "2x8xH100"), ("llama3-8b", "8xH100")):
        of = TrainingProblem(model(name), training_cluster(cluster), 4096, 64)
        listed = list(Space(of, {}))
        assert len(listed) == len(set(listed)) > 100
        for c in listed:
            assert c.why_not(of.architecture, of.cluster, 64) is None
