"""Compiled loops of the kind, called once on small problems."""

from __future__ import annotations

from random import Random

from milp_plan.core.budget import Budget
from milp_plan.run.loop_parts import END_S, SEARCH_S, LoopPart

PACKING = LoopPart(
    "packing",
    "milp_plan.kinds.packing.loops:run_packing",
    "milp_plan.kinds.packing.planners.search:_search",
)
PARTS = (PACKING,)
"""All loop parts of the kind."""


def run_packing() -> None:
    """Call the loops of packing."""
    from .planners import FITS, Packer
    from .problem import Buffer, PackingProblem

    rng = Random(0)
    lives = [(begin, begin + rng.randint(1, 9)) for begin in range(8)]
    buffers = [Buffer(f"b{i}", *life, rng.randint(1, 9), 2) for i, life in enumerate(lives)]
    packer = Packer(PackingProblem("loops", tuple(buffers)))
    known = min(packer.fit(name).value or 0 for name in FITS)
    tuple(packer.better_orders(Budget(SEARCH_S), 0, 0))
    tuple(packer.search(Budget(END_S), 0, 0, known))
