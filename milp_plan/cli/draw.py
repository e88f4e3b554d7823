"""``plot`` and ``export``: a plan as a picture, a trace or torch's schedule, a model as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from milp_plan.core import InputError, Plan, PlanningProblem, UnsupportedProblemError, Verdict

from .bench import stored
from .charts import CHARTS, draw_chart
from .formulations import chosen_switches
from .inputs import PATH, Variation, drawable, instance, plan_of, problem, varied
from .output import note, say
from .outputs import Content, Output, refuse
from .sharding import is_sharding, sharding_value


def draw(instance: PlanningProblem, plan: Plan, path: Path) -> None:
    """Write the timeline of a plan, or its loads where it has no clock.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    MissingFacetError
        The plan has no schedule.
    """
    from milp_plan.draw import loads_figure, timeline, write_figure

    picture = timeline if instance.serial is None else loads_figure
    write_figure(picture(instance, plan), path)


@click.command()
@click.argument("what", metavar="FILE|KIND")
@click.argument("sources", metavar="PLAN|SUITE...", type=PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, required=True, help="Picture to write, .png or .svg.")
@stored
@varied
def plot(
    what: str,
    sources: tuple[Path, ...],
    output: Path,
    store_folder: Path,
    variation: Variation,
) -> None:
    """Draw a plan, or the runs of suites.

    FILE PLAN draws a plan: devices, channels, and memory against its limits. Valid or not.

    KIND SUITE... draws what the store holds of suites (or records of `milp-plan solve`):
    value-time, incumbent and bound against time; performance-profile, the fraction of problems on
    which a planner is within a ratio of the best (Dolan and More 2002); gap, a bar per run.
    """
    refuse([Output("--output", output, Content.PICTURE)], [Path(what), *sources])
    if what in CHARTS:
        draw_chart(what, sources, store_folder, output)
    elif len(sources) != 1:
        raise click.UsageError(f"expected FILE PLAN, or one of {', '.join(CHARTS)} and suites")
    else:
        file, plan_file = Path(what), sources[0]
        instance = problem(file, variation)
        draw(instance, _plan(instance, plan_file, file), output)
    say(str(output))


def _plan(instance: PlanningProblem, plan_file: Path, file: Path) -> Plan:
    """Read a plan to be drawn; say so when it breaks rules."""
    from milp_plan.check import verify

    plan = plan_of(instance, plan_file, file)
    drawable(instance, plan, plan_file)
    broken = len(verify(instance, plan).violations)
    if broken:
        plural = "" if broken == 1 else "s"
        note(
            f"{plan_file}: the plan is not valid ({broken} violation{plural}), see milp-plan check"
        )
    return plan


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["lp", "mps", "perfetto", "torch-schedule", "dnn-split"]),
    required=True,
    help="A model for other solvers; a plan's trace for ui.perfetto.dev; or a pipeline plan as the "
    "CSV that torch.distributed.pipelining runs.",
)
@click.option("-o", "--output", type=PATH, required=True, help="File to write (.gz: compressed).")
@click.option(
    "--plan",
    "plan_file",
    type=PATH,
    help="The plan to write; for a model, one whose value is its cutoff.",
)
@click.option(
    "--target",
    type=click.IntRange(min=1),
    help="Make the problem smaller first, to about this many operators, as solve does.",
)
@click.option(
    "--formulation",
    default="operator_schedule",
    show_default=True,
    help="Name, or a .py file. Of sharding problems: sharding.",
)
@click.option("--option", "switches", multiple=True, metavar="KEY=VALUE", help="Switch of it.")
@varied
def export(
    *,
    file: Path,
    format_name: str,
    output: Path,
    plan_file: Path | None,
    target: int | None,
    formulation: str,
    switches: tuple[str, ...],
    variation: Variation,
) -> None:
    """Write the model of an instance (lp, mps), or a plan (perfetto, torch-schedule, dnn-split)."""
    inputs = [file] if plan_file is None else [file, plan_file]
    refuse([Output("--output", output, _CONTENTS.get(format_name, Content.MODEL))], inputs)
    if format_name in _PLAN_WRITERS:
        if plan_file is None:
            raise click.UsageError(f"--format {format_name} needs --plan")
        _PLAN_WRITERS[format_name](problem(file, variation), plan_file, output, file)
    else:
        source = click.get_current_context().get_parameter_source("formulation")
        chosen = None if source is click.core.ParameterSource.DEFAULT else formulation
        _export_model(file, variation, (chosen, switches), plan_file, target, (format_name, output))
    say(str(output))


def _export_model(  # noqa: PLR0917 (what the command is asked)
    file: Path,
    variation: Variation,
    formulation: tuple[str | None, tuple[str, ...]],
    plan_file: Path | None,
    target: int | None,
    where: tuple[str, Path],
) -> None:
    """Read an instance of either kind and write its model."""
    name, switches = formulation
    item: Any = instance(file, variation)
    if is_sharding(item):
        if target is not None:
            raise click.UsageError("--target is for problems of placing and scheduling")
        name = name or "sharding"
        cutoff = None if plan_file is None else sharding_value(item, plan_file)
    else:
        name = name or "operator_schedule"
        cutoff = None if plan_file is None else _value(item, plan_file, file)
        if target is not None:
            from milp_plan.coarsen import coarsen

            item = coarsen(item, target).problem
    _write_model(item, (name, chosen_switches(name, switches)), cutoff, *where)


def _write_trace(instance: PlanningProblem, plan_file: Path, output: Path, file: Path) -> None:
    from milp_plan.check import replay
    from milp_plan.io import write_trace

    plan = _plan(instance, plan_file, file)
    memory = {name: entry.steps for name, entry in replay(instance, plan).devices.items()}
    write_trace(instance, plan, output, memory)


def _write_torch_schedule(
    instance: PlanningProblem, plan_file: Path, output: Path, file: Path
) -> None:
    from milp_plan.io import write_torch_schedule

    if output.suffix == ".gz":
        raise click.BadParameter(f"{output}: torch reads no compressed file", param_hint="'-o'")
    plan, _ = _valid(instance, plan_file, file, "torch would not run what was planned")
    try:
        write_torch_schedule(instance, plan, output)
    except InputError as error:
        raise error.in_file(str(plan_file)) from None


def _write_split(instance: PlanningProblem, plan_file: Path, output: Path, file: Path) -> None:
    from milp_plan.io import write_split

    write_split(instance, _plan(instance, plan_file, file), file, output)


_PLAN_WRITERS = {
    "perfetto": _write_trace,
    "torch-schedule": _write_torch_schedule,
    "dnn-split": _write_split,
}
"""Formats that hold a plan, not a model."""

_CONTENTS = {
    "perfetto": Content.TRACE,
    "torch-schedule": Content.SCHEDULE,
    "dnn-split": Content.PLAN,
}


def _value(instance: PlanningProblem, plan_file: Path, file: Path) -> int | None:
    """Value of a valid plan."""
    return _valid(instance, plan_file, file, "its value is no cutoff")[1].value


def _valid(
    instance: PlanningProblem, plan_file: Path, file: Path, consequence: str
) -> tuple[Plan, Verdict]:
    """Read a plan that keeps every law."""
    from milp_plan.check import verify

    plan = plan_of(instance, plan_file, file)
    verdict = verify(instance, plan)
    if not verdict.ok:
        raise UnsupportedProblemError(
            f"{plan_file}: the plan is not valid, so {consequence}; see milp-plan check"
        )
    return plan, verdict


def _write_model(
    instance: Any,
    formulation: tuple[str, dict[str, object]],
    cutoff: int | None,
    format_name: str,
    output: Path,
) -> None:
    from milp_plan.api import CompiledModel, Guide
    from milp_plan.backends.export import write_model
    from milp_plan.lp.from_pyomo import compile_pyomo
    from milp_plan.models import registry

    name, switches = formulation
    chosen = registry.get(name).formulation
    assert chosen is not None
    if is_sharding(instance):
        from milp_plan.run.sharding_model import require_sharding

        require_sharding(chosen, instance)
    options = chosen.Options(**switches)
    reason = chosen.unsupported(instance, options)
    if reason is not None:
        raise UnsupportedProblemError(f"{instance.name}: {chosen.card.name}: {reason}")
    guide = Guide(cutoff=cutoff)
    source = chosen.build(instance, options, guide)
    model = source if isinstance(source, CompiledModel) else compile_pyomo(source)
    write_model(model, output, "lp" if format_name == "lp" else "mps")
    unit = chosen.scale(instance, options, guide).unit
    note(
        f"{instance.name}: {model.num_columns:,} columns, {model.num_rows:,} rows; "
        f"one unit of the objective is {unit:g} ticks, bytes or costs"
    )
