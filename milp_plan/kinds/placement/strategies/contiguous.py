"""Contiguous throughput: baselines, dynamic programmes over ideals, and otherwise the model.

Every plan goes through the checker; every bound is on the whole problem.
"""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core import Contiguity, Plan, PlanningProblem, SerialLaw
from milp_plan.core.bound import Bound
from milp_plan.kinds.schedule.loops import CONTIGUOUS_PARTS
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step

from ..bounds.catalogue import serial_bounds
from ..bounds.load import work_bound
from ..planners.baselines import CONTIGUOUS
from ..planners.contiguous import ContiguousSearch
from ..serial.value import bottleneck, fits
from .serial import SerialStrategy

ROUNDS, MANY_ROUNDS = 2, 400
"""Rounds of the search on several orders: before the exact one, and in place of it."""

WIDE_SHARE = 0.4
"""Share of the time left for the search on several orders where the exact one gave up."""

BOUND_SHARE = 0.1
"""Share of the time left for bounds by cuts, where the exact search gave up."""

BASELINE_SHARE = 0.3
"""Share of the time limit after which no further baseline is run."""


class ContiguousStrategy(SerialStrategy):
    """The strategy for bottleneck problems under the chain law."""

    name = "contiguous"
    formulation = "contiguous_load"

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        self.part = ledger.budget
        self.settled = False
        self.search = ContiguousSearch(self.graph, ledger.settings.seed, self.go_on)

    @classmethod
    def suits(cls, law: SerialLaw) -> bool:
        """Accept bottleneck laws with contiguity."""
        return law.calls is None and law.contiguity is Contiguity.CHAIN

    def go_on(self) -> bool:
        """Return whether there is time left."""
        return not self.part.over

    def steps(self) -> Iterable[Step]:
        """Run published planners, some orders, all ideals; else more orders, cuts and the model."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible, run_after_time_limit=True),
            Step("work", lambda: ledger.prove(work_bound(self.graph)), run_after_time_limit=True),
            Step("baselines", self.baselines, loops=(CONTIGUOUS_PARTS,)),
            Step("orders", self.orders, run_after_time_limit=True, loops=(CONTIGUOUS_PARTS,)),
            Step("ideals", self.exact),
            Step("more orders", self.more_orders, self.open),
            Step("cuts", self.cuts, self.open),
            Step("model", self.solve, lambda: self.open() and ledger.formulation is not None),
        )

    def open(self) -> bool:
        """Return whether the ideals left a gap."""
        return not self.settled

    def orders(self) -> None:
        """Cut the best plan's order, and a few others."""
        if self.ledger.plan is not None:
            self.search.start(self.graph.places(self.ledger.plan))
        with self.ledger.budget.phase("orders"):
            self.search.linear()
            self.offer("linear order")
            self.search.wide(ROUNDS)
        self.offer("several orders")

    def cuts(self) -> None:
        """Prove bounds on any partition; every chain is one."""
        ledger = self.ledger
        with ledger.budget.phase("bounds"):
            part = ledger.budget.part("bounds", BOUND_SHARE, of_limit=False)
            for bound in serial_bounds(self.graph, part):
                ledger.prove(bound)

    def baselines(self) -> None:
        """Run published planners; one whose plan breaks a law has no value."""
        ledger, graph = self.ledger, self.graph
        part = ledger.budget.part("baselines", BASELINE_SHARE)
        for name, planner in CONTIGUOUS.items():
            if part.over:
                break
            with ledger.budget.phase("baselines"):
                places = planner(graph)
            ledger.baselines[name] = None
            if places is not None and fits(graph, places):
                ledger.baselines[name] = bottleneck(graph, places)
                ledger.offer(graph.plan(places, name), name, "baselines")

    def offer(self, planner: str) -> None:
        """Offer the best plan of the search."""
        if self.search.places is not None and self.search.value != self.ledger.value:
            plan = self.graph.plan(self.search.places, planner)
            self.ledger.offer(plan, planner, "search")

    def exact(self) -> None:
        """Run the dynamic programme over all ideals."""
        ledger, search = self.ledger, self.search
        ledger.say("ideals", f"{len(search.chain)} blocks of {len(self.graph)} classes")
        with ledger.budget.phase("ideals"):
            self.settled = search.exact()
        self.offer("ideals")
        if not self.settled:
            ledger.say("ideals", "too many ideals" if self.go_on() else "out of time")
        elif search.proved_infeasible:
            ledger.refute("no chain of ideals fits into the devices")
        else:
            text = "no chain of ideals is better: dynamic programme over all of them"
            ledger.prove(Bound("ideals", search.bound, text))

    def more_orders(self) -> None:
        """Search on some of the ideals, where there are too many."""
        ledger = self.ledger
        self.part = ledger.budget.part("orders", WIDE_SHARE, of_limit=False)
        with ledger.budget.phase("orders"):
            self.search.wide(ROUNDS if ledger.repeatable else MANY_ROUNDS)
        self.offer("several orders")
        self.part = ledger.budget

    def solve(self) -> None:
        """Solve the model for a plan better than the best one."""
        ledger = self.ledger
        ledger.say("model", ledger.solver.formulation.card.name)
        self.solve_below(ledger.value, ledger.budget, start=ledger.plan)
