"""A device of PyTorch beside what is said of it: kernels, steps, and peaks of recompute plans.

``make torch-gpu`` writes ``results/torch-gpu.md``; ``--device cpu`` does the same on the processor.
Kernels of each model are timed one by one, the roofline is fitted to them, and a whole step is run
beside the sum of its kernels. Of a model with blocks, all blocks follow one policy, or all: times
are shares of the step that keeps everything, in turns within one process, so that they hold on a
busy machine as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from milp_plan.capture.calibration import calibrate
from milp_plan.capture.checkpoints import policies
from milp_plan.capture.instance import instance
from milp_plan.capture.model_file import Builder, load_builder
from milp_plan.capture.trace import capture_model, require_device
from milp_plan.capture.work import draws_random
from milp_plan.check import verify
from milp_plan.cli.exits import code_of
from milp_plan.core import MilpPlanError, Plan, PlanningProblem
from milp_plan.cost.clusters import cluster
from milp_plan.execute import run_step, step_seconds
from milp_plan.execute.compare import resting_bytes
from milp_plan.io.capture_wire import Capture
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.report.pages import share, table

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "results" / "torch-gpu.md"
FOLDER = ROOT / "examples" / "torch_capture"
MODELS = ("gpt2.py:small", "resnet50.py:build")
BLOCKS = "gpt2.py:narrow"
POLICIES = ("keep", "attention", "full")
MIB = 2**20


@dataclass(frozen=True)
class Repeated:
    """A plan of recomputation.

    Parameters
    ----------
    name
        Of its policy.
    planned_ns, measured_s
        A step: sum of measured kernels, and median of whole steps.
    planned_bytes, measured_bytes
        Peak above weights.
    """

    name: str
    planned_ns: int
    measured_s: float
    planned_bytes: int
    measured_bytes: int


def same_policy(problem: PlanningProblem, policy: str) -> Plan:
    """Return the plan of one device in which all blocks follow a policy, where they offer it."""
    operators = tuple(
        replace(
            operator,
            options=tuple(o for o in operator.options if o.name == policy) or operator.options[:1],
        )
        for operator in problem.graph.operators
    )
    left = replace(problem, graph=replace(problem.graph, operators=operators))
    plan = PLANNERS["single_device"](left)
    assert plan is not None
    return replace(plan, fingerprint=None)


def repeated(builder: Builder, graph: Capture, device: str, rounds: int) -> list[Repeated]:
    """Run a model under each policy, and say what was planned."""
    problem = instance(
        graph,
        cluster("1xA100"),
        recompute=POLICIES[1:],
        barrier=True,
        measured=calibrate(graph).spec,
    )
    random = draws_random(graph)
    plans = [same_policy(problem, policy) for policy in POLICIES]
    chosen = [policies(problem, plan) for plan in plans]
    seconds = step_seconds(builder, chosen, rounds=rounds, random=random, device=device)
    found = []
    for policy, plan, blocks, taken in zip(POLICIES, plans, chosen, seconds, strict=True):
        verdict = verify(problem, plan)
        assert verdict.ok
        (name,) = problem.cluster.device_names
        peak = verdict.components[f"peak_memory {name}"] - resting_bytes(problem)
        step = run_step(builder, blocks, random=random, device=device)
        updates = sum(
            min(operator.options[0].duration_ticks.values())
            for operator in problem.graph.operators
            if operator.kind == "update"
        )
        planned = plan.stop_ticks - updates
        found.append(Repeated(policy, planned, taken, peak, step.peak_bytes))
    return found


def page(models: Sequence[str], blocks: str, device: str, rounds: int) -> str:
    """Measure, and return the page."""
    lines: list[str] = []
    profile = None
    for model in models:
        graph, builder = captured(model, device)
        profile = graph.profile
        lines += [f"## `{Path(model).name}`", "", *kernels(graph, builder, device, rounds), ""]
    graph, builder = captured(blocks, device)
    profile = profile or graph.profile
    assert profile is not None
    lines += [f"## Computing again, `{Path(blocks).name}`", ""]
    lines += [*recomputation(repeated(builder, graph, device, rounds))]
    head = [
        "# PyTorch on a device, beside the roofline",
        "",
        "Generated, do not edit. Made again by `make torch-gpu`.",
        "",
        f"{profile.device}, {driver(device)}, PyTorch {profile.torch}, {profile.threads} threads of"
        f" the host, {datetime.now(UTC):%Y-%m-%d}.",
        "",
    ]
    return "\n".join([*head, *lines]).rstrip() + "\n"


def captured(model: str, device: str) -> tuple[Capture, Builder]:
    """Capture a model with the times of its kernels."""
    builder = load_builder(model)
    print(f"{builder.stem}: timing its kernels on {device}", file=sys.stderr)
    return capture_model(builder, device=device, profile=True), builder


def kernels(graph: Capture, builder: Builder, device: str, rounds: int) -> Iterable[str]:
    """What kernels take by class, and a whole step beside their sum."""
    found = calibrate(graph)
    spec = found.spec
    yield (
        f"{spec.peak_flops_per_s / 1e9:,.1f} GFLOP/s and {spec.memory_bytes_per_s / 1e9:,.2f} GB/s,"
        f" {spec.launch_ns / 1e3:,.1f} µs at least: medians of its kernels, to which the roofline"
        " is fitted."
    )
    yield ""
    columns = ["kernels", "number", "measured, ms", "roofline, ms", "median error"]
    rows = [
        [
            kind,
            f"{entry.kernels:,}",
            f"{entry.measured_ns / 1e6:,.3f}",
            f"{entry.roofline_ns / 1e6:,.3f}",
            share(entry.error),
        ]
        for kind, entry in found.classes.items()
    ]
    yield table(columns, rows)
    (taken,) = step_seconds(builder, [{}], rounds=rounds, device=device)
    total = sum(entry.measured_ns for entry in found.classes.values())
    guess = sum(entry.roofline_ns for entry in found.classes.values())
    yield (
        f"A step (both passes): {taken * 1e3:,.3f} ms measured; its kernels one by one"
        f" {total / 1e6:,.3f} ms, by the fitted roofline {guess / 1e6:,.3f} ms."
    )


def recomputation(found: Sequence[Repeated]) -> Iterable[str]:
    """Peaks and times of policies, times as shares of the step that keeps everything."""
    first = found[0]
    columns = ["blocks", "step, planned", "measured", "peak, planned, MiB", "measured, MiB"]
    rows = [
        [
            one.name,
            f"{one.planned_ns / first.planned_ns:.3f}",
            f"{one.measured_s / first.measured_s:.3f}",
            f"{one.planned_bytes / MIB:,.3f}",
            f"{one.measured_bytes / MIB:,.3f}",
        ]
        for one in found
    ]
    yield table(columns, rows)
    planned = sorted(found, key=lambda one: one.planned_ns)
    alike = planned == sorted(found, key=lambda one: one.measured_s)
    fits = all(one.measured_bytes <= one.planned_bytes for one in found)
    yield (
        f"The order of the steps is {'as' if alike else 'not as'} planned; peaks are"
        f" {'all' if fits else 'not all'} within the plan."
    )


def driver(device: str) -> str:
    """What the device's driver and toolkit say of themselves."""
    import torch

    if torch.device(device).type != "cuda":
        return "no driver"
    version = torch.version.cuda or torch.version.hip
    properties = torch.cuda.get_device_properties(device)
    return f"CUDA {version}, {properties.total_memory / 2**30:,.0f} GiB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; end with the exit code of ``milp-plan`` where it cannot be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="*", default=[str(FOLDER / model) for model in MODELS])
    parser.add_argument("--blocks", default=str(FOLDER / BLOCKS), help="a model with blocks")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args(arguments)
    try:
        require_device(asked.device)
        text = page(asked.models, asked.blocks, asked.device, asked.rounds)
    except MilpPlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(code_of(error))
    asked.output.write_text(text)
    print(asked.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
