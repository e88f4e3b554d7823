"""Strategy for the least peak memory on one device: rules, windows, and an exact search."""

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
        graph = read_order(ledger.problem)
        assert isinstance(graph, OrderGraph)
        self.graph = graph
        (device,) = ledger.problem.cluster.devices
        self.limit = device.memory_bytes
        self.orderer = Orderer(graph, range(0))

    @classmethod
    def why_not(cls, problem: PlanningProblem, repeatable: bool) -> str | None:
        """Return why this is not the peak memory of one device, with one option per operator."""
        if problem.objective is not Objective.PEAK_MEMORY:
            return "the objective is not peak memory"
        graph = read_order(problem)
        return graph if isinstance(graph, str) else None

    def steps(self) -> Iterable[Step]:
        """Return the steps: bounds, orders by rule, windows, the exact search."""
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
        """Offer orders by rule; the best of them and the user's start is polished later."""
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
        """Return the order of the user's plan, if there is one."""
        plan = self.ledger.plan
        if plan is None:
            return None
        times = {run.operator: (run.start_ticks or 0, run.stop_ticks or 0) for run in plan.runs}
        graph = self.graph
        names = [operator.name for operator in graph.problem.graph.operators]
        order = sorted(range(len(names)), key=lambda o: (*times[names[o]], o))
        rank = {o: position for position, o in enumerate(order)}
        return graph.by_rank([rank.get(o, len(names)) for o in range(len(graph))])

    def offer(self, order: list[int], planner: str, phase: str) -> None:
        """Offer an order if it fits into the device's memory."""
        if self.limit is None or self.graph.peak(order) <= self.limit:
            self.ledger.offer(self.graph.plan(order, planner), planner, phase)

    def polish(self) -> None:
        """Reorder windows around the operators with the highest memory use."""
        ledger = self.ledger
        with ledger.budget.phase("windows"):
            seed = ledger.settings.seed
            for order in self.orderer.polish(ledger.budget, ledger.lower or 0, seed):
                self.offer(order, "windows", "windows")

    def search(self) -> None:
        """Search the parts between cuts, those with the highest memory use first."""
        ledger = self.ledger
        with ledger.budget.phase("search"):
            for result in self.orderer.search(ledger.budget, ledger.lower or 0):
                if isinstance(result, Bound):
                    self.prove(result)
                else:
                    self.offer(result, "order search", "search")
                if ledger.done:
                    return

    def prove(self, bound: Bound) -> None:
        """Record a bound; one above the device's memory proves that there is no plan."""
        if self.limit is not None and bound.value > self.limit:
            units = self.ledger.problem.units
            needed, limit = size_text(units, bound.value), size_text(units, self.limit)
            self.ledger.refute(
                f"every order needs {needed}, the device has {limit}: {bound.detail}"
            )
        else:
            self.ledger.prove(bound)
