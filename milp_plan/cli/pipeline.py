"""``pipeline``: plan a pipeline from its costs, over placements, micro-batches and memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError, Objective

from . import answers
from .exits import most_serious
from .inputs import PATH
from .limits import limits
from .output import note, say, say_json, say_table
from .progress import display
from .quantities import DASH, share_text

if TYPE_CHECKING:
    from milp_plan.pipeline import Case, Model
    from milp_plan.run.sweep import Point

FREE_OF_LIMIT = "none"
"""How a memory list names the case without a limit."""


def amount(text: str) -> Fraction:
    """Read an exact number that is not negative, such as ``10``, ``0.5`` or ``1/3``."""
    try:
        number = Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(
            f"{text!r} is no number; write for example 10, 0.5 or 1/3"
        ) from None
    if number < 0:
        raise click.BadParameter(f"{text} is negative")
    return number


def times(_ctx: click.Context, _parameter: click.Parameter, text: str) -> list[Fraction] | Path:
    """Read F,B,W, or the name of a pipeline file."""
    if text.endswith(".toml"):
        return Path(text)
    parts = text.split(",")
    if len(parts) != 3:
        raise click.BadParameter(f"{text!r}: expected F,B,W or a file that ends in .toml")
    return [amount(part) for part in parts]


def counts(_ctx: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
    """Read a list of positive integers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r}: expected positive integers, such as 8 or 8,16,32")
    return [int(part) for part in parts]


def memories(
    _ctx: click.Context, _parameter: click.Parameter, text: str | None
) -> list[Fraction | None]:
    """Read a list of memory limits."""
    if text is None:
        return [None]
    return [None if p.strip() == FREE_OF_LIMIT else amount(p) for p in text.split(",")]


@click.command()
@click.option(
    "--stages",
    "devices",
    type=click.IntRange(min=1),
    required=True,
    help="Devices in the pipeline (its depth).",
)
@click.option(
    "--micro-batches", callback=counts, required=True, metavar="N[,N...]", help="Per step."
)
@click.option(
    "--times",
    callback=times,
    default="1,1,1",
    show_default=True,
    metavar="F,B,W|FILE.toml",
    help="Forward, input and weight gradient of one device's share; or a file with the model's "
    "pieces.",
)
@click.option("--transfer", type=str, help="Time between devices; 0 unless the file says so.")
@click.option(
    "--memory",
    callback=memories,
    metavar="M[,M...]",
    help="Limit of a device, in activations of its share (or the file's unit); 'none' is no limit.",
)
@click.option(
    "--placement",
    type=click.Choice(["line", "interleaved", "v", "wave", "dualpipe", "all"]),
    default="line",
    show_default=True,
    help="Which device runs which stages.",
)
@click.option("--chunks", type=click.IntRange(min=1), help="Stages per device (interleaved, wave).")
@click.option(
    "--freed-at-backward",
    type=str,
    default="0",
    show_default=True,
    help="Part of an activation that the input gradient releases.",
)
@click.option("--joint-backward", is_flag=True, help="Both gradients are one operator.")
@click.option("--channels", is_flag=True, help="A transfer holds its channel, one at a time.")
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
@click.option("--plot", type=PATH, help="Timeline of one case; of several, time against memory.")
@click.option(
    "--record-folder", type=PATH, default=Path("results/runs"), show_default=True, help="Records."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line and case.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def pipeline(
    ctx: click.Context,
    /,
    *,
    devices: int,
    micro_batches: list[int],
    times: list[Fraction] | Path,
    transfer: str | None,
    memory: list[Fraction | None],
    freed_at_backward: str,
    plan_output: Path | None,
    instance_output: Path | None,
    plot: Path | None,
    record_folder: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Plan a pipeline: the order of forward, input and weight gradients on each device.

    One case, or all combinations of --micro-batches, --memory and --placement all; then the
    Pareto front of time per micro-batch against peak memory is marked, and drawn with --plot.
    """
    from milp_plan import run
    from milp_plan.backends import Stop
    from milp_plan.pipeline import build
    from milp_plan.run.sweep import plan_case

    costs = _model(times, transfer, amount(freed_at_backward))
    chosen = _cases(costs, devices, micro_batches, memory, asked)
    files = _Files(plan_output, instance_output, plot, record_folder)
    files.check(len(chosen))
    settings = run.Settings(
        formulation="pipeline_order",
        time_limit_s=asked["time_limit"],
        **{key: asked[key] for key in ("node_limit", "rounds", "gap", "seed", "threads")},
    )
    points: list[Point] = []
    for case in chosen:
        built = build(case)
        with display(built.problem, quiet=quiet) as show:
            point = plan_case(built, settings, points[-1] if points else None, show)
        points.append(point)
        _tell(point, files, as_json=as_json, single=len(chosen) == 1)
        if point.outcome.stop is Stop.INTERRUPTED:
            note(f"{len(chosen) - len(points)} cases left out after the interruption")
            break
    if len(chosen) > 1:
        _tell_front(points, files, as_json=as_json)
    ctx.exit(most_serious(answers.code_of_outcome(point.outcome) for point in points))


@dataclass(frozen=True)
class _Files:
    """What is written besides the answer."""

    plan: Path | None
    instance: Path | None
    plot: Path | None
    records: Path

    def check(self, cases: int) -> None:
        """Refuse what cannot be written, before anything is planned."""
        for option, given in (("--plan-output", self.plan), ("--instance-output", self.instance)):
            if given is not None and cases > 1:
                raise click.UsageError(f"{option} is for one case, found {cases}")
            if given is not None and not given.absolute().parent.is_dir():
                raise click.BadParameter(
                    f"there is no folder {given.parent}", param_hint=f"'{option}'"
                )
        if self.plot is not None:
            from .draw import refuse_suffix

            refuse_suffix(self.plot, "--plot")
        self.records.mkdir(parents=True, exist_ok=True)

    def write(self, point: Point, *, single: bool) -> dict[str, str]:
        """Write record, plan, instance and timeline of a case; return what was written."""
        from milp_plan import report, run
        from milp_plan.io import write, write_plan

        outcome = point.outcome
        record = run.write_record(outcome, self.records)
        written = {"record_file": str(record)}
        if self.instance is not None:
            write(outcome.problem, self.instance)
            written["instance_file"] = str(self.instance)
        if outcome.plan is None:
            return written
        written["plan_file"] = str(record.with_suffix(".plan.json"))
        if self.plan is not None:
            write_plan(outcome.plan, self.plan)
            written["plan_file"] = str(self.plan)
        if self.plot is not None and single:
            panel = report.Panel(_headline(point), outcome.problem, outcome.plan)
            report.write_figure(report.schedules([panel]), self.plot)
            written["plot_file"] = str(self.plot)
        return written


def _model(costs: list[Fraction] | Path, transfer: str | None, freed: Fraction) -> Model:
    from milp_plan.io import exact, read_pipeline_file
    from milp_plan.pipeline import Model, Piece

    if not isinstance(costs, Path):
        forward, backward, weight = costs
        between = Fraction(0) if transfer is None else amount(transfer)
        return Model.from_share((forward, backward, weight), between, freed)
    if freed:
        raise click.UsageError("--freed-at-backward stands in the file, as held_to_backward")
    read = read_pipeline_file(costs)
    pieces = []
    for piece in read.pieces:
        numbers = (getattr(piece, name) for name in piece.__struct_fields__ if name != "repeat")
        pieces += [Piece(*(exact(number) for number in numbers))] * piece.repeat
    between = exact(read.transfer) if transfer is None else amount(transfer)
    units = (read.time_unit, read.size_unit)
    return Model(tuple(pieces), between, time_unit=units[0], size_unit=units[1])


def _cases(
    model: Model,
    devices: int,
    micro_batches: list[int],
    memory: list[Fraction | None],
    asked: dict[str, Any],
) -> list[Case]:
    from milp_plan.pipeline import place
    from milp_plan.run.sweep import cases, fitting

    families = fitting(model, devices)
    if asked["placement"] != "all":
        families = [asked["placement"]]
    try:
        chosen = cases(
            model,
            devices,
            micro_batches,
            families,
            memory,
            chunks=asked["chunks"],
            fixed_batch=asked["fixed_batch"],
            joint_backward=asked["joint_backward"],
            channels=asked["channels"],
            objective=Objective(asked["objective"]),
        )
        for case in chosen:
            model.cut(devices, len(place(case.family, devices, case.chunks)[0]))
    except ValueError as error:
        remedy = "choose another --placement, or fewer --stages or --chunks"
        raise InputError([Finding("placement", str(error), "one that fits", remedy)]) from None
    return chosen


def _facts(point: Point) -> dict[str, Any]:
    """What is asked and found, in the units of the command line."""
    case = point.case

    def number(amount: Fraction | int | None) -> float | None:
        return None if amount is None else float(amount)

    verdict = point.outcome.verdict
    parts = {} if verdict is None or point.outcome.plan is None else verdict.components
    scale = point.built.problem.units.time_scale
    both = {key: parts[key] / scale if key in parts else None for key in ("makespan", "span")}
    return {
        "placement": case.family,
        "chunks": case.chunks,
        "stages": case.devices,
        "micro_batches": case.micro_batches,
        "memory_limit": number(case.memory),
        "time": number(point.time),
        "time_bound": number(point.bound),
        **both,
        "bubble": number(point.bubble),
        "bubble_rate": point.bubble_rate,
        "peak_memory": number(point.peak_memory),
        "time_per_micro_batch": number(point.sample_time),
    }


def _tell(point: Point, files: _Files, *, as_json: bool, single: bool) -> None:
    written = files.write(point, single=single)
    outcome = point.outcome
    if as_json:
        code = answers.code_of_outcome(outcome)
        told = answers.summary(Path(outcome.problem.name), outcome, written, code)
        say_json(_facts(point) | told)
    elif single:
        say(_headline(point))
        answers.show(outcome, written)
    for warning in answers.warnings(outcome):
        note(f"{outcome.problem.name}: {warning}")


def _headline(point: Point) -> str:
    case, outcome = point.case, point.outcome
    ways = f"{case.family}, {case.devices} devices, {case.micro_batches} micro-batches"
    limit = "no memory limit" if case.memory is None else f"memory limit {float(case.memory):g}"
    if point.time is None or point.bubble is None:
        return f"{ways}, {limit}: no plan"
    proof = "proved optimal" if outcome.proved else f"bound {_text(point.bound)}"
    return (
        f"{ways}, {limit}: {outcome.problem.objective} {_text(point.time)} ({proof}), "
        f"bubble {_text(point.bubble)} ({share_text(point.bubble_rate)}), "
        f"peak memory {_text(point.peak_memory)}"
    )


def _tell_front(points: list[Point], files: _Files, *, as_json: bool) -> None:
    from milp_plan import report
    from milp_plan.run.sweep import front

    best = front(points)
    names = [point.case.name for point in best]
    if files.plot is not None:
        shown = [
            report.FrontPoint(
                point.case.family,
                float(point.peak_memory),
                float(point.sample_time),
                float(point.bound * point.sample_time / point.time) if point.bound else None,
                point in best,
            )
            for point in points
            if point.time and point.sample_time is not None and point.peak_memory is not None
        ]
        labels = ("peak memory of a device", f"{points[0].case.objective} per micro-batch")
        report.write_figure(
            report.time_and_memory(shown, "Time against memory", labels), files.plot
        )
    if as_json:
        say_json({"front": names, "plot_file": None if files.plot is None else str(files.plot)})
        return
    rows = [_row(point, on_front=point in best) for point in points]
    heads = ["placement", "micro-batches", "memory limit", str(points[0].case.objective), "bound"]
    heads += ["bubble", "peak memory", "per micro-batch", "planner", "front"]
    say_table(heads, rows, numeric=range(1, 8))


def _row(point: Point, *, on_front: bool) -> list[str]:
    case = point.case
    return [
        case.family if case.chunks is None else f"{case.family} ({case.chunks} chunks)",
        str(case.micro_batches),
        _text(case.memory),
        _text(point.time),
        _text(point.bound) + ("" if not point.outcome.proved else " proved"),
        _text(point.bubble),
        _text(point.peak_memory),
        _text(point.sample_time),
        point.outcome.planner or DASH,
        "yes" if on_front else "",
    ]


def _text(number: Fraction | int | None) -> str:
    return DASH if number is None else f"{float(number):.6g}"
