"""``run``: a plan, run by PyTorch, beside one process without a plan."""

from __future__ import annotations

from pathlib import Path

import click

from milp_plan.core.amounts import size_text
from milp_plan.core.quantity import Units

from .exits import Exit
from .inputs import PATH, item
from .output import note, say_table


@click.command("run")
@click.argument("file", type=PATH)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@click.argument("model")
@click.option("--dtype", help="Type of numbers to build the model in, as it was captured.")
@click.pass_context
def run(ctx: click.Context, file: Path, plan_file: Path, model: str, dtype: str | None) -> None:
    """Run a PLAN of the captured instance FILE with the MODEL (my_model.py:build) in PyTorch.

    One step is run as planned and one without a plan; loss, every gradient and the peak of memory
    are compared. For plans of one device that choose what is computed again. Ends with exit code 8
    where numbers differ or memory exceeds the plan.
    """
    from milp_plan.capture import load_builder
    from milp_plan.execute import compare

    read = item(file, {})
    assert read.kind is not None
    plan = read.kind.read_plan(plan_file, read.problem, file)
    builder = load_builder(model)
    found = compare(
        read.problem, plan, builder, dtype=dtype, report=lambda t: note(f"{builder.stem}: {t}")
    )
    chosen = ", ".join(f"{block} {policy}" for block, policy in found.blocks.items())
    units = Units()
    rows = [
        ("blocks", chosen),
        ("difference of the loss", f"{found.loss_error:.1e}"),
        (
            f"largest difference of {found.tensors} gradients",
            f"{found.gradient_error:.1e} (largest gradient {found.largest_gradient:.1e},"
            f" allowed {found.tolerance:.1e})",
        ),
        ("peak above weights, planned", size_text(units, found.planned_bytes)),
        ("peak above weights, measured", size_text(units, found.measured_bytes)),
        ("the same without a plan", size_text(units, found.without_bytes)),
        ("as planned", "yes" if found.ok else "no"),
    ]
    say_table(("", ""), rows)
    ctx.exit(Exit.DONE if found.ok else Exit.DIFFERS)
