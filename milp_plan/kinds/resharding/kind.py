"""Resharding: slices of a tensor from hosts to hosts, over one network card each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Verdict
from milp_plan.core.amounts import size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.change import Change
from milp_plan.run.kind import TIMED, Format, Kind, Measure, Restart
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .problem import ReshardingPlan, ReshardingProblem

ONE_BY_ONE = Change("one_by_one", "Resharding: one delivery per receiver, no broadcasts.")


class Resharding(Kind["ReshardingProblem", "ReshardingPlan"]):
    """The kind of :class:`milp_plan.kinds.resharding.problem.ReshardingProblem`."""

    name = "resharding"
    title = "slices from hosts to hosts, one at a time at each network card: least time"
    handles = "milp_plan.kinds.resharding.problem:ReshardingProblem"
    plans = "milp_plan.kinds.resharding.problem:ReshardingPlan"
    plan_marker = "milp-plan-resharding-plan"
    sizes = ()
    changes = (ONE_BY_ONE,)

    def formats(self) -> tuple[Format[ReshardingProblem], ...]:
        """Return the formats of slices with senders, and of a tensor with two layouts."""
        from . import format as native

        can, layouts = native.can_read, native.can_read_layouts
        return (
            Format("resharding", native.TITLE, can, _changed(native.read), native.to_json),
            Format(
                "resharding-layouts", native.LAYOUTS_TITLE, layouts, _changed(native.read_layouts)
            ),
        )

    def read_plan(
        self, file: Path, problem: ReshardingProblem, instance_file: Path
    ) -> ReshardingPlan:
        """Read deliveries."""
        from .format import read_plan

        return read_plan(file, problem, instance_file)

    def plan_text(self, plan: ReshardingPlan) -> bytes:
        """Return the deliveries as a file."""
        from .format import plan_to_json

        return plan_to_json(plan)

    def verify(self, problem: ReshardingProblem, plan: ReshardingPlan) -> Verdict:
        """Check senders, lengths, and concurrent deliveries of cards."""
        from .check import verify_resharding

        return verify_resharding(problem, plan)

    def measure(self, problem: ReshardingProblem) -> Measure:
        """Return nanoseconds."""
        return Measure("makespan", problem.units)

    def scope(self, problem: ReshardingProblem) -> Scope:
        """Return the scope: plans decide senders and starts."""
        several = any(len(entry.senders) > 1 for entry in problem.slices)
        return Scope(
            (*(["senders"] if several else []), "starts"),
            ("one delivery per slice to all its receivers", *([] if several else ["senders"])),
            (NotOffered("relays"), NotOffered("smaller slices")),
        )

    def summary(self, problem: ReshardingProblem) -> dict[str, Any]:
        """Return the sizes."""
        sizes = [entry.size for entry in problem.slices]
        return {
            "slices": len(sizes),
            "cards": len(problem.cards),
            "slices_with_a_choice": sum(len(entry.senders) > 1 for entry in problem.slices),
            "broadcasts": sum(len(entry.receivers) > 1 for entry in problem.slices),
            "sent_bytes": sum(sizes),
            "received_bytes": sum(entry.size * len(entry.receivers) for entry in problem.slices),
        }

    def rows(self, problem: ReshardingProblem) -> list[list[str]]:
        """Return the sizes as rows of text."""
        facts, units = self.summary(problem), problem.units
        choice, several = facts["slices_with_a_choice"], facts["broadcasts"]
        sent, received = facts["sent_bytes"], facts["received_bytes"]
        return [
            [
                "slices",
                f"{facts['slices']:,}: {choice:,} with a choice of senders, {several:,} broadcasts",
            ],
            ["cards", f"{facts['cards']:,}"],
            ["bytes", f"{size_text(units, sent)} sent, {size_text(units, received)} received"],
        ]

    def explain(self, problem: ReshardingProblem, plan: ReshardingPlan, verdict: Verdict) -> str:
        """Describe how busy each card is; or the violations."""
        if not verdict.ok or not verdict.components:
            return super().explain(problem, plan, verdict) or "there is nothing to deliver"
        most = sorted(verdict.components.items(), key=lambda part: (-part[1], part[0]))
        return "\n".join(f"{port} for {time_text(problem.units, ticks)}" for port, ticks in most)

    def plan_rows(
        self, problem: ReshardingProblem | None, plan: ReshardingPlan
    ) -> Iterator[dict[str, Any]]:
        """Yield deliveries by their start."""
        for entry in sorted(plan.deliveries, key=lambda entry: (entry.start, entry.slice)):
            row: dict[str, Any] = {"slice": entry.slice, "sender": entry.sender}
            if problem is not None:
                known = problem.by_name.get(entry.slice)
                row["receivers"] = () if known is None else known.receivers
                row["bytes"] = None if known is None else known.size
            yield row | {"start_ticks": entry.start, "stop_ticks": entry.stop}

    def panels(self, problem: ReshardingProblem, plan: ReshardingPlan) -> Sequence[Panel]:
        """Return a row for each card that sends, and for each that receives."""
        from .draw import resharding_panels

        return resharding_panels(problem, plan)

    def names_in_plan(self, plan: ReshardingPlan) -> Sequence[str]:
        """Return the slices that it delivers."""
        return [entry.slice for entry in plan.deliveries]

    def restarts(self, problem: ReshardingProblem, plan: ReshardingPlan) -> Iterator[Restart]:
        """Yield the plan with new times in its own order on every card."""
        from .retiming import retimed_deliveries

        yield from (Restart(made, TIMED) for made in [retimed_deliveries(problem, plan)] if made)

    def reasons(self) -> Reasons[ReshardingProblem, ReshardingPlan]:
        """Return its parts and limits, and why a plan's value is what it is."""
        from .reasons import ReshardingReasons

        return ReshardingReasons()

    def obstacle(self, problem: ReshardingProblem, budget: Budget) -> str | None:
        """Prove that a slice has no sender."""
        from .bounds import resharding_obstacle

        return resharding_obstacle(problem)

    def bounds(
        self, problem: ReshardingProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Yield bounds by the load of receivers, and of sets of senders."""
        from .bounds import resharding_bounds

        return resharding_bounds(problem, budget)

    def strategies(self) -> Sequence[type[Strategy[ReshardingProblem, ReshardingPlan]]]:
        """Return one strategy for all problems."""
        from .strategy import ReshardingStrategy

        return (ReshardingStrategy,)

    def heuristics(
        self,
    ) -> Mapping[str, Callable[[ReshardingProblem, int], ReshardingPlan | None]]:
        """Return planners by busy ports, by load, and by random rounds."""
        from . import planners as known

        return {
            known.BUSIEST: known.busiest_first,
            known.LOAD_ONLY: known.load_only,
            known.RANDOMISED: known.randomised,
        }


def _changed(
    read: Callable[[Document], ReshardingProblem],
) -> Callable[[Document, Mapping[str, Any]], ReshardingProblem]:
    def reader(document: Document, changes: Mapping[str, Any]) -> ReshardingProblem:
        problem = read(document)
        return problem.one_by_one() if changes.get(ONE_BY_ONE.name) else problem

    return reader


KIND = Resharding()
