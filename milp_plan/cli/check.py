"""``check`` and ``explain``: a plan against the laws, without any solver."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Plan, PlanningProblem, Verdict
from milp_plan.core.amounts import value_text

from .exits import Exit
from .hybrid import check_hybrid
from .inputs import PATH, Variation, plan_of, problem, varied
from .inputs import instance as problem_of_any_kind
from .output import say, say_json
from .sharding import check_sharding, is_sharding

if TYPE_CHECKING:
    pass


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
    variation: Variation,
    as_json: bool,
) -> None:
    """Hold a plan against every law and recompute its value.

    Exits with 7 when a rule is broken.
    """
    from milp_plan.check import verify
    from milp_plan.io import read_document
    from milp_plan.io.piper import is_hybrid

    if is_hybrid(read_document(file)):
        ctx.exit(check_hybrid(file, plan_file, as_json=as_json))
    instance: Any = problem_of_any_kind(file, variation)
    if is_sharding(instance):
        ctx.exit(check_sharding(instance, plan_file, as_json=as_json))
    verdict = verify(instance, plan_of(instance, plan_file, file))
    if as_json:
        say_json(verdict_json(instance, verdict))
    elif verdict.ok:
        value = f"{verdict.objective} {value_text(instance, verdict.value)}"
        say(f"{instance.name}: valid, {value} ({_exact(verdict)})")
    else:
        count = len(verdict.violations)
        say(f"{instance.name}: not valid, {count} violation{'' if count == 1 else 's'}")
        for violation in verdict.violations:
            say(f"  {violation.text(instance.units)}")
    ctx.exit(Exit.DONE if verdict.ok else Exit.NOT_VALID)


def _exact(verdict: Verdict) -> str:
    unit = "bytes" if verdict.objective == "peak_memory" else "ticks"
    return f"{verdict.value} {unit}"


def verdict_json(instance: PlanningProblem, verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain data."""
    return {
        "instance": instance.name,
        "verdict": "ok" if verdict.ok else "violated",
        "objective": verdict.objective,
        "value": verdict.value,
        "violations": [asdict(violation) for violation in verdict.violations],
        "components": dict(verdict.components),
    }


@click.command()
@click.argument("file", type=PATH)
@click.argument("plan_file", metavar="PLAN", type=PATH)
@varied
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    *,
    file: Path,
    plan_file: Path,
    variation: Variation,
    as_json: bool,
) -> None:
    """Say what a valid plan's value hangs on, or what breaks and by how much.

    Exits with 7 when a rule is broken.
    """
    from milp_plan.check import explain as in_words
    from milp_plan.check import verify

    instance = problem(file, variation)
    plan = plan_of(instance, plan_file, file)
    verdict = verify(instance, plan)
    if as_json:
        say_json(verdict_json(instance, verdict) | _details(instance, plan, verdict))
    else:
        say(in_words(instance, plan, verdict))
    ctx.exit(Exit.DONE if verdict.ok else Exit.NOT_VALID)


def _details(instance: PlanningProblem, plan: Plan, verdict: Verdict) -> dict[str, Any]:
    """Memory of the devices and the critical chain; of a broken plan neither means much."""
    if not verdict.ok:
        return {"memory": [], "critical_chain": []}
    from milp_plan.check import critical_chain, replay

    memories = replay(instance, plan).devices.values()
    return {
        "memory": [
            {
                "device": entry.device,
                "limit_bytes": entry.limit_bytes,
                "persistent_bytes": entry.persistent_bytes,
                "peak_bytes": entry.peak_bytes,
                "peak_ns": entry.peak_ns,
            }
            for entry in memories
        ],
        "critical_chain": [asdict(link) for link in critical_chain(instance, plan)],
    }
