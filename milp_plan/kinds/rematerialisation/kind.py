"""Rematerialisation: less memory for more time, by running operators again, on one device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from milp_plan.core import Finding, InputError, Verdict
from milp_plan.core.amounts import size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.change import Change, host, objective_of, positive, size
from milp_plan.run.kind import Export, Format, Kind, Measure
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .problem import RematerialisationPlan, RematerialisationProblem


class Share(NamedTuple):
    """A budget: bytes, or a share of the peak where every operator runs once."""

    amount: Fraction
    fraction: bool


def budget(text: str) -> Share:
    """Read a budget: a bare number of at most 1 is a share of the peak, all else is a size."""
    try:
        number = positive(text)
    except ValueError:
        try:
            return Share(size(text), fraction=False)
        except ValueError:
            raise ValueError(
                f"{text!r} is no budget; write a part of the peak such as 0.9, or a size such as "
                "11GiB"
            ) from None
    return Share(number, fraction=number <= 1)


BUDGET = Change(
    "memory_budget",
    "Memory for rematerialisation: a part of the peak without it (0.9), or a size (11GiB).",
    budget,
    "PART|SIZE",
)


OBJECTIVE = Change(
    "objective",
    "Rematerialisation: added_time within a budget; peak_memory or added_energy within a limit of "
    "added time.",
    str,
    "NAME",
)


def part(text: str) -> Fraction:
    """Read a share that is at least 0."""
    return Fraction(0) if text.strip() in {"0", "0.0"} else positive(text)


ADDED = Change(
    "added_time",
    "Rematerialisation for peak_memory and added_energy: time that may be added at most, as a part "
    "of the time of running everything once (0.05).",
    part,
    "PART",
)


HOST = Change(
    "host",
    "Rematerialisation: a host where results may wait, its memory and the bandwidth to it and back:"
    " 512GiB@25GB/s; per unit of time for a file that does not say what its unit is.",
    host,
    "SIZE@RATE",
)


class Rematerialisation(Kind["RematerialisationProblem", "RematerialisationPlan"]):
    """The kind of :class:`milp_plan.kinds.rematerialisation.problem.RematerialisationProblem`."""

    name = "rematerialisation"
    title = "operators in a fixed order that may run again: least added time within a budget"
    handles = "milp_plan.kinds.rematerialisation.problem:RematerialisationProblem"
    plans = "milp_plan.kinds.rematerialisation.problem:RematerialisationPlan"
    sizes = ("peak_memory", "host_memory")
    things = ("added_runs", "energy")
    changes = (BUDGET, OBJECTIVE, ADDED, HOST)

    @property
    def threads(self) -> int:
        """Return two threads: for models, and for the search that runs concurrently."""
        return min(2, os.cpu_count() or 1)

    def formats(self) -> tuple[Format[RematerialisationProblem], ...]:
        """Return the native format, and public graphs."""
        from . import format as native
        from . import training_graph as graph

        return (
            Format("rematerialisation", native.TITLE, native.can_read, _native, native.to_json),
            Format("training-graph", graph.TITLE, graph.can_read, _graph),
        )

    def read_plan(
        self, file: Path, problem: RematerialisationProblem, instance_file: Path
    ) -> RematerialisationPlan:
        """Read a list of runs."""
        from .format import read_plan

        return read_plan(file, problem, instance_file)

    def is_plan(self, document: Document) -> bool:
        """Return whether it has the marker, or is a CSV with the only column."""
        from .format import is_plan

        return is_plan(document)

    def plan_text(self, plan: RematerialisationPlan) -> bytes:
        """Return the list of runs."""
        from .format import plan_to_json

        return plan_to_json(plan)

    def exports(self) -> Mapping[str, Export[RematerialisationProblem, RematerialisationPlan]]:
        """Return the runs as CSV."""
        return {"runs": Export("runs of a plan of rematerialisation (CSV)", _is_csv, _csv)}

    def verify(self, problem: RematerialisationProblem, plan: RematerialisationPlan) -> Verdict:
        """Check runs, their order, and the memory during each."""
        from .check import verify_rematerialisation

        return verify_rematerialisation(problem, plan)

    def measure(self, problem: RematerialisationProblem) -> Measure:
        """Return added time in the unit of the file, or bytes."""
        if problem.objective.value == "added_energy":
            return Measure(problem.objective.value, "energy")
        of_bytes = _counts_bytes(problem)
        return Measure(problem.objective.value, problem.units, "size" if of_bytes else "time")

    def scope(self, problem: RematerialisationProblem) -> Scope:
        """Return the scope: recomputation and, where there is a host, reloads."""
        again = any(entry.again for entry in problem.computations)
        hosted = problem.host is not None
        return Scope(
            (*(["recomputation"] if again else []), *(["reloads from a host"] if hosted else [])),
            ("the order of first runs",),
            (
                *([] if again else [NotOffered("recomputation")]),
                *([] if hosted else [NotOffered("host", HOST.usage)]),
            ),
        )

    def summary(self, problem: RematerialisationProblem) -> dict[str, Any]:
        """Return sizes, peak, budget."""
        return {
            "operators": len(problem.computations),
            "edges": sum(map(len, problem.inputs)),
            "recomputable": sum(entry.again for entry in problem.computations),
            "total_time": problem.total_cost,
            "peak_bytes": problem.peak,
            "floor_bytes": max(problem.floors),
            "budget_bytes": problem.budget,
            "added_limit": problem.added_limit,
            "host": problem.host is not None,
        }

    def rows(self, problem: RematerialisationProblem) -> list[list[str]]:
        """Return sizes, peak and budget as rows of text."""
        facts, units = self.summary(problem), problem.units
        place = max(range(len(problem.floors)), key=problem.floors.__getitem__)
        fullest = problem.computations[place].name
        limit, added = "none", "no limit"
        if problem.added_limit is not None:
            added = f"at most {time_text(units, problem.added_limit)}"
        if problem.budget is not None:
            limit = f"{size_text(units, problem.budget)}, {share_of_peak(problem)}"
            limit += ": below the floor" if problem.budget < problem.floors[place] else ""
        return [
            [
                "operators",
                f"{facts['operators']:,}, {facts['recomputable']:,} of them recomputable",
            ],
            ["edges", f"{facts['edges']:,}"],
            ["time", time_text(units, facts["total_time"])],
            ["peak", f"{size_text(units, facts['peak_bytes'])} where every operator runs once"],
            ["floor", f"{size_text(units, facts['floor_bytes'])} for {fullest!r} with its inputs"],
            ["budget", limit],
            ["added time", added],
        ]

    def figures(
        self, problem: RematerialisationProblem, value: int | None, bound: int | None
    ) -> dict[str, float | None]:
        """Return added time in percent of the time of running every operator once."""
        if problem.objective.value != "added_time":
            return {}
        return {
            "added_time_percent": _percent(problem, value),
            "added_time_percent_bound": _percent(problem, bound),
        }

    def plan_summary_table(
        self, problem: RematerialisationProblem, plan: RematerialisationPlan, verdict: Verdict
    ) -> list[list[str]]:
        """Return the saved memory and its price."""
        if not verdict.ok or verdict.value is None:
            return []
        parts = verdict.components
        percent = _percent(problem, parts["total_time"] - problem.total_cost)
        return [
            ["runs", "added", "added time", "peak memory", "of the peak"],
            [
                f"{len(plan.runs):,}",
                f"{parts['added_runs']:,}",
                "—" if percent is None else f"{percent:.4f} %",
                size_text(problem.units, parts["peak_memory"]),
                f"{100 * parts['peak_memory'] / max(1, problem.peak):.2f} %",
            ],
        ]

    def explain(
        self, problem: RematerialisationProblem, plan: RematerialisationPlan, verdict: Verdict
    ) -> str:
        """Describe which operators run again, and their cost; or the violations."""
        if not verdict.ok:
            return super().explain(problem, plan, verdict)
        return "\n".join(_explanation(problem, plan))

    def plan_rows(
        self, problem: RematerialisationProblem | None, plan: RematerialisationPlan
    ) -> Iterator[dict[str, Any]]:
        """Yield runs and reloads, one after the other."""
        seen: set[str] = set()
        reloads, clock = set(plan.reloads), 0
        for number, name in enumerate(plan.runs):
            reload = number in reloads
            row: dict[str, Any] = {"operator": name, "again": name in seen, "reload": reload}
            seen.add(name)
            if problem is not None:
                place = problem.numbers.get(name)
                ticks = None if place is None else problem.computations[place].cost
                if place is not None and reload:
                    ticks = problem.transfers[place]
                row |= {"start": clock, "stop": clock + (ticks or 0), "ticks": ticks}
                row["bytes"] = None if place is None else problem.computations[place].size
                clock += ticks or 0
            yield row

    def panels(
        self, problem: RematerialisationProblem, plan: RematerialisationPlan
    ) -> Sequence[Panel]:
        """Return memory during every run."""
        from .draw import rematerialisation_panels

        return rematerialisation_panels(problem, plan)

    def names_in_plan(self, plan: RematerialisationPlan) -> Sequence[str]:
        """Return the operators that it runs."""
        return plan.runs

    def reasons(self) -> Reasons[RematerialisationProblem, RematerialisationPlan]:
        """Return its parts and limits, and why a plan's value is what it is."""
        from .reasons import RematerialisationReasons

        return RematerialisationReasons()

    def obstacle(self, problem: RematerialisationProblem, budget: Budget) -> str | None:
        """Prove that an operator by itself needs more than the budget."""
        from .bounds import rematerialisation_obstacle

        return rematerialisation_obstacle(problem)

    def bounds(
        self, problem: RematerialisationProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Yield simple bounds: a run again saves nothing; every operator runs."""
        if not _counts_bytes(problem):
            from .bounds import absent_bound

            yield Bound("no run again", 0, "every operator runs at least once")
            yield absent_bound(problem)
            return
        place = max(range(len(problem.floors)), key=problem.floors.__getitem__)
        name = problem.computations[place].name
        yield Bound("working set", problem.floors[place], f"{name} with its output and inputs")

    def strategies(
        self,
    ) -> Sequence[type[Strategy[RematerialisationProblem, RematerialisationPlan]]]:
        """Return one strategy for each objective, and one with a host."""
        from .least_memory import LeastMemoryStrategy
        from .paging import PagingStrategy
        from .strategy import RematerialisationStrategy

        return (LeastMemoryStrategy, PagingStrategy, RematerialisationStrategy)

    def heuristics(
        self,
    ) -> Mapping[str, Callable[[RematerialisationProblem, int], RematerialisationPlan | None]]:
        """Return the greedy, and Checkmate's approximation."""
        from . import rounding
        from .planners import NAME, greedy

        return {NAME: greedy, rounding.NAME: rounding.two_phase_rounding}


def _counts_bytes(problem: RematerialisationProblem) -> bool:
    return problem.objective.value == "peak_memory"


def share_of_peak(problem: RematerialisationProblem) -> str:
    """Return the budget as a share of the peak."""
    hundredths = round(Fraction(10_000 * (problem.budget or 0), max(1, problem.peak)))
    return f"{hundredths // 100}.{hundredths % 100:02d} % of the peak"


def _percent(problem: RematerialisationProblem, ticks: int | None) -> float | None:
    if ticks is None or not problem.total_cost:
        return None
    return float(Fraction(100 * ticks, problem.total_cost))


def _explanation(problem: RematerialisationProblem, plan: RematerialisationPlan) -> Iterator[str]:
    from .check import usage

    held = usage(problem, plan)
    fullest = max(range(len(held)), key=held.__getitem__)
    most, units = size_text(problem.units, held[fullest]), problem.units
    limit = ""
    if problem.budget is not None:
        limit = f" of {size_text(units, problem.budget)}"
    yield f"memory is fullest while {plan.runs[fullest]!r} runs: {most}{limit}"
    cost = {entry.name: entry.cost for entry in problem.computations}
    added: dict[str, int] = {}
    computed = [name for number, name in enumerate(plan.runs) if number not in set(plan.reloads)]
    for name in computed:
        added[name] = added.get(name, -cost[name]) + cost[name]
    counts = {name: computed.count(name) for name in added}
    again = sorted((name for name in added if counts[name] > 1), key=lambda name: -added[name])
    if not again:
        yield "no operator runs again"
    for name in again:
        yield f"{name!r} runs {counts[name]} times: {time_text(units, added[name])} added"
    for name in dict.fromkeys(plan.runs[number] for number in sorted(plan.reloads)):
        times = sum(plan.runs[number] == name for number in plan.reloads)
        yield f"{name!r} is written to the host and read back: {times} times"


def _is_csv(document: Document) -> bool:
    from .format import PLAN_MARKER, is_plan

    return is_plan(document) and document.marker != PLAN_MARKER


def _csv(
    _problem: RematerialisationProblem, plan: RematerialisationPlan, _instance_file: Path
) -> bytes:
    from .format import plan_to_csv

    if plan.reloads:
        found, remedy = f"{len(plan.reloads)} reloads", "keep the plan as JSON"
        raise InputError([Finding("plan", found, "runs alone, as the CSV has them", remedy)])
    return plan_to_csv(plan)


def _native(document: Document, changes: Mapping[str, Any]) -> RematerialisationProblem:
    from . import format as native

    return _limited(native.read(document), changes)


def _graph(document: Document, changes: Mapping[str, Any]) -> RematerialisationProblem:
    from . import training_graph as graph

    return _limited(graph.read(document), changes)


def _limited(
    problem: RematerialisationProblem, changes: Mapping[str, Any]
) -> RematerialisationProblem:
    problem = _aimed(_hosted(problem, changes), changes)
    value = changes.get(BUDGET.name)
    if value is None:
        return problem
    try:
        share = value if isinstance(value, Share) else budget(str(value))
    except ValueError as error:
        where, remedy = BUDGET.name, "correct it"
        raise InputError([Finding(where, str(error), "a budget", remedy)]) from None
    return problem.within(share.amount, fraction=share.fraction)


def _hosted(
    problem: RematerialisationProblem, changes: Mapping[str, Any]
) -> RematerialisationProblem:
    """Return the problem with the requested host."""
    from .problem import Host

    requested = changes.get(HOST.name)
    if requested is None:
        return problem
    memory, moved, ticks = requested.of(problem.units)
    return replace(problem, host=Host(memory, 0, moved, ticks))


def _aimed(
    problem: RematerialisationProblem, changes: Mapping[str, Any]
) -> RematerialisationProblem:
    """Return the problem with the requested objective and limit of added time."""
    from .problem import RematerialisationObjective as Known

    added, objective = changes.get(ADDED.name), objective_of(changes, Known) or problem.objective
    if objective is Known.PEAK_MEMORY:
        return problem.least_memory(None if added is None else Fraction(str(added)))
    limit = problem.added_limit if objective is Known.ADDED_ENERGY else None
    if added is not None:
        limit = int(Fraction(str(added)) * problem.total_cost)
    return replace(problem, objective=objective, added_limit=limit)


KIND = Rematerialisation()
"""Problems of Checkmate and MOCCASIN: a fixed order, a budget, operators that run again."""
