"""Simulated annealing over places, options and priorities, in compiled loops.

Worse states are accepted with a probability that falls over time (Kirkpatrick, Gelatt, Vecchi
1983, Science 220). The random number is drawn first. It gives a limit on the value, and the
decoder abandons a schedule as soon as it must exceed this limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from milp_plan.core import CommunicationModel, Objective, Plan, PlanningProblem
from milp_plan.core.compiled import compiled

from ..decoder import NEVER, Decoder
from ..decoder import layout as at
from ..decoder.decoder import decode
from ..decoder.layout import DEVICES, LIMITED, MEMORY, OPTION, PEAK, RANK, SITE, Ints
from ..decoder.legs import busiest
from .states import State, Undo, move, new_undo, take_back
from .units import Units, units_of
from .urgency import Urgency, rank_anew, urgency_of
from .waits import Waits, new_waits, note, same

HOTTEST, COLDEST = 0.003, 0.0001
"""Relative worsening that is accepted with probability 1/e, at the start and at the end."""

FLOOR, STEEP = 0.02, 2.0
"""Penalty of a state that exceeds a memory limit, as a part of its value: the least penalty, and
the addition per relative excess."""

BLOCK = 200_000
"""Operators scheduled between two reads of the clock, about."""

RERANK_SHARE = 0.05
"""Part of the moves after which all operators are ranked anew: see :mod:`.urgency`."""


class BestState(NamedTuple):
    """The best state so far: site, option and rank of each operator; an array of its value."""

    site: Ints
    option: Ints
    rank: Ints
    value: Ints


class Cooling(NamedTuple):
    """First and last temperature, relative to the value of the state, and the range of ranks."""

    hot: float
    cold: float
    width: float


@compiled
def _save(a: Ints, t: Ints, best: BestState, value: int) -> None:
    for operator in range(len(best.site)):
        best.site[operator] = a[t[SITE] + operator]
        best.option[operator] = a[t[OPTION] + operator]
        best.rank[operator] = a[t[RANK] + operator]
    best.value[0] = value


class Rules(NamedTuple):
    """How a state is evaluated.

    Parameters
    ----------
    loads
        Whether the load of the busiest resource counts instead of the last stop.
    soft
        Whether a state may exceed the memory, at a penalty.
    aside, holding
        See :meth:`Decoder.decode`.
    """

    loads: bool
    soft: bool
    aside: float
    holding: bool


@compiled
def evaluate(a: Ints, t: Ints, rules: Rules, cutoff: int) -> tuple[int, bool]:
    """Return the penalised value of the state in the arrays, and whether it fits into memory.

    The penalty is 0 where it fits. ``NEVER`` stands for a value that is not below the cutoff.
    """
    last = NEVER if rules.loads else cutoff
    value = decode(a, t, (True, rules.soft, rules.holding), rules.aside, last)
    if value == NEVER:
        return NEVER, False
    if rules.loads:
        value = busiest(a, t)
    over = 0.0
    if rules.soft and t[LIMITED]:
        for device in range(t[DEVICES]):
            peak, limit = a[t[PEAK] + device], a[t[MEMORY] + device]
            if peak > limit:
                over = max(over, (peak - limit) / max(1.0, float(limit)))
    if over > 0.0:
        value += int(value * (FLOOR + STEEP * min(over, 1.0))) + 1
    return (int(value) if value < cutoff else NEVER), over == 0.0


@compiled
def cool(  # noqa: PLR0917 (compiled)
    a: Ints,
    t: Ints,
    search: tuple[Units, Undo, BestState, Urgency, Waits],
    cooling: Cooling,
    count: tuple[int, int],
    value: int,
    rules: Rules,
) -> int:
    """Make moves while the temperature falls; return the value of the state they end in.

    ``count`` is the seed and the number of moves.
    """
    units, undo, best, urgency, waits = search
    seed, moves = count
    waits.known[0] = False
    np.random.seed(seed)
    factor = (cooling.cold / cooling.hot) ** (1.0 / moves)
    temperature = cooling.hot
    for _ in range(moves):
        temperature *= factor
        move(a, t, units, undo, cooling.width)
        if undo.changed[0] == 0:
            continue
        if np.random.random() < RERANK_SHARE:
            rank_anew(a, t, undo, urgency, cooling.width)
        elif same(a, t, waits, undo):
            continue
        worst = value * (1.0 - temperature * np.log(1.0 - np.random.random()))
        new_value, fits = evaluate(a, t, rules, int(worst) + 1)
        if new_value == NEVER:
            take_back(a, t, undo)
            continue
        value = new_value
        note(a, t, waits, rules.holding)
        if fits and new_value < best.value[0]:
            _save(a, t, best, new_value)
    return value


class Annealing:
    """A search by annealing, in one thread.

    Parameters
    ----------
    problem
        The problem to plan.
    seed
        Seed of the random choices.
    holding
        Whether transfers wait for more urgent ones, where they occupy a channel or port.
    """

    def __init__(self, problem: PlanningProblem, seed: int = 0, *, holding: bool = True) -> None:
        self.problem = problem
        self.decoder = Decoder(problem)
        self.units = units_of(self.decoder.compiled)
        self.urgency = urgency_of(problem, self.decoder.compiled)
        size = self.decoder.size
        self.undo = new_undo(size, len(self.units.ptr) - 1)
        self.waits = new_waits(self.decoder)
        self.random = np.random.default_rng(seed)
        self.tried = 0
        zeros = np.zeros(size, dtype=np.int64)
        never = np.full(1, NEVER, dtype=np.int64)
        self.best_state = BestState(zeros, zeros.copy(), zeros.copy(), never)
        self.value, self.width = NEVER, 1.0
        self.loads = problem.objective is Objective.BOTTLENECK
        self.holds = holding and problem.cluster.communication is not CommunicationModel.DELAY
        self.rules = Rules(self.loads, False, 1.0, self.holds)

    def forget(self) -> None:
        """Forget the best state: the next one becomes the best."""
        self.best_state.value[0] = NEVER

    def begin(self, start: State, *, soft: bool = False) -> bool:
        """Start from a state and return whether it has a schedule.

        With ``soft``, or where the state has no schedule within memory, the search also visits
        states that exceed the memory.
        """
        memory = self.decoder.memory
        self.decoder.site[:], self.decoder.option[:] = start.site, start.option
        memory.part(at.RANK)[: self.decoder.size] = start.rank
        self.width = float(np.ptp(start.rank)) + 1.0
        hard = [Rules(self.loads, False, aside, self.holds) for aside in (1.0, 0.0)]
        penalised = Rules(self.loads, True, 0.0, self.holds)
        if not self.decoder.limited:
            return self._choose_rules(hard[:1])
        first = [penalised] if soft else hard
        return self._choose_rules(first) or self._choose_rules([penalised])

    def _choose_rules(self, choices: list[Rules]) -> bool:
        """Take the rules with the best value of the state; return whether it has a schedule."""
        memory, values = self.decoder.memory, []
        for rules in choices:
            value, fits = evaluate(memory.a, memory.t, rules, NEVER)
            if fits and value < self.best_state.value[0]:
                _save(memory.a, memory.t, self.best_state, value)
            if value < NEVER:
                values.append((value, rules))
        if values:
            self.value, self.rules = min(values, key=lambda entry: entry[0])
        return bool(values)

    def run(
        self,
        done: Callable[[], float],
        hot: float = HOTTEST,
        cold: float = COLDEST,
        on_better: Callable[[State], object] = lambda _state: None,
        most: int | None = None,
    ) -> None:
        """Anneal while ``done`` goes from 0 to 1; report a better state after each block of moves.

        Parameters
        ----------
        done
            Part of the round that is over; the search ends at 1.
        hot, cold
            First and last temperature, relative to the value of the state.
        on_better
            Called with the best state after each block that improved it.
        most
            Largest number of moves.
        """
        usual = max(20, BLOCK // self.decoder.size)
        last = None if most is None else self.tried + most
        share = done()
        while share < 1.0:
            block = usual if last is None else min(usual, last - self.tried)
            temperature = hot * (cold / hot) ** share
            seed, known = int(self.random.integers(1 << 31)), int(self.best_state.value[0])
            self.value = cool(
                self.decoder.memory.a,
                self.decoder.memory.t,
                (self.units, self.undo, self.best_state, self.urgency, self.waits),
                Cooling(temperature, temperature * 0.999, self.width),
                (seed, block),
                self.value,
                self.rules,
            )
            self.tried += block
            if self.best_state.value[0] < known:
                on_better(self.best)
            share = done()

    def load(self) -> None:
        """Compile the loops or read them from disk, by one move whose result is not saved.

        If two threads did so at once, one could find a function without its code.
        """
        if getattr(cool, "signatures", None):
            return
        memory, copy = self.decoder.memory, BestState(*(entry.copy() for entry in self.best_state))
        cooling = Cooling(HOTTEST, COLDEST, self.width)
        search = self.units, self.undo, copy, self.urgency, self.waits
        cool(memory.a, memory.t, search, cooling, (0, 1), self.value, self.rules)

    @property
    def spared(self) -> int:
        """Moves that could not change the schedule, which was therefore not made anew."""
        return int(self.waits.spared[0])

    @property
    def best(self) -> State:
        """A copy of the best state."""
        site, option, rank, value = self.best_state
        return State(site.copy(), option.copy(), rank.copy(), int(value[0]))


def plan_of(decoder: Decoder, state: State, planner: str) -> Plan | None:
    """Return the plan of a state; ``None`` if it has none within memory."""
    schedules: list[tuple[int, float, bool]] = []
    for aside in (1.0, 0.0) if decoder.limited else (1.0,):
        for hold in (False, True):
            value = decoder.decode(*state[:3], aside=aside, holding=hold)
            if value is not None:
                schedules.append((value, aside, hold))
    if not schedules:
        return None
    _, aside, hold = min(schedules)
    decoder.decode(*state[:3], aside=aside, holding=hold)
    return decoder.plan(planner)
