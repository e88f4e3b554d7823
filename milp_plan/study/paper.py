"""Paper tables: plans of the cases of a recipe, with expert schedules and published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from milp_plan.check import verify
from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.io.pipeline_file import exact
from milp_plan.io.plan_file import plan_to_json
from milp_plan.io.recipe_file import Recipe, RecipeCase
from milp_plan.io.suite_file import SuiteLimits
from milp_plan.kinds.pipeline.case import Built, Case, build
from milp_plan.kinds.pipeline.experts import EXPERTS, overlapped_dualpipe
from milp_plan.kinds.pipeline.model import Model
from milp_plan.run.outcome import Outcome
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve

from .measured import tasks_of
from .rows import seconds_to_best
from .tasks import Task

GRACE_S = 120.0
"""Seconds that a case may take beyond its time limit, for experts and checks."""

Row = dict[str, Any]
"""Plain data on one case; times in the recipe's unit, ``None`` where not known."""

READINGS: dict[str, Fraction | None] = {"dualpipe_atomic": Fraction(1), "dualpipe_opened": None}
"""DualPipe with each overlapped pair of forward and backward as one operator of their length, and
with pairs opened but whole backwards in one piece; ``dualpipe`` runs every operator on its own."""


def case_of(entry: RecipeCase) -> Case:
    """A case of a recipe, with exact numbers."""
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
    """Return the value of an expert schedule on a case, in its unit; ``None`` if undefined.

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
    """Return the plan of an expert and its problem (another one for :data:`READINGS`)."""
    if name not in READINGS:
        return EXPERTS[name](built.problem), built.problem
    expert = overlapped_dualpipe(built.problem, READINGS[name])
    return (None, built.problem) if expert is None else (expert[1], expert[0])


def recipe_tasks(name: str, recipe: Recipe) -> list[Task]:
    """Return a run for each case; a case's own time limit overrides the recipe's."""
    cases = [
        {
            "entry": msgspec.to_builtins(entry),
            "experts": recipe.experts,
            "time_limit_s": entry.time_limit or recipe.time_limit,
            "threads": recipe.threads,
        }
        for entry in recipe.cases
    ]
    longest = max(case["time_limit_s"] for case in cases)
    limits = SuiteLimits(time=longest, threads=recipe.threads, grace=GRACE_S)
    return tasks_of(name, __name__, cases, limits)


def measure(case: Mapping[str, Any]) -> Row:
    """Plan one case and return its row."""
    entry = msgspec.convert(case["entry"], RecipeCase)
    settings = Settings(time_limit_s=case["time_limit_s"], threads=case["threads"])
    built = build(case_of(entry))
    outcome = solve(built.problem, settings)
    return make_row(entry, built, outcome, case["experts"])


def make_row(
    entry: RecipeCase, built: Built, outcome: Outcome[Any, Any], experts: Sequence[str]
) -> Row:
    """Return the row of a case: our plan, experts, published figures, and who is ahead."""
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
        "peak_memory": _plain(
            None if peak is None else Fraction(peak, built.problem.units.size_scale)
        ),
        "seconds": round(outcome.seconds, 2),
        "seconds_to_best": seconds_to_best(outcome.record),
        "plan": None if outcome.plan is None else plan_to_json(outcome.plan).decode(),
    }


def _best(known: Mapping[str, Fraction | None]) -> list[Any] | None:
    """Return name and value of the best, if there is one."""
    values = {name: value for name, value in known.items() if value is not None}
    name = min(values, key=lambda entry: values[entry], default=None)
    return None if name is None else [name, _plain(values[name])]


def _plain(number: Fraction | None) -> int | float | None:
    if number is None:
        return None
    return int(number) if number.denominator == 1 else float(number)


def standing(row: Row, rival: str) -> str:
    """``better``, ``equal`` or ``worse`` than a rival, ``alone`` where there is none.

    Parameters
    ----------
    row
        Row of a case.
    rival
        ``best_expert`` or ``best_peer``.
    """
    ours, theirs = row["value"], row[rival]
    if theirs is None:
        return "alone"
    if ours is None or ours > theirs[1]:
        return "worse"
    return "better" if ours < theirs[1] else "equal"
