"""What each list schedule and each family of constructions is worth: the best start without it.

All of them are deterministic, so one instance on which the best start gets worse is an effect. The
start of a problem is the best of its list schedules, of the iterated greedy search that begins at
them, and of its constructions. Each piece is left out in turn, and then all that :data:`GROUPS`
names together. A case may be a coarse problem of some clusters: searches start from list schedules
there as well. The study is ``results/ablation-heuristics/study.toml``:
``milp-plan table results/ablation-heuristics``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from statistics import mean
from typing import Any
from unittest import mock

import bounds

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.coarsen.steps import coarsen
from milp_plan.kinds.schedule.planners import iterated
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.constructions import portfolio
from milp_plan.kinds.schedule.planners.constructions.gates import best_gated
from milp_plan.kinds.schedule.planners.constructions.portfolio import best_starts
from milp_plan.kinds.schedule.planners.decoder import Decoder, compiled_problem
from milp_plan.kinds.schedule.planners.decoder.layout import LIMITED
from milp_plan.kinds.schedule.planners.late import put_off
from milp_plan.kinds.schedule.planners.objective import objective_value
from milp_plan.kinds.schedule.strategies.schedule import SMALL

GREEDY = "iterated_greedy"
LISTS = {name: planner for name, planner in PLANNERS.items() if name != GREEDY}
GATED = "gated constructions"

CONTROL_SEED = 1
"""Seed of the iterated greedy search with which nothing else is left out."""

GROUPS: dict[str, tuple[str, ...]] = {
    "all but six lists": tuple(
        set(LISTS)
        - {
            "single_device",
            "list_topological",
            "list_critical_path",
            "heft",
            "etf_memory",
            "dfs_release",
        }
    ),
}
"""Lists that are left out together."""

CONSTRUCTED = (Objective.MAKESPAN, Objective.SPAN, Objective.BOTTLENECK)
"""Objectives that the compiled decoder evaluates."""

Row = dict[str, Any]


def problem_of(case: Mapping[str, Any]) -> PlanningProblem:
    """Return the problem of a case: its objective, its part of the memory, its clusters."""
    problem = bounds.problem_of(case)
    if "objective" in case:
        problem = problem.variant(name=problem.name, objective=Objective(case["objective"]))
    if "clusters" in case:
        problem = coarsen(problem, case["clusters"], stages=case.get("stages", False)).problem
    return problem


def value_of(problem: PlanningProblem, plan: Plan | None) -> int | None:
    """Return a plan's value, with the late starts that the objective may ask for."""
    return None if plan is None else objective_value(problem, put_off(problem, plan))


def least(values: Iterable[int | None]) -> int | None:
    """Return the smallest value that is known."""
    return min((value for value in values if value is not None), default=None)


def greedy(problem: PlanningProblem, without: Iterable[str] = (), seed: int = 0) -> int | None:
    """Return what the iterated greedy search reaches when it begins at fewer list schedules."""
    left = [LISTS[name] for name in LISTS if name not in without]
    first = tuple(planner for planner in iterated._FIRST if planner in left)
    with mock.patch.object(iterated, "_FIRST", first):
        return value_of(problem, iterated.iterated_greedy(problem, seed))


def constructed(problem: PlanningProblem, without: str | None = None) -> int | None:
    """Return the value of the best construction, without a family."""
    every = portfolio.families

    def fewer(*given: Any) -> list[Any]:
        return [family for family in every(*given) if type(family).__name__ != without]

    with mock.patch.object(portfolio, "families", fewer):
        decoder = Decoder(problem)
        starts = best_starts(problem, decoder, count=1)
        if not starts:
            return None
        decoder.decode(*portfolio.placed(decoder, starts[0]))
        return value_of(problem, decoder.plan("construction"))


def timed(spent: dict[str, float], name: str, of: Callable[[], Any]) -> Any:
    """Return what a function returns, and note its seconds of processor time."""
    began = time.process_time()
    try:
        return of()
    finally:
        spent[name] = time.process_time() - began


def measure(case: Mapping[str, Any]) -> Row:
    """Make every start of a problem, and the best one without each piece."""
    problem = problem_of(case)
    spent: dict[str, float] = {}
    lists = {
        name: value_of(problem, timed(spent, name, lambda planner=planner: planner(problem)))
        for name, planner in LISTS.items()
    }
    coarse = "clusters" in case  # where list schedules alone are starts
    improved = None if coarse else timed(spent, GREEDY, lambda: greedy(problem))
    families: dict[str, int | None] = {}
    gates: int | None = None
    constructs = problem.needs_schedule and problem.objective in CONSTRUCTED
    many = len(problem.graph.operators) > SMALL and not coarse
    if many and constructs and not problem.allows_memory_saving:
        families["all"] = timed(spent, "constructions", lambda: constructed(problem))
        for family in portfolio.families(problem):
            name = type(family).__name__
            families[name] = constructed(problem, name)
        if compiled_problem(problem).memory.size(LIMITED):
            found = timed(spent, GATED, lambda: best_gated(problem, Budget()))
            gates = None if found is None else value_of(problem, found.plan)
    built = least((families.get("all"), gates))
    start = least((*lists.values(), improved, built))
    without: dict[str, int | None] = {}
    for name, value in lists.items():
        others = least(other for key, other in lists.items() if key != name)
        leads = value is not None and (others is None or value < others)
        search = greedy(problem, (name,)) if leads and not coarse else improved
        without[name] = least((others, search, built))
    for name, group in GROUPS.items():
        rest = least(other for key, other in lists.items() if key not in group)
        search = None if coarse else greedy(problem, group)
        without[name] = least((rest, search, built))
    if not coarse:
        without[GREEDY] = least((*lists.values(), built))
        control = greedy(problem, seed=CONTROL_SEED)
        without["control"] = least((*lists.values(), control, built))
    if families:
        plain = least((*lists.values(), improved))
        without["all constructions"] = plain
        for name, value in families.items():
            if name != "all":
                without[f"family {name}"] = least((plain, gates, value))
        if GATED in spent:
            without[GATED] = least((plain, families["all"]))
    return {
        "name": problem.name,
        "operators": len(problem.graph.operators),
        "devices": len(problem.cluster.devices),
        "objective": problem.objective.value,
        "start": start,
        "lists": lists,
        "greedy": improved,
        "families": families,
        "gated": gates,
        "without": without,
        "seconds": {name: round(seconds, 3) for name, seconds in spent.items()},
    }


# -- the page -------------------------------------------------------------------------------------


def change(start: int | None, value: int | None) -> float | None:
    """Return how much worse a start is, as a share; ``None`` where there is none any more."""
    if start is None:
        return 0.0
    if value is None:
        return None
    return (value - start) / start if start else float(value > 0)


def present(rows: list[Row]) -> Row:
    """Return a row for each piece: how many starts it makes better, and by how much."""
    names = dict.fromkeys(name for row in rows for name in row["without"])
    table = []
    for name in names:
        own = [(change(row["start"], row["without"][name]), _where(row)) for row in rows
               if name in row["without"]]  # fmt: skip
        lost = [where for part, where in own if part is None]
        known = [(part, where) for part, where in own if part is not None]
        worse = sorted((part, where) for part, where in known if part > 0)
        seconds = [row["seconds"][name] for row in rows if name in row["seconds"]]
        table.append({
            "piece": name, "applies": len(own), "worse": len(worse),
            "better": sum(part < 0 for part, _ in known), "no_plan": len(lost),
            "mean": f"{mean(part for part, _ in known):+.3%}" if known else "",
            "most": f"{worse[-1][0]:.2%}" if worse else "",
            "where": worse[-1][1] if worse else "",
            "seconds": f"{sum(seconds):.1f}" if seconds else "",
        })  # fmt: skip
    for row in rows:
        built = {"construction": row["families"].get("all"), GATED: row["gated"]}
        reached = {**row["lists"], GREEDY: row["greedy"], **built}
        row["by"] = next((n for n, value in reached.items() if value == row["start"]), "")
        row["where"] = _where(row)
        row["best_list"] = least(row["lists"].values())
        row["construction"] = row["families"].get("all")
    return {"pieces": table, "count": len(rows)}


def _where(row: Row) -> str:
    notes = [row["objective"]] if row["objective"] != Objective.MAKESPAN else []
    notes += [f"memory {row['memory']:g}"] if row.get("memory", 1) != 1 else []
    notes += [f"{row['clusters']} clusters"] if row.get("clusters") else []
    return ", ".join([row["name"], *notes])
