"""``pipeline``: plan a pipeline from its costs, over placements, micro-batches and memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.cli.exits import Exit, most_serious
from milp_plan.cli.inputs import PATH
from milp_plan.cli.limits import limits, refuse_idle
from milp_plan.cli.output import display, note
from milp_plan.core import Amount, Finding, InputError, Objective

from .command_answers import Files, report_case, report_front
from .command_model import amount, in_unit, read_model

if TYPE_CHECKING:
    from .case import Case
    from .case_sweep import Point
    from .model import Model


LONGEST_LANE = 10**15
"""Largest time of a lane to the host, in the unit of the model's times."""

FREE_OF_LIMIT = "none"
"""Word of a memory list for the case without a limit."""


def times(_ctx: click.Context, _parameter: click.Parameter, text: str) -> list[Amount] | Path:
    """Read F,B,W, or the name of a pipeline file."""
    if text.endswith((".toml", ".json")):
        return Path(text)
    parts = text.split(",")
    if len(parts) != 3:
        raise click.BadParameter(
            f"{text!r}: expected F,B,W or a file that ends in .toml or .json (torch-stages)"
        )
    return [amount(part) for part in parts]


def counts(_ctx: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
    """Read a list of positive integers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r}: expected positive integers, such as 8 or 8,16,32")
    return [int(part) for part in parts]


def cut(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> list[int] | None:
    """Read the number of pieces of each stage."""
    return None if text is None else counts(_ctx, _parameter, text)


def memories(
    _ctx: click.Context, _parameter: click.Parameter, text: str | None
) -> list[Amount | None] | None:
    """Read a list of memory limits; ``None`` leaves them to the file."""
    if text is None:
        return None
    return [None if p.strip() == FREE_OF_LIMIT else amount(p) for p in text.split(",")]


@click.command()
@click.option(
    "--stages",
    "devices",
    type=click.IntRange(min=1),
    help="Devices in the pipeline (its depth).  [default: each stage of a torch-stages file is a"
    " stage of the pipeline]",
)
@click.option(
    "--micro-batches",
    callback=counts,
    required=True,
    metavar="N[,N...]",
    help="Micro-batches per step.",
)
@click.option(
    "--times",
    callback=times,
    default="1,1,1",
    show_default=True,
    metavar="F,B,W|FILE",
    help="Forward, input and weight gradient of one device's share; or a file with the model's "
    "pieces (.toml), or with the stages of a captured one (torch-stages, .json).",
)
@click.option(
    "--transfer",
    type=str,
    metavar="TIME|FILE.json",
    help="Time between devices, by default the file's or 0, with its unit or in that of the file; "
    "or a resharding problem, which is solved: its least time.",
)
@click.option(
    "--memory",
    callback=memories,
    metavar="M[,M...]",
    help="Limit of a device, in activations of its share (or the file's unit), or with a unit: "
    "1.5GiB; 'none' is no limit.",
)
@click.option(
    "--placement",
    type=click.Choice(["line", "interleaved", "v", "wave", "dualpipe", "free", "all"]),
    default="line",
    show_default=True,
    help="Which device runs which stages; 'free' lets the planner choose, 'all' tries all others.",
)
@click.option(
    "--chunks", type=click.IntRange(min=1), help="Stages per device (interleaved, wave, free)."
)
@click.option(
    "--cut",
    callback=cut,
    metavar="N[,N...]",
    help="Pieces of each stage, in the order of the forward pass, such as 3,1.  [default: the "
    "planner chooses]",
)
@click.option(
    "--freed-at-backward",
    type=str,
    default="0",
    show_default=True,
    help="Share of an activation that the input gradient releases.",
)
@click.option("--joint-backward", is_flag=True, help="One operator makes both gradients.")
@click.option("--channels", is_flag=True, help="A transfer holds its channel, one at a time.")
@click.option(
    "--lane",
    type=amount,
    metavar="TIME",
    help="Activations may be copied to the host and back; each direction takes this time, on a "
    "lane of its own.",
)
@click.option("--recompute", is_flag=True, help="Forward passes may run again, to save memory.")
@click.option(
    "--fixed-batch",
    is_flag=True,
    help="More micro-batches are smaller ones: times and activations shrink in proportion.",
)
@click.option(
    "--objective",
    type=click.Choice([Objective.MAKESPAN.value, Objective.SPAN.value]),
    default=Objective.MAKESPAN.value,
    show_default=True,
    help="Makespan, or the longest span of a device (optimizer without a barrier).",
)
@limits
@click.option("--plan-output", type=PATH, help="Write the plan (one case).")
@click.option("--instance-output", type=PATH, help="Write the problem it is a plan for (one case).")
@click.option(
    "--plot", type=PATH, help="Draw one case's timeline, or several cases' time against memory."
)
@click.option(
    "--record-folder",
    type=PATH,
    default=Path("results/runs"),
    show_default=True,
    help="Folder of records.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and case.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def pipeline(
    ctx: click.Context,
    /,
    *,
    devices: int | None,
    micro_batches: list[int],
    times: list[Amount] | Path,
    transfer: str | None,
    memory: list[Amount | None] | None,
    freed_at_backward: str,
    plan_output: Path | None,
    instance_output: Path | None,
    plot: Path | None,
    record_folder: Path,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Plan a pipeline: the order of forward, input and weight gradients on each device.

    One case, or all combinations of --micro-batches, --memory and --placement all; then the
    Pareto front of time per micro-batch against peak memory is marked, and drawn with --plot.
    """
    from milp_plan import run
    from milp_plan.backends import Stop

    from .case import build
    from .case_sweep import plan_case

    if options["placement"] not in ("interleaved", "wave", "free", "all"):
        why = f"placement {options['placement']} has its own number of stages per device"
        refuse_idle({"chunks": f"{why}; choose interleaved, wave or free, or leave it out"})
    if len(set(micro_batches)) == 1:
        refuse_idle({"fixed_batch": "it compares numbers of micro-batches; name several"})
    freed = amount(freed_at_backward, "--freed-at-backward").number
    if freed > 1:
        text = f"{freed_at_backward} is more than the whole, 1"
        raise click.BadParameter(text, param_hint="'--freed-at-backward'")
    costs = read_model(times, transfer, freed)
    try:
        devices = _devices(times, costs, options) if devices is None else devices
        limits = _limits(times, costs, memory)
        if options["lane"] is not None:
            options["lane"] = _lane(costs, options["lane"])
        chosen = _cases(costs, devices, micro_batches, limits, options)
    except InputError as error:
        raise (error.in_file(str(times)) if isinstance(times, Path) else error) from None
    files = Files(plan_output, instance_output, plot, record_folder)
    files.check(len(chosen), [times] if isinstance(times, Path) else [])
    settings = run.Settings(
        time_limit_s=options["time_limit"],
        **{key: options[key] for key in ("node_limit", "rounds", "gap", "seed", "threads")},
    )
    points: list[Point] = []
    codes: list[Exit] = []
    for case in chosen:
        with display(build(case).problem, quiet=quiet) as show:
            point = plan_case(case, settings, points[-1] if points else None, show)
        points.append(point)
        codes.append(report_case(point, files, as_json=as_json, single=len(chosen) == 1))
        if point.outcome.stop is Stop.INTERRUPTED:
            if len(points) < len(chosen):
                note(f"{len(chosen) - len(points)} cases left out after the interruption")
            break
    if len(chosen) > 1:
        report_front(points, files, as_json=as_json)
    ctx.exit(most_serious(codes))


def _devices(times: list[Amount] | Path, model: Model, options: dict[str, Any]) -> int:
    """Return the number of devices for which every piece is a stage, if pieces are stages already.

    Raises
    ------
    UsageError
        The pieces are no stages, or the placement has another number of stages per device.
    """
    from .case import stages_of

    if not isinstance(times, Path) or times.suffix != ".json":
        raise click.UsageError("Missing option '--stages'.")
    pieces, family = len(model.pieces), options["placement"]
    each = stages_of("line" if family == "all" else family, 1, options["chunks"])
    if pieces % each:
        raise click.UsageError(
            f"Missing option '--stages': the {pieces} stages of {times} are no multiple of {each},"
            f" as placement {family} has them on each device"
        )
    return pieces // each


def _limits(
    times: list[Amount] | Path, model: Model, limits: list[Amount | None] | None
) -> list[Fraction | None]:
    """Return the limits of a device: those given, or that of the file; say which they are."""
    from milp_plan.core.amounts import size_text

    if limits is None:
        if model.memory is None and isinstance(times, Path) and times.suffix == ".json":
            note(f"{times} names no memory of a device: no limit; --memory sets one")
        return [None if model.memory is None else Fraction(model.memory)]
    if model.memory is not None:
        known = size_text(model.units, model.memory)
        note(f"--memory takes the place of the limit of {times}, {known}")
    return [None if one is None else in_unit("--memory", model, one) for one in limits]


def _lane(model: Model, time: Amount) -> Fraction:
    """Return the time of a lane to the host; searches over hosts count in 64 bits."""
    lane = in_unit("--lane", model, time, time=True)
    if lane > LONGEST_LANE:
        expected = f"at most {LONGEST_LANE:g} {model.time_unit}"
        raise InputError([Finding("--lane", str(time), expected, "name a shorter time")])
    return lane


def _cut(
    model: Model, devices: int, families: Iterable[str], options: dict[str, Any]
) -> tuple[int, ...] | None:
    """Return the requested cut.

    Raises
    ------
    InputError
        The model has no pieces, or they are not cut into the stages of each placement.
    """
    from .case import stages_of

    requested = options["cut"]
    if requested is None:
        return None
    pieces, text = len(model.pieces), ", ".join(map(str, requested))
    if model.even:
        expected = "a file with pieces (--times FILE)"
        remedy = "leave it out: the model is cut into equal parts"
        raise InputError([Finding("--cut", text, expected, remedy)])
    findings = []
    for family in families:
        stages = stages_of(family, devices, options["chunks"])
        if len(requested) != stages or sum(requested) != pieces:
            count = f"{text}: {len(requested)} stages with {sum(requested)} pieces"
            expected = f"{stages} stages ({family}, {devices} devices) with {pieces} pieces in all"
            findings.append(Finding("--cut", count, expected, "name as many pieces for each stage"))
    if findings:
        raise InputError(findings)
    return tuple(requested)


def _cases(
    model: Model,
    devices: int,
    micro_batches: list[int],
    memory: list[Fraction | None],
    options: dict[str, Any],
) -> list[Case]:
    from .case import build
    from .case_sweep import cases, fitting

    families = fitting(model, devices)
    if options["placement"] != "all":
        families = [options["placement"]]
    try:
        chosen = cases(
            model,
            devices,
            micro_batches,
            families,
            memory,
            chunks=options["chunks"],
            fixed_batch=options["fixed_batch"],
            joint_backward=options["joint_backward"],
            channels=options["channels"],
            lane=options["lane"],
            recompute=options["recompute"],
            objective=Objective(options["objective"]),
            cut=_cut(model, devices, families, options),
        )
        for case in chosen:  # one micro-batch is enough to see whether the model can be cut
            build(replace(case, micro_batches=1))
    except ValueError as error:
        remedy = "choose another --placement, or fewer --stages or --chunks"
        raise InputError([Finding("placement", str(error), "one that fits", remedy)]) from None
    return chosen


COMMANDS = (pipeline,)
