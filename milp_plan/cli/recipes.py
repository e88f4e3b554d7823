"""``table RECIPE``: plan the cases of a recipe and write its table and figure."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milp_plan.core import Finding, InputError

from .exits import Exit
from .output import note, say

if TYPE_CHECKING:
    from milp_plan.io import Recipe

RECIPE, TABLE, RESULTS, FIGURE = "recipe.toml", "table.md", "table.json", "schedules.png"
PARTIAL = "table.partial.json"


def make_table(folder: Path, *, jobs: int, render: bool) -> Exit:
    """Plan every case (or read what was stored), write table and figure; return the exit code.

    Cases that a run before this one had finished when it was interrupted are not planned again.

    Raises
    ------
    InputError
        The recipe is not what its format says, or there are no stored results to render.
    """
    from milp_plan.io import read_recipe, write_atomic

    recipe = read_recipe(folder / RECIPE)
    stored = folder / RESULTS
    if render:
        rows = _stored(stored, recipe)
    else:
        partial = Partial(folder)
        rows = _planned(recipe, jobs, partial)
        plans = {place: row.pop("plan") for place, row in enumerate(rows)}
        if recipe.figure is not None:
            _draw(recipe, plans[recipe.figure - 1], folder / FIGURE)
        write_atomic(stored, json.dumps(rows, indent=1).encode() + b"\n")
        partial.path.unlink(missing_ok=True)
    write_atomic(folder / TABLE, _text(recipe, rows, folder).encode())
    say(str(folder / TABLE))
    return Exit.NOT_VALID if any(row["verdict"] == "DISPUTED" for row in rows) else Exit.DONE


class Partial:
    """Rows of a run that is not finished, kept beside the recipe.

    They count only for the recipe and the sources that they were planned with.

    Attributes
    ----------
    rows
        Place of a case -> row.
    note
        What of an earlier run is used again, or why not; empty where there is none.
    """

    def __init__(self, folder: Path) -> None:
        from milp_plan.run.identity import sources

        self.path = folder / PARTIAL
        recipe = hashlib.sha256((folder / RECIPE).read_bytes()).hexdigest()
        self.key = {"recipe": recipe, "sources": sources()}
        self.rows: dict[int, dict[str, Any]] = {}
        self.note = ""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            rows = {int(place): row for place, row in content["rows"].items()}
        except (OSError, ValueError, LookupError, AttributeError, TypeError):
            return
        changed = [name for name, digest in self.key.items() if content.get(name) != digest]
        cases = f"{self.path}: {len(rows)} cases of an interrupted run"
        if changed:
            self.note = f"{cases} are planned again: changed {' and '.join(changed)}"
        else:
            self.rows = rows
            self.note = f"{cases} are used again"

    def add(self, place: int, row: dict[str, Any]) -> None:
        """Keep a row."""
        from milp_plan.io import write_atomic

        self.rows[place] = row
        content = self.key | {"rows": self.rows}
        write_atomic(self.path, json.dumps(content).encode())


def _planned(recipe: Recipe, jobs: int, partial: Partial) -> list[dict[str, Any]]:
    from milp_plan.run import Settings
    from milp_plan.study.paper import run_recipe, standing

    def tell(place: int, row: dict[str, Any]) -> None:
        partial.add(place, row)
        what = f"{row['placement']} {row['stages']} x {row['micro_batches']}"
        known = f"value {row['value']}, bound {row['bound']}"
        against = f"{standing(row, 'best_expert')} (expert), {standing(row, 'best_peer')} (peer)"
        done = f"{len(partial.rows)}/{len(recipe.cases)}"
        note(f"{done} case {place + 1}: {what}: {known}, {against}, {row['seconds']} s")

    if partial.note:
        note(partial.note)
    settings = Settings()
    return run_recipe(recipe, settings, jobs=jobs, known=dict(partial.rows), on_row=tell)


def _stored(path: Path, recipe: Recipe) -> list[dict[str, Any]]:
    from milp_plan.io import read_document

    rows: list[dict[str, Any]] = json.loads(read_document(path, "results of a recipe").data)
    if len(rows) != len(recipe.cases):
        found = f"{len(rows)} results for {len(recipe.cases)} cases"
        remedy = "run it without --render"
        raise InputError([Finding("results", found, "one per case", remedy, str(path))])
    return rows


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
    """The expert's schedule above ours; needs matplotlib."""
    from milp_plan import report
    from milp_plan.core import BackendUnavailableError
    from milp_plan.draw import write_figure
    from milp_plan.io import plan_from_json
    from milp_plan.pipeline import build
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
        stop = plan.stop_ns / about.units.time_scale
        panels.append(report.Panel(f"{name}: makespan {stop:g}", about, plan))
    try:
        write_figure(report.schedules(panels), path)
    except BackendUnavailableError as error:
        note(f"{path}: not drawn, {error}")
        raise click.exceptions.Exit(Exit.SOLVER_FAILURE) from None
