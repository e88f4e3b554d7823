"""Which kind of neighbourhood is worth the next round: credit per second, with its size."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

SMALLEST, FIRST, LARGEST = 4.0, 12.0, 80.0
"""Operators that a neighbourhood frees: at least, at first, at most."""

GROWTH, SHRINKAGE = 1.1, 0.85

FADING = 0.97
"""What credit and cost of a kind are worth after a round of any kind."""

LEAST_CHANCE = 1.0
"""Chance of every kind beside its rate, as a part of the mean rate: first luck is no rule."""


@dataclass(slots=True)
class Arm:
    """A kind of neighbourhood.

    Parameters
    ----------
    name
        Of the kind.
    size
        Operators that it frees. It grows while they are searched to the end in vain, and shrinks
        when a model runs into its limit.
    gain, cost
        Improvement as a part of the value, and what it took; both fade.
    rounds, better
        Models solved, and plans that were the best.
    """

    name: str
    size: float = FIRST
    gain: float = 0.0
    cost: float = 0.0
    rounds: int = 0
    better: int = 0

    def grow(self) -> None:
        """Free more operators."""
        self.size = min(LARGEST, self.size * GROWTH)

    def shrink(self) -> None:
        """Free fewer operators."""
        self.size = max(SMALLEST, self.size * SHRINKAGE)

    @property
    def rate(self) -> float:
        """Improvement per cost."""
        return self.gain / self.cost if self.cost else 0.0


class Arms:
    """All kinds, and the choice among them: the chance of a kind goes with its rate.

    Source: S. Ropke, D. Pisinger, Transportation Science 40 (2006), for the adaptive choice.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.arms = {name: Arm(name) for name in names}

    def choose(self, rng: random.Random) -> Arm:
        """Return a kind at random; those never tried first."""
        arms = list(self.arms.values())
        new = [arm for arm in arms if not arm.cost]
        if new:
            return rng.choice(new)
        mean = sum(arm.rate for arm in arms) / len(arms)
        return rng.choices(arms, [arm.rate + LEAST_CHANCE * mean + 1e-12 for arm in arms])[0]

    def settle(self, arm: Arm, gain: float, cost: float) -> None:
        """Enter what a round brought and took."""
        for other in self.arms.values():
            other.gain *= FADING
            other.cost *= FADING
        arm.gain += gain
        arm.cost += cost
        arm.better += gain > 0

    @property
    def all_largest(self) -> bool:
        """Whether no kind can grow."""
        return all(arm.size >= LARGEST for arm in self.arms.values())
