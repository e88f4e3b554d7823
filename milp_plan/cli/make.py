"""``generate`` and ``convert``: instance files from architectures and from other formats."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from milp_plan.core import PLAIN_OBJECTIVES, CommunicationModel, Objective

from .inputs import PATH, Variation, positive_fraction, problem, varied
from .output import say
from .outputs import Content, Output, refuse

if TYPE_CHECKING:
    from milp_plan.core.sharding import ShardingProblem


@click.command()
@click.argument("architecture")
@click.argument("cluster")
@click.option(
    "--mode",
    type=click.Choice(["training", "inference"]),
    default="training",
    show_default=True,
    help="A training step, or one forward pass.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=8, show_default=True, help="Samples of the step."
)
@click.option(
    "--micro-batches",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Parts the batch is cut into.",
)
@click.option(
    "--granularity",
    default="fine",
    show_default=True,
    help="'fine' (one operator per layer) or, for transformers, 'block'.",
)
@click.option(
    "--split",
    "splits",
    multiple=True,
    metavar="WAY",
    help="A way to split layers over devices, such as column2 or all4. Repeatable.",
)
@click.option(
    "--mesh",
    "meshes",
    multiple=True,
    metavar="SHAPE",
    help="A device mesh, such as 2 or 2x2, whose strategies to offer. Repeatable.",
)
@click.option(
    "--sharding",
    "shape",
    metavar="SHAPE",
    help="Choose strategies alone, on one mesh of all devices: write a sharding problem (IOPDDL).",
)
@click.option(
    "--zero",
    "zero_levels",
    type=click.IntRange(1, 3),
    multiple=True,
    help="With --mesh or --sharding: a level of ZeRO to offer besides 0. Repeatable.",
)
@click.option("--optimizer", default="adam", show_default=True, help="'adam' or 'sgd'.")
@click.option(
    "--memory-scale",
    type=positive_fraction,
    metavar="FRACTION",
    default="1",
    help="Factor on the memory of every device, exact: 0.8 or 4/5.",
)
@click.option(
    "--communication",
    type=click.Choice([model.value for model in CommunicationModel]),
    default=CommunicationModel.CHANNEL.value,
    show_default=True,
    help="What a transfer holds while it runs.",
)
@click.option("--link", help="Link inside nodes, if not the devices' own, such as PCIe4.")
@click.option(
    "--objective",
    type=click.Choice([entry.value for entry in PLAIN_OBJECTIVES]),
    default=Objective.MAKESPAN.value,
    show_default=True,
)
@click.option("--name", help="Name of the instance; made from the arguments unless given.")
@click.option(
    "-o", "--output", type=PATH, help="File to write (.gz: compressed); NAME.json unless given."
)
def generate(
    *,
    architecture: str,
    cluster: str,
    mode: str,
    batch: int,
    micro_batches: int,
    granularity: str,
    splits: tuple[str, ...],
    meshes: tuple[str, ...],
    shape: str | None,
    zero_levels: tuple[int, ...],
    optimizer: str,
    memory_scale: Fraction,
    communication: str,
    link: str | None,
    objective: str,
    name: str | None,
    output: Path | None,
) -> None:
    """Build an instance from an ARCHITECTURE and a CLUSTER such as 4xH100 or 2xH100+2xA100.

    `milp-plan list architectures` and `milp-plan list clusters` say what there is.
    """
    from milp_plan import zoo
    from milp_plan.io import write

    refuse([Output("--output", output, Content.INSTANCE)])
    if shape is not None:
        unused = {"--mesh": meshes, "--split": splits, "--micro-batches": micro_batches > 1}
        if given := [name for name, there in unused.items() if there]:
            raise click.UsageError(f"--sharding does not go with {', '.join(given)}")
        grid = zoo.shard(
            *(architecture, cluster, shape),
            mode=mode,
            batch=batch,
            granularity=granularity,
            memory_scale=memory_scale,
            zero_levels=zero_levels,
            optimizer=optimizer,
            link=link,
            name=name,
        )
        _write_sharding(grid, output)
        return
    if zero_levels and not meshes:
        raise click.UsageError("--zero goes with --mesh or --sharding")
    made = zoo.generate(
        architecture,
        cluster,
        mode=mode,
        batch=batch,
        micro_batches=micro_batches,
        granularity=granularity,
        memory_scale=memory_scale,
        options=splits,
        meshes=meshes,
        zero_levels=zero_levels,
        optimizer=optimizer,
        communication=communication,
        link=link,
        objective=objective,
        name=name,
    )
    path = _target(made.name, output)
    write(made, path)
    say(f"{path}: {made.name}, {len(made.graph.operators):,} operators")


def _target(name: str, output: Path | None) -> Path:
    """Return the file of a new instance; it may take the place of another instance."""
    path = output or Path(f"{name}.json")
    refuse([Output("--output", path, Content.INSTANCE)])
    return path


def _write_sharding(made: ShardingProblem, output: Path | None) -> None:
    from milp_plan.io.iopddl import write_iopddl

    path = _target(made.name, output)
    write_iopddl(made, path)
    count = len(made.strategies.cost)
    say(f"{path}: {made.name}, {len(made.operators):,} operators, {count:,} strategies")


@click.command()
@click.argument("file", metavar="IN", type=PATH)
@click.argument("output", metavar="OUT", type=PATH)
@click.option("--format", "format_name", default="native", show_default=True, help="Format of OUT.")
@varied
def convert(
    file: Path,
    output: Path,
    format_name: str,
    variation: Variation,
) -> None:
    """Read an instance of any format and write it again (.gz: compressed)."""
    from milp_plan.io import formats, write

    writable = [entry.name for entry in formats() if entry.write is not None]
    if format_name not in writable:
        raise click.BadParameter(
            f"{format_name!r} cannot be written; formats that can be: {', '.join(writable)}",
            param_hint="'--format'",
        )
    refuse([Output("OUT", output, Content.INSTANCE)], [file])
    read = problem(file, variation)
    write(read, output, format_name)
    say(f"{output}: {read.name}, {len(read.graph.operators):,} operators")
