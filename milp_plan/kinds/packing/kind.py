"""Address packing: an offset for every buffer, over its lifetime, in one memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core import Units, Verdict
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.io.files import Document
from milp_plan.run.change import Change
from milp_plan.run.kind import Format, Kind, Measure, Restart
from milp_plan.run.scope import NotOffered, Scope
from milp_plan.run.strategy import Step, Strategy

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.run.reasons.base import Reasons

    from .planners import Packer
    from .problem import PackingPlan, PackingProblem

FIRST_NODES = 20_000
"""Nodes of the search before all that takes longer: it proves small or loose problems, and
takes half a second for the hardest public instances of four hundred buffers."""

ORDERS_SHARE = 0.2
"""Share of the time limit for annealed orders: close to the best packing, seldom tight."""

FORMULATION_SHARE = 0.7
"""Share of the time left for a formulation that was named."""


class PackingStrategy(Strategy["PackingProblem", "PackingPlan"]):
    """The strategy for packing problems."""

    name = "packing"

    @classmethod
    def why_not(cls, problem: PackingProblem, repeatable: bool) -> str | None:
        """Accept every packing problem."""
        return None

    def steps(self) -> Iterable[Step]:
        """Run proofs, fits, a short search, annealed orders, and a search that may prove."""
        from .loops import PACKING

        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("fits", self.fit, lambda: not ledger.baselines, run_after_time_limit=True),
            Step("first nodes", self.look, lambda: self.packer.searchable, loops=(PACKING,)),
            Step("orders", self.reorder, loops=(PACKING,)),
            Step("formulation", self.formulate, lambda: ledger.formulation is not None),
            Step("search", self.search, lambda: self.packer.searchable, loops=(PACKING,)),
        )

    def offer_initial_plan(self) -> None:
        """Offer the fits."""
        self.fit()

    def fit(self) -> None:
        """Offer first and best fits by many orders; one that is too high is no plan."""
        from .planners import FITS, Packer

        ledger, problem = self.ledger, self.ledger.problem
        self.packer: Packer = Packer(problem)
        with ledger.budget.phase("fits"):
            for name in FITS:
                if ledger.done and ledger.plan is not None:
                    return
                plan = self.packer.fit(name)
                ledger.baselines[name] = plan.value if _low(problem, plan) else None
                ledger.offer(plan, name, "fits", must_be_valid=_low(problem, plan))

    def reorder(self) -> None:
        """Offer first fits of annealed orders."""
        ledger, problem = self.ledger, self.ledger.problem
        with ledger.budget.phase("orders"):
            part = ledger.budget.part("orders", ORDERS_SHARE if self.packer.searchable else 1.0)
            for plan in self.packer.better_orders(part, ledger.settings.seed, ledger.lower or 0):
                ledger.offer(plan, plan.planner, "orders", must_be_valid=_low(problem, plan))

    def formulate(self) -> None:
        """Solve the formulation that was named; the best packing is its start."""
        self.solve_within_share("formulation", FORMULATION_SHARE, better=False)

    def look(self) -> None:
        """Search with few nodes: it proves small problems before anything improves them."""
        self.search(FIRST_NODES)

    def search(self, most: int | None = None) -> None:
        """Search canonical packings, lower and lower; a failure proves a bound."""
        ledger = self.ledger
        seed, lower = ledger.settings.seed, ledger.lower or 0
        self.record_results(self.packer.search(ledger.budget, seed, lower, ledger.value, most))

    def prove(self, bound: Bound) -> None:
        """Prove a bound; above the capacity it proves that there is no plan."""
        capacity = self.ledger.problem.capacity
        if capacity is not None and bound.value > capacity:
            self.ledger.refute(f"{bound.name}: {bound.detail}; the capacity is {capacity}")
        else:
            self.ledger.prove(bound)


class Packing(Kind["PackingProblem", "PackingPlan"]):
    """The kind of :class:`milp_plan.kinds.packing.problem.PackingProblem`."""

    name = "packing"
    title = "an offset for every buffer over its lifetime: lowest height of one memory"
    handles = "milp_plan.kinds.packing.problem:PackingProblem"
    plans = "milp_plan.kinds.packing.problem:PackingPlan"
    sizes = ("peak_load", "waste")
    changes = (Change("no_capacity", "Packing: minimise the height, ignore the capacity."),)

    def formats(self) -> tuple[Format[PackingProblem], ...]:
        """Return the CSV of MiniMalloc."""
        from . import minimalloc

        def read(document: Document, changes: Mapping[str, Any]) -> PackingProblem:
            problem = minimalloc.read(document)
            return replace(problem, capacity=None) if changes.get("no_capacity") else problem

        known = minimalloc.can_read
        return (Format("minimalloc", minimalloc.TITLE, known, read, minimalloc.to_csv),)

    def read_plan(self, file: Path, problem: PackingProblem, instance_file: Path) -> PackingPlan:
        """Read the buffers with a column ``offset``."""
        from .minimalloc import read_packing

        return read_packing(file, problem)

    def is_plan(self, document: Document) -> bool:
        """Return whether it has buffers with a column ``offset``."""
        from .minimalloc import is_packing

        return is_packing(document)

    def other_content(self, document: Document) -> str | None:
        """Return the words for addresses in either form."""
        from .address_file import is_addresses

        return "addresses of a plan" if is_addresses(document) else None

    def plan_text(self, plan: PackingPlan) -> bytes:
        """Return the buffers with a column ``offset``."""
        from .minimalloc import packing_text

        return packing_text(plan)

    def verify(self, problem: PackingProblem, plan: PackingPlan) -> Verdict:
        """Check addresses, and overlaps in a sweep over time."""
        from .check import verify_packing

        return verify_packing(problem, plan)

    def measure(self, problem: PackingProblem) -> Measure:
        """Return the unit of addresses, bytes."""
        return Measure("height", Units(), "size")

    def scope(self, problem: PackingProblem) -> Scope:
        """Return the scope: plans decide offsets alone."""
        offers = (
            NotOffered("other order of runs"),
            NotOffered("recomputation"),
            NotOffered("host"),
        )
        return Scope(("offsets",), ("lifetimes",), offers)

    def summary(self, problem: PackingProblem) -> dict[str, Any]:
        """Return the sizes."""
        buffers = problem.buffers
        return {
            "buffers": len(buffers),
            "total_bytes": sum(buffer.size for buffer in buffers),
            "largest_bytes": max(buffer.size for buffer in buffers),
            "first_instant": min(buffer.lower for buffer in buffers),
            "last_instant": max(buffer.upper for buffer in buffers),
            "alignment": max(buffer.alignment for buffer in buffers),
            "capacity_bytes": problem.capacity,
        }

    def plan_rows(
        self, problem: PackingProblem | None, plan: PackingPlan
    ) -> Iterator[dict[str, Any]]:
        """Yield buffers with their offsets, from the plan alone."""
        for place in plan.places:
            buffer = place.buffer
            yield {
                "buffer": buffer.name,
                "lower": buffer.lower,
                "upper": buffer.upper,
                "size": buffer.size,
                "alignment": buffer.alignment,
                "offset": place.offset,
                "end": place.offset + buffer.size,
            }

    def panels(self, problem: PackingProblem, plan: PackingPlan) -> Sequence[Panel]:
        """Return rectangles of time and addresses, and the load over time."""
        from .draw import packing_panels

        return packing_panels(problem, plan)

    def names_in_plan(self, plan: PackingPlan) -> Sequence[str]:
        """Return the buffers that have a place."""
        return [place.buffer.name for place in plan.places]

    def restarts(self, problem: PackingProblem, plan: PackingPlan) -> Iterator[Restart]:
        """Yield the plan with each buffer as low as those that were below it allow."""
        from .retiming import lowered

        yield Restart(lowered(problem, plan), "offsets recomputed: each on those below it")

    def reasons(self) -> Reasons[PackingProblem, PackingPlan]:
        """Return its parts and limits, and why a plan's value is what it is."""
        from .reasons import PackingReasons

        return PackingReasons()

    def obstacle(self, problem: PackingProblem, budget: Budget) -> str | None:
        """Prove that buffers that are alive together need more than the capacity."""
        from .bounds import packing_obstacle

        return packing_obstacle(problem)

    def bounds(
        self, problem: PackingProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """Yield the load of the fullest instant."""
        from .bounds import packing_bounds

        return packing_bounds(problem, budget)

    def strategies(self) -> Sequence[type[Strategy[PackingProblem, PackingPlan]]]:
        """Return one strategy for all problems."""
        return (PackingStrategy,)

    def heuristics(self) -> Mapping[str, Callable[[PackingProblem, int], PackingPlan | None]]:
        """Return each fit by each order."""
        from .planners import FITS

        return {name: partial(_fit, name) for name in FITS}


def _fit(name: str, problem: PackingProblem, _seed: int) -> PackingPlan | None:
    from .planners import Packer

    plan = Packer(problem).fit(name)
    return plan if _low(problem, plan) else None


def _low(problem: PackingProblem, plan: PackingPlan) -> bool:
    """Return whether a plan of a planner is within the capacity."""
    return problem.capacity is None or plan.value is None or plan.value <= problem.capacity


KIND = Packing()
