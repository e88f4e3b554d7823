"""``run``: runs a plan in PyTorch, and compares it with one process without a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError, Plan, PlanningProblem
from milp_plan.core.amounts import size_text
from milp_plan.core.quantity import Units
from milp_plan.run.scope import scope_of

from .answers import say_scope
from .exits import Exit
from .inputs import PATH, Item, item, plan_of
from .output import note, say_table

if TYPE_CHECKING:
    from milp_plan.capture.model_file import Builder
    from milp_plan.core.sharding import ShardingProblem
    from milp_plan.execute import Differences
    from milp_plan.io.placement_wire import TorchPlacements


@click.command("run")
@click.argument("file", type=PATH)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@click.argument("model")
@click.option("--dtype", help="Type of numbers to build the model in, as it was captured.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Processes; those of the placement file's mesh or of the schedule otherwise.",
)
@click.option(
    "--schedule",
    type=PATH,
    help="Order of the stages' passes (torch-schedule), with a torch-stages file as PLAN.",
)
@click.pass_context
def run(
    ctx: click.Context,
    *,
    file: Path,
    plan_file: Path,
    model: str,
    dtype: str | None,
    processes: int | None,
    schedule: Path | None,
) -> None:
    """Run a PLAN of the captured instance FILE with the MODEL (my_model.py:build) in PyTorch.

    One step is run as planned and one without a plan. A plan of one device that chooses what is
    computed again: loss, every gradient and the peak of memory are compared. A torch-placements
    file, or a plan of an instance made with --sharding: the step runs on several processes (gloo),
    and loss, every gradient and the collectives that ran are compared. A torch-stages file with
    --schedule: the model is cut into stages, which run the micro-batches as a pipeline on several
    processes; losses, every gradient and the peak of each process are compared. Ends with exit code
    8 where they differ or memory exceeds the plan.
    """
    from milp_plan.capture.chosen import chosen_placements
    from milp_plan.capture.model_file import load_builder
    from milp_plan.capture.placements import is_placements, read_placements
    from milp_plan.capture.stages import is_stages
    from milp_plan.core.sharding import ShardingProblem
    from milp_plan.io.files import read_document

    read = item(file, {})
    assert read.kind is not None
    builder = load_builder(model)
    document = read_document(plan_file, "a plan, a torch-placements or a torch-stages file")
    if is_stages(document) != (schedule is not None):
        raise click.UsageError("--schedule goes with a torch-stages file, and only with that")
    if schedule is not None:
        ok = _pipeline(read.problem, (plan_file, schedule), builder, dtype, processes)
    elif is_placements(document):
        ok = _placements(read.problem, read_placements(plan_file), builder, dtype, processes)
    elif isinstance(read.problem, ShardingProblem):
        chosen = _valid_plan(read, plan_file)
        placements = chosen_placements(read.problem, chosen)
        ok = _placements(read.problem, placements, builder, dtype, processes)
    elif processes is not None:
        raise InputError(
            [
                Finding(
                    "--processes",
                    f"{processes} with a plan",
                    "a torch-placements file",
                    "leave the option out, or name a file of placements instead of a plan",
                )
            ]
        ).in_file(str(plan_file))
    else:
        plan = _valid_plan(read, plan_file)
        _require_policies(read.problem, plan, file)
        ok = _recomputation(read.problem, plan, builder, dtype)
    say_scope(scope_of(read.problem))
    ctx.exit(Exit.DONE if ok else Exit.DIFFERS)


def _valid_plan(read: Item, plan_file: Path) -> Any:
    """Read a plan; refuse an invalid one with the name of its file."""
    assert read.kind is not None
    plan = plan_of(read, plan_file)
    if not read.kind.verify(read.problem, plan).ok:
        finding = Finding("plan", "not valid", "one that keeps every law", "see milp-plan check")
        raise InputError([finding]).in_file(str(plan_file))
    return plan


def _require_policies(problem: PlanningProblem, plan: Plan, file: Path) -> None:
    """Refuse an instance without recomputable blocks, with the name of its file."""
    from milp_plan.capture.checkpoints import policies

    try:
        policies(problem, plan)
    except InputError as error:
        raise error.in_file(str(file)) from None


def _recomputation(
    problem: PlanningProblem, plan: Plan, builder: Builder, dtype: str | None
) -> bool:
    from milp_plan.execute import compare

    found = compare(problem, plan, builder, dtype=dtype, report=_reporter(builder))
    chosen = ", ".join(f"{block} {policy}" for block, policy in found.blocks.items())
    units = Units()
    rows = [
        ("blocks", chosen),
        *_numbers(found),
        ("peak above weights, planned", size_text(units, found.planned_bytes)),
        ("peak above weights, measured", size_text(units, found.measured_bytes)),
        ("the same without a plan", size_text(units, found.without_bytes)),
        ("as planned", "yes" if found.ok else "no"),
    ]
    say_table(("", ""), rows)
    return found.ok


def _pipeline(
    problem: PlanningProblem,
    files: tuple[Path, Path],
    builder: Builder,
    dtype: str | None,
    processes: int | None,
) -> bool:
    from milp_plan.execute import compare_pipeline

    found = compare_pipeline(
        builder,
        *files,
        problem=problem,
        count=processes,
        dtype=dtype,
        report=_reporter(builder),
    )
    units = Units()
    rows = [(f"stage {number}", ", ".join(modules)) for number, modules in enumerate(found.modules)]
    rows += [("micro-batches", str(found.micro_batches)), *_numbers(found)]
    figures = zip(found.stages_of, found.planned_bytes, found.measured_bytes, strict=True)
    for place, (stages_of, planned, measured) in enumerate(figures):
        where = f"process {place}, stage {', '.join(map(str, stages_of))}"
        peaks = f"planned {size_text(units, planned)}, measured {size_text(units, measured)}"
        rows.append((f"peak above weights, {where}", peaks))
    rows.append(("as planned", "yes" if found.ok else "no"))
    say_table(("", ""), rows)
    return found.ok


def _placements(
    problem: PlanningProblem | ShardingProblem,
    plan: TorchPlacements,
    builder: Builder,
    dtype: str | None,
    processes: int | None,
) -> bool:
    from milp_plan.execute import compare_sharded

    (found,) = compare_sharded(
        builder, [plan], problem=problem, count=processes, dtype=dtype, report=_reporter(builder)
    )
    mesh = " x ".join(f"{axis.name} {axis.size}" for axis in plan.mesh)
    rows = [
        ("processes", f"{found.processes} ({mesh})"),
        *_numbers(found),
        ("collectives, planned", _counts(found.planned)),
        ("collectives that ran", _counts(found.ran)),
        ("as planned", "yes" if found.ok else "no"),
    ]
    say_table(("", ""), rows)
    return found.ok


def _numbers(found: Differences) -> list[tuple[str, str]]:
    return [
        ("difference of the loss", f"{found.loss_error:.1e}"),
        (
            f"largest difference of {found.tensors} gradients",
            f"{found.gradient_error:.1e} (largest gradient {found.largest_gradient:.1e},"
            f" allowed {found.tolerance:.1e})",
        ),
    ]


def _counts(collectives: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(collectives.items())) or "none"


def _reporter(builder: Builder) -> Callable[[str], None]:
    return lambda text: note(f"{builder.stem}: {text}")
