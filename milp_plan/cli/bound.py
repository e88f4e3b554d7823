"""``bound``: what no plan can beat, without planning."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io import answer_wire as wire

from .answers import answer_each, head
from .exits import Exit
from .inputs import PATH, Item, varied
from .output import say, say_table


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
    changes: dict[str, Any],
    time_limit: float,
    as_json: bool,
) -> None:
    """List lower bounds on the value of every plan, best first.

    Exits with 4 when it is proved that there is no plan.
    """

    def work(item: Item, aloud: bool) -> wire.Bounds:
        kind, problem, budget = item.kind, item.problem, Budget(time_limit)
        assert kind is not None
        reason = kind.obstacle(problem, budget)
        known = [] if reason is not None else list(kind.bounds(problem, budget, None))
        known.sort(key=lambda entry: -entry.value)
        if aloud:
            _show(item, known, reason)
        best = known[0] if known else None
        return wire.Bounds(
            **head(item),
            exit_code=int(Exit.DONE if reason is None else Exit.INFEASIBLE),
            bound=None if best is None else best.value,
            bound_in_unit=None if best is None else kind.measure(problem).decimal(best.value),
            bound_name=None if best is None else best.name,
            infeasible_because=reason,
            bounds=[wire.Bound(**asdict(entry)) for entry in known],
        )

    ctx.exit(answer_each(files, changes, wire.Bounds, work, as_json=as_json))


def _show(item: Item, bounds: list[Bound], obstacle: str | None) -> None:
    assert item.kind is not None
    name, measure = item.problem.name, item.kind.measure(item.problem)
    if obstacle is not None:
        say(f"{name}: no plan exists: {obstacle}")
        return
    if not bounds:
        say(f"{name}: no bound found in the time")
        return
    best = bounds[0]
    say(f"{name}: {measure.objective} at least {measure.text(best.value)} by {best.name}")
    rows = [[entry.name, measure.text(entry.value), entry.detail] for entry in bounds]
    say_table(["bound", "value", "why"], rows, numeric=[1])
