"""Formulation files that say what is not so, or that cannot do everything."""

from __future__ import annotations

from pathlib import Path

WRAPPER = """
from dataclasses import replace

from milp_plan.core import FormulationError
from milp_plan.formulation.registry import get

INNER = get("operator_schedule").formulation


class Wrapper:
    card = replace(INNER.card, name={name!r}, exact={exact}, neighbourhoods={neighbourhoods})
    Options = INNER.Options

    def unsupported(self, *given):
        return INNER.unsupported(*given)

    def build(self, *given):
        return INNER.build(*given)

    def scale(self, *given):
        return INNER.scale(*given)

    def encode(self, *given):
        return INNER.encode(*given)

    def decode(self, *given):
        plan = INNER.decode(*given)
        {damage}
        return plan


FORMULATION = Wrapper()
"""

LATE = """
        def later(task):
            return replace(task, start_ns=task.start_ns + 7, stop_ns=task.stop_ns + 7)

        plan = replace(
            plan,
            runs=tuple(later(run) for run in plan.runs),
            transfers=tuple(later(transfer) for transfer in plan.transfers),
        )
"""
"""Everything 7 ticks later than the solver says: a valid plan that is worse than claimed."""

INCOMPLETE = "plan = replace(plan, runs=plan.runs[1:])"
"""A plan that forgets an operator."""

UNREADABLE = "raise FormulationError('two placements of one operator')"

HONEST = "pass"


def write_wrapper(
    folder: Path,
    damage: str = HONEST,
    *,
    name: str = "wrapper",
    exact: bool = True,
    neighbourhoods: bool = True,
) -> str:
    """Write a file that wraps ``operator_schedule``; return its path."""
    path = folder / f"{name}.py"
    path.write_text(
        WRAPPER.format(damage=damage, name=name, exact=exact, neighbourhoods=neighbourhoods)
    )
    return str(path)
