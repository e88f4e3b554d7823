"""Five memory limits: planned to proven optimality, run, and measured within the plan."""

from pathlib import Path

import pytest

from milp_plan.capture.checkpoints import policies
from milp_plan.capture.instance import instance
from milp_plan.capture.model_file import load_builder
from milp_plan.capture.trace import capture_model
from milp_plan.check import verify
from milp_plan.cost.clusters import cluster
from milp_plan.execute import run_step
from milp_plan.execute.compare import differences, resting_bytes
from milp_plan.run import Settings, solve

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = Path(__file__).parents[2] / "examples" / "torch_capture" / "gpt2.py"
MIB = 2**20
LIMITS = [230, 200, 170, 140, 110]
"""MiB above weights: all that the model keeps by itself (228.4) down to little more than it must
(108.0)."""


def planned(problem, above_weights):
    """The best plan within a limit, proved, and what it holds above weights."""
    memory = problem.cluster.devices[0].memory_bytes
    limited = problem.with_memory_scale(resting_bytes(problem) + above_weights, memory)
    outcome = solve(limited, Settings(time_limit_s=120, threads=1))
    assert outcome.plan is not None
    assert outcome.value == outcome.bound
    (device,) = problem.cluster.device_names
    peak = verify(limited, outcome.plan).components[f"peak_memory {device}"]
    return policies(limited, outcome.plan), outcome.value, peak - resting_bytes(problem)


def test_measured_peaks_are_within_five_limits_and_as_predicted():
    builder = load_builder(f"{MODEL}:narrow")
    problem = instance(
        capture_model(builder),
        cluster("1xA100"),
        recompute=("full", "attention"),
        barrier=True,
        fuse=False,
    )
    plain = run_step(builder)
    values, chosen = [], set()
    for limit in LIMITS:
        blocks, value, predicted = planned(problem, limit * MIB)
        step = run_step(builder, blocks, random=False)
        assert step.peak_bytes <= predicted <= limit * MIB
        assert predicted <= 1.07 * step.peak_bytes
        loss_error, gradient_error, largest = differences(plain, step)
        assert max(loss_error, gradient_error) <= 1e-6 * max(largest, 1.0)
        values.append(value)
        chosen.add(tuple(blocks.values()))
    assert values == sorted(values)
    assert len(chosen) == len(LIMITS)
    assert any(len(set(blocks)) > 1 for blocks in chosen)
