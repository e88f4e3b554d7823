"""``check``: checks a plan against the laws, without a solver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from milp_plan.core import Verdict
from milp_plan.core.quantity import units_of
from milp_plan.io import answer_wire as wire
from milp_plan.run.scope import scope_of

from .answers import answer_each, head, say_scope, verdict_members
from .inputs import PATH, Item, plan_of, varied
from .output import say


@click.command()
@click.argument("file", type=PATH)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@varied
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    file: Path,
    plan_file: Path,
    changes: dict[str, Any],
    as_json: bool,
) -> None:
    """Check a plan against every law and recompute its value.

    Exits with 7 when a rule is broken.
    """

    def work(item: Item, as_text: bool) -> wire.Check:
        _, verdict = verified(item, plan_file)
        if as_text:
            _show(item, verdict)
        members = verdict_members(item, verdict)
        return wire.Check(**(head(item) | members), plan_file=str(plan_file))

    ctx.exit(answer_each((file,), changes, wire.Check, work, as_json=as_json))


def verified(item: Item, plan_file: Path) -> tuple[Any, Verdict]:
    """Read a plan and check it."""
    assert item.kind is not None
    plan = plan_of(item, plan_file)
    return plan, item.kind.verify(item.problem, plan)


def _show(item: Item, verdict: Verdict) -> None:
    assert item.kind is not None
    name, measure = item.problem.name, item.kind.measure(item.problem)
    if verdict.ok:
        value = f"{verdict.objective} {measure.text(verdict.value)}"
        say(f"{name}: valid, {value} ({verdict.value} {measure.grain})")
        say_scope(scope_of(item.problem))
        return
    count = len(verdict.violations)
    say(f"{name}: not valid, {count} violation{'' if count == 1 else 's'}")
    for violation in verdict.violations:
        say(f"  {violation.text(units_of(item.problem))}")
