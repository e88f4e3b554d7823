"""``solve``: plan instances with both stages, one file after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import InputError, MilpPlanError, PlanningProblem
from milp_plan.core.budget import now

from . import answers, interrupts
from .exits import Exit, code_of, most_serious
from .formulations import chosen_switches
from .inputs import PATH, Variation, instances, plan_of, varied
from .interrupts import Deferred
from .limits import limits
from .output import complain, note, say_json
from .outputs import Content, Output, Writing, refuse
from .progress import display
from .sharding import is_sharding, refuse_options, solve_sharding_file

if TYPE_CHECKING:
    from milp_plan.run import Outcome

RECORDS = Path("results/runs")


@dataclass(frozen=True)
class Request:
    """What is done with each problem, and where its results go."""

    settings: dict[str, Any]
    start_file: Path | None
    plan_output: Path | None
    plot_file: Path | None
    record_folder: Path
    as_json: bool
    quiet: bool


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@limits
@varied
@click.option(
    "--target",
    type=click.IntRange(min=1),
    default=25,
    show_default=True,
    help="Operators that stage one aims at.",
)
@click.option(
    "--formulation",
    default="auto",
    show_default=True,
    help="Name, or path to a .py file; `milp-plan list formulations` says what there is. 'auto': "
    "contiguous_load, max_load or latency where transfers are work of the devices, pipeline_order "
    "for pipelines of identical micro-batches on given devices, else operator_schedule.",
)
@click.option(
    "--option",
    "switches",
    multiple=True,
    metavar="KEY=VALUE",
    help="Switch of the formulation (operator_schedule, if none is named). Repeatable.",
)
@click.option("--solver", default="highs", show_default=True, help="'highs', or one Pyomo knows.")
@click.option("--start", type=PATH, help="Plan to start from (one FILE).")
@click.option("--plan-output", type=PATH, help="Write the plan here as well (one FILE).")
@click.option(
    "--solution", type=PATH, help="Write the chosen strategies of a sharding problem (one FILE)."
)
@click.option("--plot", type=PATH, help="Draw the timeline, .png or .svg (one FILE).")
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
    variation: Variation,
    start: Path | None,
    plan_output: Path | None,
    solution: Path | None,
    plot: Path | None,
    record_folder: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Plan each FILE: heuristics, coarsening, the exact model, neighbourhood search, bounds.

    Ctrl-C and SIGTERM keep the best plan so far and leave out the files that remain.
    """
    _refuse_several(files, {"--start": start, "--plan-output": plan_output, "--plot": plot})
    refuse(
        (
            Output("--plan-output", plan_output, Content.PLAN),
            Output("--solution", solution, Content.PLAN),
            Output("--plot", plot, Content.PICTURE),
        ),
        (*files, *([] if start is None else [start])),
    )
    record_folder.mkdir(parents=True, exist_ok=True)  # say so now rather than after the solve
    switches = asked.pop("switches")
    if asked["formulation"] == "auto" and switches:
        asked["formulation"] = "operator_schedule"  # whose switches they are
    asked["options"] = {}
    if asked["formulation"] != "auto":
        asked["options"] = chosen_switches(asked["formulation"], switches)
    asked["time_limit_s"] = asked.pop("time_limit")
    request = Request(asked, start, plan_output, plot, record_folder, as_json, quiet)
    began = ctx.find_root().obj  # nothing where the command is called from Python
    codes, begun = [], now() if began is None else began
    item: Any
    for number, (path, item) in enumerate(instances(files, variation), 1):
        if is_sharding(item):
            code, interrupted = _handle_sharding(ctx, path, item, request, solution, begun)
        else:
            code, interrupted = _handle(path, item, request)
        begun = now()
        codes.append(code)
        if interrupted:
            for skipped in files[number:]:
                note(f"{skipped}: skipped after the interruption")
                codes.append(interrupts.code())
            break
    ctx.exit(most_serious(codes))


def _handle_sharding(  # noqa: PLR0917 (what a file needs)
    ctx: click.Context,
    path: Path,
    problem: Any,
    request: Request,
    solution: Path | None,
    begun: float,
) -> tuple[Exit, bool]:
    """Do all there is to do for a sharding problem; its time runs since ``begun``."""
    from milp_plan.io.iopddl import read_solution
    from milp_plan.run.sharding import ShardingSettings

    def given(name: str) -> Any:
        known = ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        return ctx.params[name] if known else None

    asked = request.settings
    modelled = asked["formulation"] != "auto"
    refused = ["plot", "rounds", *([] if modelled else ["start", "node_limit"])]
    try:
        refuse_options({f"--{name.replace('_', '-')}": given(name) for name in refused}, path)
        settings = ShardingSettings(
            time_limit_s=asked["time_limit_s"],
            gap=1e-6 if given("gap") is None else given("gap"),
            seed=asked["seed"],
            workers=given("threads"),
            spent_s=now() - begun,  # reading it, and loading what solves it
        )
        if modelled:
            from milp_plan.run.sharding_model import ModelSettings

            start = request.start_file
            settings = ModelSettings(
                **vars(settings),
                **{key: asked[key] for key in ("formulation", "options", "node_limit", "solver")},
                start=None if start is None else read_solution(start, problem),
            )
        return solve_sharding_file(
            path,
            problem,
            settings,
            solution=solution or request.plan_output,
            record_folder=request.record_folder,
            as_json=request.as_json,
            quiet=request.quiet,
        )
    except MilpPlanError as error:
        complain(error, path)
        return code_of(error), False


def _refuse_several(files: tuple[Path, ...], options: dict[str, Path | None]) -> None:
    for name, given in options.items():
        if given is not None and len(files) > 1:
            raise click.UsageError(f"{name} is for one FILE, found {len(files)}")


def _handle(path: Path, item: PlanningProblem | InputError, request: Request) -> tuple[Exit, bool]:
    """Do all there is to do for one file; say how it ended, and whether by an interruption."""
    try:
        if isinstance(item, InputError):
            raise item
        return _solve_one(path, item, request)
    except MilpPlanError as error:
        complain(error, path)
        return _tell_failure(path, item, error, code_of(error), request), False
    except KeyboardInterrupt:
        early = MilpPlanError("interrupted before there was a plan")
        note(f"{path}: {early}")
        return _tell_failure(path, item, early, interrupts.code(), request), True


def _tell_failure(
    path: Path,
    item: PlanningProblem | InputError,
    error: MilpPlanError,
    code: Exit,
    request: Request,
) -> Exit:
    if request.as_json:
        say_json(answers.failure(path, item, error, code))
    return code


def _solve_one(path: Path, problem: PlanningProblem, request: Request) -> tuple[Exit, bool]:
    from milp_plan import run
    from milp_plan.backends import Stop

    start = None if request.start_file is None else plan_of(problem, request.start_file, path)
    settings = run.Settings(start=start, **request.settings)
    with display(problem, quiet=request.quiet) as show:
        outcome = run.solve(problem, settings, show)
    with Deferred() as interrupt:
        code = _tell(path, outcome, request)
    return code, interrupt.asked or outcome.stop is Stop.INTERRUPTED


def _tell(path: Path, outcome: Outcome[Any, Any], request: Request) -> Exit:
    """Write the files of a run, and say what it found; what could not be written comes last."""
    written = _write(outcome, request)
    code = most_serious([answers.code_of_outcome(outcome), written.code])
    if request.as_json:
        told = answers.summary(path, outcome, written.files, code)
        say_json(told | {"errors": written.failures})
    else:
        answers.show(outcome, written.files)
    for warning in answers.warnings(outcome):
        note(f"{outcome.problem.name}: {warning}")
    for failure in written.failures:
        note(f"error: {failure}")
    return code


def _write(outcome: Outcome[Any, Any], request: Request) -> Writing:
    """Write record, plan and picture, as far as possible."""
    from milp_plan import run
    from milp_plan.io import write_document, write_plan

    written = Writing()
    for member, (path, data) in run.record_files(outcome, request.record_folder).items():
        written.write(member, path, partial(write_document, data=data))
    if outcome.plan is not None and request.plan_output is not None:
        written.write("plan_file", request.plan_output, partial(write_plan, outcome.plan))
    if outcome.plan is not None and request.plot_file is not None:
        from .draw import draw

        written.write("plot_file", request.plot_file, partial(draw, outcome.problem, outcome.plan))
    return written
