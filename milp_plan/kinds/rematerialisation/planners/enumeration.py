"""Exact search for small problems of rematerialisation.

A state is the number of operators that have run for the first time, the outputs that are held, and
those on the host. States are expanded in the order of added costs, so the first one in which
everything has run is an optimum. A state is expanded again only by a path that takes less time,
which matters where added time is limited. Outputs are dropped only when a run needs the room, and
then no more of them than it needs: an output that is still held can be dropped later. Where the
peak is minimised every choice of outputs to drop is tried, as less is then better.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from milp_plan.core.budget import Budget

from ..problem import RematerialisationObjective, RematerialisationPlan, RematerialisationProblem

EVERY_PLAN = "every plan"

LARGEST = 16
"""Largest number of operators of a small problem: every subset of outputs may be tried."""

MAX_STATES, ALL_STATES = 30_000, 1_000_000
"""Largest number of states of the search: about a second, and as many as memory allows."""

LOOKS = 50
"""States between two readings of the clock."""


@dataclass(frozen=True)
class BestOfAll:
    """Result of the exact search.

    ``plan`` is the best one, ``None`` where none is better than the known one; ``value`` is
    the least value of any plan, ``None`` where there is none.
    """

    plan: RematerialisationPlan | None
    value: int | None


class _Reached(NamedTuple):
    """A state, its costs, and the number of the state before (-1: none)."""

    added: int
    ticks: int
    ran: int
    held: int
    away: int
    before: int
    place: int
    reload: bool


def best_of_all(
    problem: RematerialisationProblem,
    budget: Budget,
    known: int | None = None,
    states: int = MAX_STATES,
) -> BestOfAll | None:
    """Return the best plan of all; ``None`` where there are too many states, or no time is left.

    Parameters
    ----------
    problem
        A problem of any objective, with or without a host.
    budget
        Budget that is checked regularly.
    known
        Value of a plan; only better ones are searched.
    states
        Largest number of states.
    """
    if not few(problem):
        return None
    return _SequenceSearch(problem, known, states).run(budget)


def few(problem: RematerialisationProblem) -> bool:
    """Return whether a problem is small enough."""
    return len(problem.computations) <= LARGEST


class _SequenceSearch:
    def __init__(self, problem: RematerialisationProblem, known: int | None, states: int) -> None:
        self.problem, self.known, self.most = problem, known, states
        self.sizes = [entry.size for entry in problem.computations]
        self.inputs = [sum(1 << place for place in row) for row in problem.inputs]
        self.peak = problem.objective is RematerialisationObjective.PEAK_MEMORY
        self.left: list[_Reached] = []

    def run(self, budget: Budget) -> BestOfAll | None:
        problem = self.problem
        fastest: dict[tuple[int, int, int], int] = {}
        queue = [_Reached(0, 0, 0, 0, 0, -1, -1, False)]
        while queue:
            state = heapq.heappop(queue)
            known = fastest.get(state[2:5])
            if known is not None and (problem.added_limit is None or known <= state.ticks):
                continue
            fastest[state[2:5]] = state.ticks
            self.left.append(state)
            if state.ran == len(self.sizes):
                return BestOfAll(self.plan(), state.added)
            if len(self.left) > self.most or (len(self.left) % LOOKS == 0 and budget.over):
                return None
            for later in self.steps(state):
                if self.known is None or later.added < self.known:
                    heapq.heappush(queue, later)
        return BestOfAll(None, self.known)

    def steps(self, state: _Reached) -> Iterator[_Reached]:
        """Yield every run and every reload that may come next."""
        problem, before = self.problem, len(self.left) - 1
        for place in range(state.ran + 1):
            first, bit = place == state.ran, 1 << place
            if state.held & bit:
                continue
            entry, (run, transfer) = problem.computations[place], problem.prices[place]
            ways = []
            if (first or entry.again) and not self.inputs[place] & ~state.held:
                price = (0, 0) if first else (run, entry.cost)
                ways.append((self.inputs[place], *price, state.away, False))
            if problem.host is not None and not first and self.room(state.away | bit):
                moves = 1 if state.away & bit else 2
                ticks = moves * problem.transfers[place]
                ways.append((0, moves * transfer, ticks, state.away | bit, True))
            for needed, added, ticks, away, reload in ways:
                spent = state.ticks + ticks
                if problem.added_limit is not None and spent > problem.added_limit:
                    continue
                for held in self.kept(state.held, needed, self.sizes[place]):
                    now = held | bit
                    total = max(state.added, self.bytes(now)) if self.peak else state.added + added
                    ran = state.ran + first
                    yield _Reached(total, spent, ran, now, away, before, place, reload)

    def room(self, away: int) -> bool:
        """Return whether the host has room for these outputs."""
        host = self.problem.host
        return host is not None and (host.memory is None or self.bytes(away) <= host.memory)

    def bytes(self, outputs: int) -> int:
        """Return the total size of outputs."""
        return sum(size for place, size in enumerate(self.sizes) if outputs >> place & 1)

    def kept(self, held: int, needed: int, size: int) -> Iterator[int]:
        """Yield the subsets of held outputs that may stay with a run's own output.

        A maximal subset that fits; all outputs where they fit, unless less is better.
        """
        budget = self.problem.budget
        room = None if budget is None else budget - size
        if not self.peak and (room is None or self.bytes(held) <= room):
            yield held
            return
        loose = held & ~needed
        part = loose
        while True:  # every subset of the optional outputs, the whole first
            chosen = needed | part
            used = self.bytes(chosen)
            spare = None if room is None else room - used
            if spare is None or (spare >= 0 and (self.peak or self.full(held & ~chosen, spare))):
                yield chosen
            if not part:
                return
            part = (part - 1) & loose

    def full(self, gone: int, spare: int) -> bool:
        """Return whether none of the dropped outputs would fit into the spare bytes."""
        return all(size > spare for place, size in enumerate(self.sizes) if gone >> place & 1)

    def plan(self) -> RematerialisationPlan:
        """Return the runs that led to the last expanded state."""
        steps, at = [], len(self.left) - 1
        while self.left[at].before >= 0:
            steps.append(self.left[at])
            at = self.left[at].before
        steps.reverse()
        names = tuple(self.problem.computations[step.place].name for step in steps)
        reloads = tuple(number for number, step in enumerate(steps) if step.reload)
        return RematerialisationPlan(self.problem.name, names, planner=EVERY_PLAN, reloads=reloads)
