"""``serve``: which parallel configuration for answering requests to a model on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from milp_plan.cli.exits import Exit
from milp_plan.cli.inputs import PATH
from milp_plan.cli.limits import refuse_idle
from milp_plan.kinds.training.commands import (
    IDLE,
    WHY_IDLE,
    arguments,
    on_cluster,
    plan_and_answer,
    refuse_files,
    say_verdict,
    sides,
)


def duration(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Read a time as nanoseconds."""
    from milp_plan.core.quantity import Amount

    if text is None:
        return None
    try:
        return int(Amount.read(text).in_ns())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _choice(name: str, *values: str, help: str) -> Callable[..., Any]:
    """Return an option with one of some values, the first without it."""
    kind = click.Choice(values)
    return click.option(name, type=kind, default=values[0], show_default=True, help=help)


@click.command()
@click.option("--prompt", type=click.IntRange(min=1), required=True, help="Tokens of a prompt.")
@click.option(
    "--output", type=click.IntRange(min=1), default=256, show_default=True, help="Tokens made."
)
@_choice("--objective", "latency", "throughput", help="Shortest request, or most tokens a second.")
@_choice("--phase", "both", "prefill", "decode", help="First token alone, or further ones alone.")
@click.option("--requests", type=click.IntRange(min=1), help="In flight in the whole cluster.")
@click.option("--first-token", callback=duration, help="Limit on the first token, such as 500ms.")
@click.option("--token", callback=duration, help="Limit on each further token, such as 30ms.")
@_choice("--precision", "bf16", "fp8", help="Of weights and products.")
@_choice("--cache-precision", "bf16", "fp8", help="Of keys and values.")
@click.option("--check", "check_file", type=PATH, help="A plan to check instead of planning.")
@on_cluster
def serve(
    ctx: click.Context,
    /,
    *,
    names: tuple[str, ...],
    model_file: Path | None,
    prompt: int,
    output: int,
    objective: str,
    phase: str,
    requests: int | None,
    first_token: int | None,
    token: int | None,
    precision: str,
    cache_precision: str,
    check_file: Path | None,
    **asked: Any,
) -> None:
    """Choose tensor, expert and pipeline degrees and replicas for inference with MODEL on CLUSTER.

    MODEL and CLUSTER are as in train. The answer says the times of the first and of each further
    token, tokens per second, and memory of weights and of the cache of keys and values. With
    --objective throughput as many requests are in flight as are best under --first-token and
    --token.

    Exits with 4 when nothing fits or meets the limits, with 5 when nothing was valued in time, and
    with 7 when the plan of --check breaks a rule.
    """
    from milp_plan.io.files import write_document
    from milp_plan.kinds.training.configuration import Precision

    from . import api, problem_file
    from .formats import PLANS
    from .problem import Objective, Phase

    refuse_files(asked, (model_file, check_file))
    if phase == "prefill":
        refuse_idle({"output": "prefill makes one token; leave it out"})
    model, cluster = sides(names, model_file)
    problem = api.serving_problem(
        model,
        cluster,
        prompt=prompt,
        output=1 if phase == "prefill" else output,
        objective=Objective(objective),
        phase=Phase(phase),
        requests=requests,
        precision=Precision(precision),
        cache_precision=Precision(cache_precision),
        first_token_ns=first_token,
        token_ns=token,
        **arguments(asked, PLANS),
    )
    if asked["job_output"] is not None:
        write_document(asked["job_output"], problem_file.to_json(problem))
    if check_file is not None:
        refuse_idle(dict.fromkeys(IDLE, WHY_IDLE))
        say_verdict(ctx, api.check(problem, PLANS.read(check_file)), asked["as_json"])
        ctx.exit(Exit.DONE)
    plan_and_answer(ctx, problem, asked)


COMMANDS = (serve,)
"""Verbs of the command line."""
