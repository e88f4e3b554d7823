"""Adaptive choice of the kind and size of the next neighbourhood, by improvement per second."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

SMALLEST, FIRST, LARGEST = 4.0, 12.0, 80.0
"""Number of operators that a neighbourhood frees: least, first and largest."""

GROWTH, SHRINKAGE = 1.1, 0.85
"""Factors on the size of a neighbourhood after a round that was too small, or too large."""

FADING = 0.97
"""Factor on the gain and cost of every kind after each round."""

LEAST_CHANCE = 1.0
"""Weight that every kind gets in addition to its rate, as a multiple of the mean rate: one early
success should not decide."""


@dataclass(slots=True)
class Arm:
    """A kind of neighbourhood.

    Parameters
    ----------
    name
        Name of the kind.
    size
        Number of operators that it frees. It grows after models without a better plan, and
        shrinks after models that run into their limit.
    gain, cost
        Improvements as a part of the value, and seconds; both fade.
    rounds, better
        Number of models solved, and of plans that were the best so far.
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
    """All kinds of neighbourhoods; the chance of a kind grows with its rate.

    Source: S. Ropke, D. Pisinger, Transportation Science 40 (2006), for the adaptive choice.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.arms = {name: Arm(name) for name in names}

    def choose(self, rng: random.Random) -> Arm:
        """Return a kind at random; kinds that were never tried come first."""
        arms = list(self.arms.values())
        new = [arm for arm in arms if not arm.cost]
        if new:
            return rng.choice(new)
        mean = sum(arm.rate for arm in arms) / len(arms)
        return rng.choices(arms, [arm.rate + LEAST_CHANCE * mean + 1e-12 for arm in arms])[0]

    def update(self, arm: Arm, gain: float, cost: float) -> None:
        """Add the gain and the cost of a round."""
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
