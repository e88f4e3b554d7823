"""Local search over places and priorities, each candidate scheduled by the dispatcher.

A *unit* is a colocation group or an operator without one. A state gives every unit a site and every
operator a priority; its value is that of the list schedule they lead to. Moves change the site of
one unit, of a run of units or of two at once, or disturb priorities. Worse states are accepted
with a probability that falls over time (Kirkpatrick, Gelatt, Vecchi 1983, Science 220).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from milp_plan.core import Placement, Plan, PlanningProblem
from milp_plan.core.budget import now

from .dispatch import dispatch
from .late import put_off
from .objective import objective_value
from .priorities import bottom_levels

START_TEMPERATURE, END_TEMPERATURE = 0.004, 0.0001
"""Relative worsening that is accepted with probability 1/e, at the start and at the end."""


@dataclass(frozen=True)
class State:
    """Placement and priority of every operator, and the value they lead to."""

    placements: Mapping[str, Placement]
    priority: Mapping[str, float]
    value: int


class Annealing:
    """Search from a known plan.

    Parameters
    ----------
    problem, plan
        A problem whose plans have a schedule, and a valid plan of it.
    seed
        Of the random choices.
    """

    def __init__(self, problem: PlanningProblem, plan: Plan, seed: int = 0) -> None:
        self.problem = problem
        self.rng = random.Random(seed)
        self.best_plan, self.best_value = plan, objective_value(problem, plan)
        self.tried = 0
        graph = problem.graph
        units: dict[str, list[str]] = {}
        for name in graph.topological_order:
            units.setdefault(graph.operator(name).group or f"\0{name}", []).append(name)
        self.units = list(units.values())
        self.choices = [self._choices(members) for members in self.units]
        self.movable = [n for n, choice in enumerate(self.choices) if len(choice) > 1]
        self.state = self._first(plan)

    def _choices(self, members: list[str]) -> dict[tuple[str, ...], dict[str, Placement]]:
        """Site -> fastest placement of each member there, for sites all members can run on."""
        fastest: list[dict[tuple[str, ...], Placement]] = []
        for name in members:
            by_site: dict[tuple[str, ...], Placement] = {}
            for placement in self.problem.placements(name):
                known = by_site.get(placement.devices)
                ticks = self.problem.duration_ns(name, placement)
                if known is None or ticks < self.problem.duration_ns(name, known):
                    by_site[placement.devices] = placement
            fastest.append(by_site)
        return {
            site: {n: table[site] for n, table in zip(members, fastest, strict=True)}
            for site in fastest[0]
            if all(site in table for table in fastest)
        }

    def _first(self, plan: Plan) -> State:
        """The plan itself: earlier starts have higher priority, or the usual bottom levels."""
        placements = {run.operator: run.placement for run in plan.runs}
        starts = {run.operator: -float(run.start_ns or 0) for run in plan.runs}
        states = [
            State(placements, priority, value)
            for priority in (starts, bottom_levels(self.problem))
            if (value := self._evaluate(placements, priority)) is not None
        ]
        return min(
            states,
            key=lambda state: state.value,
            default=State(placements, starts, self.best_value),
        )

    def _evaluate(
        self, placements: Mapping[str, Placement], priority: Mapping[str, float]
    ) -> int | None:
        self.tried += 1
        plan = dispatch(self.problem, priority=priority, placements=placements)
        if plan is None:
            return None
        plan = put_off(self.problem, plan)
        value = objective_value(self.problem, plan)
        if value < self.best_value:
            self.best_plan, self.best_value = plan, value
        return value

    def run(
        self,
        time_limit_s: float,
        moves: int | None = None,
        on_better: Callable[[Plan], object] | None = None,
    ) -> Plan:
        """Search until the time or the number of moves is used up; return the best plan.

        With ``moves`` the cooling follows the count, not the clock, and the run is repeatable.
        """
        began = now()
        count = 0
        while (moves is None or count < moves) and now() - began < time_limit_s:
            clock = (now() - began) / time_limit_s
            done = clock if moves is None else count / moves
            heat = START_TEMPERATURE * (END_TEMPERATURE / START_TEMPERATURE) ** done
            known = self.best_value
            self._step(heat)
            count += 1
            if self.best_value < known and on_better is not None:
                on_better(self.best_plan)
        return self.best_plan

    def _step(self, heat: float) -> None:
        kinds = [self._disturb] if not self.movable else [self._move, self._move, self._disturb]
        placements, priority = self.rng.choice(kinds)()
        value = self._evaluate(placements, priority)
        if value is None:
            return
        worse = (value - self.state.value) / max(1, self.state.value)
        if worse <= 0 or self.rng.random() < math.exp(-worse / heat):
            self.state = State(placements, priority, value)

    def _move(self) -> tuple[Mapping[str, Placement], Mapping[str, float]]:
        """New sites for one unit, a run of units, or two that swap."""
        placements = dict(self.state.placements)
        first = self.rng.randrange(len(self.movable))
        kind = self.rng.random()
        if kind < 0.4:
            self._place(placements, self.movable[first], self._some_site(self.movable[first]))
        elif kind < 0.7:
            site = self._some_site(self.movable[first])
            for number in self.movable[first : first + self.rng.randint(1, 6)]:
                self._place(placements, number, site)
        else:
            pair = [self.movable[first], self.rng.choice(self.movable)]
            sites = [placements[self.units[number][0]].devices for number in pair]
            for number, site in zip(pair, reversed(sites), strict=True):
                self._place(placements, number, site)
        return placements, self.state.priority

    def _some_site(self, number: int) -> tuple[str, ...]:
        """A site of a neighbour in the graph, or any."""
        sites = self.choices[number]
        if self.rng.random() < 0.5:
            graph = self.problem.graph
            name = self.rng.choice(self.units[number])
            around = [*graph.predecessors[name], *graph.successors[name]]
            near = [self.state.placements[other].devices for other in around]
            near = [site for site in near if site in sites]
            if near:
                return self.rng.choice(near)
        return self.rng.choice(list(sites))

    def _place(self, placements: dict[str, Placement], number: int, site: tuple[str, ...]) -> None:
        if site in self.choices[number]:
            placements.update(self.choices[number][site])

    def _disturb(self) -> tuple[Mapping[str, Placement], Mapping[str, float]]:
        """Priorities of a few operators move by up to a tenth of the whole span."""
        priority = dict(self.state.priority)
        span = max(priority.values()) - min(priority.values()) or 1.0
        width = span * 10 ** self.rng.uniform(-3, -1)
        for name in self.rng.sample(list(priority), min(len(priority), self.rng.randint(1, 8))):
            priority[name] += self.rng.uniform(-width, width)
        return self.state.placements, priority
