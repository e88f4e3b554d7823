"""Output of ``pipeline``: files, a case as text or as JSON, the front of several cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.cli import answers
from milp_plan.cli.exits import Exit
from milp_plan.cli.output import say, say_table
from milp_plan.cli.outputs import Content, Output, Writing, refuse, write_run
from milp_plan.core.amounts import DASH, NO_UNIT, json_number, share_text, size_text, time_text
from milp_plan.io import answer_wire as wire

if TYPE_CHECKING:
    from .case_sweep import Point


@dataclass(frozen=True)
class Files:
    """Files that are written in addition to the answer."""

    plan: Path | None
    instance: Path | None
    plot: Path | None
    records: Path

    def check(self, cases: int, inputs: Iterable[Path]) -> None:
        """Refuse outputs that cannot be written, before anything is planned."""
        outputs = (
            Output("--plan-output", self.plan, Content.PLAN),
            Output("--instance-output", self.instance, Content.INSTANCE),
            Output("--plot", self.plot, Content.PICTURE),
        )
        for output in outputs[:2]:
            if output.path is not None and cases > 1:
                raise click.UsageError(f"{output.option} is for one case, found {cases}")
        refuse(outputs, inputs)
        self.records.mkdir(parents=True, exist_ok=True)

    def write(self, point: Point, *, single: bool) -> Writing:
        """Write record, plan, instance and timeline of a case, as far as possible."""
        from milp_plan.draw.canvas import write_figure
        from milp_plan.kinds.schedule.formats import write

        from .draw import TitledPlan, schedules

        outcome = point.outcome
        written = write_run(outcome, self.records, self.plan, self.instance)
        if self.instance is not None:
            written.write("instance_file", self.instance, partial(write, outcome.problem))
        if outcome.plan is not None and self.plot is not None and single:
            titled = TitledPlan(_headline(point), outcome.problem, outcome.plan)
            picture = partial(write_figure, schedules([titled]))
            written.write("plot_file", self.plot, picture)
        return written


def _facts(point: Point) -> dict[str, Any]:
    """Return the members of the answer, in the units of the command line."""
    case = point.case
    verdict, units = point.outcome.verdict, point.built.problem.units
    parts = {} if verdict is None or point.outcome.plan is None else verdict.components
    known = {key: parts.get(key) for key in ("makespan", "span")}
    both = {
        key: json_number(None if ticks is None else Fraction(ticks, units.time_scale))
        for key, ticks in known.items()
    }
    return {
        "time_unit": units.time,
        "size_unit": units.size,
        "placement": case.family,
        "chunks": case.chunks,
        "stages": case.devices,
        "micro_batches": case.micro_batches,
        "cut": None if case.model.even else list(point.built.cut),
        "layers": [] if case.model.even else _layers(point),
        "cuts": point.outcome.record.get("cuts"),
        "memory_limit": json_number(case.memory),
        "time": json_number(point.time),
        "time_bound": json_number(point.bound),
        **both,
        "bubble": json_number(point.bubble),
        "bubble_rate": point.bubble_rate,
        "peak_memory": json_number(point.peak_memory),
        "time_per_micro_batch": json_number(point.sample_time),
    }


def _layers(point: Point) -> list[wire.StageShare]:
    return [
        wire.StageShare(
            stage=share.stage,
            devices=list(share.devices),
            first_piece=share.first,
            pieces=share.pieces,
            names=list(share.names),
        )
        for share in point.shares
    ]


def report_case(point: Point, files: Files, *, as_json: bool, single: bool) -> Exit:
    """Write the files and the answer of a case; return its exit code."""
    written = files.write(point, single=single)
    outcome = point.outcome
    answer = answers.solved(Path(outcome.problem.name), outcome, written)
    if as_json:
        members = {name: getattr(answer, name) for name in answer.__struct_fields__}
        answers.say_answer(wire.Pipeline(**(members | _facts(point) | written.files)))
    elif single:
        say(_headline(point))
        _say_cut(point)
        answers.show(outcome, written.files)
    answers.note_warnings(outcome, written)
    return Exit(answer.exit_code)


def _say_cut(point: Point) -> None:
    """Print which pieces each stage runs, and where."""
    if point.case.model.even:
        return
    counted = point.outcome.record.get("cuts")
    if point.outcome.infeasible_reason is not None and counted:
        say(f"  cut        none ({_counted(point, counted)})")
        return
    say(f"  cut        {_cut_text(point)}{f' ({_counted(point, counted)})' if counted else ''}")
    for share in point.shares:
        label = f"stage {share.stage}"
        say(f"  {label:<10} {share}")


def _counted(point: Point, counted: dict[str, Any]) -> str:
    """Describe how many cuts there are, and for which of them the proof holds."""
    possible, looked = counted["possible"], counted["looked_at"]
    if counted["all_decided"]:
        return f"all {possible:,} cuts decided" if possible > 1 else "the only one"
    text = f"{looked:,} of {possible:,} cuts inspected"
    if counted["bound_of_cut"] == point.outcome.value is not None:
        text += "; no plan with this cut is better"
    return text


def _cut_text(point: Point) -> str:
    from .case import cut_text

    searched = point.outcome.record.get("cuts") is not None
    if searched and point.outcome.infeasible_reason is not None:
        return DASH
    return cut_text(point.built.cut)


def _headline(point: Point) -> str:
    case, outcome, text = point.case, point.outcome, Texts(point)
    ways = f"{case.family}, {case.devices} devices, {case.micro_batches} micro-batches"
    limit = "no memory limit" if case.memory is None else f"memory limit {text.size(case.memory)}"
    if point.time is None or point.bubble is None:
        return f"{ways}, {limit}: no plan"
    proof = "proved optimal" if outcome.proved else f"bound {text.time(point.bound)}"
    return (
        f"{ways}, {limit}: {outcome.problem.objective} {text.time(point.time)} ({proof}), "
        f"bubble {text.time(point.bubble)} ({share_text(point.bubble_rate)}), "
        f"peak memory {text.size(point.peak_memory)}"
    )


def report_front(points: list[Point], files: Files, *, as_json: bool) -> None:
    """Write, and draw, the cases that no other one dominates."""
    from milp_plan.draw.canvas import write_figure
    from milp_plan.draw.tradeoff import Mark, tradeoff_figure
    from milp_plan.run.outcome import headline

    from .case_sweep import front

    best = front(points)
    names = [point.case.name for point in best]
    if files.plot is not None:
        shown = [
            Mark(
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
        picture = tradeoff_figure(shown, "Time against memory", labels, joined=False)
        write_figure(picture, files.plot)
    if as_json:
        plot = None if files.plot is None else str(files.plot)
        answers.say_answer(wire.Front(front=names, plot_file=plot))
        return
    rows = [_row(point, on_front=point in best) for point in points]
    heads = ["placement", "micro-batches", "memory limit", str(points[0].case.objective), "bound"]
    heads += ["bubble", "peak memory", "per micro-batch", "planner", "front"]
    if not points[0].case.model.even:
        heads.append("cut")
        cuts = [DASH if point.time is None else _cut_text(point) for point in points]
        rows = [[*row, cut] for row, cut in zip(rows, cuts, strict=True)]
    say_table(heads, rows, numeric=range(1, 8))
    for point in points:
        if point.time is None:
            say(f"  {headline(point.outcome)}")
    for scope in dict.fromkeys(point.outcome.scope for point in points):
        answers.say_scope(scope)


def _row(point: Point, *, on_front: bool) -> list[str]:
    case, text = point.case, Texts(point)
    impossible = point.outcome.infeasible_reason is not None
    return [
        case.family if case.chunks is None else f"{case.family} ({case.chunks} chunks)",
        str(case.micro_batches),
        text.size(case.memory),
        "none exists" if impossible else text.time(point.time),
        text.time(point.bound) + ("" if not point.outcome.proved else " proved"),
        text.time(point.bubble),
        text.size(point.peak_memory),
        text.time(point.sample_time),
        point.outcome.planner or DASH,
        "yes" if on_front else "",
    ]


class Texts:
    """Amounts of a case as text: with the model's units, or bare numbers where it has none."""

    def __init__(self, point: Point) -> None:
        self.units = point.built.problem.units

    def time(self, number: Fraction | int | None) -> str:
        """Write a time in the model's unit."""
        ticks = None if number is None else Fraction(number) * self.units.time_scale
        return time_text(self.units, ticks).removesuffix(NO_UNIT)

    def size(self, number: Fraction | int | None) -> str:
        """Write a size in the model's unit."""
        counts = None if number is None else Fraction(number) * self.units.size_scale
        return size_text(self.units, counts).removesuffix(NO_UNIT)
