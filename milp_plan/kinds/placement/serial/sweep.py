"""Classes one after another, and the state of a set after each of them.

Take the classes in an order. What a set pays for nets later on depends on the past only through the
nets that are begun and not done: whether all their classes so far are in the set, none, or some. On
graphs with few parallel branches a good order has few such *states*, so that questions about
all sets that a device may hold are answered by a dynamic programme over states and loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from milp_plan.core.budget import Budget
from milp_plan.core.view import kept

from .graph import SerialGraph

IN_PART = 2
"""State of a net that is paid for already; 0 and 1 are those of nets all outside, all inside."""

MAX_STATES = 20_000
"""Largest number of states of all classes together."""

MAX_ABREAST = 128
"""Largest number of states after one class: a move is then a number of one byte."""

TRIES, FUTILE = 16, 3
"""Number of orders that are tried; consecutive failures that end the search."""

NetStates = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SweepStep:
    """Transitions of states by one class.

    Parameters
    ----------
    number
        The class.
    moves
        (state before, whether the class is in the set, state after, nets that become paid).
    states
        Number of states after it.
    """

    number: int
    moves: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    states: int


@dataclass(frozen=True)
class Sweep:
    """Classes in an order, with the nets that have a cost; those of the same classes are merged."""

    steps: tuple[SweepStep, ...]
    costs: tuple[int, ...]

    @property
    def states(self) -> int:
        """States of all steps together."""
        return sum(step.states for step in self.steps)


def read_sweep(graph: SerialGraph, budget: Budget) -> Sweep | None:
    """Return the sweep with the fewest states of some tries; ``None`` if all have too many.

    Raises
    ------
    OutOfTime
        The budget passed.
    """
    return kept(graph, "sweep", lambda: _fewest(graph, budget))


def _fewest(graph: SerialGraph, budget: Budget) -> Sweep | None:
    nets = _Nets(len(graph), tuple(graph.merged_nets))
    best: tuple[SweepStep, ...] | None = None
    most = MAX_STATES
    for seed in range(TRIES):
        if best is None and seed >= FUTILE:
            return None
        budget.check()
        steps = nets.steps(nets.order(Random(seed)), most)
        if steps is not None:
            best, most = steps, sum(step.states for step in steps) - 1
    return None if best is None else Sweep(best, tuple(graph.merged_nets.values()))


class _Nets:
    """Nets by their classes, and classes by their nets."""

    def __init__(self, count: int, pins: tuple[tuple[int, ...], ...]) -> None:
        self.pins = pins
        self.of: list[list[int]] = [[] for _ in range(count)]
        for net, members in enumerate(pins):
            for member in members:
                self.of[member].append(net)

    def order(self, rng: Random) -> list[int]:
        """Return an order of the classes in which each leaves as few nets open as possible."""
        left = [len(members) for members in self.pins]
        begun = [False] * len(self.pins)
        rest = dict.fromkeys(range(len(self.of)))
        near: dict[int, None] = {}
        order = []
        while rest:
            keys = {
                number: (
                    sum(self._opened(net, left, begun) for net in self.of[number]),
                    rng.random(),
                )
                for number in near or rest
            }
            number = min(keys, key=keys.__getitem__)
            order.append(number)
            del rest[number]
            near.pop(number, None)
            for net in self.of[number]:
                left[net] -= 1
                begun[net] = True
                near.update((other, None) for other in self.pins[net] if other in rest)
        return order

    @staticmethod
    def _opened(net: int, left: list[int], begun: list[bool]) -> int:
        return int(left[net] > 1 and not begun[net]) - int(left[net] == 1)

    def steps(self, order: list[int], most: int) -> tuple[SweepStep, ...] | None:
        """Return the states along an order, ``None`` if there are more than ``most``."""
        left = [len(members) for members in self.pins]
        states: dict[NetStates, int] = {(): 0}
        steps = []
        for number in order:
            for net in self.of[number]:
                left[net] -= 1
            after: dict[NetStates, int] = {}
            moves = []
            for state, before in states.items():
                for inside in (0, 1):
                    following, paid = self._next(state, number, inside, left)
                    moves.append((before, inside, after.setdefault(following, len(after)), paid))
            states = after
            most -= len(states)
            if most < 0 or len(states) > MAX_ABREAST:
                return None
            steps.append(SweepStep(number, tuple(moves), len(states)))
        return tuple(steps)

    def _next(
        self, state: NetStates, number: int, inside: int, left: list[int]
    ) -> tuple[NetStates, tuple[int, ...]]:
        """Return the state after a class, and the nets that become paid."""
        known, paid = dict(state), []
        for net in self.of[number]:
            before = known.get(net, inside)
            if before not in (IN_PART, inside):
                paid.append(net)
                before = IN_PART
            known[net] = before
            if not left[net]:
                del known[net]
        return tuple(sorted(known.items())), tuple(paid)
