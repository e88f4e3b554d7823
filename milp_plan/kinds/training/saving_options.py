"""What a configuration that does not fit may do to save memory: recompute or offload blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from .configuration import V_SHAPED, Configuration, Recompute, without_recomputation
from .problem import TrainingProblem
from .space import Space
from .step import Costs, Priced, TrainingStep, derive, excess_of, least_peaks, least_step

INSIDE = ("recompute", "recomputed", "recomputed_by_chunk", "offload", "layers")
"""Fields that configurations with the same options may differ in."""


class SavingOptions:
    """Lists what configurations may do.

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
        self._taken: set[Configuration] = set()

    def take(self, configuration: Configuration) -> list[tuple[int, Configuration]]:
        """Return the options of a configuration with their bounds; none where they were taken."""
        fixed, default = self.space.fixed, Configuration()
        values = {name: fixed.get(name, getattr(default, name)) for name in INSIDE}
        plain = replace(configuration, **values)
        if plain in self._taken:
            return []
        self._taken.add(plain)
        least, taken = self.costs.evenly_ns(plain), []
        for option in self._options(plain):
            bound = self.costs.saving_ns(option)
            if bound is None:
                self.lacking.append(option)
            else:
                taken.append((max(least, bound), option))
        return taken

    def _options(self, plain: Configuration) -> Iterator[Configuration]:
        """Yield options that can run."""
        for recompute, offload in product(self.space.recomputes, self.space.offloads):
            option = replace(plain, recompute=recompute, offload=offload)
            if option != plain and self.problem.why_not(option) is None:
                yield option

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

    def with_fewer(
        self, c: Configuration, cutoff: float
    ) -> Iterator[tuple[Configuration, TrainingStep]]:
        """Yield the same with fewer blocks that save memory, as long as they fit, by bisection.

        What bounds exclude is not replayed: a step of ``cutoff`` or longer, or too much memory.
        """
        if not self._may_have_fewer(c):
            return
        low, high = 0, max(c.chunk_layers(self.problem.architecture))
        while high - low > 1:
            middle = (low + high) // 2
            fewer = replace(c, recomputed=middle)
            if self.space.refused(fewer):
                return
            priced = self.costs.priced(fewer)
            if excess_of(self.problem, fewer, least_peaks(fewer, priced))[0] > 0:
                low = middle
                continue
            if least_step(fewer, priced) >= cutoff:
                high = middle
                continue
            step = derive(fewer, priced)
            if excess_of(self.problem, fewer, step.peaks)[0] > 0:
                low = middle
            else:
                high = middle
                yield fewer, step


def saves_everywhere(c: Configuration) -> bool:
    """Whether every block recomputes or offloads."""
    return c.recompute is not Recompute.NONE and not (c.recomputed or c.recomputed_by_chunk)
