"""Light recomputation and offload: their law by hand, the rule of the host, and what they save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.core.budget import Budget
from milp_plan.kinds.training import Configuration, Offload, Recompute, Schedule, api, model
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.problem import TrainingPlan
from milp_plan.kinds.training.reasons import REASONS
from milp_plan.kinds.training.saving import BlockLoad, StageRoom, least_ticks
from milp_plan.kinds.training.search import search
from milp_plan.kinds.training.space import Space
from milp_plan.kinds.training.step import derive
from tests.support.training import problem_of


def test_light_recomputation_of_latent_experts_keeps_what_deepseek_says() -> None:
    """Inputs of norms, latent vectors, the result of attention; gate and up of each expert."""
    problem = problem_of("deepseek-v3", "64xH800", 64)
    block = model("deepseek-v3").blocks[-1]
    tokens, costs = 4096, PlanCosts(problem)
    base = Configuration(data=64, expert=8, recompute=Recompute.LIGHT)
    kept = costs.meter(base).kept(block)
    attention = 2 * 7168 + (512 + 64 + 1536) + 128 * 128
    experts = 8 * (2 * 2048 + 2 * 7168) + 2 * 256 + 3 * 2048
    assert kept == 2 * tokens * (attention + experts) + 4 * tokens * 128
    whole = costs.meter(replace(base, recompute=Recompute.NONE)).kept(block)
    up = 128 * (192 + 128) + 128 * 192 + 1536 + 512
    assert whole - kept == 2 * tokens * (2 * 7168 + up + 8 * 2048)


def test_activations_on_the_host_take_the_time_of_their_copies_where_that_is_more() -> None:
    problem = problem_of("llama3-8b", "1x2xH100", 16)
    costs = PlanCosts(problem)
    none = Configuration(pipeline=2, micro_batches=16, micro_batch=1)
    there = replace(none, recompute=Recompute.OFFLOAD)
    block = problem.architecture.blocks[0]
    copied = 16 * costs.meter(there).copied(block)
    assert copied == 16 * costs.meter(none).kept(block)
    forward = costs.priced(none).chunks[0].forward_ns
    copying = costs.priced(there).chunks[0].forward_ns
    assert costs.priced(there).chunks[0].host_bytes == round(copied)
    transfer = (
        2 * 4096 * 4096 / costs.problem.cluster.groups[0].levels[0].link.bandwidth_bytes_per_s
    )
    expected = copied / (0.8 * 64e9)
    assert copying >= max(forward, expected * 1e9)
    assert copying == pytest.approx(max(forward, (expected + transfer) * 1e9), rel=0.02)


def test_an_optimizer_on_the_host_costs_its_copies_and_the_hosts_memory() -> None:
    """A step adds 6 bytes a parameter over the link, and 30 in the host's memory for 30 in ours."""
    problem = problem_of("llama3-8b", "1x8xH100", 8)
    costs = PlanCosts(problem)
    here = Configuration(tensor=8, micro_batches=8)
    there = replace(here, offload=Offload.OPTIMIZER)
    parameters = problem.architecture.parameters / 8
    more = costs.priced(there).after_ns - costs.priced(here).after_ns
    rates = costs.efficiency.rates("H100")
    expected = parameters * (6 / (0.8 * 64e9) + 30 / 76e9 - 30 / (rates.memory * 3.35e12))
    assert more == pytest.approx(expected * 1e9, rel=1e-3)
    one, other = (derive(c, costs.priced(c)) for c in (here, there))
    assert one.peaks[0] - other.peaks[0] == pytest.approx(12 * parameters, rel=1e-3)
    assert other.host_peaks == (pytest.approx(16 * parameters, rel=1e-3),)
    assert one.host_peaks == ()


def test_a_host_without_enough_memory_breaks_a_rule_and_is_not_planned() -> None:
    problem = problem_of("llama3-70b", "1x8xH100", 16)
    plan = Configuration(tensor=8, micro_batches=16, offload=Offload.OPTIMIZER)
    verdict = api.check(problem, plan)
    assert verdict.ok
    assert (
        verdict.components["host_memory stage 0"]
        == derive(plan, PlanCosts(problem).priced(plan)).host_peaks[0]
    )
    (group,) = problem.cluster.groups
    assert group.device.host is not None
    small = replace(group.device.host, memory_bytes=verdict.components["host_memory stage 0"] - 1)
    other = replace(group, device=replace(group.device, host=small))
    poor = replace(problem, cluster=replace(problem.cluster, groups=(other,)))
    assert [each.rule for each in api.check(poor, plan).violations] == ["host memory"]
    poor = replace(poor, host=True)
    found = search(poor, PlanCosts(poor), {"tensor": 8, "micro_batch": 1}, Budget(None))
    assert found.finished
    assert not found.best
    unknown = replace(group, device=replace(group.device, host=None))
    none = replace(problem, cluster=replace(problem.cluster, groups=(unknown,)))
    assert "nothing is known of the hosts" in api.check(none, plan).violations[0].message


def test_what_fits_only_with_the_optimizer_on_the_host_is_found() -> None:
    """70 B parameters take 16 bytes each, 141 GB of a device of eight; without 12 of them 53."""
    problem = replace(problem_of("llama3-70b", "1x8xH100", 16), host=True)
    found = search(problem, PlanCosts(problem), {"tensor": 8, "pipeline": 1}, Budget(None))
    best = found.best[0]
    assert best.configuration.offload is Offload.OPTIMIZER
    assert best.host_peaks[0] >= 16 * problem.architecture.parameters // 8
    alone = replace(problem, host=False)
    fixed = {"tensor": 8, "pipeline": 1}
    without = search(alone, PlanCosts(alone), fixed, Budget(None))
    assert without.finished
    assert not without.best
    assert without.with_host is not None
    assert without.with_host.step_ns == best.step_ns
    assert problem.fingerprint != alone.fingerprint


def test_offload_of_some_blocks_copies_in_proportion() -> None:
    problem = problem_of("llama3-8b", "1x2xV100", 16)
    costs = PlanCosts(problem)
    none = Configuration(pipeline=2, micro_batches=16)
    chunks = {
        count: costs.priced(
            replace(none, recompute=Recompute.OFFLOAD, recomputed_by_chunk=(count, 0))
        ).chunks
        for count in (4, 8, 16)
    }
    plain = costs.priced(none).chunks
    for count, made in chunks.items():
        assert made[1] == plain[1]
        assert made[0].host_bytes == pytest.approx(chunks[16][0].host_bytes * count / 16, rel=1e-6)
        copy = chunks[16][0].forward_ns * count / 16
        assert made[0].forward_ns == pytest.approx(max(plain[0].forward_ns, copy), abs=1)


@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, Schedule.ZB_H1])
def test_host_and_device_together_have_what_the_device_has_without_offload(
    schedule: Schedule,
) -> None:
    problem = problem_of("llama3-8b", "1x4xA100", 16)
    costs = PlanCosts(problem)
    none = Configuration(pipeline=4, micro_batches=16, schedule=schedule)
    there = replace(none, recompute=Recompute.OFFLOAD)
    plain, moved = (derive(c, costs.priced(c)) for c in (none, there))
    kept = costs.meter(none).kept(problem.architecture.blocks[0])
    for stage, blocks in enumerate((8, 8, 8, 8)):
        assert moved.host_peaks[stage] == pytest.approx(
            (4 - stage if schedule is Schedule.ONE_F_ONE_B else 4) * blocks * kept, rel=1e-6
        )
        assert moved.peaks[stage] < plain.peaks[stage]


def test_fractions_of_blocks_on_stages_by_hand() -> None:
    """Of 10 blocks the first stage keeps 2 without saving; each further one costs 5 ticks more."""
    load = BlockLoad(time=10, saved_time=15, kept=4, saved_kept=0, resident=0, beside=False)
    first, second = StageRoom(2, 16, load), StageRoom(1, 1000, load)
    assert [first.least_time(n) for n in (1, 2, 3, 4)] == [10, 20, 35, 50]
    assert first.most_blocks(20) == 2
    assert first.most_blocks(35) == pytest.approx(3)
    found = least_ticks([first, second], 10)
    assert found == pytest.approx(56, abs=1)  # 4.4 and 5.6 blocks
    tight = replace(load, saved_kept=3)
    assert StageRoom(2, 16, tight).least_time(3) is None
    assert least_ticks([StageRoom(2, 16, tight)], 3) is None


def test_explain_says_how_full_the_host_is() -> None:
    problem = problem_of("llama3-8b", "8xH100", 64)
    there = Configuration(data=8, micro_batches=8, offload=Offload.OPTIMIZER)
    for configuration in (there, replace(there, offload=Offload.NONE)):
        plan = TrainingPlan(problem.name, problem.fingerprint, configuration)
        verdict = api.check(problem, plan)
        peak = (verdict.components or {}).get("host_memory stage 0")
        hosts = [
            limit
            for limit in REASONS.why(problem, plan, verdict).limits
            if limit.name == "host memory of H100"
        ]
        assert [(limit.amount, limit.whole) for limit in hosts] == (
            [(peak, 256 * 10**9)] if peak else []
        )
        assert bool(peak) is (configuration is there)


def test_a_schedule_in_the_shape_of_a_v_saves_as_few_blocks_as_its_replay_allows() -> None:
    """Its peak is not known before the replay: all blocks were recomputed where two suffice."""
    asked = {"global_batch": 16, "sequence": 4096, "memory_bytes": 30 * 10**9, "reserve_bytes": 0}
    problem = api.training_problem("llama3-8b", "1x4xH100", host=True, **asked)
    fixed = {
        "pipeline": 4,
        "schedule": Schedule.V_HALF,
        "micro_batch": 1,
        "offload": Offload.OPTIMIZER,
    }
    costs, space = PlanCosts(problem), Space(problem, fixed)
    (base,) = space
    steps = {}
    for count in range(5):
        c = replace(base, recompute=Recompute.FULL, recomputed=count)
        step = derive(c, costs.priced(c))
        if max(step.peaks) <= problem.limit_bytes(c, 0):
            steps[count] = step.step_ns
    assert 1 < min(count for count in steps if count) < 4
    best = search(problem, costs, fixed | {"recompute": Recompute.FULL}, Budget(None)).best[0]
    assert best.step_ns == steps[0]
    free = search(problem, costs, fixed, Budget(None)).best[0]
    assert free.step_ns <= min(steps.values()) < steps[0]
    every = search(problem, costs, fixed | {"recomputed": 0}, Budget(None)).best[0]
    assert not every.configuration.recomputed


def test_a_stage_that_fits_only_without_recomputation_does_not_hide_that_another_recomputes() -> (
    None
):
    """No plan was found: a block computed again takes more than one kept by one micro-batch."""
    known = model("vit-l")
    few = replace(known, blocks=known.blocks[:3])
    fixed = {"pipeline": 2, "layers": (1, 2), "schedule": Schedule.ONE_F_ONE_B, "micro_batch": 8}
    asked = {"global_batch": 8, "sequence": 4096, "fixed": fixed, "reserve_bytes": 0}
    problem = api.training_problem(few, "1x1xA100+1x1xV100", **asked)
    costs = PlanCosts(problem)
    (base,) = Space(problem, fixed)
    full = replace(base, recompute=Recompute.FULL)
    (first, _), (more, last) = (derive(c, costs.priced(c)).peaks for c in (base, full))
    assert first < more
    tight = api.training_problem(few, problem.cluster.with_memory(first, last), **asked)
    plan = replace(full, recomputed_by_chunk=(0, 2))
    assert api.check(tight, plan).ok
    found = search(tight, PlanCosts(tight), fixed, Budget(None))
    assert [each.configuration for each in found.best] == [plan]


def test_a_way_to_save_memory_that_seems_slower_is_tried_where_another_one_suffices() -> None:
    """33.2 s were proved best: the way with the lowest estimate fitted, so no other was tried."""
    problem = replace(problem_of("llama3-70b", "4x8xH100", 64, 16384), host=True)
    fixed = {"tensor": 4, "context": 1, "pipeline": 4, "micro_batch": 1, "schedule": Schedule.ZB_V}
    faster = Configuration(
        *(4, 1, 1, 1, 4, 2, 1, 32, 2, Schedule.ZB_V),
        recompute=Recompute.OFFLOAD,
        recomputed=7,
        offload=Offload.OPTIMIZER,
    )
    verdict = api.check(problem, faster)
    assert verdict.ok
    assert verdict.value is not None
    assert search(problem, PlanCosts(problem), fixed, Budget(None)).best[0].step_ns <= verdict.value


def test_a_schedule_in_the_shape_of_a_v_offloads_fewer_blocks_where_the_host_lacks_memory() -> None:
    """All blocks' activations take 154 GB of a host, those of two blocks of a chunk 100 GB."""
    problem = api.training_problem(
        *("llama3-8b", "1x4xH100"), global_batch=8, sequence=32768, host=True, reserve_bytes=0
    )
    (group,) = problem.cluster.with_memory(110 * 10**9).groups
    assert group.device.host is not None
    host = replace(group.device.host, memory_bytes=128 * 10**9)
    group = replace(group, device=replace(group.device, host=host))
    problem = replace(problem, cluster=replace(problem.cluster, groups=(group,)))
    fixed = {"pipeline": 4, "schedule": Schedule.V_HALF, "context": 1, "micro_batch": 1}
    fixed |= {"offload": Offload.OPTIMIZER}
    costs = PlanCosts(problem)
    (base,) = Space(problem, fixed)
    assert not api.check(problem, replace(base, recompute=Recompute.OFFLOAD)).ok
    two = api.check(problem, replace(base, recompute=Recompute.OFFLOAD, recomputed=2))
    assert two.ok
    best = search(problem, costs, fixed, Budget(None)).best[0]
    assert best.configuration.recompute is Recompute.OFFLOAD
    assert best.step_ns == two.value


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_bounds_of_models_of_few_blocks_do_not_count_the_embedding_for_each(blocks: int) -> None:
    known = model("llama3-8b")
    few = replace(known, blocks=known.blocks[:blocks])
    problem = api.training_problem(few, "1x2xH100", global_batch=8, sequence=4096)
    costs = PlanCosts(problem)
    for base in Space(problem, {}):
        for way in Recompute:
            c = replace(base, recompute=way)
            bound = costs.saving_ns(c)
            assert bound is not None
            assert bound <= derive(c, costs.priced(c)).step_ns
