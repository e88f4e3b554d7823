"""Baseline: equal numbers of repeated layers per stage, one data and one tensor degree for all.

Like PipeDream-2BW (Narayanan et al., ICML 2021), which Piper (NeurIPS 2021) extends by
tensor degrees and separate stages for the layers before and after the repeated ones. Ours chooses
the configurations of each stage exactly, and lets the numbers of layers differ by one; later
stages have more, as they hold fewer micro-batches in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from math import inf

from ..plan import HybridPlan
from ..problem import HybridProblem, Layer
from .exact import best_stage
from .lattice import Lattice, prefixes
from .tables import Family, HybridTables, family, tables


def repeated_layers(problem: HybridProblem) -> tuple[str, ...]:
    """Names of the layers of the same sizes that do most of the work; all, if that is below half.

    Layers are alike when they have the same degrees and configurations up to their seconds and
    what flows between them (a transformer's layers are profiled one by one).
    """
    kinds: dict[object, list[Layer]] = {}
    for layer in problem.layers:
        kinds.setdefault(_sizes(layer), []).append(layer)
    most = max(kinds.values(), key=lambda layers: sum(map(_work, layers)))
    if 2 * sum(map(_work, most)) < sum(map(_work, problem.layers)):
        return problem.order
    return tuple(layer.name for layer in most)


def plan_uniformly(problem: HybridProblem) -> tuple[HybridPlan, float] | None:
    """Return the best uniform split and its seconds per sample; ``None`` when none fits."""
    entry = tables(problem)
    order = prefixes(problem)
    blocks = set(repeated_layers(problem))
    where = {name: v for v, name in enumerate(problem.order)}
    steps = [after & ~before for after, before in pairwise(order.sets)]  # the last layer first
    at = [i + 1 for i, step in enumerate(reversed(steps)) if _named(problem, step) in blocks]
    assert len(at) == len(blocks) <= len(where)
    best: tuple[HybridPlan, float] | None = None
    for cuts in _splits(at, len(where), problem.limits.devices):
        sets = tuple(order.sets[len(where) - cut] for cut in reversed(cuts))
        best = _degrees(entry, family(entry.arrays, Lattice(sets, False)), best)
    return best


def _named(problem: HybridProblem, step: int) -> str:
    return problem.order[step.bit_length() - 1]


def _splits(at: list[int], layers: int, devices: int) -> Iterator[list[int]]:
    """Yield the number of layers before each stage's end, from 0 on, for every number of stages."""
    for stages in range(1, min(len(at), devices) + 1):
        few, more = divmod(len(at), stages)
        sizes = [few] * (stages - more) + [few + 1] * more
        inner, done = [], 0
        for size in sizes[:-1]:
            done += size
            inner.append(at[done - 1])
        for first, last in product((False, True), repeat=2):
            cuts = [0, *([at[0] - 1] if first else []), *inner, *([at[-1]] if last else []), layers]
            if len(set(cuts)) == len(cuts):
                yield cuts


def _degrees(
    entry: HybridTables, sets: Family, best: tuple[HybridPlan, float] | None
) -> tuple[HybridPlan, float] | None:
    """Try every data and tensor degree on a split; return the better of it and the best so far."""
    arrays, stages = sets.arrays, len(sets.sizes) - 1
    for j, tensor in enumerate(arrays.degrees):
        if sets.lacking[0, j]:
            continue
        longest = max(sets.least[i, j] - sets.least[i + 1, j] for i in range(stages))
        for d in map(int, arrays.data_degrees[::-1]):
            value = inf if best is None else best[1]
            if d * tensor * stages > arrays.devices or d * stages > arrays.micro_batches:
                continue
            if longest / d >= value:
                break
            choices, slowest = [], 0.0
            for i in reversed(range(stages)):  # the first stage holds most
                masks = (sets.words[i], sets.words[i + 1])
                stage, seconds = best_stage(entry, masks, j, (d, d * (i + 1)))
                choices.append(stage)
                slowest = max(slowest, seconds)
                if slowest >= value:
                    break
            if slowest < value:
                name = entry.problem.name
                best = (HybridPlan(name, tuple(choices), planner="uniform"), slowest)
    return best


def _sizes(layer: Layer) -> object:
    return frozenset(
        (degree, e.parameter_bytes, e.flight_bytes, e.fixed_bytes)
        for degree, known in layer.configurations.items()
        for e in known
    )


def _work(layer: Layer) -> float:
    return float(min(e.seconds for known in layer.configurations.values() for e in known))
