"""Seeded tiny problems whose magnitudes are spread as real ones are.

Operators last from 1 to 10^9 ticks and values have 0 to 10^10 bytes, in the same problem; links
have real latencies and bandwidths, so that a transfer of 10^8 ticks runs beside an operator of 10.
Problems with small numbers cannot tell a model that keeps its numbers together from one that does
not.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.core import (
    Channel,
    CommunicationModel,
    Objective,
    Option,
    Plan,
    PlanningProblem,
    Value,
)

from .problems import random_problem, some_workload, with_memory

LINKS = ((5_000, 32_000_000_000), (30_000, 1_000_000_000), (1_000, 300_000_000_000), (0, 10**7))
"""Latency and bytes per second of a bus, a network card, a fabric, and something slow."""


def spread_problem(
    seed: int,
    *,
    max_operators: int = 5,
    objective: Objective | None = None,
    communication: CommunicationModel | None = None,
) -> PlanningProblem:
    """Return the problem of this seed."""
    return spread_problem_with_plan(
        seed, max_operators=max_operators, objective=objective, communication=communication
    )[0]


def spread_problem_with_plan(
    seed: int,
    *,
    max_operators: int = 5,
    objective: Objective | None = None,
    communication: CommunicationModel | None = None,
) -> tuple[PlanningProblem, Plan]:
    """Like :func:`spread_problem`, together with a valid plan."""
    drawn = random_problem(
        seed, max_operators=max_operators, objective=objective, communication=communication
    )
    rng = Random(f"spread {seed}")
    problem = replace(_Magnitudes(rng).spread(drawn), name=f"spread-{seed}")
    load = some_workload(rng, problem)
    assert load is not None, "routes do not depend on magnitudes"
    return with_memory(rng, problem, load)


class _Magnitudes:
    """How large the numbers of one problem are: each kind has a range of its own."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.ticks = rng.choice(((0, 3), (0, 9), (2, 4), (5, 9)))
        self.bytes = rng.choice(((0, 10), (6, 10), (0, 3)))
        self.changes = rng.choice(((0, 2), (0, 8), (4, 6)))

    def amount(self, low: int, high: int) -> int:
        """Return a number between powers of ten, as likely small as large."""
        return int(10 ** self.rng.uniform(low, high))

    def time(self, ticks: int) -> int:
        """Return a length in place of a drawn one; nothing stays nothing."""
        return self.amount(*self.ticks) if ticks else 0

    def size(self, size: int) -> int:
        return self.amount(*self.bytes) if size else 0

    def spread(self, problem: PlanningProblem) -> PlanningProblem:
        graph = problem.graph
        operators = tuple(
            replace(op, options=tuple(self.option(option) for option in op.options))
            for op in graph.operators
        )
        values = tuple(self.value(value) for value in graph.values)
        channels = tuple(
            Channel(c.source, c.target, *self.rng.choice(LINKS)) for c in problem.cluster.channels
        )
        return replace(
            problem,
            graph=replace(graph, operators=operators, values=values),
            cluster=replace(problem.cluster, channels=channels),
        )

    def option(self, option: Option) -> Option:
        """Classes of a device are sometimes nearly equal, sometimes far apart."""
        ticks = {kind: self.time(drawn) for kind, drawn in option.duration_ticks.items()}
        if self.rng.random() < 0.5 and all(ticks.values()):
            base = max(1, min(ticks.values()))
            ticks = {kind: base + self.rng.randint(0, 9) for kind in ticks}
        space = self.size(option.workspace_bytes)
        return replace(option, duration_ticks=ticks, workspace_bytes=space)

    def value(self, value: Value) -> Value:
        return replace(
            value,
            bytes={layout: self.size(drawn) for layout, drawn in value.bytes.items()},
            transfer_bytes={
                layout: self.size(drawn) for layout, drawn in value.transfer_bytes.items()
            },
            reshard_ticks={pair: self.amount(*self.changes) for pair in value.reshard_ticks},
        )
