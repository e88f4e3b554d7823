"""MemFlow's search: a Markov chain over how each operator runs and whether it runs again.

Source: MemFlow (SIGMOD 2020, 10.1145/3318464.3384416), which adds memory and recomputation to
the search of FlexFlow (Jia, Zaharia, Aiken, MLSys 2019, section 6): Metropolis steps over the
configurations of operators, judged by a simulator. The chain sees a plan above the memory limit as
slower in proportion to the worst excess, so that it may pass through such plans. It goes in rounds,
as in simulated annealing: each begins at the best plan, warm, and ends where only better ones are
taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners.indexed import indexed

from .relief import Relief
from .simulator import Measure, Simulator
from .states import ChainState, States

GREED = 200.0
"""A step that is worse by one part in this many is taken with probability 1/e as a round begins."""

ROUND = 1000
"""Proposals of a round, at most."""

PENALTY = 3.0
"""Ticks, in parts of all, for each part by which the fullest memory exceeds its limit."""

PATIENCE = 0.5
"""The chain ends after a round when this part of its proposals has brought nothing better."""


@dataclass(frozen=True)
class Found:
    """What a chain found.

    Parameters
    ----------
    plan, measure
        The fastest plan within memory, and its time and memory; ``None`` without one.
    proposals, simulated
        Proposals drawn, and steps simulated for them.
    state
        Of the plan: another chain of the same problem and start may go on there.
    """

    plan: Plan | None
    measure: Measure | None
    proposals: int
    simulated: int
    state: ChainState | None


@dataclass
class _Walk:
    """Where a chain is, and what was best so far.

    ``home`` is the state of the best plan or, before there is one, of least cost: rounds begin
    there. ``last`` is when something was better.
    """

    state: ChainState
    home: ChainState
    on_better: Callable[[Plan, Measure], object]
    cost: float = math.inf
    least: float = math.inf
    last: int = 0
    plan: Plan | None = None
    measure: Measure | None = None


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
        begins = {run.operator: run.start_ticks or 0 for run in reversed(start.runs)}
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
            At most this many; ``None``: until the budget ends.
        budget
            Ends the chain as well.
        state
            Where to begin; at ``start`` unless given.
        on_better
            Called with each plan within memory that is faster than those before.
        """
        most = math.inf if proposals is None else proposals
        length = ROUND if proposals is None else _even(proposals)
        drawn, begun = 0, self._simulator.simulated
        proposed = state or self.start
        walk = _Walk(proposed, home=proposed, on_better=on_better)
        while drawn <= most:
            warmth = (1.0 - drawn % length / length) / GREED
            relieved = self._judge(walk, proposed, warmth, drawn)
            if budget.over:
                break
            drawn += 1
            if drawn % length:
                proposed = relieved or self.states.neighbour(walk.state, self._rng)
                continue
            if drawn - walk.last > PATIENCE * most:
                break
            proposed, walk.cost = walk.home, math.inf
        simulated = self._simulator.simulated - begun
        return Found(walk.plan, walk.measure, drawn, simulated, walk.home if walk.plan else None)

    def _judge(
        self, walk: _Walk, proposed: ChainState, warmth: float, drawn: int
    ) -> ChainState | None:
        """Go to what is proposed, or not; what relieves it, where it exceeds memory but is fast."""
        bar = walk.cost * (1.0 - warmth * math.log(1.0 - self._rng.random()))
        fastest = walk.measure.ticks if walk.measure else math.inf
        measure = self._simulator.run(self.states.steps(proposed), max(bar, fastest))
        if measure is None:
            return None
        asked = self._cost(measure)
        if asked <= bar:
            walk.state, walk.cost = proposed, asked
        if asked < walk.least:
            walk.least, walk.last = asked, drawn
            walk.home = walk.home if walk.plan else proposed
        if measure.ticks >= fastest:
            return None
        if self._excess(measure) > 0:
            return self._relief.more(proposed, self._limits) if self.states.droppable else None
        walk.plan, walk.measure = self._simulator.plan(), measure
        walk.home, walk.last = proposed, drawn
        walk.on_better(walk.plan, measure)
        return None

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


def _even(proposals: int) -> int:
    """Proposals of each round where all are equally long."""
    return max(1, -(-proposals // max(1, -(-proposals // ROUND))))
