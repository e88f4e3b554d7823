"""The shortest plan of a small problem, by search over placements and orders."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import Plan, PlanningProblem
from milp_plan.core.budget import Budget

from ..decoder import NEVER, Decoder
from ..decoder import layout as at
from .choices import choices_of
from .placing import BEST, DEPTH, FRESH, LEAST_OPEN, advance, empty_stack, least_open
from .sizes import LARGEST, is_small

CHOICES_PER_CHECK = 1000
"""Choices between two checks of the budget."""

SCHEDULES, FIRST_SCHEDULES, MORE_SCHEDULES = 20_000, 200, 10
"""Most schedules, complete or partial, of one complete placement; then it is left undecided. Where
few groups decide the placement, this is the limit of the last pass. The first pass has the second
number as its limit, and each further one the limit of the pass before times the third number: what
one pass finds prunes the next."""


class Enumeration:
    """Depth-first search over options and sites, then over orders of tasks (see :mod:`.placing`).

    Parameters
    ----------
    problem
        A problem that :meth:`suits` accepts.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self._most = SCHEDULES
        if len(problem.graph.operators) > LARGEST:
            self._most = min(SCHEDULES, FIRST_SCHEDULES)
        self._proved = 0
        self.decoder = Decoder(problem)
        compiled = self.decoder.compiled
        self.choices = choices_of(compiled)
        if self.choices is None:
            return
        memory = self.decoder.memory
        sizes = len(memory.part(at.MEMORY)), len(memory.part(at.START)), len(compiled.view.units)
        self.stack = empty_stack(self.choices, sizes)
        for part in (at.SITE, at.OPTION):
            memory.part(part)[:] = -1

    suits = staticmethod(is_small)

    def cut(self, known: int | None) -> None:
        """Search only for plans shorter than ``known`` ticks from now on."""
        if self.choices is not None and known is not None:
            numbers = self.stack.numbers
            numbers[BEST] = min(int(numbers[BEST]), -(-known // self.decoder.compiled.unit))

    def plans(self, budget: Budget, choices: int | None = None) -> Iterator[Plan]:
        """Yield better and better plans until the search is complete or a limit ends it.

        Parameters
        ----------
        budget
            Checked after every :data:`CHOICES_PER_CHECK` choices.
        choices
            Most choices and schedules to try; ``None`` for as many as the time allows.
        """
        if self.choices is None or not self.decoder.compiled.exact:
            return
        memory, stack = self.decoder.memory, self.stack
        looked = 0
        while not budget.over and (choices is None or looked < choices):
            before = stack.numbers[BEST]
            done = advance(memory.a, memory.t, self.choices, stack, (CHOICES_PER_CHECK, self._most))
            looked += CHOICES_PER_CHECK
            if stack.numbers[BEST] < before:
                yield self._plan()
            if done and not self._again():
                return

    def _again(self) -> bool:
        """Begin another pass with more schedules per placement; return ``False`` if it is useless.

        Each pass proves that no plan is shorter than what it leaves undecided, or than the best
        plan: so the largest of these numbers is the bound.
        """
        numbers = self.stack.numbers
        self._proved = max(self._proved, least_open(self.stack))
        if self._proved >= numbers[BEST] or self._most >= SCHEDULES:
            return False
        self._most = min(SCHEDULES, MORE_SCHEDULES * self._most)
        numbers[LEAST_OPEN], numbers[DEPTH], numbers[FRESH] = NEVER, 0, 1
        return True

    @property
    def least(self) -> int | None:
        """Proven lower bound in ticks; ``None`` where nothing is proved."""
        if self.choices is None or not self.decoder.compiled.exact:
            return None
        units = max(self._proved, least_open(self.stack))
        return None if units == NEVER else self.decoder.ticks(units)

    def _plan(self) -> Plan:
        """Return the best plan, made by another decoder since the search goes on in this one."""
        other, stack = Decoder(self.decoder.problem), self.stack
        return other.fixed(stack.site, stack.option, stack.start, "enumeration")
