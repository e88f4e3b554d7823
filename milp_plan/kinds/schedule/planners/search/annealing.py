"""Simulated annealing over places, options and priorities, in compiled loops.

Worse states are accepted with a probability that falls over time (Kirkpatrick, Gelatt, Vecchi
1983, Science 220). The random number is drawn first: it says how bad a state may be, and the
decoder gives a schedule up as soon as it cannot be better than that.
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
"""How much worse a state is that holds too many bytes: at least, and per limit too much."""

BLOCK = 200_000
"""Operators scheduled between two looks at the clock, roughly."""

ANEW = 0.05
"""Part of the moves after which all operators are ranked anew: see :mod:`.urgency`."""


class Kept(NamedTuple):
    """The best state so far: site, option and rank of operators; its value alone."""

    site: Ints
    option: Ints
    rank: Ints
    value: Ints


class Heat(NamedTuple):
    """How bad a state may be at first and at last, relatively; the range of ranks."""

    hot: float
    cold: float
    width: float


@compiled
def _keep(a: Ints, t: Ints, kept: Kept, value: int) -> None:
    for operator in range(len(kept.site)):
        kept.site[operator] = a[t[SITE] + operator]
        kept.option[operator] = a[t[OPTION] + operator]
        kept.rank[operator] = a[t[RANK] + operator]
    kept.value[0] = value


class Rules(NamedTuple):
    """What a state is worth.

    Parameters
    ----------
    loads
        Whether the busiest resource counts, not the last stop.
    soft
        Whether a state may hold too many bytes, which makes it worse.
    aside, holding
        See :meth:`Decoder.decode`.
    """

    loads: bool
    soft: bool
    aside: float
    holding: bool


@compiled
def worth(a: Ints, t: Ints, rules: Rules, cutoff: int) -> tuple[int, bool]:
    """Worth of the state that stands in the arrays, and whether it keeps within memory.

    The worth is the value where it does. ``NEVER`` stands for a worth not below the cutoff.
    """
    last = NEVER if rules.loads else cutoff
    found = decode(a, t, (True, rules.soft, rules.holding), rules.aside, last)
    if found == NEVER:
        return NEVER, False
    if rules.loads:
        found = busiest(a, t)
    over = 0.0
    if rules.soft and t[LIMITED]:
        for device in range(t[DEVICES]):
            peak, limit = a[t[PEAK] + device], a[t[MEMORY] + device]
            if peak > limit:
                over = max(over, (peak - limit) / max(1.0, float(limit)))
    if over > 0.0:
        found += int(found * (FLOOR + STEEP * min(over, 1.0))) + 1
    return (int(found) if found < cutoff else NEVER), over == 0.0


@compiled
def cool(  # noqa: PLR0917 (compiled)
    a: Ints,
    t: Ints,
    search: tuple[Units, Undo, Kept, Urgency, Waits],
    heat: Heat,
    count: tuple[int, int],
    value: int,
    rules: Rules,
) -> int:
    """Make moves while the heat falls; return the value of the state they end in.

    ``count`` is the seed, and the number of moves.
    """
    units, undo, kept, urgency, waits = search
    seed, moves = count
    waits.known[0] = False
    np.random.seed(seed)
    fall = (heat.cold / heat.hot) ** (1.0 / moves)
    now = heat.hot
    for _ in range(moves):
        now *= fall
        move(a, t, units, undo, heat.width)
        if undo.changed[0] == 0:
            continue
        if np.random.random() < ANEW:
            rank_anew(a, t, undo, urgency, heat.width)
        elif same(a, t, waits, undo):
            continue
        worst = value * (1.0 - now * np.log(1.0 - np.random.random()))
        found, fits = worth(a, t, rules, int(worst) + 1)
        if found == NEVER:
            take_back(a, t, undo)
            continue
        value = found
        note(a, t, waits, rules.holding)
        if fits and found < kept.value[0]:
            _keep(a, t, kept, found)
    return value


class Annealing:
    """One thread of search.

    Parameters
    ----------
    problem
        What to plan.
    seed
        Of the random choices.
    holding
        Whether transfers wait for more urgent ones, where they hold anything.
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
        self.kept = Kept(zeros, zeros.copy(), zeros.copy(), never)
        self.value, self.width = NEVER, 1.0
        self.loads = problem.objective is Objective.BOTTLENECK
        self.holds = holding and problem.cluster.communication is not CommunicationModel.DELAY
        self.rules = Rules(self.loads, False, 1.0, self.holds)

    def forget(self) -> None:
        """Let the next state be the best one."""
        self.kept.value[0] = NEVER

    def begin(self, start: State, *, soft: bool = False) -> bool:
        """Stand at a state; whether it has a schedule.

        With ``soft``, or where memory leaves it none, states may hold too many bytes on the way.
        """
        memory = self.decoder.memory
        self.decoder.site[:], self.decoder.option[:] = start.site, start.option
        memory.part(at.RANK)[: self.decoder.size] = start.rank
        self.width = float(np.ptp(start.rank)) + 1.0
        hard = [Rules(self.loads, False, aside, self.holds) for aside in (1.0, 0.0)]
        freely = Rules(self.loads, True, 0.0, self.holds)
        if not self.decoder.limited:
            return self._stand(hard[:1])
        return self._stand([freely] if soft else hard) or self._stand([freely])

    def _stand(self, choices: list[Rules]) -> bool:
        """Take the rules under which the state is worth most; whether it has a schedule."""
        memory, found = self.decoder.memory, []
        for rules in choices:
            value, fits = worth(memory.a, memory.t, rules, NEVER)
            if fits and value < self.kept.value[0]:
                _keep(memory.a, memory.t, self.kept, value)
            if value < NEVER:
                found.append((value, rules))
        if found:
            self.value, self.rules = min(found, key=lambda entry: entry[0])
        return bool(found)

    def run(
        self,
        done: Callable[[], float],
        hot: float = HOTTEST,
        cold: float = COLDEST,
        on_better: Callable[[State], object] = lambda _state: None,
        most: int | None = None,
    ) -> None:
        """Cool down while ``done`` goes from 0 to 1; tell of the best state after a block.

        With ``most`` there are no more moves than that.
        """
        usual = max(20, BLOCK // self.decoder.size)
        last = None if most is None else self.tried + most
        share = done()
        while share < 1.0:
            block = usual if last is None else min(usual, last - self.tried)
            heat = hot * (cold / hot) ** share
            seed, known = int(self.random.integers(1 << 31)), int(self.kept.value[0])
            self.value = cool(
                self.decoder.memory.a,
                self.decoder.memory.t,
                (self.units, self.undo, self.kept, self.urgency, self.waits),
                Heat(heat, heat * 0.999, self.width),
                (seed, block),
                self.value,
                self.rules,
            )
            self.tried += block
            if self.kept.value[0] < known:
                on_better(self.best)
            share = done()

    def load(self) -> None:
        """Have the loops compiled or read from disk, by a move that nobody keeps.

        Two threads that do so at once may find a function without its code.
        """
        if getattr(cool, "signatures", None):
            return
        memory, nothing = self.decoder.memory, Kept(*(entry.copy() for entry in self.kept))
        heat = Heat(HOTTEST, COLDEST, self.width)
        search = self.units, self.undo, nothing, self.urgency, self.waits
        cool(memory.a, memory.t, search, heat, (0, 1), self.value, self.rules)

    @property
    def spared(self) -> int:
        """Moves that surely left the schedule as it was: none was made for them."""
        return int(self.waits.spared[0])

    @property
    def best(self) -> State:
        """A copy of the best state."""
        site, option, rank, value = self.kept
        return State(site.copy(), option.copy(), rank.copy(), int(value[0]))


def plan_of(decoder: Decoder, state: State, planner: str) -> Plan | None:
    """The plan of a state; ``None`` if it has none within memory."""
    found: list[tuple[int, float, bool]] = []
    for aside in (1.0, 0.0) if decoder.limited else (1.0,):
        for hold in (False, True):
            value = decoder.decode(*state[:3], aside=aside, holding=hold)
            if value is not None:
                found.append((value, aside, hold))
    if not found:
        return None
    _, aside, hold = min(found)
    decoder.decode(*state[:3], aside=aside, holding=hold)
    return decoder.plan(planner)
