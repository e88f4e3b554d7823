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
"""Nodes of the search before all that takes longer: it proves what is small, or lies loosely, and
takes half a second for the hardest four hundred buffers at hand."""

ORDERS_SHARE = 0.2
"""Part of the time limit for annealed orders: close to the best packing, seldom without waste."""

FORMULATION_SHARE = 0.7
"""Part of the time left for the formulation that was named."""


class PackingStrategy(Strategy["PackingProblem", "PackingPlan"]):
    """The way for packing problems."""

    name = "packing"

    @classmethod
    def why_not(cls, problem: PackingProblem, repeatable: bool) -> str | None:
        """Every packing problem."""
        return None

    def steps(self) -> Iterable[Step]:
        """Proofs, fits, a short search, annealed orders, and a search that may prove."""
        from .loops import PACKING

        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds),
            Step("fits", self.fit, lambda: not ledger.baselines),
            Step("first nodes", self.look, lambda: self.packer.searchable, loops=(PACKING,)),
            Step("orders", self.reorder, loops=(PACKING,)),
            Step("formulation", self.formulate, lambda: ledger.formulation is not None),
            Step("search", self.search, lambda: self.packer.searchable, loops=(PACKING,)),
        )

    def offer_initial_plan(self) -> None:
        """Offer the fits."""
        self.fit()

    def fit(self) -> None:
        """First and best fits by many orders; one that is too high is no plan."""
        from .planners import FITS, Packer

        ledger, problem = self.ledger, self.ledger.problem
        self.packer: Packer = Packer(problem)
        with ledger.budget.phase("fits"):
            for name in FITS:
                if ledger.done:
                    return
                plan = self.packer.fit(name)
                ledger.baselines[name] = plan.value if _low(problem, plan) else None
                ledger.offer(plan, name, "fits", must_be_valid=_low(problem, plan))

    def reorder(self) -> None:
        """First fits of annealed orders."""
        ledger, problem = self.ledger, self.ledger.problem
        with ledger.budget.phase("orders"):
            part = ledger.budget.part("orders", ORDERS_SHARE if self.packer.searchable else 1.0)
            for plan in self.packer.better_orders(part, ledger.settings.seed, ledger.lower or 0):
                ledger.offer(plan, plan.planner, "orders", must_be_valid=_low(problem, plan))

    def formulate(self) -> None:
        """Ask the formulation that was named; the best packing is its start."""
        self.solve_within_share("formulation", FORMULATION_SHARE, better=False)

    def look(self) -> None:
        """Search with few nodes: it proves what is small before anything improves it."""
        self.search(FIRST_NODES)

    def search(self, most: int | None = None) -> None:
        """Canonical packings, lower and lower; what fails proves a bound."""
        ledger = self.ledger
        seed, lower = ledger.settings.seed, ledger.lower or 0
        self.record_results(self.packer.search(ledger.budget, seed, lower, ledger.value, most))

    def prove(self, bound: Bound) -> None:
        """Take a bound; above the capacity it says that there is no plan."""
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
    changes = (Change("no_capacity", "Packing: any height will do, whatever the capacity."),)

    def formats(self) -> tuple[Format[PackingProblem], ...]:
        """The CSV of MiniMalloc."""
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
        """Buffers with a column ``offset``."""
        from .minimalloc import is_packing

        return is_packing(document)

    def other_content(self, document: Document) -> str | None:
        """Addresses in either form."""
        from .address_file import is_addresses

        return "addresses of a plan" if is_addresses(document) else None

    def plan_text(self, plan: PackingPlan) -> bytes:
        """The buffers with a column ``offset``."""
        from .minimalloc import packing_text

        return packing_text(plan)

    def verify(self, problem: PackingProblem, plan: PackingPlan) -> Verdict:
        """Addresses, and overlaps in a sweep over time."""
        from .check import verify_packing

        return verify_packing(problem, plan)

    def claimed(
        self, problem: PackingProblem, plan: PackingPlan, value: int, planner: str
    ) -> PackingPlan:
        """Return the plan with its claims."""
        return replace(plan, problem=problem.name, value=value, planner=planner)

    def measure(self, problem: PackingProblem) -> Measure:
        """Addresses are bytes."""
        return Measure("height", Units(), "size")

    def scope(self, problem: PackingProblem) -> Scope:
        """Offsets alone."""
        offers = (
            NotOffered("other order of runs"),
            NotOffered("recomputation"),
            NotOffered("host"),
        )
        return Scope(("offsets",), ("lifetimes",), offers)

    def summary(self, problem: PackingProblem) -> dict[str, Any]:
        """Sizes."""
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
        """Buffers with their offsets; the plan itself knows them."""
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
        """Rectangles of time and addresses, and the load over time."""
        from .draw import packing_panels

        return packing_panels(problem, plan)

    def names_in_plan(self, plan: PackingPlan) -> Sequence[str]:
        """Buffers that have a place."""
        return [place.buffer.name for place in plan.places]

    def restarts(self, problem: PackingProblem, plan: PackingPlan) -> Iterator[Restart]:
        """Each buffer as low as those that were below it allow."""
        from .retiming import lowered

        yield Restart(lowered(problem, plan), "offsets computed anew: each on those below it")

    def reasons(self) -> Reasons[PackingProblem, PackingPlan]:
        """Its parts and limits, and why a plan's value is what it is."""
        from .reasons import PackingReasons

        return PackingReasons()

    def obstacle(self, problem: PackingProblem, budget: Budget) -> str | None:
        """Buffers that are alive together may need more than the capacity."""
        from .bounds import packing_obstacle

        return packing_obstacle(problem)

    def bounds(
        self, problem: PackingProblem, budget: Budget, incumbent: int | None
    ) -> Iterator[Bound]:
        """The load of the fullest instant."""
        from .bounds import packing_bounds

        return packing_bounds(problem, budget)

    def strategies(self) -> Sequence[type[Strategy[PackingProblem, PackingPlan]]]:
        """One for all."""
        return (PackingStrategy,)

    def heuristics(self) -> Mapping[str, Callable[[PackingProblem, int], PackingPlan | None]]:
        """Each fit by each order."""
        from .planners import FITS

        return {name: partial(_fit, name) for name in FITS}


def _fit(name: str, problem: PackingProblem, _seed: int) -> PackingPlan | None:
    from .planners import Packer

    plan = Packer(problem).fit(name)
    return plan if _low(problem, plan) else None


def _low(problem: PackingProblem, plan: PackingPlan) -> bool:
    """Whether a plan of a planner keeps the capacity."""
    return problem.capacity is None or plan.value is None or plan.value <= problem.capacity


KIND = Packing()
