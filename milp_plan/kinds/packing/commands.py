"""``pack``: addresses for the copies of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.cli import interrupts
from milp_plan.cli.answers import answer_each, head, say_scope
from milp_plan.cli.exits import Exit, most_serious
from milp_plan.cli.inputs import PATH, Item, plan_of, varied
from milp_plan.cli.limits import POSITIVE_SETTING, SECONDS, SETTING
from milp_plan.cli.output import display, note, say, say_table
from milp_plan.cli.outputs import Content, Output, Writing, refuse
from milp_plan.core import PlanningProblem, UnsupportedProblemError
from milp_plan.core.amounts import DASH, share_text, size_text
from milp_plan.core.budget import now
from milp_plan.core.quantity import units_of
from milp_plan.io import answer_wire as wire
from milp_plan.io.files import write_document
from milp_plan.run.scope import Scope

if TYPE_CHECKING:
    from .address_file import Address
    from .addresses import PackedMemory

PACKED = Scope(("addresses",), ("the plan: placement, order and lifetimes",))


@click.command()
@click.argument("file", type=PATH)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@varied
@click.option(
    "--time-limit",
    type=SECONDS,
    default=60.0,
    show_default=True,
    help="Seconds for all memories together, from the start of the process.",
)
@click.option("--seed", type=SETTING, default=0, show_default=True, help="Seed of the searches.")
@click.option(
    "--node-limit", type=POSITIVE_SETTING, help="Nodes per memory; makes runs repeatable."
)
@click.option(
    "--alignment",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Alignment of every offset, bytes.",
)
@click.option("-o", "--output", type=PATH, help="Addresses to write: .csv, or .json.")
@click.option("--plot", "plot_file", type=PATH, help="Picture to write, .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def pack(
    ctx: click.Context,
    /,
    *,
    file: Path,
    plan_file: Path,
    changes: dict[str, Any],
    alignment: int,
    output: Path | None,
    plot_file: Path | None,
    as_json: bool,
    quiet: bool,
    **limited: Any,
) -> None:
    """Assign every copy of a plan an address in the memory of its device.

    Copies, their sizes and lifetimes are those of the checker. Each memory is
    packed as low as possible; --time-limit is for all of them together.

    Exits with 5 when no packing was found within a device's memory, with 4 when it is proved that
    there is none, and with 7 when the plan breaks a rule.
    """
    outputs = [
        Output("--output", output, Content.ADDRESSES),
        Output("--plot", plot_file, Content.PICTURE),
    ]
    from milp_plan.run.settings import Settings

    from .addresses import memories
    from .addresses import pack as run_pack

    refuse(outputs, [file, plan_file])
    if output is not None and output.suffix not in (".csv", ".json"):
        raise click.BadParameter(f"{output}: expected a name that ends in .csv or .json")

    limited["time_limit_s"] = limited.pop("time_limit")

    def work(item: Item, aloud: bool) -> wire.Pack:
        assert item.kind is not None
        plan = plan_of(item, plan_file)
        verdict = item.kind.verify(item.problem, plan)
        answer = {**head(item), "scope": str(PACKED), "plan_file": str(plan_file)}
        if not verdict.ok:
            reason = f"{plan_file}: the plan is not valid, see milp-plan check"
            note(f"error: {reason}")
            answer |= {"verdict": "violated", "errors": [reason]}
            return wire.Pack(**answer, exit_code=int(Exit.NOT_VALID))
        if not isinstance(item.problem, PlanningProblem):
            words = f"plans of the kind {item.kind.name!r} have no copies to place"
            raise UnsupportedProblemError(words)
        contents = memories(item.problem, plan, _counted(item.problem, alignment))
        shown = partial(display, quiet=quiet)
        packed = list(run_pack(contents, Settings(**limited), item.began, shown))
        written = _write(item, packed, output, plot_file)
        if aloud:
            _show(item, packed, written.files)
            say_scope(PACKED)
        for failure in written.failures:
            note(f"error: {failure}")
        return wire.Pack(
            **(answer | written.files),
            verdict="ok",
            fragmentation=_largest(packed),
            memories=[_answer_of(entry) for entry in packed],
            seconds=now() - item.began,
            errors=written.failures,
            exit_code=int(_code(packed, written.code)),
        )

    ctx.exit(answer_each((file,), changes, wire.Pack, work, as_json=as_json))


def _code(packed: Sequence[PackedMemory], written: Exit) -> Exit:
    from milp_plan.backends import Stop

    codes = [Exit.DONE, written]
    for entry in packed:
        if entry.never_fits:
            codes.append(Exit.INFEASIBLE)
        elif not entry.fits:
            codes.append(Exit.NO_PLAN)
        if entry.outcome.stop is Stop.INTERRUPTED:
            codes.append(interrupts.code())
    return most_serious(codes)


def _counted(problem: Any, alignment: int) -> int:
    """Return an alignment in the problem's units: the least whole number that is a multiple."""
    units = units_of(problem)
    per_byte = units.counts_per_byte
    return (alignment * (units.size_scale if per_byte is None else per_byte)).numerator


def _largest(packed: Sequence[PackedMemory]) -> float | None:
    known = [entry.fragmentation for entry in packed if entry.fragmentation is not None]
    return max(known, default=None)


def _answer_of(entry: PackedMemory) -> wire.PackedMemory:
    memory, outcome = entry.memory, entry.outcome
    return wire.PackedMemory(
        device=memory.device,
        copies=len(memory.holdings),
        load=memory.load_bytes,
        height=entry.height,
        bound=outcome.bound,
        fragmentation=entry.fragmentation,
        limit=memory.limit_bytes,
        fits=entry.fits,
        proved=outcome.proved,
        planner=outcome.planner,
    )


def _addresses(packed: Sequence[PackedMemory]) -> Iterator[Address]:
    from .address_file import Address

    for entry in packed:
        for place in () if entry.outcome.plan is None else entry.outcome.plan.places:
            holding, buffer = entry.memory.holdings[place.buffer.name], place.buffer
            yield Address(
                entry.memory.device,
                buffer.name,
                holding.kind,
                holding.name,
                buffer.lower,
                buffer.upper,
                buffer.size,
                buffer.alignment,
                place.offset,
            )


def _write(
    item: Item, packed: Sequence[PackedMemory], output: Path | None, plot_file: Path | None
) -> Writing:
    from .address_file import addresses_csv, addresses_json

    written = Writing()
    if output is not None:
        rows = list(_addresses(packed))
        names = {"instance": item.problem.name, "fingerprint": item.problem.fingerprint}
        text = addresses_csv(rows) if output.suffix == ".csv" else addresses_json(names, rows)
        written.write("addresses_file", output, partial(write_document, data=text))
    if plot_file is not None:
        written.write("plot_file", plot_file, partial(_draw, packed))
    return written


def _draw(packed: Sequence[PackedMemory], path: Path) -> None:
    from milp_plan.core import Units
    from milp_plan.draw.canvas import write_figure
    from milp_plan.draw.figures import panels_figure

    from .draw import addresses_panel

    panels = []
    for entry in packed:
        if entry.outcome.plan is not None:
            memory = entry.memory
            title = f"{memory.device}: {size_text(Units(), entry.height)}"
            panels.append(addresses_panel(title, entry.outcome.plan, memory.limit_bytes))
    write_figure(panels_figure([("", panels)]), path)


def _show(item: Item, packed: Sequence[PackedMemory], files: dict[str, str]) -> None:
    units, name = units_of(item.problem), item.problem.name
    if not packed:
        say(f"{name}: every memory is empty")
        return
    say(f"{name}: fragmentation at most {share_text(_largest(packed))}")
    rows = []
    for entry in packed:
        memory, limit = entry.memory, entry.memory.limit_bytes
        rows.append(
            [
                memory.device,
                f"{len(memory.holdings):,}",
                size_text(units, memory.load_bytes),
                size_text(units, entry.height),
                share_text(entry.fragmentation),
                DASH if limit is None else size_text(units, limit),
                "yes" if entry.fits else ("never" if entry.never_fits else "no"),
                "proved lowest" if entry.outcome.proved else entry.outcome.planner,
            ]
        )
    heads = ["device", "copies", "load", "height", "fragmentation", "memory", "fits", "packing"]
    say_table(heads, rows, numeric=range(1, 6))
    for member, path in files.items():
        say(f"  {member.removesuffix('_file')} {path}")


COMMANDS = (pack,)
"""Verbs of the command line."""
