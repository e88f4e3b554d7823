"""Clusters from pipeline stages, which keep micro-batches, passes and branches apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from milp_plan.core import PlanningProblem

from .caps import RUNGS, caps_of, scale
from .contraction import contract
from .cuts import Cut, Rest, StageLine
from .forecast import Forecast, packs
from .nodes import Caps
from .quotient import Quotient
from .reduction import Excess, Reduction


@dataclass(frozen=True)
class StageClustering:
    """Cut the graph into stages of similar work, and these by what can run in parallel. Heuristic.

    A stage is an interval of colocation groups along the forward pass, in depth-first order, so
    that a tower or a branch lies in few stages; what runs backward stands where it came from.
    The operators of a stage form one cluster for each

    - visit: how often a path has left the stage and come back before (forward and backward),
    - micro-batch, or run of a power of two of them,
    - pass: whether another stage waits for a result (a weight gradient is waited for by the update
      alone, so it is apart from the gradient of the input): see :class:`Rest`,
    - branch: what neither edges nor colocation groups connect inside the stage.

    Parameters
    ----------
    target
        Operators wanted. Which stages, runs and passes these are spent on is what a list schedule
        of the clusters says (:func:`best_cut`). There can be more where memory, sites or layouts
        forbid a merge, and where so few do not fit into memory or are clearly slower.
    """

    target: int
    name = "stages"
    exact = False

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Contract the clusters of the best cut."""
        quotient = Quotient(problem)
        caps = caps_of(RUNGS[-1], scale(quotient), self.target)
        place = {name: i for i, name in enumerate(quotient.names)}
        cut, excess = best_cut(problem, self.target)
        for cluster in cut.clusters:
            _merge(quotient, [place[name] for name in cluster], caps)
        clusters = quotient.clusters()
        if not clusters:
            return None
        return replace(contract(problem, clusters, name=self.name), excess=excess)


def _merge(quotient: Quotient, nodes: list[int], caps: Caps) -> None:
    """Merge a cluster; where that is not allowed, merge its runs of neighbours that may."""
    if len(nodes) > 1 and quotient.may_merge(nodes, caps):
        quotient.merge(nodes)
        return
    run: list[int] = []
    for node in sorted(nodes):
        if run and quotient.may_merge([*run, node], caps):
            run = [quotient.merge([*run, node])]
        else:
            run = [node]


ROOM_AT_ONCE = 2
"""Factor on the bytes that must stay until the end: other values need memory meanwhile."""

ALIKE = 1.02
"""Forecasts within this factor of the best one count as equal."""

SLOWER, LITTLE_SLOWER = 1.1, 1.05
"""Factors on a forecast: clearly slower above the first, a little slower up to the second."""

MOST_EXCESS = 2
"""Most clusters, as a multiple of the target, where the target is too few."""

REFINEMENTS = 4
"""Number of sizes beyond the target to which a cut that does not fit is refined."""


def best_cut(problem: PlanningProblem, target: int) -> tuple[Cut, Excess | None]:
    """Return the cut that fits and whose schedule ends first, and why it exceeds the target.

    Of like ones within the target that with most clusters. One beyond it, of up to
    :data:`MOST_EXCESS` times as many, only where none within it fits into memory, or all that do
    are clearly slower: of the fastest ones beyond, that with fewest clusters.
    """
    most, size, cuts = MOST_EXCESS * target, 1, list[Cut]()
    while not cuts or cuts[-1].batches > 1:
        stages = StageLine(problem, size)
        cuts += [cut for rest in Rest for cut in stages.cuts(most, rest)]
        size *= 2
    judge = _Judge(problem, stages.ticks)
    within = [cut for cut in cuts if cut.count <= target]
    best = judge.best(within or cuts).refined(target)
    if not within:  # the pairwise merges that follow meet the target
        return best, None
    fit = judge.fits(best)
    beyond = [cut for cut in cuts if target < cut.count <= most]
    if not fit:
        parts = range(1, 1 + REFINEMENTS)
        beyond += [best.refined(target + (most - target) * n // REFINEMENTS) for n in parts]
    beyond.sort(key=judge.ticks)
    fastest = next(filter(judge.fits, beyond), None)
    if fastest is None or (fit and judge.ticks(best) <= SLOWER * judge.ticks(fastest)):
        return best, None
    enough = LITTLE_SLOWER * judge.ticks(fastest)
    near = [cut for cut in beyond if cut.count > target and judge.ticks(cut) <= enough]
    near.sort(key=lambda cut: cut.count)
    larger = next(filter(judge.fits, near), fastest)
    reason = "are clearly slower" if fit else "do not fit into memory"
    return larger, Excess(larger.count, f"{target} clusters {reason}")


class _Judge:
    """Compares cuts of a problem by forecasts."""

    def __init__(self, problem: PlanningProblem, ticks: Mapping[str, int]) -> None:
        self.rooms = [d.memory_bytes for d in problem.without_memory_saving.cluster.devices]
        self.forecast = Forecast(problem, ticks)
        self._ticks: dict[int, tuple[Cut, float]] = {}

    def ticks(self, cut: Cut) -> float:
        """Return the forecast makespan of a cut."""
        if id(cut) not in self._ticks:
            self._ticks[id(cut)] = cut, self.forecast.value(cut.clusters, cut.parts)
        return self._ticks[id(cut)][1]

    def fits(self, cut: Cut) -> bool:
        """Return whether the stages pack into the devices' memory."""
        margin = ROOM_AT_ONCE if cut.rest is Rest.AT_ONCE else 1
        passing = self.forecast.passing_bytes(cut.clusters)
        peaks = [0] * cut.stages
        for (stage, _), size in zip(cut.parts, passing, strict=True):
            peaks[stage] = max(peaks[stage], size)
        needs = ((margin * stays, peak) for stays, peak in zip(cut.needs, peaks, strict=True))
        return packs(needs, self.rooms)

    def best(self, cuts: Sequence[Cut]) -> Cut:
        """Return the fitting cut that ends first; of similar ones that with most clusters."""
        like = ALIKE * min(map(self.ticks, cuts))
        ranked = sorted(cuts, key=lambda cut: (max(like, self.ticks(cut)), -cut.count))
        return next(filter(self.fits, ranked), ranked[0])
