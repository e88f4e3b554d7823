"""Compiled loops of the kind, called once on small problems."""

from __future__ import annotations

from fractions import Fraction

from milp_plan.run.loop_parts import LoopPart

REMATERIALISATION = LoopPart(
    "rematerialisation",
    "milp_plan.kinds.rematerialisation.loops:run_rematerialisation",
)
PARTS = (REMATERIALISATION,)
"""All loop parts of the kind."""


def run_rematerialisation() -> None:
    """Call the loops of rematerialisation."""
    from .planners import Annealing, greedy, keys_of
    from .problem import Computation, RematerialisationProblem

    names = [f"o{i}" for i in range(8)]
    inputs = [(), *((names[i - 1], names[7 - i]) for i in range(1, 8))]
    rows = [
        Computation(name, 1, 1, tuple(n for n in sorted(set(read)) if n < name))
        for name, read in zip(names, inputs, strict=True)
    ]
    problem = RematerialisationProblem("loops", tuple(rows))
    tight = problem.within(Fraction(4, 5), fraction=True)
    plan = greedy(tight)
    assert plan is not None
    looks = iter((True, False))
    Annealing(tight, keys_of(tight, plan)).cool(looks.__next__, lambda: None)
