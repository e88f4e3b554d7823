"""``generate`` and ``convert``: make instance files from architectures and other formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .inputs import PATH, item, on_cluster, varied
from .limits import refuse_idle
from .output import say
from .outputs import Content, Output, refuse

if TYPE_CHECKING:
    from milp_plan.run.kind import Kind


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
    "--blocks",
    type=click.IntRange(min=1),
    help="Blocks of a GPT or a mixture of experts, instead of its own number.",
)
@click.option(
    "--split",
    "splits",
    multiple=True,
    metavar="SPLIT",
    help="How to split layers over devices, such as column2 or all4. Repeatable.",
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
@on_cluster
@click.option("--name", help="Name of the instance; made from the arguments unless given.")
@click.option(
    "-o", "--output", type=PATH, help="File to write (.gz: compressed); NAME.json unless given."
)
def generate(
    *,
    architecture: str,
    cluster: str,
    splits: tuple[str, ...],
    meshes: tuple[str, ...],
    shape: str | None,
    zero_levels: tuple[int, ...],
    communication: str | None,
    objective: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Build an instance from an ARCHITECTURE and a CLUSTER such as 4xH100 or mine.toml.

    `milp-plan list architectures` and `milp-plan list clusters` list the names; a TOML file
    describes a cluster of your own.
    """
    from milp_plan.face import verbs

    refuse([Output("--output", output, Content.INSTANCE)])
    if options["mode"] == "inference":
        refuse_idle({"optimizer": "inference updates no weights; leave it out"})
    if shape is not None:
        unused = {"--mesh": meshes, "--split": splits}
        if given := [name for name, there in unused.items() if there]:
            raise click.UsageError(f"--sharding does not go with {', '.join(given)}")
        why = "a sharding problem counts the cost of strategies, on one mesh; leave it out"
        refuse_idle({"communication": why, "objective": why})
        options["sharding"] = shape
    elif zero_levels and not meshes:
        raise click.UsageError("--zero goes with --mesh or --sharding")
    else:
        options |= {"options": splits, "meshes": meshes}
        options |= {"communication": communication, "objective": objective}
    made = verbs.generate(architecture, cluster, zero_levels=zero_levels, **options)
    write_instance(made, output)


def write_instance(made: Any, output: Path | None) -> None:
    """Write a new instance in the first format of its kind; it may replace another instance."""
    from milp_plan.io.files import write_document
    from milp_plan.run.kinds import kind_of

    path = output or Path(f"{made.name}.json")
    refuse([Output("--output", path, Content.INSTANCE)])
    kind = kind_of(made)
    write_document(path, _writers(kind)[0][1](made))
    _say_size(path, kind, made)


def _say_size(path: Path, kind: Kind[Any, Any], problem: Any) -> None:
    what, count = next(iter(kind.summary(problem).items()))
    say(f"{path}: {problem.name}, {count:,} {what}")


def _writers(kind: Kind[Any, Any]) -> list[tuple[str, Callable[[Any], bytes]]]:
    """Return the formats of a kind that can be written, by name."""
    return [(entry.name, entry.write) for entry in kind.formats() if entry.write is not None]


@click.command()
@click.argument("file", metavar="IN", type=PATH)
@click.argument("output", metavar="OUT", type=PATH)
@click.option(
    "--format", "format_name", help="Format of OUT.  [default: the first of the kind of problem]"
)
@varied
def convert(file: Path, output: Path, format_name: str | None, changes: dict[str, Any]) -> None:
    """Read an instance of any format and write it again (.gz: compressed)."""
    from milp_plan.io.files import write_document

    refuse([Output("OUT", output, Content.INSTANCE)], [file])
    read = item(file, changes)
    assert read.kind is not None
    writers = dict(_writers(read.kind))
    name = next(iter(writers), None) if format_name is None else format_name
    if name not in writers:
        known = ", ".join(writers) or "none"
        raise click.BadParameter(
            f"{name!r} is no format that a {read.kind.name} problem can be written in: {known}",
            param_hint="'--format'",
        )
    write_document(output, writers[name](read.problem))
    _say_size(output, read.kind, read.problem)
