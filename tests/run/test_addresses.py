"""Addresses of the copies of a plan: they are those that the checker counts."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.check import replay
from milp_plan.core import MemoryLaw
from milp_plan.core.budget import now
from milp_plan.kinds.packing.addresses import memories, pack
from milp_plan.kinds.packing.check import verify_packing
from milp_plan.kinds.packing.problem import PackingPlan, PackingProblem
from milp_plan.kinds.schedule.model.planted import planted_with_plan
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.run.kinds import read
from milp_plan.run.settings import Settings

INSTANCES = Path(__file__).parents[2] / "instances"

FRAGMENTED = 0.03
"""By how much, at most, addresses exceed the bytes of a training step's plan."""


def quiet(_problem):
    return nullcontext(lambda _progress: None)


def packed(found, **settings):
    return list(pack(found, Settings(node_limit=20_000, **settings), now(), quiet))


def load_at(problem: PackingProblem, time: int) -> int:
    return sum(b.size for b in problem.buffers if b.lower <= time < b.upper)


@pytest.mark.parametrize("seed", range(12))
def test_buffers_are_what_the_checker_counts(seed):
    problem, plan = planted_with_plan(seed)
    found = memories(problem, plan)
    reported = replay(problem, plan)
    assert {m.device for m in found} == {d for d, m in reported.devices.items() if m.peak_bytes}
    for memory in found:
        counted = reported.devices[memory.device]
        assert memory.load_bytes == counted.peak_bytes
        for time, num_bytes in counted.steps:
            assert load_at(memory.buffers, time) == num_bytes or time == reported.makespan_ticks
        assert max(load_at(memory.buffers, b.lower) for b in memory.buffers.buffers) == (
            memory.load_bytes
        )


@pytest.mark.parametrize("alignment", [1, 512])
@pytest.mark.parametrize("seed", range(6))
def test_packings_keep_the_law(seed, alignment):
    problem, plan = planted_with_plan(seed)
    found = memories(problem, plan, alignment)
    entries = packed(found)
    assert [entry.memory for entry in entries] == list(found)
    for entry in entries:
        verdict = verify_packing(entry.memory.buffers, entry.outcome.plan)
        assert verdict.ok
        assert entry.height == verdict.value >= entry.memory.load_bytes
        assert entry.fragmentation >= 0
        limit = entry.memory.limit_bytes
        assert entry.fits == (limit is None or entry.height <= limit)
        assert not (entry.fits and entry.never_fits)
        assert all(b.alignment == alignment for b in entry.memory.buffers.buffers)


def test_a_packing_may_need_more_than_the_load():
    """Alignment makes what the plan holds exceed a memory that holds it by the sum of bytes."""
    problem, plan = planted_with_plan(0)
    memory = max(memories(problem, plan, 2**30), key=lambda m: len(m.holdings))
    tight = replace(memory, limit_bytes=memory.load_bytes)
    (entry,) = packed([tight])
    assert entry.never_fits
    assert not entry.fits


def test_without_a_clock_everything_lies_there_always():
    problem, plan = planted_with_plan(3)
    static = replace(problem, memory_law=MemoryLaw.STATIC)
    for memory in memories(static, plan):
        assert len({(b.lower, b.upper) for b in memory.buffers.buffers}) == 1
        (entry,) = packed([memory])
        assert entry.height == memory.load_bytes
        assert isinstance(entry.outcome.plan, PackingPlan)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-tiny-training-2xA100.json",
        pytest.param("unet-training-4xA100.json", marks=pytest.mark.slow),
        pytest.param("moe-mini-training-8xA100.json.gz", marks=pytest.mark.slow),
        pytest.param("inception-v3-training-4xH100.json.gz", marks=pytest.mark.slow),
        pytest.param("resnet50-training-2xH100+2xA100.json.gz", marks=pytest.mark.slow),
    ],
)
def test_plans_of_training_steps_hardly_fragment(name):
    _, problem = read(INSTANCES / name)
    plan, _ = best_plan(problem, seed=0)
    assert plan is not None
    entries = packed(memories(problem, plan))
    assert entries
    for entry in entries:
        assert entry.height is not None
        assert entry.fragmentation <= FRAGMENTED, entry.memory.device
