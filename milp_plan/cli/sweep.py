"""``sweep``: an instance under many limits, each planned from its neighbours' plans."""

from __future__ import annotations

from contextlib import AbstractContextManager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.io import answer_wire as wire
from milp_plan.io import reason_wire
from milp_plan.run.scope import scope_of

from . import interrupts
from .answers import answer_each, head, say_scope
from .exits import Exit, most_serious
from .inputs import PATH, Item, varied_without
from .limits import limits
from .output import display, note, say, say_table
from .outputs import Content, Output, Writing, refuse

if TYPE_CHECKING:
    from milp_plan.run import Settings
    from milp_plan.run.settings import ProgressHook
    from milp_plan.study.variants import Axis, Point, Sweep

MOST = 10_000
"""Variants of a sweep."""

TABLES = (".csv", ".md")


def numbers(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> list[Fraction]:
    """Read exact positive numbers: ``0.5,1,2``, or first:last:step.

    Raises
    ------
    click.BadParameter
        They are none.
    """
    from milp_plan.run.change import steps

    try:
        return [] if text is None else steps(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def counts(ctx: click.Context, parameter: click.Parameter, text: str | None) -> list[Fraction]:
    """Read whole numbers in the same words.

    Raises
    ------
    click.BadParameter
        One is none.
    """
    from milp_plan.study.variants import MOST_DEVICES

    values = numbers(ctx, parameter, text)
    for number in values:
        if number.denominator != 1:
            raise click.BadParameter(f"{number} is no whole number")
        if number > MOST_DEVICES:
            raise click.BadParameter(f"{number} devices, at most {MOST_DEVICES:,}: name fewer")
    return values


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--memory",
    callback=numbers,
    metavar="FACTORS",
    help="Factors on every limit of memory: 0.5,1,2 or first:last:step, such as 0.5:1.2:0.1.",
)
@click.option(
    "--devices",
    callback=counts,
    metavar="NUMBERS",
    help="Numbers of devices: 2,4,8. More than there are: copies of those there are.",
)
@click.option(
    "--bandwidth", callback=numbers, metavar="FACTORS", help="Factors on every bandwidth: 0.5,1,2."
)
@limits
@varied_without("memory", "devices", "bandwidth")
@click.option("-o", "--output", type=PATH, help="Table to write, .csv (exact) or .md.")
@click.option("--plot", type=PATH, help="Picture to write, .png or .svg.")
@click.option(
    "--store-folder",
    type=PATH,
    default=Path("results/sweeps"),
    show_default=True,
    help="Folder of answers: what is there is not planned again.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def sweep(
    ctx: click.Context,
    /,
    *,
    file: Path,
    memory: list[Fraction],
    devices: list[Fraction],
    bandwidth: list[Fraction],
    changes: dict[str, Any],
    output: Path | None,
    plot: Path | None,
    store_folder: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Plan FILE with other memory, devices and bandwidth, and show what each changes.

    Each variant has the time limit for itself, starts from the plans of its neighbours, and never
    ends with a worse plan than a neighbour's that is valid for it. Ctrl-C keeps the results so far;
    the same command resumes.
    """
    from milp_plan.run import Settings
    from milp_plan.study.variants import axes_of

    axes = axes_of(memory, devices, bandwidth)
    if not axes:
        raise click.UsageError("name what to vary: --memory, --devices or --bandwidth")
    if output is not None and output.suffix not in TABLES:
        raise click.BadParameter(f"{output}: expected .csv or .md", param_hint="'--output'")
    outputs = (Output("--output", output, Content.TABLE), Output("--plot", plot, Content.PICTURE))
    refuse(outputs, [file])
    settings = Settings(time_limit_s=asked.pop("time_limit"), **asked)

    def work(item: Item, as_text: bool) -> wire.Sweep:
        done = _swept(item, axes, settings, store_folder, quiet=quiet)
        written = Writing()
        if output is not None:
            written.write("table_file", output, partial(_write_table, done))
        if plot is not None:
            written.write("plot_file", plot, partial(_write_plot, done))
        if as_text:
            _show(done, written)
        for failed in written.failures:
            note(f"error: {failed}")
        return _answer(item, done, written, most_serious([_code(done), written.code]))

    ctx.exit(answer_each((file,), changes, wire.Sweep, work, as_json=as_json))


def _swept(
    item: Item, axes: tuple[Axis, ...], settings: Settings, folder: Path, *, quiet: bool
) -> Sweep:
    from milp_plan.run.solving import refuse_unused
    from milp_plan.study.store import Store
    from milp_plan.study.variants import Sweep

    assert item.kind is not None
    refuse_unused(item.kind, item.problem, settings)
    done = Sweep(item.problem, axes, settings, Store(folder))
    if len(done.points) > MOST:
        raise click.UsageError(f"{len(done.points):,} variants, at most {MOST:,}: name fewer")

    def show(point: Point, number: int) -> AbstractContextManager[ProgressHook]:
        if not quiet:
            note(f"variant {number + 1} of {len(done.points)}: {point.label()}")
        return display(point.problem, quiet=quiet)

    done.run(show)
    return done


def _code(done: Sweep) -> Exit:
    """Return the code of as many solved files."""
    if done.interrupted:
        return interrupts.code()
    return most_serious(_code_of(point) for point in done.points)


def _code_of(point: Point) -> Exit:
    if point.value is not None:
        return Exit.DONE
    proved = point.found is not None and point.found.infeasible_reason is not None
    return Exit.INFEASIBLE if proved else Exit.NO_PLAN


def _show(done: Sweep, written: Writing) -> None:
    from milp_plan.report.variants import sweep_rows

    heads, rows = sweep_rows(done)
    title = f"{done.problem.name}: {done.kind.measure(done.problem).objective}"
    number = len(done.axes)
    say_table(heads, rows, title=title, numeric=range(number + 3))
    say_scope(scope_of(done.problem))
    for point in done.points:
        if point.found is not None and point.found.infeasible_reason is not None:
            say(f"  {point.label()}: no plan exists: {point.found.infeasible_reason}")
    again = sum(point.again for point in done.points)
    if again:
        say(f"{again} of {len(done.points)} were in the store")
    if done.interrupted:
        note("interrupted; finished variants are stored, the same command goes on")
    for name in written.files.values():
        say(name)


def _write_table(done: Sweep, path: Path) -> None:
    from milp_plan.io.files import write_document
    from milp_plan.report.variants import csv_text, markdown, sweep_rows

    heads, rows = sweep_rows(done)
    if path.suffix == ".md":
        measure = done.kind.measure(done.problem)
        title = f"{done.problem.name}: {measure.objective}"
        write_document(path, markdown(title, heads, rows))
        return
    points = [_point(point, done) for point in done.points]
    names = [name for name in reason_wire.Point.__struct_fields__ if name != "settings"]
    exact = [
        [
            *point.settings.values(),
            *("" if getattr(point, n) is None else str(getattr(point, n)) for n in names),
        ]
        for point in points
    ]
    write_document(path, csv_text([*(axis.name for axis in done.axes), *names], exact))


def _write_plot(done: Sweep, path: Path) -> None:
    from milp_plan.draw.canvas import write_figure
    from milp_plan.report.variants import sweep_figure

    write_figure(sweep_figure(done), path)


def _answer(item: Item, done: Sweep, written: Writing, code: Exit) -> wire.Sweep:
    return wire.Sweep(
        **head(item) | {"exit_code": int(code)},
        errors=written.failures,
        points=[_point(point, done) for point in done.points],
        table_file=written.files.get("table_file"),
        plot_file=written.files.get("plot_file"),
    )


def _point(point: Point, done: Sweep) -> reason_wire.Point:
    result, measure = point.found, done.kind.measure(point.problem)
    bound = None if result is None else result.bound
    plan_file = done.plan_file(point)
    return reason_wire.Point(
        settings={name: str(step) for name, step in point.settings.items()},
        fingerprint=point.problem.fingerprint,
        value=point.value,
        value_in_unit=measure.decimal(point.value),
        bound=bound,
        bound_in_unit=measure.decimal(bound),
        proved=result is not None and result.proved,
        stop=None if result is None else str(result.stop),
        infeasible_because=None if result is None else result.infeasible_reason,
        front=point in done.front(),
        started=result is not None and result.started,
        again=point.again,
        seconds=None if result is None else round(result.seconds, 3),
        plan_file=None if plan_file is None else str(plan_file),
    )
