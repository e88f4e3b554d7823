"""Least memory on one device: orders by rule, windows, and a search that proves."""

from __future__ import annotations

from collections.abc import Iterable

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.amounts import size_text
from milp_plan.core.bound import Bound
from milp_plan.run.ledger import Ledger
from milp_plan.run.strategy import Step, Strategy

from ..planners.ordering import ORDERS, Orderer, OrderGraph, read_order


class OrderStrategy(Strategy[PlanningProblem, Plan]):
    """The strategy for the least peak memory on one device."""

    name = "order"

    def __init__(self, ledger: Ledger[PlanningProblem, Plan]) -> None:
        super().__init__(ledger)
        found = read_order(ledger.problem)
        assert isinstance(found, OrderGraph)
        self.graph = found
        (device,) = ledger.problem.cluster.devices
        self.limit = device.memory_bytes
        self.orderer = Orderer(found, range(0))

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Anything but one device, one option each and peak memory."""
        if problem.objective is not Objective.PEAK_MEMORY:
            return "memory is not what counts"
        found = read_order(problem)
        return found if isinstance(found, str) else None

    def steps(self) -> Iterable[Step]:
        """Bounds, orders by rule, windows, the search."""
        ledger = self.ledger
        return (
            Step("obstacle", ledger.prove_infeasible),
            Step("bounds", ledger.find_bounds, run_after_time_limit=True),
            Step("orders", self.find_orders, run_after_time_limit=True),
            Step("windows", self.polish),
            Step("search", self.search),
            Step("windows again", self.polish),
            Step("model", self.solve_whole_model, lambda: ledger.formulation is not None),
        )

    def find_orders(self) -> None:
        """Offer orders by rule, and polish the best of them or of the user's start."""
        ledger, best = self.ledger, self.start()
        with ledger.budget.phase("orders"):
            for name, make in ORDERS.items():
                order = make(self.graph)
                ledger.baselines[name] = self.graph.peak(order)
                if best is None or self.graph.peak(order) < self.graph.peak(best):
                    best = order
                self.offer(order, name, "orders")
        assert best is not None
        self.orderer = Orderer(self.graph, best)

    def start(self) -> list[int] | None:
        """The order of the user's plan."""
        plan = self.ledger.plan
        if plan is None:
            return None
        place = {run.operator: (run.start_ticks or 0, run.stop_ticks or 0) for run in plan.runs}
        graph = self.graph
        names = [operator.name for operator in graph.problem.graph.operators]
        rank = sorted(range(len(names)), key=lambda o: (*place[names[o]], o))
        back = {o: at for at, o in enumerate(rank)}
        return graph.by_rank([back.get(o, len(names)) for o in range(len(graph))])

    def offer(self, order: list[int], planner: str, phase: str) -> None:
        """Offer an order that keeps the device's memory."""
        if self.limit is None or self.graph.peak(order) <= self.limit:
            self.ledger.offer(self.graph.plan(order, planner), planner, phase)

    def polish(self) -> None:
        """Windows around the fullest operators."""
        ledger = self.ledger
        with ledger.budget.phase("windows"):
            seed = ledger.settings.seed
            for order in self.orderer.polish(ledger.budget, ledger.lower or 0, seed):
                self.offer(order, "windows", "windows")

    def search(self) -> None:
        """Parts between cuts, the fullest first."""
        ledger = self.ledger
        with ledger.budget.phase("search"):
            for found in self.orderer.search(ledger.budget, ledger.lower or 0):
                if isinstance(found, Bound):
                    self.prove(found)
                else:
                    self.offer(found, "order search", "search")
                if ledger.done:
                    return

    def prove(self, bound: Bound) -> None:
        """Take a bound; above the device's memory it says that there is no plan."""
        if self.limit is not None and bound.value > self.limit:
            units = self.ledger.problem.units
            needed, limit = size_text(units, bound.value), size_text(units, self.limit)
            self.ledger.refute(
                f"every order needs {needed}, the device has {limit}: {bound.detail}"
            )
        else:
            self.ledger.prove(bound)
