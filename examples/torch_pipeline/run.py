"""Plan pipelines, run them in torch on several processes, and compare with a single process.

``python examples/torch_pipeline/run.py --help``; what it shows is said in README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import torch
from model import loss_of, make_batch, make_stages

from milp_plan.check import verify
from milp_plan.cli.main import main as milp_plan
from milp_plan.core import Plan, PlanningProblem
from milp_plan.io.plan_file import write_plan
from milp_plan.kinds.pipeline.experts import EXPERTS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.template import Template, pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import times, value_of, words_of
from milp_plan.kinds.schedule.formats import write
from milp_plan.run import Settings, solve

HERE = Path(__file__).resolve().parent

TIMES = (10, 12, 7)
"""Forward, input gradient and weight gradient of one device's share, units of time."""

TOLERANCE = {"float32": 1e-6, "float64": 1e-14}
"""Largest difference allowed between a gradient (or a loss) of the pipeline and of one process:
sums over micro-batches in another order differ by some units in the last place."""

Planner = Callable[[PlanningProblem], Plan | None]


def by_expert(name: str) -> Planner:
    """Plan by a published schedule."""
    return lambda problem: EXPERTS[name](problem, 0)


def by_model(problem: PlanningProblem) -> Plan | None:
    """Plan by the exact model of the whole problem, at most a minute."""
    operators = len(problem.graph.operators)
    settings = Settings(time_limit_s=60, formulation="pipeline_order", target=operators)
    return solve(problem, settings).plan


@dataclass(frozen=True)
class Kind:
    """A schedule to run: placement, planner, memory per device in shares of a micro-batch."""

    title: str
    placement: str
    planner: Planner
    joint: bool = False
    memory: Callable[[int], int] = lambda processes: processes

    def problem(self, processes: int, micro_batches: int) -> tuple[Template, PlanningProblem]:
        """Template and problem for so many processes."""
        template, activation = uniform(
            processes,
            micro_batches,
            TIMES,
            chunks=2 if self.placement in ("v", "interleaved") else 1,
            joint_backward=self.joint,
        )
        routes = place(self.placement, processes)
        limit = self.memory(processes) * activation
        return template, pipeline_problem("pipeline", template, routes, memory_bytes=limit)


KINDS = {
    "1f1b": Kind("1F1B", "line", by_expert("1f1b"), joint=True),
    "zbv": Kind("ZB-V", "v", by_expert("zb_v")),
    "milp": Kind("MILP", "line", by_model, memory=lambda processes: max(2, processes - 1)),
}


@dataclass(frozen=True)
class Row:
    """What one run showed; times in seconds, the makespan in units of time."""

    schedule: str
    processes: int
    stages: int
    dtype: str
    makespan: float | None
    predicted_s: float | None
    measured_s: float
    loss_error: float
    gradient_error: float
    largest_gradient: float
    tensors: int
    ok: bool


def predicted(template: Template, problem: PlanningProblem, plan: Plan) -> float:
    """Makespan of the plan's order as torch runs it, units of time.

    torch computes no input gradient on stage 0, and runs its whole backward pass as ``W``.
    """
    first = template.stages[0]
    both = first.backward_ticks + first.weight_ticks
    stages = (replace(first, backward_ticks=0, weight_ticks=both), *template.stages[1:])
    shop = shop_of(problem)
    assert shop is not None
    routes = [tuple(_devices(problem, len(stages)))]
    as_run = shop_of(pipeline_problem("as torch runs it", replace(template, stages=stages), routes))
    assert as_run is not None
    ticks = value_of(as_run, times(as_run, words_of(as_run, plan)))
    return ticks / problem.units.time_scale


def _devices(problem: PlanningProblem, stages: int) -> list[int]:
    names = list(problem.cluster.device_names)
    return [names.index(problem.placements(f"F{stage}@0")[0].devices[0]) for stage in range(stages)]


def export(problem: PlanningProblem, plan: Plan, folder: Path) -> None:
    """Write instance, plan and torch's schedule, the last as the command line does."""
    instance, planned = folder / "instance.json", folder / "plan.json"
    write(problem, instance)
    write_plan(plan, planned)
    files = [instance, "--plan", planned, "-o", folder / "schedule.csv"]
    command = ["export", "--format", "torch-schedule", *map(str, files)]
    with redirect_stdout(sys.stderr):
        if milp_plan.main(command, standalone_mode=False):
            raise SystemExit(f"milp-plan {' '.join(command)} failed")


def reference(stages: int, micro_batches: int, dtype: str) -> tuple[list[float], dict]:
    """Losses per micro-batch and gradients of the mean loss, in this process."""
    modules = make_stages(stages, getattr(torch, dtype))
    tokens, target = make_batch(micro_batches)
    losses = []
    for x, wanted in zip(tokens.chunk(micro_batches), target.chunk(micro_batches), strict=True):
        for module in modules:
            x = module(x)  # noqa: PLW2901
        losses.append(loss_of(x, wanted))
    torch.stack(losses).mean().backward()
    gradients = {
        f"{index}.{name}": parameter.grad
        for index, module in enumerate(modules)
        for name, parameter in module.named_parameters()
    }
    return [loss.item() for loss in losses], gradients


def compare(saved: list[dict], losses: list[float], gradients: dict) -> tuple[float, float]:
    """Largest difference of losses and of gradients; infinite where something is missing."""
    found = {name: tensor for rank in saved for name, tensor in rank["gradients"].items()}
    told = [loss for rank in saved for loss in rank["losses"]]
    if found.keys() != gradients.keys() or any(tensor is None for tensor in found.values()):
        return float("inf"), float("inf")
    if len(told) != len(losses):
        return float("inf"), float("inf")
    differences = [found[name] - tensor for name, tensor in gradients.items()]
    return _largest(
        [torch.tensor(told, dtype=torch.float64) - torch.tensor(losses, dtype=torch.float64)]
    ), _largest(differences)


def _largest(differences: list[torch.Tensor]) -> float:
    """Largest absolute value; infinite where one is no number."""
    sizes = [float(difference.abs().max()) for difference in differences]
    return max(sizes) if all(map(math.isfinite, sizes)) else float("inf")


def write_job(
    title: str, pauses: Sequence[Sequence[float]], arguments: argparse.Namespace, folder: Path
) -> None:
    """Say what the processes are to do with ``schedule.csv`` of a folder.

    Parameters
    ----------
    title
        What it is.
    pauses
        Stage -> seconds that its forward pass, input and weight gradient take on top.
    arguments
        Of the command line: micro-batches, numbers, steps.
    folder
        Everything the processes write is in it.
    """
    job = {
        "title": title,
        "processes": len((folder / "schedule.csv").read_text().splitlines()),
        "stages": len(pauses),
        "micro_batches": arguments.micro_batches,
        "dtype": arguments.dtype,
        "steps": 1 + arguments.steps,
        "pauses": pauses,
    }
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "store").unlink(missing_ok=True)


def prepare(
    kind: Kind, processes: int, arguments: argparse.Namespace, folder: Path
) -> tuple[float, float | None]:
    """Plan and export one schedule; return makespan and predicted seconds per step."""
    template, problem = kind.problem(processes, arguments.micro_batches)
    plan = kind.planner(problem)
    if plan is None:
        raise SystemExit(f"{kind.title}: no plan for {processes} processes")
    verdict = verify(problem, plan)
    if not verdict.ok or verdict.value is None:
        raise SystemExit(f"{kind.title}: {verdict.violations}")
    export(problem, plan, folder)
    unit_s = arguments.unit_ms / 1000
    tick_s = unit_s / problem.units.time_scale
    pauses = [
        (stage.forward_ticks * tick_s, stage.backward_ticks * tick_s, stage.weight_ticks * tick_s)
        for stage in template.stages
    ]
    write_job(kind.title, pauses, arguments, folder)
    guess = predicted(template, problem, plan) * unit_s if unit_s else None
    return verdict.value / problem.units.time_scale, guess


def prepare_file(file: Path, arguments: argparse.Namespace, folder: Path) -> None:
    """Take a schedule that somebody has written."""
    text = file.read_text()
    (folder / "schedule.csv").write_text(text)
    stages = 1 + max(int(stage) for stage in re.findall(r"(\d+)F", text))
    write_job(file.name, [(0.0, 0.0, 0.0)] * stages, arguments, folder)


def outcome(folder: Path) -> Row:
    """Compare what the processes of a job saved with one process."""
    job = json.loads((folder / "job.json").read_text())
    saved = [torch.load(folder / f"rank{rank}.pt") for rank in range(job["processes"])]
    losses, gradients = reference(job["stages"], job["micro_batches"], job["dtype"])
    loss_error, gradient_error = compare(saved, losses, gradients)
    steps = [max(times_of) for times_of in zip(*(rank["seconds"] for rank in saved), strict=True)]
    return Row(
        schedule=job["title"],
        processes=job["processes"],
        stages=job["stages"],
        dtype=job["dtype"],
        makespan=None,
        predicted_s=None,
        measured_s=min(steps[1:]),  # in the first one stages agree on shapes
        loss_error=loss_error,
        gradient_error=gradient_error,
        largest_gradient=max(float(tensor.abs().max()) for tensor in gradients.values()),
        tensors=len(gradients),
        ok=max(loss_error, gradient_error) <= TOLERANCE[job["dtype"]],
    )


def table(rows: list[Row]) -> str:
    """Rows as Markdown."""
    lines = [
        "| schedule | processes | stages | numbers | makespan | predicted (s) | measured (s) "
        "| loss error | gradient error | largest gradient | equal |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        length = "–" if row.makespan is None else f"{row.makespan:g}"
        guess = "–" if row.predicted_s is None else f"{row.predicted_s:.3f}"
        lines.append(
            f"| {row.schedule} | {row.processes} | {row.stages} | {row.dtype} | {length} "
            f"| {guess} | {row.measured_s:.3f} | {row.loss_error:.1e} | {row.gradient_error:.1e} "
            f"| {row.largest_gradient:.2f} | {'yes' if row.ok else 'NO'} |"
        )
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--processes", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    parser.add_argument("--steps", type=int, default=2, help="timed steps; the shortest counts")
    parser.add_argument(
        "--unit-ms",
        type=float,
        default=4.0,
        help="milliseconds per unit of time: stages sleep that much longer, so that step times "
        "can be compared with the plan's; 0: they only compute",
    )
    parser.add_argument(
        "--files", nargs="+", type=Path, help="run these CSV files instead of planning any"
    )
    parser.add_argument("--keep", type=Path, help="folder to keep instances, plans, schedules in")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    return parser.parse_args()


def run(arguments: argparse.Namespace, home: Path) -> list[Row]:
    """Plan everything, run it, compare it."""
    forecasts: dict[Path, tuple[float | None, float | None]] = {}

    def folder(name: str) -> Path:
        (home / name).mkdir(parents=True, exist_ok=True)
        return home / name

    for file in arguments.files or []:
        prepare_file(file, arguments, folder(file.stem))
        forecasts[folder(file.stem)] = (None, None)
    if arguments.files is None:
        for processes, name in product(arguments.processes, arguments.schedules):
            own = folder(f"{name}-{processes}")
            forecasts[own] = prepare(KINDS[name], processes, arguments, own)
    subprocess.run(
        [sys.executable, str(HERE / "worker.py"), *map(str, forecasts)],
        check=True,
        stdout=sys.stderr,
    )
    return [
        replace(outcome(own), makespan=makespan, predicted_s=guess)
        for own, (makespan, guess) in forecasts.items()
    ]


def main() -> int:
    """Run all schedules asked for; 1 where a loss or a gradient differs."""
    arguments = parse()
    with tempfile.TemporaryDirectory() as scratch:
        rows = run(arguments, (arguments.keep or Path(scratch)).resolve())
    print(json.dumps([asdict(row) for row in rows]) if arguments.json else table(rows))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
