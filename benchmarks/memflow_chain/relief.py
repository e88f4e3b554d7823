"""Which results to drop where memory is fullest: the most bytes for each tick that is added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from .simulator import Simulator
from .states import ChainState, States


class Drop(NamedTuple):
    """Operators that run again together, what that frees at an instant, and ticks it adds."""

    operators: frozenset[int]
    bytes: int
    ticks: int

    @property
    def rate(self) -> Fraction:
        """Bytes for each tick."""
        return Fraction(self.bytes, self.ticks)


class Relief:
    """Drops results that idle where a device holds most.

    What lies there idle are results that somebody reads later. To drop one, its operator runs
    again, and what that reads is kept for so long or, where this is cheaper for each byte, made
    again as well. Both are estimates: the simulator says what came of them.

    Parameters
    ----------
    states
        Which operators may run again.
    simulator
        Has simulated the state that is to be relieved.
    """

    def __init__(self, states: States, simulator: Simulator) -> None:
        self._states = states
        self._simulator = simulator

    def more(self, state: ChainState, limits: Sequence[int | None]) -> ChainState | None:
        """Drop enough at the fullest instant of the device that exceeds its limit by most.

        Returns
        -------
        ChainState or None
            ``None`` where nothing exceeds a limit, or nothing is left to drop.
        """
        excess, device = max(
            (
                (peak - limit, device)
                for device, (peak, limit) in enumerate(
                    zip(self._simulator.peaks(), limits, strict=True)
                )
                if limit is not None
            ),
            default=(0, 0),
        )
        if excess <= 0:
            return None
        drops = self.drops(state, device)
        again = set(state.again)
        for drop in sorted(drops, key=lambda one: one.rate, reverse=True):
            if excess <= 0:
                break
            if not drop.operators <= again:
                again |= drop.operators
                excess -= drop.bytes
        return state._replace(again=frozenset(again)) if len(again) > len(state.again) else None

    def drops(self, state: ChainState, device: int) -> list[Drop]:
        """Whatever frees something at the fullest instant of a device, each operator's best way."""
        return list(_Instant(self._states, self._simulator, state, device).drops())


class _Instant:
    """What could be dropped at the fullest instant of a device."""

    def __init__(
        self, states: States, simulator: Simulator, state: ChainState, device: int
    ) -> None:
        self._view = states.view
        self._states = states
        self._again = state.again
        self._droppable = frozenset(states.droppable)
        self._spots = {spot.operator: spot for way in state.ways for spot in way}
        self._now = simulator.fullest(device)
        self._lying = simulator.lying(device, self._now)
        self._runs = simulator.first_runs()
        self._idle: dict[int, int] = {}
        for value, amount in self._lying.items():
            if self._idles(value):
                maker = self._view.producer[value]
                self._idle[maker] = self._idle.get(maker, 0) + amount

    def _idles(self, value: int) -> bool:
        """Whether those that may run again have read it, and all others read it later."""
        return all(
            self._runs[reader][1] <= self._now
            if self._states.recomputable[reader]
            else self._now < self._runs[reader][0]
            for reader in self._view.consumers[value]
        )

    def drops(self) -> Iterator[Drop]:
        """Whatever frees something."""
        for operator in self._idle:
            if operator in self._droppable and operator not in self._again:
                ways = (self._drop(operator, chain=False), self._drop(operator, chain=True))
                best = max(ways, key=lambda one: one.rate)
                if best.bytes > 0:
                    yield best

    def _drop(self, operator: int, *, chain: bool) -> Drop:
        """Run an operator again; what it reads and does not find is made again too, or kept."""
        run, waiting, freed, ticks = set[int](), [operator], 0, 0
        while waiting:
            taken = waiting.pop()
            if taken in run:
                continue
            run.add(taken)
            spot = self._spots[taken]
            freed += self._idle.get(taken, 0)
            ticks += spot.duration
            for value, layout in spot.reads:
                maker = self._view.producer[value]
                if maker in self._again or value in self._lying:
                    continue
                if chain and maker in self._droppable:
                    waiting.append(maker)
                else:
                    freed -= self._view.values[value].bytes[layout]
        return Drop(frozenset(run), freed, ticks)
