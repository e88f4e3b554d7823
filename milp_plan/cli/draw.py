"""``plot`` and ``export``: write plans as pictures or for other programs, and models as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from milp_plan.core import InputError, UnsupportedProblemError, Verdict
from milp_plan.io.files import write_document

from .bench import stored
from .charts import CHARTS, draw_chart
from .formulations import chosen_switches
from .inputs import PATH, Item, item, plan_of, refuse_changes, varied
from .limits import refuse_idle
from .model_memory import GIB, MemorySize, allowed, at_most, refuse_large
from .output import note, say
from .outputs import Content, Output, refuse

if TYPE_CHECKING:
    from milp_plan.run.kind import Export, Kind
    from milp_plan.run.model import FormulationSolver

MODELS = ("lp", "mps")
"""Formats of models."""

LARGE = 100_000
"""Rows or columns from which progress is reported while a model is written."""

LARGE_BYTES = GIB // 4
"""Bytes from which a note says that a model is being built."""


def draw(kind: Kind[Any, Any], problem: Any, plan: Any, path: Path) -> None:
    """Write the picture of a plan.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    MissingFacetError
        The plan has no schedule.
    InputError
        The plan names what the problem does not have.
    """
    from milp_plan.draw.canvas import write_figure

    write_figure(kind.draw(problem, plan), path)


@click.command()
@click.argument("what", metavar="FILE|CHART")
@click.argument("sources", metavar="PLAN|SUITE...", type=PATH, nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, required=True, help="Picture to write, .png or .svg.")
@stored
@varied
def plot(
    what: str,
    sources: tuple[Path, ...],
    output: Path,
    store_folder: Path,
    changes: dict[str, Any],
) -> None:
    """Draw a plan, or the runs of suites.

    FILE PLAN draws a plan, valid or not: a schedule as devices, channels, and memory against its
    limits.

    CHART SUITE... draws what the store holds of suites (or records of `milp-plan solve`):
    value-time, incumbent and bound against time; performance-profile, the fraction of problems on
    which a planner is within a ratio of the best (Dolan and More 2002); gap, a bar per run.
    """
    refuse([Output("--output", output, Content.PICTURE)], [Path(what), *sources])
    if what in CHARTS:
        refuse_changes(f"{what} is drawn from what was stored, no instance is read")
        if all(source.suffix == ".json" for source in sources):
            refuse_idle({"store_folder": "records stand in their own files; leave it out"})
        draw_chart(what, sources, store_folder, output)
    elif len(sources) != 1:
        raise click.UsageError(f"expected FILE PLAN, or one of {', '.join(CHARTS)} and suites")
    else:
        refuse_idle({"store_folder": "a plan is drawn from its file; leave it out"})
        read = item(Path(what), changes)
        assert read.kind is not None
        plan, _ = _checked(read, sources[0])
        try:
            draw(read.kind, read.problem, plan, output)
        except InputError as error:
            raise error.in_file(str(sources[0])) from None
    say(str(output))


def _checked(read: Item, plan_file: Path, needs_valid: str = "") -> tuple[Any, Verdict]:
    """Read a plan; refuse an invalid one, or only warn."""
    assert read.kind is not None
    plan = plan_of(read, plan_file)
    verdict = read.kind.verify(read.problem, plan)
    count = len(verdict.violations)
    if count and needs_valid:
        raise UnsupportedProblemError(
            f"{plan_file}: the plan is not valid, so {needs_valid}; see milp-plan check"
        )
    if count:
        text = f"the plan is not valid ({count} violation{'' if count == 1 else 's'})"
        note(f"{plan_file}: {text}, see milp-plan check")
    return plan, verdict


def _exports() -> dict[str, Export[Any, Any]]:
    """Return the formats in which plans of any kind are written for other programs."""
    from milp_plan.run.kinds import kinds

    return {name: entry for kind in kinds() for name, entry in kind.exports().items()}


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([*MODELS, *_exports()]),
    required=True,
    help="A model for other solvers; or a plan for other programs: "
    + "; ".join(f"{name}, {entry.title}" for name, entry in _exports().items()),
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
    default="auto",
    show_default=True,
    help="Name, or a .py file. 'auto': as solve does, or the first that is for the problem.",
)
@click.option(
    "--option", "switches", multiple=True, metavar="KEY=VALUE", help="Switch of the formulation."
)
@click.option(
    "--model-memory",
    type=MemorySize(),
    help="Memory that building a model may take: 8GiB, 40GB.  [default: 70 % of what is free]",
)
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
    model_memory: int | None,
    changes: dict[str, Any],
) -> None:
    """Write the model of an instance (lp, mps), or a plan for other programs."""
    inputs = [file] if plan_file is None else [file, plan_file]
    content = Content.MODEL if format_name in MODELS else Content.EXPORT
    refuse([Output("--output", output, content)], inputs)
    if format_name not in MODELS:
        if plan_file is None:
            raise click.UsageError(f"--format {format_name} needs --plan")
        reason = f"{format_name} is written from the plan, no model is built; leave it out"
        refuse_idle(dict.fromkeys(("target", "formulation", "switches", "model_memory"), reason))
        _export_plan(item(file, changes), plan_file, format_name, output)
        say(str(output))
        return
    options = {} if formulation == "auto" else chosen_switches(formulation, switches)
    read = item(file, changes)
    cutoff = None
    if plan_file is not None:
        cutoff = _checked(read, plan_file, "its value is no cutoff")[1].value
    problem = read.problem if target is None else _smaller(read, target)
    solver = _solver(read._replace(problem=problem), formulation, options)
    if switches and formulation == "auto":
        solver = solver.with_options(chosen_switches(solver.found.name, switches))
    most = allowed(model_memory)
    size = refuse_large(problem, solver, most)
    if size is not None and size > LARGE_BYTES:
        note(f"{problem.name}: building a model of about {size / GIB:.1f} GiB")
    with at_most(problem.name, most):
        _write_model(problem, solver, cutoff, format_name, output)
    say(str(output))


def _export_plan(read: Item, plan_file: Path, format_name: str, output: Path) -> None:
    assert read.kind is not None
    known = read.kind.exports()
    if format_name not in known:
        reason = f"plans of the kind {read.kind.name!r} are not written as {format_name}"
        raise UnsupportedProblemError(f"{read.path}: {reason}")
    if format_name == "torch-schedule" and output.suffix == ".gz":
        raise click.BadParameter(f"{output}: torch reads no compressed file", param_hint="'-o'")
    chosen = known[format_name]
    plan, _ = _checked(read, plan_file, chosen.needs_valid)
    try:
        text = chosen.write(read.problem, plan, read.path)
        remarks = () if chosen.remarks is None else tuple(chosen.remarks(read.problem, plan))
    except InputError as error:
        unplaced = any(not finding.file for finding in error.findings)
        raise (error.in_file(str(plan_file)) if unplaced else error) from None
    write_document(output, text)
    for remark in remarks:
        note(f"{output}: {remark}")


def _smaller(read: Item, target: int) -> Any:
    """Return the problem after coarsening."""
    assert read.kind is not None
    if "target" in read.kind.ignores:
        raise click.UsageError(f"--target means nothing for a {read.kind.name} problem")
    from milp_plan.kinds.schedule.coarsen.steps import coarsen

    return coarsen(read.problem, target).problem


def _solver(read: Item, formulation: str, options: dict[str, object]) -> FormulationSolver:
    """Return the requested formulation, or the one of ``solve``, or the first that applies."""
    from milp_plan.models.registry import discover
    from milp_plan.run import Settings
    from milp_plan.run.model import FormulationSolver, make_options
    from milp_plan.run.solving import choose

    assert read.kind is not None
    settings = Settings(formulation=formulation, options=options)
    solver = choose(read.kind, read.problem, settings).solver
    if solver is not None:
        return solver
    for found in discover().values():
        if found.error is not None or found.formulation is None:
            continue
        if not isinstance(read.problem, found.formulation.handles):
            continue
        solver = FormulationSolver(found, make_options(found, {}))
        if solver.unsupported(read.problem) is None:
            return solver
    raise UnsupportedProblemError(f"{read.path}: no formulation is for this problem")


def _progress(output: Path, what: str) -> Callable[[int, int], None]:
    """Report the progress of writing a large model in steps of a tenth."""
    tenths = 0

    def report(done: int, count: int) -> None:
        nonlocal tenths
        if count >= LARGE and 10 * done // count > tenths:
            tenths = 10 * done // count
            note(f"{output}: {done:,} of {count:,} {what} written")

    return report


def _write_model(
    problem: Any, solver: FormulationSolver, cutoff: int | None, format_name: str, output: Path
) -> None:
    from milp_plan.api import Guide
    from milp_plan.backends.export import write_model
    from milp_plan.models.validated import compile_source

    guide = Guide(cutoff=cutoff)
    model = compile_source(solver.formulation.build(problem, solver.options, guide))
    chosen: Literal["lp", "mps"] = "lp" if format_name == "lp" else "mps"
    write_model(model, output, chosen, _progress(output, "rows" if chosen == "lp" else "columns"))
    unit = solver.formulation.scale(problem, solver.options, guide).unit
    note(
        f"{problem.name}: {model.num_columns:,} columns, {model.num_rows:,} rows; "
        f"one unit of the objective is {unit:g} ticks, bytes or costs"
    )
