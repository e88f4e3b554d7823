"""Compiled loops of the kind, called once on small problems."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .problem import HybridProblem

from milp_plan.run.loop_parts import SEARCH_S, LoopPart

HYBRID = LoopPart(
    "hybrid parallelism",
    "milp_plan.kinds.hybrid.loops:run_hybrid",
    "milp_plan.kinds.hybrid.planners.sweep:sweep",
)
PARTS = (HYBRID,)
"""All loop parts of the kind."""


def _layers() -> HybridProblem:
    from .problem import Configuration, Flow, HybridProblem, Layer, Limits

    """Return layers in a row, each plain or recomputed, at two tensor degrees."""
    names = [f"layer{i}" for i in range(6)]
    layers = tuple(
        Layer(
            name,
            {
                degree: tuple(
                    Configuration(
                        f"c{again}",
                        Fraction((3 + i) * (1 + again), degree),
                        Fraction(1),
                        Fraction(4 - 3 * again, degree),
                        Fraction(1),
                        bool(again),
                    )
                    for again in (0, 1)
                )
                for degree in (1, 2)
            },
        )
        for i, name in enumerate(names)
    )
    flows = tuple(Flow(a, b, Fraction(1)) for a, b in pairwise(names))
    return HybridProblem("loops", layers, flows, Limits(6, Fraction(14), Fraction(9), 4))


def run_hybrid() -> None:
    """Call the loops of hybrid."""
    from .planners import plan_exactly, plan_uniformly

    plan_exactly(_layers(), SEARCH_S)
    plan_uniformly(_layers())
