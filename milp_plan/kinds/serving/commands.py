"""``serve``: which parallel configuration for answering requests to a model on a cluster."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import click

from milp_plan.cli import interrupts
from milp_plan.cli.exits import Exit, most_serious
from milp_plan.cli.inputs import PATH
from milp_plan.cli.limits import SECONDS, refuse_idle
from milp_plan.cli.output import say
from milp_plan.kinds.training.commands import byte_size, sides


def duration(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Read a time as nanoseconds."""
    from milp_plan.core.quantity import Amount

    if text is None:
        return None
    try:
        return int(Amount.read(text).in_ns())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("names", metavar="[MODEL] CLUSTER", nargs=-1, required=True)
@click.option("--model-file", type=PATH, help="A Hugging Face config.json in place of MODEL.")
@click.option("--prompt", type=click.IntRange(min=1), required=True, help="Tokens of a prompt.")
@click.option(
    "--output", type=click.IntRange(min=1), default=256, show_default=True, help="Tokens made."
)
@click.option(
    "--objective",
    type=click.Choice(("latency", "throughput")),
    default="latency",
    show_default=True,
    help="Shortest time of one request, or most tokens per second.",
)
@click.option(
    "--phase",
    type=click.Choice(("both", "prefill", "decode")),
    default="both",
    show_default=True,
    help="Prefill: up to the first token. Decode: each further one.",
)
@click.option(
    "--requests", type=click.IntRange(min=1), help="Requests in flight in the whole cluster."
)
@click.option("--first-token", callback=duration, help="Limit on the first token, such as 500ms.")
@click.option("--token", callback=duration, help="Limit on each further token, such as 30ms.")
@click.option(
    "--precision",
    type=click.Choice(("bf16", "fp8")),
    default="bf16",
    show_default=True,
    help="Of weights and products.",
)
@click.option(
    "--cache-precision",
    type=click.Choice(("bf16", "fp8")),
    default="bf16",
    show_default=True,
    help="Of keys and values.",
)
@click.option("--memory", callback=byte_size, help="Of every device, such as 40GB or 76GiB.")
@click.option(
    "--reserve", callback=byte_size, help="Memory of every device left free; default 10 %."
)
@click.option("--fix", multiple=True, metavar="FIELD=NUMBER", help="Such as tensor=4; repeatable.")
@click.option("--rates", type=PATH, help="Rates that calibrate --fit wrote.")
@click.option("--time-limit", type=SECONDS, default=30.0, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
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
    memory: int | None,
    reserve: int | None,
    fix: tuple[str, ...],
    rates: Path | None,
    time_limit: float,
    as_json: bool,
) -> None:
    """Choose tensor, expert and pipeline degrees and replicas for inference with MODEL on CLUSTER.

    MODEL and CLUSTER are as in train. The answer says the times of the first and of each further
    token, tokens per second, and memory of weights and of the cache of keys and values. With
    --objective throughput as many requests are in flight as are best under --first-token and
    --token.

    Exits with 4 when nothing fits or meets the limits, with 5 when nothing was valued in time.
    """
    from milp_plan.core.budget import Budget
    from milp_plan.kinds.training.configuration import Precision
    from milp_plan.kinds.training.efficiency import rates_of
    from milp_plan.kinds.training.formats import fixed_fields

    from . import api, report
    from .problem import Objective, Phase

    if phase == "prefill":
        refuse_idle({"output": "prefill makes one token; leave it out"})
    problem = api.serving_problem(
        *sides(names, model_file),
        prompt=prompt,
        output=output,
        memory_bytes=memory,
        reserve_bytes=reserve,
        objective=Objective(objective),
        phase=Phase(phase),
        requests=requests,
        precision=Precision(precision),
        cache_bytes=1 if cache_precision == "fp8" else 2,
        first_token_ns=first_token,
        token_ns=token,
    )
    fixed = fixed_fields(fix, _fixed_number)
    answer = api.plan_serving(problem, fixed, Budget(time_limit, ctx.obj), rates_of(rates))
    say(json.dumps(report.data(answer)) if as_json else str(answer))
    ended = interrupts.code() if answer.found.interrupted else Exit.DONE
    if answer.best is None:
        none = Exit.INFEASIBLE if answer.found.finished else Exit.NO_PLAN
        ctx.exit(most_serious([none, ended]))
    ctx.exit(ended)


def _fixed_number(text: str) -> tuple[str, int]:
    """Read ``field=number`` for a field of a deployment.

    Raises
    ------
    InputError
        No field of that name, or no number above 0.
    """
    from milp_plan.core import Finding, InputError
    from milp_plan.kinds.training.formats import ALIASES

    from .problem import Deployment

    name, _, value = text.partition("=")
    name = ALIASES.get(name.strip().lower(), name.strip().lower().replace("-", "_"))
    known = [field.name for field in fields(Deployment)]
    if name not in known:
        expected = f"one of {', '.join(known)}, with =number"
        raise InputError([Finding("--fix", repr(text), expected, "correct it")])
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise InputError([Finding(f"--fix {name}", repr(value), "a number above 0", "correct it")])
    return name, number


COMMANDS = (serve,)
"""Verbs of the command line."""
