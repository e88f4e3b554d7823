"""Contiguous throughput: baselines, dynamic programmes over ideals, and the model where they end.

Every plan goes through the checker; every bound is on the whole problem.
"""

from __future__ import annotations

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.bounds import Bound
from milp_plan.bounds.serial_catalogue import serial_bounds
from milp_plan.bounds.serial_load import work_bound
from milp_plan.core.budget import Budget
from milp_plan.planners.serial.baselines import CONTIGUOUS
from milp_plan.planners.serial.contiguous import ContiguousSearch
from milp_plan.serial import SerialGraph
from milp_plan.serial.value import bottleneck, fits, homeless

from .host import Host

ROUNDS, MANY_ROUNDS = 2, 400
"""Rounds of the search on several orders: before the exact one, and where there is none."""

WIDE_SHARE = 0.4
"""Part of the time left for the search on several orders where the exact one gave up."""

BOUND_SHARE = 0.1
"""Part of the time left for bounds by cuts, where the exact search gave up."""

BASELINE_SHARE = 0.3
"""Part of the time limit after which no further baseline is asked."""


class ContiguousRun:
    """One run on a bottleneck problem under the chain law.

    Parameters
    ----------
    host
        Who keeps plan and bound.
    graph
        The problem as a hypergraph of classes.
    """

    def __init__(self, host: Host, graph: SerialGraph) -> None:
        self.host, self.graph = host, graph
        self.end = float("inf")
        self.search = ContiguousSearch(graph, host.settings.seed, self.go_on)

    def go_on(self) -> bool:
        """Whether there is time left."""
        return self.host.clock.elapsed_s < min(self.end, self.host.settings.time_limit_s)

    def stages(self) -> None:
        """All stages, until nothing is left to do or no time is left."""
        host = self.host
        host.infeasible_because = homeless(self.graph)
        if host.infeasible_because is not None:
            return
        host.raise_bound(work_bound(self.graph))
        self.baselines()
        if host.plan is not None:
            self.search.start(self.graph.places(host.plan))
        with host.clock.phase("orders"):
            self.search.linear()
            self.offer("linear order")
            self.search.wide(ROUNDS)
        self.offer("several orders")
        if host.proved or self.exact():
            return
        self.without_lattice()

    def cuts(self) -> None:
        """Bounds on any partition; every chain is one."""
        host = self.host
        with host.clock.phase("bounds"):
            deadline = Budget(BOUND_SHARE * host.clock.left_s)
            for bound in serial_bounds(self.graph, deadline):
                host.raise_bound(bound)

    def baselines(self) -> None:
        """Published planners; one whose plan breaks a law has no value."""
        host, graph = self.host, self.graph
        for name, planner in CONTIGUOUS.items():
            if host.clock.elapsed_s > BASELINE_SHARE * host.settings.time_limit_s:
                break
            with host.clock.phase("baselines"):
                places = planner(graph, host.settings.seed)
            host.baselines[name] = None
            if places is not None and fits(graph, places):
                host.baselines[name] = bottleneck(graph, places)
                host.offer(graph.plan(places, name), name, "baselines")

    def offer(self, planner: str) -> None:
        """Offer the best plan of the search."""
        if self.search.places is not None and self.search.value != self.host.value:
            plan = self.graph.plan(self.search.places, planner)
            self.host.offer(plan, planner, "search")

    def exact(self) -> bool:
        """The dynamic programme over all ideals; True if it settled the problem."""
        host, search = self.host, self.search
        host.say("ideals", f"{len(search.chain)} blocks of {len(self.graph)} classes")
        with host.clock.phase("ideals"):
            done = search.exact()
        self.offer("ideals")
        if not done:
            host.say("ideals", "too many ideals" if self.go_on() else "out of time")
            return False
        if search.proved_infeasible:
            host.infeasible_because = "no chain of ideals fits into the devices"
        else:
            text = "no chain of ideals is better: dynamic programme over all of them"
            host.raise_bound(Bound("ideals", search.bound, text))
        return True

    def without_lattice(self) -> None:
        """Where there are too many ideals: a search on some of them, then the model."""
        host = self.host
        if host.settings.node_limit is None:
            self.end = host.clock.elapsed_s + WIDE_SHARE * host.clock.left_s
            rounds = MANY_ROUNDS
        else:
            rounds = ROUNDS
        with host.clock.phase("orders"):
            self.search.wide(rounds)
        self.offer("several orders")
        self.end = float("inf")
        self.cuts()
        if host.proved or not self.go_on():
            return
        self.solve()

    def solve(self) -> None:
        """Ask the model for anything better than the best plan."""
        host, settings = self.host, self.host.settings
        cutoff = host.value
        host.say("model", host.solver.formulation.card.name)
        limits = Limits(
            time_s=max(1.0, host.clock.left_s),
            nodes=settings.node_limit,
            gap=min(settings.gap, 1e-6),
            seed=settings.seed,
            threads=settings.threads,
        )
        guide = Guide(cutoff, host.bound.value if host.bound else None)
        answer = host.solver.run(host.problem, guide, limits, host.clock, start=host.plan)
        host.use_answer(answer, cutoff)
