"""Picture of a plan of jobs: a lane for each device, coloured by job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milp_plan.check.jobs import completions, lines_of, read_runs, verify_jobs
from milp_plan.core import Finding, InputError, Verdict
from milp_plan.core.amounts import time_text
from milp_plan.core.jobs import JobsPlan, JobsProblem

from .canvas import axis_label, new_figure, time_scale
from .panels import Axis, Box, Panel, numbered
from .style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 20
"""Jobs up to which a legend names them."""

_WIDTH, _HEIGHT_EACH, _LEAST, _MOST = 9.0, 0.25, 2.5, 14.0


def jobs_figure(problem: JobsProblem, plan: JobsPlan) -> Figure:
    """Draw a plan, valid or not, whose runs are those of the problem.

    Returns
    -------
    matplotlib.figure.Figure
        A lane for each device, from the first pool down; runs filled with a colour of their job,
        loads and stores thin and pale, above and below; releases as ticks of their job's colour.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    InputError
        The runs are not those of the problem.
    """
    verdict = _checked(problem, plan)
    readings = read_runs(problem, plan)
    ends = completions(readings)
    scale = time_scale(problem.units, max(1, *ends.values()))
    height = min(_MOST, max(_LEAST, 1.2 + _HEIGHT_EACH * problem.devices))
    figure = new_figure(_WIDTH, height)
    with drawing_style():
        from matplotlib import colormaps

        axes = figure.subplots()
        map_of = colormaps["tab20"]
        colours = {job.name: map_of(number % 20) for number, job in enumerate(problem.jobs)}
        lanes = [(pool.name, device) for pool in problem.pools for device in range(pool.devices)]
        rows = {lane: number for number, lane in enumerate(lanes)}
        for lane, line in lines_of(readings).items():
            row = rows[lane]
            for reading in line:
                colour = colours[reading.job.name]
                begin, length = scale(reading.run.start), scale(reading.option.ticks)
                axes.barh(row, length, 0.7, begin, color=colour, edgecolor="white", linewidth=0.4)
                for since, until, shift in (
                    (reading.run.load, reading.loaded, -0.42),
                    (reading.run.store, reading.stored, 0.42),
                ):
                    if since is not None and until is not None:
                        width = scale(until - since)
                        axes.barh(row + shift, width, 0.14, scale(since), color=colour, alpha=0.5)
        if len(problem.jobs) <= _NAMED:
            from matplotlib.patches import Patch

            handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
            axes.legend(
                handles=handles, fontsize=6, ncols=2, loc="upper left", bbox_to_anchor=(1, 1)
            )
        for job in problem.jobs:
            if job.release:
                axes.axvline(scale(job.release), ymax=0.02, color=colours[job.name])
        named = len(lanes) <= 40
        axes.set_yticks(range(len(lanes)) if named else [])
        if named:
            axes.set_yticklabels([f"{pool} {device}" for pool, device in lanes], fontsize=6)
        axes.set_ylim(len(lanes) - 0.4, -0.6)
        axes.set_xlabel(axis_label("time", scale))
        text = time_text(problem.units, verdict.value)
        axes.set_title(f"{problem.name}: {verdict.objective} {text}", loc="left")
    return figure


def jobs_panels(problem: JobsProblem, plan: JobsPlan) -> tuple[Panel, ...]:
    """Return a row for each device, coloured by job; loads above and stores below its runs.

    Raises
    ------
    InputError
        The runs are not those of the problem.
    """
    _checked(problem, plan)
    readings = read_runs(problem, plan)
    scale = time_scale(problem.units, max(1, *completions(readings).values()))
    lanes = [(pool.name, device) for pool in problem.pools for device in range(pool.devices)]
    rows = [f"{pool} {device}" for pool, device in lanes]
    places = {lane: row for row, lane in enumerate(lanes)}
    boxes = []
    for lane, line in lines_of(readings).items():
        at = places[lane]
        for reading in line:
            told = (reading.job.name, reading.name, rows[at])
            run = reading.run
            span = (scale(run.start), scale(reading.stop))
            boxes.append(Box(*span, at - 0.3, at + 0.3, *told, "runs"))
            for since, until, low, said in (
                (run.load, reading.loaded, at - 0.45, "loads"),
                (run.store, reading.stored, at + 0.3, "stores"),
            ):
                if since is not None and until is not None:
                    boxes.append(Box(scale(since), scale(until), low, low + 0.15, *told, said))
    fills = numbered(job.name for job in problem.jobs)
    x = Axis("time", scale)
    return (Panel("Jobs", x, rows=rows, boxes=boxes, fills=fills, searched=True),)


def _checked(problem: JobsProblem, plan: JobsPlan) -> Verdict:
    verdict = verify_jobs(problem, plan)
    if verdict.value is None:
        expected = "each unit of each job once"
        raise InputError([Finding("plan", "other runs", expected, "plan the instance again")])
    return verdict
