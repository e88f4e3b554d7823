"""Sharding: one strategy per operator, tables of costs, memory over time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Finding, InputError, Units, Verdict
from milp_plan.core.amounts import size_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.kind import Export, Format, Kind, Measure, Restart
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.core.sharding import ShardingPlan, ShardingProblem
    from milp_plan.draw.panels import Panel
    from milp_plan.run.loop_parts import LoopPart
    from milp_plan.run.reasons.base import Reasons


STORY = 12
"""Number of strategies that are listed by name when a problem is solved."""


class Sharding(Kind["ShardingProblem", "ShardingPlan"]):
    """The kind of :class:`milp_plan.core.sharding.ShardingProblem`."""

    name = "sharding"
    title = "one strategy per operator: costs of strategies and of pairs, memory over time"
    handles = "milp_plan.core.sharding:ShardingProblem"
    plans = "milp_plan.core.sharding:ShardingPlan"
    sizes = ("peak_usage",)

    @property
    def loops(self) -> tuple[LoopPart, ...]:
        """Return the loops of reductions and of the search."""
        from .loops import PARTS

        return PARTS

    @property
    def threads(self) -> int:
        """Return one thread per core, two at most."""
        return min(2, os.cpu_count() or 1)

    def formats(self) -> tuple[Format[ShardingProblem], ...]:
        """Return the format of the ASPLOS 2025 contest."""
        from . import iopddl

        def read(document: Document, _changes: Mapping[str, Any]) -> ShardingProblem:
            return iopddl.read(document)

        return (Format("iopddl", iopddl.TITLE, iopddl.can_read, read, iopddl.to_json),)

    def read_plan(self, file: Path, problem: ShardingProblem, instance_file: Path) -> ShardingPlan:
        """Read the contest's list of chosen strategies."""
        from .iopddl import read_solution

        return read_solution(file, problem)

    def is_plan(self, document: Document) -> bool:
        """Return whether it is a list of integers, bare or as the only member ``solution``."""
        from .iopddl import is_solution

        return is_solution(document)

    def plan_text(self, plan: ShardingPlan) -> bytes:
        """Return the contest's list of chosen strategies, with their names, if there are any."""
        from .iopddl import solution_text

        return solution_text(plan)

    def exports(self) -> Mapping[str, Export[ShardingProblem, ShardingPlan]]:
        """Return strategies by name, and placements of a captured step, which torch runs."""

        def text(problem: ShardingProblem, plan: ShardingPlan, _file: Path) -> bytes:
            from milp_plan.capture.chosen import chosen_text

            return chosen_text(problem, plan)

        def styles(problem: ShardingProblem, plan: ShardingPlan, _file: Path) -> bytes:
            from milp_plan.capture.tp_plan import tp_plan_text

            return tp_plan_text(problem, plan)

        def are_rows(document: Document) -> bool:
            from .iopddl import STRATEGIES_HEAD

            return document.data.startswith(STRATEGIES_HEAD.encode())

        def rows(problem: ShardingProblem, plan: ShardingPlan, _file: Path) -> bytes:
            from .iopddl import strategies_csv

            return strategies_csv(problem, plan)

        return {
            "strategies": Export(
                "strategy of each operator by name, with cost and bytes (CSV)",
                are_rows,
                rows,
            ),
            "torch-placements": Export(
                "placements of every tensor, for milp-plan run",
                lambda document: document.marker == "milp-plan-torch-placements",
                text,
                "torch would not run what was planned",
            ),
            "hf-tp-plan": Export(
                "tp_plan of a Hugging Face model",
                lambda document: all("." in name for name in document.top_level or "-"),
                styles,
                "the model would not run what was planned",
            ),
        }

    def verify(self, problem: ShardingProblem, plan: ShardingPlan) -> Verdict:
        """Check a plan by exact sums, with usage at every instant."""
        from .check import verify_sharding

        return verify_sharding(problem, plan)

    def claimed(
        self, problem: ShardingProblem, plan: ShardingPlan, value: int, planner: str
    ) -> ShardingPlan:
        """Return the plan with its claims, and with names of strategies."""
        from dataclasses import replace

        made = super().claimed(problem, plan, value, planner)
        return replace(made, names=problem.names(plan.chosen))

    def measure(self, problem: ShardingProblem) -> Measure:
        """Return costs, in the unit that the file names, if any."""
        return Measure("total_cost", problem.units or "cost")

    def scope(self, problem: ShardingProblem) -> Scope:
        """Return a strategy for each operator; the order is the file's."""
        offers = (NotOffered("recomputation"), NotOffered("pipeline stages"))
        return Scope(("the strategy of each operator",), ("order and lifetimes",), offers)

    def summary(self, problem: ShardingProblem) -> dict[str, Any]:
        """Return the sizes."""
        s, t = problem.strategies, problem.transitions
        lasting = problem.intervals[:, 0] < problem.intervals[:, 1]
        return {
            "operators": len(problem.operators),
            "strategies": len(s.cost),
            "strategies_per_operator": {"least": int(s.counts.min()), "most": int(s.counts.max())},
            "strategies_not_allowed": int((~s.allowed).sum()),
            "edges": len(t),
            "pairs": len(t.cost),
            "pairs_not_allowed": int((~t.allowed).sum()),
            "operators_without_interval": int((~lasting).sum()),
            "limit_bytes": problem.limit,
        }

    def rows(self, problem: ShardingProblem) -> list[list[str]]:
        """Return the sizes as rows of text."""
        facts = self.summary(problem)
        least, most = facts["strategies_per_operator"].values()
        limit = facts["limit_bytes"]
        return [
            ["operators", f"{facts['operators']:,}"],
            ["strategies", f"{facts['strategies']:,}, {least} to {most} per operator"],
            ["not allowed", f"{facts['strategies_not_allowed']:,} strategies"],
            ["edges", f"{facts['edges']:,} with {facts['pairs']:,} pairs"],
            ["not allowed", f"{facts['pairs_not_allowed']:,} pairs"],
            ["memory limit", "none" if limit is None else f"{limit:,} bytes"],
        ]

    def plan_rows(
        self, problem: ShardingProblem | None, plan: ShardingPlan
    ) -> Iterator[dict[str, Any]]:
        """Yield the strategy of each operator, with its own cost."""
        for place, chosen in enumerate(plan.chosen):
            row: dict[str, Any] = {"operator": place, "strategy": chosen}
            if problem is not None:
                row |= _strategy(problem, place, chosen)
            yield row

    def plan_summary_table(
        self, problem: ShardingProblem, plan: ShardingPlan, verdict: Verdict
    ) -> list[list[str]]:
        """Return strategies by name, with their numbers of operators and costs."""
        if not verdict.ok or not problem.labels:
            return []
        costs_by_label: dict[str, list[int]] = {}
        for number, pick in enumerate(plan.chosen):
            row = int(problem.strategies.offsets[number]) + pick
            cost = int(problem.strategies.cost[row])
            costs_by_label.setdefault(problem.label(number, pick), []).append(cost)
        rows = sorted(costs_by_label.items(), key=lambda entry: -sum(entry[1]))[:STORY]
        text = self.measure(problem).text
        table = [[label, f"{len(costs):,}", text(sum(costs))] for label, costs in rows]
        return [["strategy", "operators", "cost"], *table]

    def explain(self, problem: ShardingProblem, plan: ShardingPlan, verdict: Verdict) -> str:
        """Describe costs of strategies and of edges, and the most bytes in use; or violations."""
        if not verdict.ok:
            return super().explain(problem, plan, verdict)
        parts, text = verdict.components, self.measure(problem).text
        limit = (
            "no limit" if problem.limit is None else f"limit {size_text(Units(), problem.limit)}"
        )
        return (
            f"valid: {verdict.objective} {text(verdict.value)}: "
            f"strategies {text(parts['strategies'])}, "
            f"changes of layout on edges {text(parts['transitions'])}\n"
            f"at most {size_text(Units(), parts['peak_usage'])} in use at an instant ({limit})"
        )

    def panels(self, problem: ShardingProblem, plan: ShardingPlan) -> Sequence[Panel]:
        """Return memory in use at every instant."""
        from .draw import usage_panels

        return usage_panels(problem, plan)

    def restarts(self, problem: ShardingProblem, plan: ShardingPlan) -> Iterator[Restart]:
        """Yield the plan with the same choices.

        Raises
        ------
        InputError
            They are not choices of the problem.
        """
        wrong = [v for v in self.verify(problem, plan).violations if v.rule == "assignment"]
        expected, remedy = "a strategy for each operator", "name the plan of this problem"
        if wrong:
            raise InputError(
                Finding(f"start plan, {v.rule}", v.message, expected, remedy) for v in wrong
            )
        return super().restarts(problem, plan)

    def reasons(self) -> Reasons[ShardingProblem, ShardingPlan]:
        """Return its parts and limits, and why a plan's value is what it is."""
        from .reasons import ShardingReasons

        return ShardingReasons()

    def obstacle(self, problem: ShardingProblem, budget: Budget) -> str | None:
        """Prove by reductions or enumeration that no choice fits masks and limit."""
        from .choice_bounds import NO_CHOICE, best_choice
        from .coarsen import reduce_sharding

        left = reduce_sharding(problem, budget.left_s)
        if left.infeasible_reason is not None:
            return left.infeasible_reason
        choice = best_choice(left.labelling)
        return NO_CHOICE if choice is not None and choice.labels is None else None

    def bounds(
        self, problem: ShardingProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Yield the dual of the local polytope, after reductions."""
        from .bounds import dual_bound
        from .choice_bounds import EVERY_CHOICE, best_choice
        from .coarsen import reduce_sharding

        half = budget.part("reducing", 0.5)
        left = reduce_sharding(problem, half.left_s)
        if left.infeasible_reason is not None:
            return
        choice = best_choice(left.labelling)
        value = (
            None if choice is None or choice.labels is None else left.labelling.value(choice.labels)
        )
        if value is not None:
            yield Bound(EVERY_CHOICE, value, "no choice of strategies costs less")
        else:
            yield dual_bound(left.labelling, budget, incumbent)

    def strategies(self) -> Sequence[type[Strategy[ShardingProblem, ShardingPlan]]]:
        """Return the strategy: a search, or with a formulation its model after a short search."""
        from .strategy import ShardingStrategy

        return (ShardingStrategy,)


def _strategy(problem: ShardingProblem, place: int, chosen: int) -> dict[str, Any]:
    """Return name, label and figures of a strategy; ``None`` for an unknown one."""
    columns = ("label", "cost", "bytes", "start", "stop")
    if place >= len(problem.operators):
        return dict.fromkeys(columns)
    table = problem.strategies
    number = int(table.offsets[place]) + chosen
    known = 0 <= chosen < int(table.counts[place])
    start, stop = (int(end) for end in problem.intervals[place])
    return {
        "operator": problem.operators[place],
        "label": problem.labels[number] if known and problem.labels else None,
        "cost": int(table.cost[number]) if known else None,
        "bytes": int(table.usage[number]) if known else None,
        "start": start,
        "stop": stop,
    }


KIND = Sharding()
