"""``transform``: derive another training step from the one in a file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.cli.inputs import PATH, item, varied
from milp_plan.cli.output import say
from milp_plan.cli.outputs import Content, Output, refuse
from milp_plan.core import Finding, InputError, PlanningProblem

if TYPE_CHECKING:
    from .transform import HeadTime


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--local-updates",
    "variant",
    required=True,
    metavar="greedy|overlapping|chunks:N|K[,K...]",
    help="Cut back-propagation behind every block, behind every block but with the next block's "
    "gradient, into N chunks of equal forward time, or behind the blocks of these numbers.",
)
@click.option(
    "--head",
    default="0.15",
    show_default=True,
    metavar="PART|ROWSxFEATURESxCLASSES",
    help="Cost of an auxiliary head: a share of its block's forward time, or a linear layer by "
    "the cost model, on device classes that it knows.",
)
@click.option("--final-head", is_flag=True, help="Add a head to the last block, which has no loss.")
@click.option("-o", "--output", type=PATH, required=True, help="Instance file to write.")
@varied
def transform(
    *, file: Path, variant: str, head: str, output: Path, final_head: bool, changes: dict[str, Any]
) -> None:
    """Write the training step of FILE with local updates: cut gradients, auxiliary heads.

    The effect on accuracy is unknown. Plan both files and compare: local updates win where they
    take fewer than (time before / time after) times as many steps.
    """
    from milp_plan.io.files import write_document

    from .transform import blocks_of, with_local_updates

    refuse([Output("-o", output, Content.INSTANCE)], [file])
    read = item(file, changes)
    problem = read.problem
    if not isinstance(problem, PlanningProblem):
        expected = "a training step as a schedule problem"
        found, remedy = type(problem).__name__, "name another instance"
        raise InputError([Finding("file", found, expected, remedy, str(file))])
    times = _forward_times(problem)
    try:
        local = with_local_updates(
            problem,
            _cuts(variant, times),
            _head(head, times),
            overlapping=variant == "overlapping",
            final_head=final_head,
        )
    except InputError as error:
        raise error.in_file(str(file)) from None
    assert read.kind is not None
    write = next(entry.write for entry in read.kind.formats() if entry.write is not None)
    write_document(output, write(local))
    heads = sum(o.kind == "auxiliary" for o in local.graph.operators)
    say(f"{output}: {len(blocks_of(local))} blocks, {heads} heads")


def _forward_times(problem: PlanningProblem) -> list[dict[str, int]]:
    """Return forward ticks of one micro-batch of each block, by device class."""
    from .transform import blocks_of

    blocks = blocks_of(problem)
    times: dict[str, dict[str, int]] = {name: {} for name in blocks}
    batches = {o.micro_batch for o in problem.graph.operators if o.kind == "forward"}
    for operator in problem.graph.operators:
        if operator.kind == "forward" and operator.block in times:
            for device, ticks in operator.options[0].duration_ticks.items():
                row = times[operator.block]
                row[device] = row.get(device, 0) + ticks
    count = max(1, len(batches))
    return [{d: ticks // count for d, ticks in times[name].items()} for name in blocks]


def _cuts(variant: str, times: list[dict[str, int]]) -> list[int]:
    boundaries = range(len(times) - 1)
    if variant in ("greedy", "overlapping"):
        return list(boundaries)
    word, _, number = variant.partition(":")
    if word == "chunks" and number.isdigit() and int(number) > 0:
        sums = [sum(row.values()) for row in times]
        total, chunks = sum(sums), int(number)
        marks = [total * part / chunks for part in range(1, chunks)]
        reached = [sum(sums[: at + 1]) for at in boundaries]
        if chunks > len(times):
            wrong = f"{chunks} chunks of {len(times)} blocks"
            raise click.BadParameter(wrong, param_hint="'--local-updates'")
        return sorted({min(boundaries, key=lambda at: abs(reached[at] - m)) for m in marks})
    try:
        return [int(part) for part in variant.split(",")]
    except ValueError:
        expected = "greedy, overlapping, chunks:N or numbers of blocks"
        wrong = f"{variant!r}: expected {expected}"
        raise click.BadParameter(wrong, param_hint="'--local-updates'") from None


def _head(text: str, times: list[dict[str, int]]) -> HeadTime:
    """Read the cost of a head."""
    parts = text.split("x")
    if len(parts) == 3 and all(part.isdigit() for part in parts):
        return _linear(*map(int, parts))
    try:
        part = Fraction(text)
    except (ValueError, ZeroDivisionError):
        part = Fraction(-1)
    if part < 0:
        wrong = f"{text!r}: expected a part such as 0.15, or 64x1024x1000"
        raise click.BadParameter(wrong, param_hint="'--head'")

    def share(block: int, device: str) -> int:
        return round(part * max(times[block].get(device, 0), 0))

    return share


def _linear(rows: int, features: int, classes: int) -> Callable[[int, str], int]:
    from milp_plan.cost.devices import device_spec
    from milp_plan.cost.roofline import roofline_ns

    word = 2
    moved = word * (rows * features + features * classes + rows * classes)

    def ticks(_block: int, device: str) -> int:
        once = roofline_ns(device_spec(device), 2 * rows * features * classes, moved)
        return 3 * once  # forward, and both gradients

    return ticks


COMMANDS = (transform,)
"""Verbs of the command line."""
