"""``solve``: plans instances of any kind, one file after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import MilpPlanError
from milp_plan.io.answer_wire import Solve

from . import answers, interrupts
from .exits import Exit, code_of, most_serious
from .explain import REASONS_S, infeasibility, infeasibility_wire, say_infeasibility
from .formulations import chosen_switches
from .inputs import PATH, Item, items, plan_of, varied
from .interrupts import Deferred
from .limits import POSITIVE_SETTING, limits
from .output import complain, display, note
from .outputs import Content, Output, refuse, write_run

if TYPE_CHECKING:
    from milp_plan.run import Outcome, Settings
    from milp_plan.run.conflict import Infeasibility
    from milp_plan.run.kind import Kind

RECORDS = Path("results/runs")
LOADING_SHARE = 0.5
"""Maximum share of the time limit for loading a formulation."""


@dataclass(frozen=True)
class Request:
    """Settings for all files, and paths of results."""

    settings: Settings
    start_file: Path | None
    plan_output: Path | None
    plot_file: Path | None
    record_folder: Path
    as_json: bool
    quiet: bool
    changes: dict[str, Any]


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@limits
@varied
@click.option(
    "--target",
    type=POSITIVE_SETTING,
    help="Operators of the coarse problem that stage one aims at; up to twice as many where so few "
    "do not fit into memory or are clearly slower.  [default: sizes that grow; 45 operators and "
    "fewer are planned exactly]",
)
@click.option(
    "--formulation",
    default="auto",
    show_default=True,
    help="Name, or path to a .py file; `milp-plan list formulations` lists them. 'auto': "
    "the one that suits the problem.",
)
@click.option(
    "--option",
    "switches",
    multiple=True,
    metavar="KEY=VALUE",
    help="Switch of the formulation (operator_schedule, if none is named). Repeatable.",
)
@click.option(
    "--only",
    is_flag=True,
    help="The formulation's model alone, from a list schedule or --start: no other search.",
)
@click.option(
    "--two-stage/--no-two-stage",
    default=None,
    help="Coarsening and exact models by themselves: coarse problems of growing size, each planned "
    "by the formulation's model from a list schedule, expanded, then small models near the plan; "
    "no annealing, no enumeration. Or a run without these models.  [default: both]",
)
@click.option("--solver", default="highs", show_default=True, help="'highs', or one Pyomo knows.")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Scheduler of a Dask cluster whose workers do the search (schedules of operators).",
)
@click.option(
    "--start",
    type=PATH,
    help="Plan to start from (one FILE). Times that do not fit, or are missing, are recomputed; "
    "the order on devices and channels is kept.",
)
@click.option(
    "--plan-output",
    "--solution",
    "plan_output",
    type=PATH,
    help="Write the plan here as well (one FILE).",
)
@click.option("--plot", type=PATH, help="Draw the plan, .png or .svg (one FILE).")
@click.option(
    "--record-folder",
    type=PATH,
    default=RECORDS,
    show_default=True,
    help="Where a record and a plan per run are written.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line and file.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def solve(
    ctx: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    changes: dict[str, Any],
    start: Path | None,
    plan_output: Path | None,
    plot: Path | None,
    record_folder: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Plan each FILE: heuristics, coarsening, the exact model, searches, bounds.

    Ctrl-C and SIGTERM keep the best plan so far and leave out the files that remain.
    """
    from milp_plan.run import Settings

    _refuse_several(files, {"--start": start, "--plan-output": plan_output, "--plot": plot})
    refuse(
        (
            Output("--plan-output", plan_output, Content.PLAN),
            Output("--plot", plot, Content.PICTURE),
        ),
        (*files, *([] if start is None else [start])),
    )
    record_folder.mkdir(parents=True, exist_ok=True)  # say so now rather than after the solve
    switches = asked.pop("switches")
    if asked["formulation"] == "auto" and switches:
        asked["formulation"] = "operator_schedule"  # whose switches they are
    if asked["formulation"] != "auto":
        asked["options"] = chosen_switches(
            asked["formulation"],
            switches,
            LOADING_SHARE * asked["time_limit"],
            needed=asked["only"],
        )
    settings = Settings(time_limit_s=asked.pop("time_limit"), **asked)
    request = Request(settings, start, plan_output, plot, record_folder, as_json, quiet, changes)
    codes: list[Exit] = []
    ahead = _nothing if settings.node_limit is not None else _compile_ahead
    for number, item in enumerate(items(files, changes, ahead), 1):
        code, interrupted = _handle(item, request)
        codes.append(code)
        if interrupted:
            for skipped in files[number:]:
                note(f"{skipped}: skipped after the interruption")
                codes.append(interrupts.code())
            break
    ctx.exit(most_serious(codes))


def _compile_ahead(kind: Kind[Any, Any]) -> None:
    """Compile missing loops while the rest of a file is read."""
    from milp_plan.run.compiling import begin

    begin(kind.loops)


def _nothing(_: object) -> None:
    """Compile nothing for a repeatable run, which is the same on every machine."""


def _refuse_several(files: tuple[Path, ...], options: dict[str, Path | None]) -> None:
    for name, given in options.items():
        if given is not None and len(files) > 1:
            raise click.UsageError(f"{name} is for one FILE, found {len(files)}")


def _handle(item: Item, request: Request) -> tuple[Exit, bool]:
    """Plan one file; return its exit code and whether it was interrupted."""
    try:
        if item.error is not None:
            raise item.error
        return _solve_one(item, request)
    except MilpPlanError as error:
        complain(error, item.path)
        return _fail(item, error, code_of(error), request), False
    except KeyboardInterrupt:
        early = MilpPlanError("interrupted before there was a plan")
        note(f"{item.path}: {early}")
        return _fail(item, early, interrupts.code(), request), True


def _fail(item: Item, error: MilpPlanError, code: Exit, request: Request) -> Exit:
    if request.as_json:
        answers.say_answer(answers.failure(Solve, item, error, code))
    return code


def _solve_one(item: Item, request: Request) -> tuple[Exit, bool]:
    from milp_plan import run
    from milp_plan.backends import Stop

    kind, problem, settings = item.kind, item.problem, request.settings
    assert kind is not None
    if request.start_file is not None:
        start = plan_of(item, request.start_file)
        settings = replace(settings, start=start)
    with display(problem, quiet=request.quiet) as show:
        outcome = run.solve(problem, settings, show, began=item.began)
    conflict, stopped = infeasibility(
        outcome, min(REASONS_S, settings.time_limit_s - outcome.seconds)
    )
    with Deferred() as interrupt:
        code = _write_answer(item.path, outcome, conflict, request)
    return code, interrupt.asked or stopped or outcome.stop is Stop.INTERRUPTED


def _write_answer(
    path: Path, outcome: Outcome[Any, Any], conflict: Infeasibility | None, request: Request
) -> Exit:
    """Write the files of a run and its result; failures to write come last."""
    written = write_run(outcome, request.record_folder, request.plan_output, path, request.changes)
    if outcome.plan is not None and request.plot_file is not None:
        from .draw import draw

        picture = partial(draw, outcome.kind, outcome.problem, outcome.plan)
        written.write("plot_file", request.plot_file, picture)
    answer = answers.solved(path, outcome, written)
    answer.infeasibility = infeasibility_wire(conflict)
    if request.as_json:
        answers.say_answer(answer)
    else:
        answers.show(outcome, written.files)
        say_infeasibility(outcome.problem, conflict)
    answers.note_warnings(outcome, written)
    return Exit(answer.exit_code)
