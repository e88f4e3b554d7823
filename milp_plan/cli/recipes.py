"""``table RECIPE``: plans the cases of a recipe and writes its table and figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exits import Exit
from .output import note, say
from .study_part import other_results, stored_results

if TYPE_CHECKING:
    from milp_plan.io.recipe_file import Recipe

    from .bench import SuiteRuns

RECIPE, TABLE, RESULTS, FIGURE = "recipe.toml", "table.md", "table.json", "schedules.png"


def make_table(folder: Path, runs: SuiteRuns, *, render: bool) -> Exit:
    """Plan every case (or read stored results), write table and figure; return the exit code.

    A stored table is drawn again where the store still holds the plan of its figure.

    Raises
    ------
    InputError
        The recipe is not what its format says, or there are no stored results to render.
    """
    from milp_plan.io.files import write_atomic
    from milp_plan.io.recipe_file import read_recipe
    from milp_plan.study.measured import plan_of
    from milp_plan.study.paper import recipe_tasks

    recipe = read_recipe(folder / RECIPE)
    tasks = recipe_tasks(folder.name, recipe)
    if render:
        rows = stored_results(folder / RESULTS)
        if len(rows) != len(recipe.cases):
            found = f"{len(rows)} results for {len(recipe.cases)} cases"
            raise other_results(folder / RESULTS, found)
    else:
        done = runs.rows_of(tasks)
        if isinstance(done, Exit):
            return done
        rows = done
        write_atomic(folder / RESULTS, json.dumps(rows, indent=1).encode() + b"\n")
    if recipe.figure is not None:
        plan = plan_of(tasks[recipe.figure - 1], runs.store_folder)
        if plan is None and render:
            note(f"{folder / FIGURE}: as it was, its plan is not in {runs.store_folder}")
        else:
            _draw(recipe, plan, folder / FIGURE)
    write_atomic(folder / TABLE, _text(recipe, rows, folder).encode())
    say(str(folder / TABLE))
    return Exit.NOT_VALID if any(row["verdict"] == "DISPUTED" for row in rows) else Exit.DONE


def _text(recipe: Recipe, rows: list[dict[str, Any]], folder: Path) -> str:
    from milp_plan.report import paper_table
    from milp_plan.study.paper import standing

    picture = FIGURE if recipe.figure is not None and (folder / FIGURE).exists() else None
    return paper_table(
        recipe.title,
        recipe.about,
        rows,
        [(standing(row, "best_expert"), standing(row, "best_peer")) for row in rows],
        command=f"milp-plan table {folder.as_posix()}",
        figure=picture,
    )


def _draw(recipe: Recipe, plan_text: str | None, path: Path) -> None:
    """Return the picture of the expert's schedule above ours; needs matplotlib."""
    from milp_plan.core import BackendUnavailableError
    from milp_plan.draw.canvas import write_figure
    from milp_plan.io.plan_file import plan_from_json
    from milp_plan.kinds.pipeline.case import build
    from milp_plan.kinds.pipeline.draw import TitledPlan, schedules
    from milp_plan.study.paper import case_of, expert_plan

    assert recipe.figure is not None
    built = build(case_of(recipe.cases[recipe.figure - 1]))
    expert, problem = expert_plan(recipe.figure_expert, built)
    if plan_text is None or expert is None:
        note(f"{path}: not drawn, there is no plan")
        return
    ours = plan_from_json(plan_text.encode())
    panels = []
    for name, about, plan in (
        (recipe.figure_expert, problem, expert),
        ("ours", built.problem, ours),
    ):
        stop = plan.stop_ticks / about.units.time_scale
        panels.append(TitledPlan(f"{name}: makespan {stop:g}", about, plan))

    try:
        write_figure(schedules(panels), path)
    except BackendUnavailableError as error:
        note(f"{path}: not drawn, {error}")
        raise click.exceptions.Exit(Exit.SOLVER_FAILURE) from None
