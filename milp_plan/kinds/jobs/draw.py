"""Panel of a plan of jobs: a lane for each device, coloured by job."""

from __future__ import annotations

from milp_plan.core import Finding, InputError
from milp_plan.draw.canvas import time_scale
from milp_plan.draw.panels import Axis, Box, Panel, numbered

from .check import completions, lines_of, read_runs, verify_jobs
from .problem import JobsPlan, JobsProblem


def jobs_panels(problem: JobsProblem, plan: JobsPlan) -> tuple[Panel, ...]:
    """Return a row for each device, coloured by job; loads above and stores below its runs.

    Raises
    ------
    InputError
        The runs are not those of the problem.
    """
    if verify_jobs(problem, plan).value is None:
        expected = "each unit of each job once"
        raise InputError([Finding("plan", "other runs", expected, "plan the instance again")])
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
            for since, until, low, tooltip in (
                (run.load, reading.loaded, at - 0.45, "loads"),
                (run.store, reading.stored, at + 0.3, "stores"),
            ):
                if since is not None and until is not None:
                    boxes.append(Box(scale(since), scale(until), low, low + 0.15, *told, tooltip))
    fills = numbered(job.name for job in problem.jobs)
    x = Axis("time", scale)
    return (Panel("Jobs", x, rows=rows, boxes=boxes, fills=fills, searched=True),)
