"""``train``: which parallel configuration for a model on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from milp_plan.core import Verdict

    from .formats import PlanFormat
    from .problem import TrainingPlan, TrainingProblem

FRAMEWORKS = ("megatron", "torchtitan", "nanotron", "deepspeed", "fsdp2")
"""Names of :data:`.exports.FORMATS`, which is loaded later."""

LEAST_SIZE = 10**6
"""Bytes; an amount below is taken for one without a unit."""

IDLE = ("fix", "time_limit", "plan_output", "plot_file")
WHY_IDLE = "--check looks at one plan; leave it out"
"""Shared options that mean nothing beside ``--check``, and why."""


def byte_size(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Read a size: nothing, or at least :data:`LEAST_SIZE`."""
    from milp_plan.run.change import size

    if text is None:
        return None
    try:
        amount = size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if 0 < amount < LEAST_SIZE:
        number = text.strip().rstrip("Bb")
        remedy = f"did you mean {number}GB?" if number.isdigit() else "write for example 40GB"
        raise click.BadParameter(f"{text} is {float(amount):g} bytes; {remedy}")
    return int(amount)


SHARED = (
    click.argument("names", metavar="[MODEL] CLUSTER", nargs=-1, required=True),
    click.option("--model-file", type=PATH, help="A Hugging Face config.json in place of MODEL."),
    click.option("--memory", callback=byte_size, help="Memory of every device, such as 40GB."),
    click.option(
        "--reserve",
        callback=byte_size,
        help="Memory of every device left free: 14 % of it (train), 10 % (serve).",
    ),
    click.option(
        "--fix",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Fix a field, such as tensor=8. Repeatable.",
    ),
    click.option("--rates", type=PATH, help="File of rates that calibrate --fit wrote."),
    click.option("--time-limit", type=SECONDS, default=30.0, show_default=True, help="Seconds."),
    click.option("--plan-output", type=PATH, help="Write the plan."),
    click.option(
        "--job-output", type=PATH, help="Write the problem as a file for solve, explain and sweep."
    ),
    click.option(
        "--plot", "plot_file", type=PATH, help="Draw passes and memory into a .png or .svg file."
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON object."),
    click.pass_context,
)
"""Options of verbs about a model on a cluster."""


def on_cluster(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options behind those of the verb's own."""
    for option in reversed(SHARED):
        verb = option(verb)
    return verb


def refuse_files(asked: dict[str, Any], inputs: Iterable[Path | None], *more: Output) -> None:
    """Refuse files to write that there are already with other content, or that are inputs."""
    outputs = (
        Output("--plan-output", asked["plan_output"], Content.PLAN),
        Output("--job-output", asked["job_output"], Content.INSTANCE),
        Output("--plot", asked["plot_file"], Content.PICTURE),
    )
    given = (*inputs, asked["rates"])
    refuse((*outputs, *more), [file for file in given if file is not None])


def arguments(asked: dict[str, Any], plans: PlanFormat) -> dict[str, Any]:
    """Return what the shared options say about a problem."""
    from .efficiency import rates_of

    return {
        "memory_bytes": asked["memory"],
        "reserve_bytes": asked["reserve"],
        "fixed": plans.fixed_fields(asked["fix"]),
        "efficiency": rates_of(asked["rates"]),
    }


def say_verdict(ctx: click.Context, verdict: Verdict, as_json: bool) -> None:
    """Say what the checker found of a plan; exit if it breaks a rule."""
    from .answer import verdict_data, verdict_text

    data = {"verb": ctx.info_name, **verdict_data(verdict)}
    say(json.dumps(data) if as_json else verdict_text(verdict))
    if not verdict.ok:
        ctx.exit(Exit.NOT_VALID)


def plan_and_answer(
    ctx: click.Context,
    problem: Any,
    asked: dict[str, Any],
    then: Callable[[Any], object] = lambda _plan: None,
) -> None:
    """Plan as ``solve`` does, say the answer, write the files that are asked, and exit.

    Parameters
    ----------
    ctx, asked
        Of the command: its context, and the values of the shared options.
    problem
        What is planned.
    then
        What else is done with a plan.
    """
    from milp_plan.backends import Stop
    from milp_plan.io.files import write_document
    from milp_plan.run import Settings, solve

    outcome = solve(problem, Settings(time_limit_s=asked["time_limit"]), began=ctx.obj)
    with Deferred():
        kind: Any = outcome.kind
        answer = kind.part("api").answer_of(outcome)
        marks = {"problem": problem.name, "fingerprint": problem.fingerprint}
        data = marks | kind.summary(problem) | kind.part("report").data(answer)
        text = answer.full_text() if ctx.params.get("verbose") else str(answer)
        say(json.dumps({"verb": ctx.info_name} | data) if asked["as_json"] else text)
        for defect in outcome.defects:
            note(f"defect: {defect}")
        stopped = answer.found.interrupted or outcome.stop is Stop.INTERRUPTED
        ended = interrupts.code() if stopped else Exit.DONE
        if outcome.plan is None:
            none = Exit.INFEASIBLE if outcome.infeasible_reason else Exit.NO_PLAN
            ctx.exit(most_serious([none, ended]))
        if asked["plan_output"] is not None:
            write_document(asked["plan_output"], kind.plan_text(outcome.plan))
        if asked["plot_file"] is not None:
            from milp_plan.draw.canvas import write_figure

            write_figure(answer.draw(), asked["plot_file"])
        then(outcome.plan)
    ctx.exit(ended)


class TrainCommand(click.Command):
    """Says where options of inference belong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read arguments."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in SERVING:
                text = f"No such option {error.option_name!r}; for inference use milp-plan serve"
                raise click.UsageError(text, ctx) from None
            raise


SERVING = ("--phase", "--prompt", "--objective", "--requests", "--first-token", "--token")
"""Options of ``serve`` that are looked for here."""


@click.command(cls=TrainCommand)
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
@click.option(
    "--host",
    is_flag=True,
    help="Activations and optimizer may be in the memory of hosts; copies are assumed, not fitted.",
)
@click.option(
    "--framework",
    "planned_for",
    type=click.Choice([*FRAMEWORKS, "any"]),
    help="Plan only what this framework runs; default that of --export, any without it.",
)
@click.option(
    "--check",
    "check_file",
    type=PATH,
    help="A plan to check instead of planning: a file of --plan-output, a script with arguments of "
    "Megatron-LM, or a TOML file of torchtitan.",
)
@click.option(
    "--export",
    "framework",
    type=click.Choice(FRAMEWORKS),
    help="Write the plan, or that of --check, as configuration of a framework to --output.",
)
@click.option("-o", "--output", type=PATH, help="File that --export writes.")
@on_cluster
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
    host: bool,
    planned_for: str | None,
    check_file: Path | None,
    framework: str | None,
    output: Path | None,
    **asked: Any,
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
    from milp_plan.io.files import write_document

    from . import api, problem_file
    from .formats import PLANS
    from .profile import read_profile

    if (framework is None) is not (output is None):
        raise click.UsageError("--export FORMAT and --output FILE go together; give both or none")
    exported = Output("--output", output, Content.EXPORT)
    refuse_files(asked, (model_file, profile, check_file), exported)
    if profile is None:
        refuse_idle({"profile_batch": "it counts samples of --profile; give that too"})
    else:
        refuse_idle({"sequence": "layers of --profile were measured with theirs; leave it out"})
    if profile is not None and framework is not None:
        raise click.UsageError("--export needs a model; layers of --profile have no dimensions")
    model, cluster = sides(names, model_file, profile)
    planned = planned_for or framework or "any"
    problem = api.training_problem(
        model if profile is None else read_profile(profile, profile_batch or 1),
        cluster,
        global_batch=global_batch,
        sequence=sequence,
        framework="" if check_file or planned == "any" else planned,
        host=host,
        **arguments(asked, PLANS),
    )
    if asked["job_output"] is not None:
        write_document(asked["job_output"], problem_file.to_json(problem))

    def export(plan: TrainingPlan) -> None:
        _export(problem, plan, framework, output)

    if check_file is not None:
        refuse_idle(dict.fromkeys(("planned_for", *IDLE), WHY_IDLE))
        export(_checked(ctx, problem, check_file, asked["as_json"]))
        ctx.exit(Exit.DONE)
    plan_and_answer(ctx, problem, asked, export)


def _checked(
    ctx: click.Context, problem: TrainingProblem, file: Path, as_json: bool
) -> TrainingPlan:
    """Return a plan that a file has, with its value; ends the command where it breaks a rule."""
    from . import api, exports

    plan, unread = exports.read_configuration(file, problem)
    if unread:
        note(f"{file}: not read: {', '.join(unread)}")
    verdict = api.check(problem, plan)
    say_verdict(ctx, verdict, as_json)
    return replace(plan, value=verdict.value)


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
    if model_file is None and profile is None:
        _refuse_files(names)
        if len(names) == 1:
            words = (
                "MODEL is missing before" if _is_cluster(names[0]) else "CLUSTER is missing after"
            )
            raise click.UsageError(f"{words} {names[0]}; such as llama3-8b 8xH100")
        if len(names) != 2:
            raise click.UsageError(f"expected MODEL and CLUSTER, found {' '.join(names)}")
    elif len(names) != 1:
        option = "--model-file" if profile is None else "--profile"
        words = f"CLUSTER alone beside {option}"
        raise click.UsageError(f"expected {words}, found {len(names)} names: {' '.join(names)}")
    return (model_file if model_file is not None else names[0]), names[-1]


def _is_cluster(name: str) -> bool:
    """Whether a name is one of devices, such as 8xH100."""
    return name[:1].isdigit() and "x" in name


def _refuse_files(names: tuple[str, ...]) -> None:
    """Refuse files where names are expected, with the option that takes them."""
    for option, ending in (("--model-file", ".json"), ("--profile", ".csv")):
        for name in names:
            if name.lower().endswith(ending):
                raise click.UsageError(f"{name} is a file; give it as {option} {name}")


COMMANDS = (train, calibrate)
"""Verbs of the command line."""
