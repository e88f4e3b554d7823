"""``bound``: what no plan can beat, without planning."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import InputError, PlanningProblem
from milp_plan.core.amounts import value_text
from milp_plan.core.budget import Budget

from .exits import Exit, most_serious
from .inputs import PATH, Variation, instances, varied
from .output import complain, say, say_json, say_table
from .sharding import is_sharding, show_bound

if TYPE_CHECKING:
    from milp_plan.bounds import Bound, Infeasible


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@varied
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds per file; bounds that are not done by then are left out.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line and file.")
@click.pass_context
def bound(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    variation: Variation,
    time_limit: float,
    as_json: bool,
) -> None:
    """List lower bounds on the value of every plan, best first.

    Exits with 4 when it is proved that there is no plan.
    """
    from milp_plan.bounds import all_bounds, infeasibility

    codes = []
    item: Any
    for _, item in instances(files, variation):
        if isinstance(item, InputError):
            complain(item)
            codes.append(Exit.BAD_INPUT)
            continue
        if is_sharding(item):
            codes.append(show_bound(item, time_limit, as_json=as_json))
            continue
        obstacle = infeasibility(item, Budget(time_limit))
        known = () if obstacle is not None else tuple(all_bounds(item, Budget(time_limit)))
        bounds = sorted(known, key=lambda entry: -entry.value)
        show = _show_json if as_json else _show
        show(item, bounds, obstacle)
        codes.append(Exit.DONE if obstacle is None else Exit.INFEASIBLE)
    ctx.exit(most_serious(codes))


def _show(problem: PlanningProblem, bounds: list[Bound], obstacle: Infeasible | None) -> None:
    if obstacle is not None:
        say(f"{problem.name}: no plan exists: {obstacle}")
        return
    best = bounds[0]
    text = value_text(problem, best.value)
    say(f"{problem.name}: {problem.objective} at least {text} by {best.name}")
    rows = [[entry.name, value_text(problem, entry.value), entry.detail] for entry in bounds]
    say_table(["bound", "value", "why"], rows, numeric=[1])


def _show_json(problem: PlanningProblem, bounds: list[Bound], obstacle: Infeasible | None) -> None:
    best = bounds[0] if bounds else None
    say_json(
        {
            "instance": problem.name,
            "objective": problem.objective.value,
            "bound": None if best is None else best.value,
            "bound_name": None if best is None else best.name,
            "infeasible_because": None if obstacle is None else obstacle.reason,
            "bounds": [asdict(entry) for entry in bounds],
        }
    )
