"""Recomputes the times of deliveries in their order, each by its sender."""

from __future__ import annotations

from milp_plan.lp.network import Network

from .problem import Delivery, ReshardingPlan, ReshardingProblem


def retimed_deliveries(problem: ReshardingProblem, plan: ReshardingPlan) -> ReshardingPlan | None:
    """Return the plan with times of its own order; ``None`` where a card or slice is unknown."""
    network = Network()
    for number, entry in enumerate(plan.deliveries):
        piece = problem.by_name.get(entry.slice)
        if piece is None or entry.sender not in problem.rates:
            return None
        ports = [("send", entry.sender), *(("receive", name) for name in piece.receivers)]
        ticks = problem.ticks(piece, entry.sender)
        network.add((entry.start, entry.stop, number), ticks, ports)
    starts = network.starts() or []
    deliveries = tuple(
        Delivery(entry.slice, entry.sender, start, start + task.ticks)
        for entry, start, task in zip(plan.deliveries, starts, network.tasks, strict=True)
    )
    return ReshardingPlan(problem.name, deliveries, planner=plan.planner)
