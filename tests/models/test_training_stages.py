"""``training_stages`` keeps the contract and proves what enumeration finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.api import Guide, Objective
from milp_plan.backends import Limits, Stop
from milp_plan.contract import FormulationContract
from milp_plan.core import InputError
from milp_plan.kinds.training.check_stages import verify_training_stages
from milp_plan.kinds.training.stages_problem import Chunk, Device, Load, Run, TrainingStagesProblem
from milp_plan.models.validated import compile_source
from tests.support.planted_stages import planted_training_stages
from tests.support.seeds import few
from tests.support.training_stages import least

from .solving import formulation, solve_here

LIMITS = Limits(gap=1e-9, gap_abs=1e-9)
FORM = formulation("training_stages")
GB = 10**9


class TestTrainingStages(FormulationContract):
    reference = "training_stages"
    seeds = range(8)
    least = 8

    def planted(self, seed, objective):
        assert objective is Objective.MAKESPAN
        return planted_training_stages(seed)

    def verdict(self, problem, plan):
        return verify_training_stages(problem, plan)

    def without_memory(self, problem):
        return replace(problem, devices=tuple(replace(d, limit=0) for d in problem.devices))

    def optimum(self, problem):
        return least(problem)


def solved(problem):
    """Return the plan of the model and its value, ``None`` where it has no solution."""
    options, guide = FORM.Options(), Guide()
    compiled = compile_source(FORM.build(problem, options, guide))
    answer = solve_here(compiled, LIMITS)
    if answer.vector is None:
        assert answer.stop is Stop.INFEASIBLE
        return None, None
    assert answer.stop is Stop.PROVED
    plan = FORM.decode(problem, options, guide, compiled.name_values(answer.vector))
    verdict = verify_training_stages(problem, plan)
    assert verdict.ok, verdict.violations
    unit = FORM.scale(problem, options, guide).unit
    assert answer.bound * unit <= verdict.value * (1 + 1e-9)
    return plan, verdict.value


@pytest.mark.parametrize("seed", few(range(300), 30))
def test_the_model_finds_what_trying_everything_finds(seed):
    problem, _ = planted_training_stages(seed)
    assert solved(problem)[1] == least(problem)


@pytest.mark.parametrize("seed", few(range(60), 6))
def test_less_memory_than_any_plan_needs_is_refused_by_both(seed):
    problem, _ = planted_training_stages(seed)
    tight = tuple(
        replace(d, limit=None if d.limit is None else d.limit * 4 // 5) for d in problem.devices
    )
    problem = replace(problem, devices=tight)
    assert solved(problem)[1] == least(problem)


def chain(count, stages, limit=None, m=8, **changes):
    """Equal layers that can recompute, on a 1F1B pipeline; the last chunk has a head."""
    kept = Load(10**6, 2 * 10**6, 0, GB, 2 * GB)
    again = replace(kept, backward=3 * 10**6, kept=GB // 10)
    devices = tuple(Device(0, limit, ((min(m, stages - s),),)) for s in range(stages))
    chunks = tuple(
        Chunk(s, Load(10**6, 2 * 10**6) if s == stages - 1 else Load()) for s in range(stages)
    )
    runs = (Run("layer", count, ((kept, again),)),)
    return replace(
        TrainingStagesProblem("chain", ("kept", "again"), runs, devices, chunks, m), **changes
    )


def test_the_head_takes_the_place_of_a_layer():
    plan, value = solved(chain(15, 4))
    assert plan.layers == (4, 4, 4, 3)
    assert value == 3 * 10**6 * (16 + 7 * 4)


def test_only_early_stages_recompute_where_memory_is_short():
    # 2 x 4 GB stay on a device of four layers; 1 to 4 micro-batches of 4 GB wait
    plan, _ = solved(chain(15, 4, limit=19 * GB))
    again = [chunk[0][1] for chunk in plan.counts]
    assert again[0] >= again[1] >= again[2] >= again[3] == 0
    assert again[0] > 0


def test_layers_without_time_and_one_stage():
    still = (Run("still", 3, ((Load(), Load(kept=1)),)),)
    assert solved(chain(3, 2, runs=still))[1] == 8 * 3 * 10**6
    one = chain(5, 1)
    assert solved(one)[1] == 8 * 6 * 3 * 10**6


def test_a_lane_that_is_busier_than_its_device_decides():
    way = (Load(10, 20, 0, 1, 1, lane=50),)
    problem = chain(4, 2, ways=("moved",), runs=(Run("layer", 4, (way,)),), m=10)
    problem = replace(problem, chunks=(Chunk(0), Chunk(1)))
    # two layers a stage: fill 60 of the other one, then 10 times 100 on the lane
    assert solved(problem)[1] == 60 + 10 * 100


def test_more_stages_than_layers_is_refused_in_words():
    with pytest.raises(InputError, match="found 4, expected at most 3, the number of layers"):
        chain(3, 4)


def test_everything_wrong_is_reported_at_once():
    with pytest.raises(InputError) as reported:
        chain(3, 2, micro_batches=0, chunks=(Chunk(0), Chunk(7)))
    for words in ("micro-batches", "chunk 1, device", "no chunk"):
        assert words in str(reported.value)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda c: c[:-1], "assignment"),
        (lambda c: (*c[:-1], ((0, 0),)), "assignment"),
        (lambda c: (((-1, 5),), *c[1:]), "assignment"),
        (lambda c: (c[1], c[0], *c[2:]), None),
    ],
)
def test_the_checker_sees_broken_counts(damage, rule):
    problem = chain(15, 4)
    plan, _ = solved(problem)
    verdict = verify_training_stages(problem, replace(plan, counts=damage(plan.counts)))
    assert [v.rule for v in verdict.violations][:1] == ([rule] if rule else [])


def test_the_checker_sees_order_memory_and_claims():
    layer = (Load(1, 2, 0, 5, 7),)
    runs = (Run("dense", 1, (layer,)), Run("routed", 1, (layer,)))
    chunks = (Chunk(0), Chunk(1))
    problem = chain(2, 2, ways=("kept",), runs=runs, m=2, chunks=chunks)
    plan, value = solved(problem)
    assert value == 3 * (2 + 1)
    turned = replace(plan, counts=tuple(reversed(plan.counts)))
    assert [v.rule for v in verify_training_stages(problem, turned).violations] == ["order"]
    claimed = replace(plan, value=value - 1)
    assert [v.rule for v in verify_training_stages(problem, claimed).violations] == ["claim"]
    devices = (replace(problem.devices[0], limit=16), problem.devices[1])
    verdict = verify_training_stages(problem, plan)
    assert verdict.components == {"peak_memory stage 0": 17, "peak_memory stage 1": 12}
    without_memory = replace(problem, devices=devices)
    broken = verify_training_stages(without_memory, replace(plan, fingerprint=None)).violations
    assert [(v.rule, v.subjects) for v in broken] == [("memory", ("stage 0",))]
