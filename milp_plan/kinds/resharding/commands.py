"""``migrate``: the bytes that move when a plan by degrees changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.cli.answers import code_of_outcome, say_scope
from milp_plan.cli.inputs import PATH
from milp_plan.cli.limits import GAP, SECONDS
from milp_plan.cli.output import say
from milp_plan.cli.outputs import Content, Output, refuse
from milp_plan.core import Units
from milp_plan.core.amounts import size_text, time_text

if TYPE_CHECKING:
    from milp_plan.run import Outcome


def card_rate(_ctx: click.Context, _parameter: click.Parameter, text: str) -> int:
    """Read bytes per second."""
    from milp_plan.run.change import rate

    try:
        return int(rate(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("before", metavar="PLAN_A", type=PATH)
@click.argument("after", metavar="PLAN_B", type=PATH)
@click.option(
    "--card",
    callback=card_rate,
    default="12.5GB",
    show_default=True,
    help="Rate of a network card, bytes per second.",
)
@click.option(
    "--time-limit", type=SECONDS, default=10.0, show_default=True, help="Time limit, seconds."
)
@click.option(
    "--gap",
    type=GAP,
    default=0.01,
    show_default=True,
    help="Relative gap of value and bound at which to stop.",
)
@click.option("--instance-output", type=PATH, help="Write the resharding problem.")
@click.option("--plan-output", type=PATH, help="Write the plan: the deliveries.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def migrate(
    ctx: click.Context,
    /,
    *,
    before: Path,
    after: Path,
    card: int,
    time_limit: float,
    gap: float,
    instance_output: Path | None,
    plan_output: Path | None,
    as_json: bool,
) -> None:
    """Plan the move of weights and optimizer state from PLAN_A to PLAN_B.

    Both files give the parallel degrees by which the same model is distributed over hosts. What a
    host already has is not sent.
    """
    from milp_plan import run
    from milp_plan.io.files import write_document

    from .degrees import read_migration

    outputs = (
        Output("--instance-output", instance_output, Content.INSTANCE),
        Output("--plan-output", plan_output, Content.PLAN),
    )
    refuse(outputs, [before, after])
    migration = read_migration(before, after)
    problem = migration.problem(card)
    outcome = run.solve(problem, run.Settings(time_limit_s=time_limit, gap=gap))
    kind = outcome.kind
    if instance_output is not None:
        write = next(entry.write for entry in kind.formats() if entry.write is not None)
        write_document(instance_output, write(problem))
    if plan_output is not None and outcome.plan is not None:
        write_document(plan_output, kind.plan_text(outcome.plan))
    needed, missing = migration.needed_bytes(), migration.missing_bytes()
    answer = {
        "verb": "migrate",
        "problem": problem.name,
        "slices": len(problem.slices),
        "needed_bytes": needed,
        "moved_bytes": missing,
        "value": outcome.value,
        "bound": outcome.bound,
        "proved": outcome.proved,
        "scope": str(outcome.scope),
        "infeasible_because": outcome.infeasible_reason,
    }
    if as_json:
        say(json.dumps(answer))
    else:
        units = Units()
        say(_headline(outcome, units))
        say_scope(outcome.scope)
        say(f"  needed  {size_text(units, needed)} on all hosts together")
        say(f"  moved   {size_text(units, missing)}, all that is not there already")
        say(f"  slices  {len(problem.slices):,}")
    ctx.exit(code_of_outcome(outcome))


def _headline(outcome: Outcome[Any, Any], units: Units) -> str:
    from milp_plan.run.outcome import headline

    if outcome.value is None or outcome.proved:
        return headline(outcome)
    value, bound = time_text(units, outcome.value), time_text(units, outcome.bound)
    return f"{outcome.problem.name}: {value}, at least {bound}"


COMMANDS = (migrate,)
"""Verbs of the command line."""
