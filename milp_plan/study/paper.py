"""Paper tables: each case of a recipe planned, beside experts and what others report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from fractions import Fraction
from typing import Any

from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.io import Recipe, RecipeCase, exact, plan_to_json
from milp_plan.pipeline import Built, Case, Model, build
from milp_plan.planners.experts import EXPERTS, overlapped_dualpipe
from milp_plan.run.outcome import Outcome
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve

Row = dict[str, Any]
"""Plain data about one case; times in the recipe's unit, ``None`` where something is not known."""

READINGS: dict[str, Fraction | None] = {"dualpipe_atomic": Fraction(1), "dualpipe_opened": None}
"""DualPipe with each overlapped pair of forward and backward as one operator of their length, and
with pairs opened but whole backwards in one piece; ``dualpipe`` runs every operator on its own."""


def case_of(entry: RecipeCase) -> Case:
    """Case of a recipe, exact."""
    forward, backward, weight = (exact(time) for time in entry.times)
    freed = exact(entry.freed_at_backward)
    return Case(
        model=Model.from_share((forward, backward, weight), exact(entry.transfer), freed),
        devices=entry.stages,
        micro_batches=entry.micro_batches,
        family=entry.placement,
        chunks=entry.chunks,
        memory=None if entry.memory is None else exact(entry.memory),
        objective=Objective(entry.objective),
    )


def expert_value(name: str, built: Built) -> Fraction | None:
    """Value of an expert schedule on a case, in the case's unit of time; ``None`` if undefined.

    The checker computes it; a schedule above the memory limit has none.
    """
    plan, problem = expert_plan(name, built)
    if plan is None:
        return None
    verdict = verify(problem, plan)
    if not verdict.ok or verdict.value is None:
        return None
    return Fraction(verdict.value, problem.units.time_scale)


def expert_plan(name: str, built: Built) -> tuple[Plan | None, PlanningProblem]:
    """Plan of an expert, and the problem it is a plan of (another one for :data:`READINGS`)."""
    if name not in READINGS:
        return EXPERTS[name](built.problem), built.problem
    found = overlapped_dualpipe(built.problem, READINGS[name])
    return (None, built.problem) if found is None else (found[1], found[0])


def run_case(entry: RecipeCase, settings: Settings, experts: tuple[str, ...]) -> Row:
    """Plan one case and gather its row."""
    built = build(case_of(entry))
    outcome = solve(built.problem, settings)
    return make_row(entry, built, outcome, experts)


def make_row(
    entry: RecipeCase, built: Built, outcome: Outcome[Any, Any], experts: tuple[str, ...]
) -> Row:
    """Gather the row of a case: ours, experts, peers, and who is ahead."""
    scale = built.problem.units.time_scale

    def in_units(ticks: int | None) -> Fraction | None:
        return None if ticks is None else Fraction(ticks, scale)

    known = {name: in_units(value) for name, value in outcome.baselines.items()}
    columns = {name: expert_value(name, built) for name in experts}
    peers = {peer.name: exact(peer.value) for peer in entry.peers}
    parts: Mapping[str, int] = outcome.verdict.components if outcome.verdict is not None else {}
    peak = parts.get("peak_memory")
    return {
        "section": entry.section,
        "stages": entry.stages,
        "micro_batches": entry.micro_batches,
        "placement": entry.placement,
        "chunks": entry.chunks,
        "times": [_plain(exact(time)) for time in (*entry.times, entry.transfer)],
        "freed_at_backward": _plain(exact(entry.freed_at_backward)),
        "memory": _plain(None if entry.memory is None else exact(entry.memory)),
        "objective": entry.objective,
        "work": _plain(Fraction(built.work, scale)),
        "best_expert": _best(known),
        "experts": {name: _plain(value) for name, value in columns.items()},
        "best_peer": _best(peers),
        "peers": [[peer.name, _plain(exact(peer.value)), peer.source] for peer in entry.peers],
        "value": _plain(in_units(outcome.value)),
        "makespan": _plain(in_units(parts.get("makespan"))),
        "span": _plain(in_units(parts.get("span"))),
        "bound": _plain(in_units(outcome.bound)),
        "bound_name": outcome.bound_name,
        "proved": outcome.proved,
        "verdict": outcome.record["verdict"],
        "stop": str(outcome.stop),
        "planner": outcome.planner,
        "peak_memory": _plain(None if peak is None else Fraction(peak, built.bytes_per_unit)),
        "seconds": round(outcome.seconds, 2),
        "seconds_to_best": _seconds_to_best(outcome),
        "plan": None if outcome.plan is None else plan_to_json(outcome.plan).decode(),
    }


def _best(known: Mapping[str, Fraction | None]) -> list[Any] | None:
    """Name and value of the best, if there is one."""
    values = {name: value for name, value in known.items() if value is not None}
    name = min(values, key=lambda entry: values[entry], default=None)
    return None if name is None else [name, _plain(values[name])]


def _seconds_to_best(outcome: Outcome[Any, Any]) -> float | None:
    points = [p for p in outcome.record["trace"] if p["incumbent"] == outcome.value]
    return points[0]["seconds"] if points and outcome.value is not None else None


def _plain(number: Fraction | None) -> int | float | None:
    if number is None:
        return None
    return int(number) if number.denominator == 1 else float(number)


def run_recipe(
    recipe: Recipe,
    settings: Settings,
    *,
    jobs: int = 1,
    known: Mapping[int, Row] | None = None,
    on_row: Callable[[int, Row], None] | None = None,
) -> list[Row]:
    """Plan every case of a recipe.

    Parameters
    ----------
    recipe, settings
        A case's own time limit counts before the recipe's, and that before the settings'.
    jobs
        Cases at a time, each in its own process.
    known
        Rows of cases that need not be planned again, by place.
    on_row
        Called with the place and the row of each case when it is done.
    """
    rows: dict[int, Row] = dict(known or {})
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        waiting = {
            pool.submit(run_case, entry, _settings(settings, recipe, entry), recipe.experts): place
            for place, entry in enumerate(recipe.cases)
            if place not in rows
        }
        try:
            for done in as_completed(waiting):
                place = waiting[done]
                rows[place] = done.result()
                if on_row is not None:
                    on_row(place, rows[place])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [rows[place] for place in sorted(rows)]


def _settings(settings: Settings, recipe: Recipe, entry: RecipeCase) -> Settings:
    limit = entry.time_limit or recipe.time_limit
    return replace(settings, time_limit_s=limit, threads=recipe.threads)


def standing(row: Row, rival: str) -> str:
    """``better``, ``equal`` or ``worse`` than a rival, ``alone`` where there is none.

    Parameters
    ----------
    row
        Of a case.
    rival
        ``best_expert`` or ``best_peer``.
    """
    ours, theirs = row["value"], row[rival]
    if theirs is None:
        return "alone"
    if ours is None or ours > theirs[1]:
        return "worse"
    return "better" if ours < theirs[1] else "equal"
