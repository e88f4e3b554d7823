"""``train``: which parallel configuration for a model on a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from milp_plan.cli import interrupts
from milp_plan.cli.exits import Exit, most_serious
from milp_plan.cli.inputs import PATH
from milp_plan.cli.interrupts import Deferred
from milp_plan.cli.limits import SECONDS, refuse_idle
from milp_plan.cli.output import note, say
from milp_plan.cli.outputs import Content, Output, refuse

from .calibrate_command import calibrate

if TYPE_CHECKING:
    from .problem import TrainingPlan, TrainingProblem


FRAMEWORKS = ("megatron", "torchtitan", "nanotron", "deepspeed", "fsdp2")
"""Formats of :mod:`milp_plan.kinds.training.exports`."""


def byte_size(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Read a size."""
    from milp_plan.run.change import size

    if text is None:
        return None
    try:
        return int(size(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("names", metavar="[MODEL] CLUSTER", nargs=-1, required=True)
@click.option("--model-file", type=PATH, help="A Hugging Face config.json in place of MODEL.")
@click.option("--profile", type=PATH, help="A CSV file of measured layers in place of MODEL.")
@click.option(
    "--profile-batch",
    type=click.IntRange(min=1),
    help="Samples of the micro-batch of --profile; 1 without it.",
)
@click.option("--sequence", type=click.IntRange(min=1), help="Tokens of a sample.")
@click.option(
    "--global-batch", type=click.IntRange(min=1), required=True, help="Samples of a step."
)
@click.option("--memory", callback=byte_size, help="Of every device, such as 40GB or 76GiB.")
@click.option(
    "--reserve", callback=byte_size, help="Memory of every device left free; default 14 %."
)
@click.option("--fix", multiple=True, metavar="FIELD=VALUE", help="Such as tensor=8; repeatable.")
@click.option(
    "--framework",
    "planned_for",
    type=click.Choice([*FRAMEWORKS, "any"]),
    help="Plan only what this framework runs; default that of --export, any without it.",
)
@click.option("--rates", type=PATH, help="Rates that calibrate --fit wrote.")
@click.option("--time-limit", type=SECONDS, default=30.0, show_default=True, help="Seconds.")
@click.option(
    "--check",
    "check_file",
    type=PATH,
    help="A plan to check instead of planning: a file of --plan-output, a script with arguments of "
    "Megatron-LM, or a TOML file of torchtitan.",
)
@click.option("--plan-output", type=PATH, help="Write the plan.")
@click.option(
    "--job-output", type=PATH, help="Write the problem as a file for solve, check, explain, sweep."
)
@click.option(
    "--export",
    "framework",
    type=click.Choice(FRAMEWORKS),
    help="Write the plan, or that of --check, as configuration of a framework to --output.",
)
@click.option("-o", "--output", type=PATH, help="File to write of --export.")
@click.option(
    "--plot", "plot_file", type=PATH, help="Draw a step, memory and alternatives, .png or .svg."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def train(
    ctx: click.Context,
    /,
    *,
    names: tuple[str, ...],
    model_file: Path | None,
    profile: Path | None,
    profile_batch: int | None,
    sequence: int | None,
    global_batch: int,
    memory: int | None,
    reserve: int | None,
    fix: tuple[str, ...],
    planned_for: str | None,
    rates: Path | None,
    time_limit: float,
    check_file: Path | None,
    plan_output: Path | None,
    job_output: Path | None,
    framework: str | None,
    output: Path | None,
    plot_file: Path | None,
    as_json: bool,
) -> None:
    """Choose tensor, context, expert, pipeline and data degrees for training MODEL on CLUSTER.

    MODEL is a name such as llama3-70b. CLUSTER is 8x8xH100 (nodes, devices of a node), 64xA100,
    or several of these joined by +. Micro-batches, virtual stages, schedule, recomputation and
    optimizer sharding are chosen with the degrees; --fix gives any of them a value. For inference
    see serve.

    Exits with 3 when the framework of --export cannot run the plan of --check or of another
    framework, with 4 when no configuration fits or the framework runs none, with 5 when none was
    found in time, and with 7 when the plan of --check breaks a rule.
    """
    from milp_plan.backends import Stop
    from milp_plan.io.files import write_document
    from milp_plan.run import Settings, solve

    from . import api, exports, formats, problem_file, report
    from .efficiency import rates_of
    from .profile import read_profile

    if (framework is None) is not (output is None):
        raise click.UsageError("--export FORMAT and --output FILE go together; give both or none")
    outputs = (
        Output("--plan-output", plan_output, Content.PLAN),
        Output("--job-output", job_output, Content.INSTANCE),
        Output("--output", output, Content.EXPORT),
        Output("--plot", plot_file, Content.PICTURE),
    )
    given = (model_file, profile, check_file, rates)
    refuse(outputs, [file for file in given if file is not None])
    if profile is None:
        refuse_idle({"profile_batch": "it counts samples of --profile; give that too"})
    elif framework is not None:
        raise click.UsageError("--export needs a model; layers of --profile have no dimensions")
    model, cluster = sides(names, model_file, profile)
    planned = planned_for or framework or "any"
    problem = api.training_problem(
        model if profile is None else read_profile(profile, profile_batch or 1),
        cluster,
        global_batch=global_batch,
        sequence=sequence,
        memory_bytes=memory,
        reserve_bytes=reserve,
        fixed=formats.fixed_fields(fix),
        efficiency=rates_of(rates),
        framework="" if check_file or planned == "any" else planned,
    )
    if job_output is not None:
        write_document(job_output, problem_file.to_json(problem))
    if check_file is not None:
        why = "--check looks at one plan; leave it out"
        refuse_idle(
            dict.fromkeys(("fix", "planned_for", "time_limit", "plan_output", "plot_file"), why)
        )
        plan, unread = exports.read_configuration(check_file, problem)
        if unread:
            note(f"{check_file}: not read: {', '.join(unread)}")
        verdict = api.check(problem, plan)
        say(json.dumps(report.verdict_data(verdict)) if as_json else report.verdict_text(verdict))
        if not verdict.ok:
            ctx.exit(Exit.NOT_VALID)
        _export(problem, replace(plan, value=verdict.value), framework, output)
        ctx.exit(Exit.DONE)
    outcome = solve(problem, Settings(time_limit_s=time_limit), began=ctx.obj)
    with Deferred():
        answer = api.answer_of(outcome)
        say(json.dumps(report.data(answer)) if as_json else str(answer))
        for defect in outcome.defects:
            note(f"defect: {defect}")
        stopped = answer.found.interrupted or outcome.stop is Stop.INTERRUPTED
        ended = interrupts.code() if stopped else Exit.DONE
        if outcome.plan is None:
            none = Exit.INFEASIBLE if outcome.infeasible_reason else Exit.NO_PLAN
            ctx.exit(most_serious([none, ended]))
        if plan_output is not None:
            write_document(plan_output, formats.plan_text(outcome.plan))
        if plot_file is not None:
            from milp_plan.draw.canvas import write_figure

            write_figure(answer.draw(), plot_file)
        _export(problem, outcome.plan, framework, output)
    ctx.exit(ended)


def _export(
    problem: TrainingProblem, plan: TrainingPlan, framework: str | None, output: Path | None
) -> None:
    """Write a plan as configuration of a framework, where one is given."""
    from milp_plan.io.files import write_document

    from . import exports

    if framework is not None and output is not None:
        write_document(output, exports.export(problem, plan, framework).encode())


def sides(
    names: tuple[str, ...], model_file: Path | None, profile: Path | None = None
) -> tuple[str | Path, str]:
    """Model, by name or file, and cluster."""
    if model_file is not None and profile is not None:
        raise click.UsageError("--model-file and --profile both say the model; give one")
    expected = 2 if model_file is None and profile is None else 1
    if len(names) != expected:
        option = "--model-file" if profile is None else "--profile"
        words = f"CLUSTER alone beside {option}" if expected == 1 else "MODEL and CLUSTER"
        raise click.UsageError(f"expected {words}, found {len(names)} names: {' '.join(names)}")
    return (model_file if model_file is not None else names[0]), names[-1]


COMMANDS = (train, calibrate)
"""Verbs of the command line."""
