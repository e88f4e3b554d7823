"""``bound``: lists lower bounds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.io import answer_wire as wire
from milp_plan.run.scope import scope_of

from . import interrupts
from .answers import answer_each, head, say_scope
from .exits import Exit
from .inputs import PATH, Item, varied
from .limits import Number
from .output import display, say, say_table

if TYPE_CHECKING:
    from milp_plan.run import Bounds


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@varied
@click.option(
    "--time-limit",
    type=Number(min=0),
    default=60.0,
    show_default=True,
    help="Seconds per file; it ends earlier where the best bound is reached by a plan.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line and file.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def bound(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    changes: dict[str, Any],
    time_limit: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """List lower bounds on the value of every plan, best first.

    They are those that `milp-plan solve` would prove in that time, and simpler ones.

    Exits with 4 when it is proved that there is no plan.
    """
    from milp_plan.run import find_bounds

    def work(item: Item, as_text: bool) -> wire.Bounds:
        assert item.kind is not None
        with display(item.problem, quiet=quiet) as show:
            bounds = find_bounds(item.problem, time_limit, show, began=item.began)
        if as_text:
            _show(item, bounds)
        best = bounds.bounds[0] if bounds.bounds else None
        measure = item.kind.measure(item.problem)
        return wire.Bounds(
            **head(item),
            exit_code=int(_code(bounds)),
            bound=None if best is None else best.value,
            bound_in_unit=None if best is None else measure.decimal(best.value),
            bound_name=None if best is None else best.name,
            infeasible_because=bounds.infeasible_reason,
            bounds=[wire.Bound(**asdict(entry)) for entry in bounds.bounds],
        )

    ctx.exit(answer_each(files, changes, wire.Bounds, work, as_json=as_json))


def _code(found: Bounds) -> Exit:
    if found.interrupted:
        return interrupts.code()
    return Exit.DONE if found.infeasible_reason is None else Exit.INFEASIBLE


def _show(item: Item, found: Bounds) -> None:
    assert item.kind is not None
    name, measure = item.problem.name, item.kind.measure(item.problem)
    if found.infeasible_reason is not None:
        say(f"{name}: no plan exists: {found.infeasible_reason}")
    elif not found.bounds:
        say(f"{name}: no bound found in the time")
    else:
        best = found.bounds[0]
        say(f"{name}: {measure.objective} at least {measure.text(best.value)} by {best.name}")
    say_scope(scope_of(item.problem))
    if not found.bounds:
        return
    rows = [[entry.name, measure.text(entry.value), entry.detail] for entry in found.bounds]
    say_table(["bound", "value", "why"], rows, numeric=[1])
