"""Local updates: stages of a pipeline behind which gradients stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Verdict
from milp_plan.core.amounts import time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.kind import Format, Kind, Measure
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .problem import LocalUpdatesPlan, LocalUpdatesProblem


class LocalUpdates(Kind["LocalUpdatesProblem", "LocalUpdatesPlan"]):
    """The kind of :class:`milp_plan.kinds.local_updates.problem.LocalUpdatesProblem`."""

    name = "local-updates"
    title = "boundaries of a pipeline behind which gradients stop: shortest step within a budget"
    handles = "milp_plan.kinds.local_updates.problem:LocalUpdatesProblem"
    plans = "milp_plan.kinds.local_updates.problem:LocalUpdatesPlan"
    plan_marker = "milp-plan-local-updates-plan"
    partial = True
    sizes = ()

    def formats(self) -> tuple[Format[LocalUpdatesProblem], ...]:
        """Return the native format."""
        from . import format as native

        def reader(document: Document, _: Mapping[str, Any]) -> LocalUpdatesProblem:
            return native.read(document)

        return (Format("local-updates", native.TITLE, native.can_read, reader, native.to_json),)

    def read_plan(
        self, file: Path, problem: LocalUpdatesProblem, instance_file: Path
    ) -> LocalUpdatesPlan:
        """Read cuts."""
        from .format import read_plan

        return read_plan(file, problem, instance_file)

    def plan_text(self, plan: LocalUpdatesPlan) -> bytes:
        """Return the cuts as a file."""
        from .format import plan_to_json

        return plan_to_json(plan)

    def verify(self, problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> Verdict:
        """Check boundaries, budget and memory, and compute the step time."""
        from .check import verify_local_updates

        return verify_local_updates(problem, plan)

    def measure(self, problem: LocalUpdatesProblem) -> Measure:
        """Return the time of a step."""
        return Measure("makespan", problem.units)

    def scope(self, problem: LocalUpdatesProblem) -> Scope:
        """Return the scope: plans decide where gradients stop; the rest follows."""
        return Scope(("cuts",), ("stages", "1F1B inside of chunks"), (NotOffered("recomputation"),))

    def summary(self, problem: LocalUpdatesProblem) -> dict[str, Any]:
        """Return the sizes."""
        return {
            "stages": len(problem.stages),
            "micro_batches": problem.micro_batches,
            "transfer_ticks": problem.transfer,
            "budget": problem.budget,
            "stages_with_limited_memory": sum(s.most is not None for s in problem.stages),
        }

    def rows(self, problem: LocalUpdatesProblem) -> list[list[str]]:
        """Return the sizes as rows of text."""
        facts = self.summary(problem)
        limited, budget = facts["stages_with_limited_memory"], facts["budget"]
        return [
            ["stages", f"{facts['stages']:,}, {limited:,} with limited memory"],
            ["micro-batches", f"{facts['micro_batches']:,}"],
            ["transfer", time_text(problem.units, problem.transfer)],
            ["budget", "none" if budget is None else f"{budget:,}"],
        ]

    def explain(
        self, problem: LocalUpdatesProblem, plan: LocalUpdatesPlan, verdict: Verdict
    ) -> str:
        """Describe the cuts, and how busy each device is; or the violations."""
        if not verdict.ok:
            return super().explain(problem, plan, verdict)
        units, parts = problem.units, sorted(verdict.components.items(), key=lambda e: -e[1])
        cuts = [name for name in problem.boundaries if name in plan.cuts]
        where = f"behind {', '.join(cuts)}" if cuts else "nowhere"
        lines = [f"gradients stop {where}"]
        return "\n".join([*lines, *(f"{n} works {time_text(units, t)}" for n, t in parts)])

    def plan_rows(
        self, problem: LocalUpdatesProblem | None, plan: LocalUpdatesPlan
    ) -> Iterator[dict[str, Any]]:
        """Yield the cuts, in the order of stages; without the problem in the plan's order."""
        known = problem.by_name if problem is not None else {}
        for name in sorted(plan.cuts, key=lambda name: known.get(name, 0)):
            row: dict[str, Any] = {"gradients_stop_behind": name}
            if problem is not None:
                stage = problem.stages[known[name]] if name in known else None
                row["price"] = None if stage is None else stage.price
                row["head_ticks"] = None if stage is None else stage.head
            yield row

    def panels(self, problem: LocalUpdatesProblem, plan: LocalUpdatesPlan) -> Sequence[Panel]:
        """Return a row for each device."""
        from .draw import local_updates_panels

        return local_updates_panels(problem, plan)

    def part_names(self, problem: LocalUpdatesProblem) -> Sequence[str]:
        """Return the stages with one behind them."""
        return problem.boundaries

    def names_in_plan(self, plan: LocalUpdatesPlan) -> Sequence[str]:
        """Return the stages behind which gradients stop."""
        return plan.cuts

    def reasons(self) -> Reasons[LocalUpdatesProblem, LocalUpdatesPlan]:
        """Return its parts and limits, and why a plan's value is what it is."""
        from .reasons import LocalUpdatesReasons

        return LocalUpdatesReasons()

    def obstacle(self, problem: LocalUpdatesProblem, budget: Budget) -> str | None:
        """Prove that memory requires cuts beyond the budget."""
        from .bounds import local_updates_obstacle

        return local_updates_obstacle(problem)

    def bounds(
        self, problem: LocalUpdatesProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Yield bounds by work of stages, and by gradients that must return."""
        from .bounds import local_updates_bounds

        return local_updates_bounds(problem)

    def strategies(self) -> Sequence[type[Strategy[LocalUpdatesProblem, LocalUpdatesPlan]]]:
        """Return one strategy for all problems."""
        from .strategy import LocalUpdatesStrategy

        return (LocalUpdatesStrategy,)

    def heuristics(
        self,
    ) -> Mapping[str, Callable[[LocalUpdatesProblem, int], LocalUpdatesPlan | None]]:
        """Return the greedy of best next cuts."""
        from .planners import GREEDY, greedy

        return {GREEDY: greedy}


KIND = LocalUpdates()
