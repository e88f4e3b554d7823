"""MemFlow's search: a Markov chain over how each operator runs and whether it runs again.

Source: MemFlow (SIGMOD 2020, 10.1145/3318464.3384416), which adds memory and recomputation to
the search of FlexFlow (Jia, Zaharia, Aiken, MLSys 2019, section 6): Metropolis steps over the
configurations of operators, judged by a simulator. The chain sees a plan above the memory limit as
slower in proportion to the worst excess, so that it may pass through such plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget

from ..indexed import indexed
from .relief import Relief
from .simulator import Measure, Simulator
from .states import ChainState, States

GREED = 200.0
"""A step that is worse by one part in so many is taken with probability 1/e."""

PENALTY = 3.0
"""Ticks, in parts of all, for each part by which the fullest memory exceeds its limit."""

PATIENCE = 0.5
"""The chain ends when this part of its proposals has brought nothing better."""


@dataclass(frozen=True)
class Found:
    """What a chain found.

    Parameters
    ----------
    plan, measure
        The fastest plan within memory, and its time and memory; ``None`` without one.
    proposals, simulated
        Proposals drawn, and steps simulated for them.
    """

    plan: Plan | None
    measure: Measure | None
    proposals: int
    simulated: int


class Chain:
    """Metropolis steps from a plan.

    Parameters
    ----------
    problem
        A makespan problem under the memory law ``instant``.
    start
        Where to begin; its order of starts is the order of the simulator.
    recompute
        Whether operators may run again.
    blind
        Whether memory counts for nothing, as in searches before MemFlow.
    seed
        Of the chain.
    """

    def __init__(
        self,
        problem: PlanningProblem,
        start: Plan,
        *,
        recompute: bool = True,
        blind: bool = False,
        seed: int = 0,
    ) -> None:
        view = indexed(problem)
        position = {name: n for n, name in enumerate(problem.graph.topological_order)}
        begins = {run.operator: run.start_ns or 0 for run in reversed(start.runs)}
        self.states = States(view, sorted(position, key=lambda op: (begins[op], position[op])))
        if not recompute:
            self.states.droppable = []
        self._limits = [None if blind else limit for limit in view.memory]
        self._simulator = Simulator(view)
        self._relief = Relief(self.states, self._simulator)
        self._rng = Random(seed)
        self.start = self.states.of_plan(start)

    def run(
        self,
        proposals: int | None,
        budget: Budget,
        state: ChainState | None = None,
        on_better: Callable[[Plan, Measure], object] = lambda *_: None,
    ) -> Found:
        """Draw proposals until there were enough, or time is up, or nothing gets better.

        Parameters
        ----------
        proposals
            At most so many; ``None``: until the budget ends.
        budget
            Ends the chain as well.
        state
            Where to begin; at ``start`` unless given.
        on_better
            Called with each plan within memory that is faster than those before.
        """
        state, cost, least = state or self.start, math.inf, math.inf
        best: tuple[Plan, Measure] | None = None
        drawn, last = 0, 0
        proposed, begun = state, self._simulator.simulated
        most = math.inf if proposals is None else proposals
        while drawn <= most and drawn - last <= max(1, PATIENCE * most):
            measure, relieved = self._simulator.run(self.states.steps(proposed)), None
            if measure is not None:
                asked = self._cost(measure)
                if asked <= cost or self._rng.random() < math.exp(GREED * (1.0 - asked / cost)):
                    state, cost = proposed, asked
                if cost < least:
                    least, last = cost, drawn
                if best is None or measure.ticks < best[1].ticks:
                    if self._excess(measure) <= 0:
                        best = (self._simulator.plan(), measure)
                        on_better(*best)
                    else:
                        relieved = self._relief.more(proposed, self._limits)
            if budget.over:
                break
            drawn += 1
            proposed = relieved or self.states.neighbour(state, self._rng)
        plan, measure = best or (None, None)
        return Found(plan, measure, drawn, self._simulator.simulated - begun)

    def random_state(self) -> ChainState:
        """Draw a way for every unit; nothing runs again."""
        return ChainState(tuple(map(self._rng.choice, self.states.ways)), frozenset())

    def _excess(self, measure: Measure) -> float:
        """Part by which the fullest memory exceeds its limit; at most 0 if all hold."""
        return max(
            (
                peak / limit - 1.0 if limit else float(peak > 0)
                for peak, limit in zip(measure.peaks, self._limits, strict=True)
                if limit is not None
            ),
            default=0.0,
        )

    def _cost(self, measure: Measure) -> float:
        return measure.ticks * (1.0 + PENALTY * max(0.0, self._excess(measure)))
