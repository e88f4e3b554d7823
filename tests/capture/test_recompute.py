"""Blocks that compute again: what is forgotten can be had again, and memory is as measured."""

from __future__ import annotations

import json

import pytest

from milp_plan.capture.checkpoints import checkpoint_text, policies
from milp_plan.capture.fuse import fused
from milp_plan.capture.instance import instance
from milp_plan.capture.merge import merged
from milp_plan.capture.recompute import GONE, KEEP, POLICIES, again, blocks_of
from milp_plan.capture.record import made_by, read_by, tensors_made, tensors_read
from milp_plan.check import verify
from milp_plan.core import FULL, InputError, OperatorRun, Plan
from milp_plan.cost.clusters import cluster

from .graphs import shipped

ONE = cluster("1xA100")
MODELS = ("gpt2-four", "llama-tiny", "resnet50-tiny")


def parts_of(capture):
    return merged(capture, fused(capture), "block", joint_backward=True)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("policy", POLICIES)
def test_everything_that_runs_twice_finds_what_it_reads(name, policy):
    """A replay: forget, run again, run backward; each kernel must find its inputs."""
    capture = shipped(name)
    parts, made, read = parts_of(capture), made_by(capture), read_by(capture)
    problem = instance(capture, ONE, recompute=[policy])
    pairs = blocks_of(parts)
    assert pairs
    for forward, backward in pairs.items():
        found = again(capture, (parts[forward], parts[backward]), policy, read, made)
        own = set(parts[forward].kernels) | set(parts[backward].kernels)
        assert found.dropped or policy == "attention"
        assert all(set(read[storage]) <= own for storage in found.dropped)
        there = {
            storage
            for storage in range(len(capture.storages))
            if made.get(storage) not in own and made.get(storage, -1) < parts[backward].kernels[-1]
        }
        there |= {
            storage
            for place in parts[forward].kernels
            for storage in (tensor.storage for tensor in tensors_made(capture.kernels[place]))
            if storage not in found.dropped and set(read[storage]) & set(parts[backward].kernels)
        }
        for place in (*found.redone, *parts[backward].kernels):
            kernel = capture.kernels[place]
            assert {tensor.storage for tensor in tensors_read(kernel)} <= there
            there |= {tensor.storage for tensor in tensors_made(kernel)}
        name_of = {value.name: value for value in problem.graph.values}
        backward_name = f"{parts[backward].label}.B"
        for storage in found.reads:
            assert backward_name in name_of[capture.storages[storage].name].consumers
        for storage in found.dropped:
            assert name_of[capture.storages[storage].name].consumers == (backward_name,)


def test_attention_is_not_computed_again_where_it_is_kept():
    capture = shipped("gpt2-four")
    parts, made, read = parts_of(capture), made_by(capture), read_by(capture)
    for forward, backward in blocks_of(parts).items():
        redone = {
            policy: {
                capture.kernels[place].operator
                for place in again(
                    capture, (parts[forward], parts[backward]), policy, read, made
                ).redone
            }
            for policy in POLICIES
        }
        assert any("attention" in operator for operator in redone["full"])
        assert not any("attention" in operator for operator in redone["attention"])


def in_order(problem, policy) -> Plan:
    """One operator after the other, in captured order."""
    runs, clock = [], 0
    for operator in problem.graph.operators:
        names = [option.name for option in operator.options]
        wanted = policy.get(operator.block, KEEP) if isinstance(policy, dict) else policy
        option = operator.option(wanted if wanted in names else names[0])
        stop = clock + option.duration_ticks["A100"]
        runs.append(OperatorRun(operator.name, option.name, ("A100.0",), clock, stop))
        clock = stop
    return Plan(problem.name, tuple(runs), fingerprint=problem.fingerprint)


def figures(problem, policy) -> tuple[int, int]:
    verdict = verify(problem, in_order(problem, policy))
    assert verdict.ok, verdict.violations[:3]
    return verdict.components["makespan"], verdict.components["peak_memory A100.0"]


def test_less_memory_takes_more_time():
    problem = instance(shipped("gpt2-four"), ONE, recompute=POLICIES, barrier=True)
    times, peaks = zip(*(figures(problem, p) for p in (KEEP, "attention", "full")), strict=True)
    assert times[0] < times[1] < times[2]
    assert peaks[0] > peaks[1] > peaks[2]


def test_the_peak_is_that_of_eager_pytorch():
    """Measured with torch 2.13.0 on one process by ``milp-plan run``, above weights and states."""
    problem = instance(shipped("gpt2-narrow"), ONE, recompute=POLICIES, barrier=True)
    resting = sum(v.bytes[FULL] for v in problem.graph.values if v.persistent)
    mixed = {"h.0": "full", "h.1": "attention", "h.2": KEEP, "h.3": "full"}
    measured = {KEEP: 228.393, "attention": 116.268, "full": 108.018}
    for policy, peak in measured.items():
        assert (figures(problem, policy)[1] - resting) / 2**20 == pytest.approx(peak, abs=1e-3)
    assert (figures(problem, mixed)[1] - resting) / 2**20 == pytest.approx(140.174, abs=1e-3)


def test_both_sides_of_a_block_must_agree():
    problem = instance(shipped("gpt2-tiny"), ONE, recompute=["full"])
    plan = in_order(problem, "full")
    broken = [
        OperatorRun(run.operator, KEEP, run.devices, run.start_ticks, run.stop_ticks)
        if run.operator == "h.0.F"
        else run
        for run in plan.runs
    ]
    assert verify(problem, plan).ok
    assert not verify(problem, Plan(problem.name, tuple(broken))).ok


def test_work_is_the_same_with_one_backward_operator():
    capture = shipped("llama")
    totals = {
        sum(
            op.options[0].duration_ticks["A100"]
            for op in instance(capture, ONE, recompute=r).graph.operators
        )
        for r in ((), POLICIES)
    }
    assert len(totals) == 1


def test_what_is_asked_for_must_be_known():
    capture = shipped("gpt2-tiny")
    with pytest.raises(InputError, match="one of attention, full"):
        instance(capture, ONE, recompute=["some"])
    with pytest.raises(InputError, match="use granularity block"):
        instance(capture, ONE, recompute=["full"], granularity="module")


def test_the_choice_of_a_plan_is_written(tmp_path):
    problem = instance(shipped("gpt2-tiny"), ONE, recompute=POLICIES)
    plan = in_order(problem, {"h.0": "full", "h.1": "attention"})
    assert policies(problem, plan) == {"h.0": "full", "h.1": "attention"}
    path = tmp_path / "c.json"
    path.write_bytes(checkpoint_text(problem, plan))
    assert json.loads(path.read_text())["blocks"] == {"h.0": "full", "h.1": "attention"}
    plain = instance(shipped("gpt2-tiny"), ONE)
    with pytest.raises(InputError, match="--recompute full,attention"):
        policies(plain, in_order(plain, KEEP))


def test_values_that_are_forgotten_hold_nothing():
    problem = instance(shipped("gpt2-tiny"), ONE, recompute=["full"])
    gone = [value for value in problem.graph.values if GONE in value.bytes]
    assert gone
    assert all(value.bytes[GONE] == 0 and value.bytes[FULL] > 0 for value in gone)
