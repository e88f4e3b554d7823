"""Formulation files that say what is not so, or that cannot do everything."""

from __future__ import annotations

from pathlib import Path

WRAPPER = """
from dataclasses import replace

from milp_plan.core import FormulationError
from milp_plan.models.registry import get
from milp_plan.lp.from_pyomo import compile_pyomo

INNER = get("operator_schedule").formulation


class Wrapper:
    card = replace(INNER.card, name={name!r}, exact={exact})
    handles = INNER.handles
    Options = INNER.Options

    def restricts(self, options):
        return INNER.restricts(options)

    def unsupported(self, *given):
        return INNER.unsupported(*given)

    def build(self, *given):
        model = INNER.build(*given)
        return compile_pyomo(model) if {compiled} else model

    def scale(self, *given):
        return INNER.scale(*given)

    def encode(self, *given):
        return None if {compiled} else INNER.encode(*given)

    def decode(self, *given):
        plan = INNER.decode(*given)
        {damage}
        return plan


FORMULATION = Wrapper()
"""

LATE = """
        def later(task):
            return replace(task, start_ticks=task.start_ticks + 7, stop_ticks=task.stop_ticks + 7)

        plan = replace(
            plan,
            runs=tuple(later(run) for run in plan.runs),
            transfers=tuple(later(transfer) for transfer in plan.transfers),
        )
"""
"""Everything 7 ticks later than the solver says: a valid plan that is worse than claimed."""

INCOMPLETE = "plan = replace(plan, runs=plan.runs[1:])"
"""A plan that forgets an operator."""

IN_TURN = """
        first, second = plan.runs
        second = replace(second, devices=first.devices, start_ticks=first.stop_ticks,
                         stop_ticks=2 * first.stop_ticks - first.start_ticks)
        plan = replace(plan, runs=(first, second), transfers=())
"""
"""Two operators of the same length, one after the other on one device."""

UNREADABLE = "raise FormulationError('two placements of one operator')"

HONEST = "pass"


def write_wrapper(
    folder: Path,
    damage: str = HONEST,
    *,
    name: str = "wrapper",
    exact: bool = True,
    compiled: bool = False,
) -> str:
    """Write a file that wraps ``operator_schedule``; return its path.

    With ``compiled`` it hands over a matrix instead of a Pyomo model, and takes no start.
    """
    path = folder / f"{name}.py"
    path.write_text(WRAPPER.format(damage=damage, compiled=compiled, name=name, exact=exact))
    return str(path)
