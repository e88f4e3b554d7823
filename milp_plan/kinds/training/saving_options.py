"""What a configuration that does not fit may do to save memory: recompute or offload blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from .configuration import V_SHAPED, Configuration, Recompute, without_recomputation
from .problem import TrainingProblem
from .space import Space
from .step import Costs, Priced, TrainingStep, derive, excess_of, least_step

CLOSE = 0.05
"""Options are tried together whose estimates are that close to the lowest."""

INSIDE = ("recompute", "recomputed", "recomputed_by_chunk", "offload", "layers")
"""Fields that configurations with the same options may differ in."""

Option = tuple[int, int, int, Configuration]
"""Estimate and lower bound of a step, a number, the configuration."""


class SavingOptions:
    """Lists what configurations may do, the most promising first.

    Parameters
    ----------
    problem, costs, space
        What is planned, by which costs, among which configurations.

    Attributes
    ----------
    lacking
        Options that lack memory even if every block saves it.
    """

    def __init__(self, problem: TrainingProblem, costs: Costs, space: Space) -> None:
        self.problem, self.costs, self.space = problem, costs, space
        self.lacking: list[Configuration] = []
        self._left: dict[Configuration, list[Option]] = {}

    def take(self, configuration: Configuration) -> list[tuple[int, Configuration]]:
        """Return options with about the lowest estimate that was not taken yet, with bounds."""
        fixed, default = self.space.fixed, Configuration()
        values = {name: fixed.get(name, getattr(default, name)) for name in INSIDE}
        plain = replace(configuration, **values)
        if plain not in self._left:
            self._left[plain] = self._options(plain)
        left = self._left[plain]
        if not left:
            return []
        lowest, _, _, first = left[0]
        most = lowest * (1 + CLOSE)
        taken = [each for each in left if each[0] <= most and each[3].offload is first.offload]
        self._left[plain] = [each for each in left if each not in taken]
        return [(bound, option) for _, bound, _, option in taken]

    def _options(self, plain: Configuration) -> list[Option]:
        made = [
            replace(plain, recompute=recompute, offload=offload)
            for recompute, offload in product(self.space.recomputes, self.space.offloads)
        ]
        can_run = (c for c in made if c != plain and self.problem.why_not(c) is None)
        options = []
        for number, option in enumerate(can_run):
            bound = self.costs.saving_ns(option)
            if bound is None:
                self.lacking.append(option)
            else:
                options.append((self.costs.estimate_ns(option), bound, number, option))
        return sorted(options)

    def least_step(self, configuration: Configuration, priced: Priced) -> int:
        """Return a lower bound on a step, also with fewer blocks that save memory if they may."""
        if not self._may_have_fewer(configuration):
            return least_step(configuration, priced)
        none = without_recomputation(configuration)
        return least_step(none, self.costs.priced(none))

    def _may_have_fewer(self, c: Configuration) -> bool:
        """Whether the replay alone says how many blocks must save memory."""
        free = not {"recompute", "recomputed"} & set(self.space.fixed)
        return saves_everywhere(c) and free and c.schedule in V_SHAPED

    def with_fewer(self, c: Configuration) -> Iterator[tuple[Configuration, TrainingStep]]:
        """Yield the same with fewer blocks that save memory, as long as they fit, by bisection."""
        if not self._may_have_fewer(c):
            return
        low, high = 0, max(c.chunk_layers(self.problem.architecture))
        while high - low > 1:
            middle = (low + high) // 2
            fewer = replace(c, recomputed=middle)
            if self.space.refused(fewer):
                return
            step = derive(fewer, self.costs.priced(fewer))
            if excess_of(self.problem, fewer, step.peaks)[0] > 0:
                low = middle
            else:
                high = middle
                yield fewer, step


def saves_everywhere(c: Configuration) -> bool:
    """Whether every block recomputes or offloads."""
    return c.recompute is not Recompute.NONE and not (c.recomputed or c.recomputed_by_chunk)
