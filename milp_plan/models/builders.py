"""What builders of Pyomo models share: rows of terms, values of columns, the latest builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from milp_plan.core import PlanningProblem

from .protocol import Guide, Values

Term = tuple[float, Any]
"""Factor and column."""

B = TypeVar("B")


class Latest(Generic[B]):
    """Makes builders, and keeps the latest: asking for its scale or decoding does not start anew.

    Parameters
    ----------
    make
        Builder for a problem, options and a guide.
    """

    def __init__(self, make: Callable[[PlanningProblem, Any, Guide], B]) -> None:
        self.make = make
        self.known: tuple[PlanningProblem, Any, Guide, B] | None = None

    def __call__(self, problem: PlanningProblem, options: Any, guide: Guide) -> B:
        """Return the builder of these very arguments."""
        if self.known is not None:
            last, switches, hint, builder = self.known
            if last is problem and hint is guide and switches == options:
                return builder
        builder = self.make(problem, options, guide)
        self.known = problem, options, guide, builder
        return builder


def merged(*parts: Iterable[Term]) -> list[Term]:
    """Sum of terms; what cancels is left out."""
    found: dict[int, Term] = {}
    for part in parts:
        for factor, column in part:
            known = found.get(id(column), (0.0, column))[0]
            found[id(column)] = (known + factor, column)
    return [(factor, column) for factor, column in found.values() if factor]


def at_least(rows: Any, terms: Iterable[Term], least: float) -> None:
    """Add to a ``ConstraintList``: sum of terms >= least."""
    pairs = list(terms)
    body = LinearExpression(
        constant=0,
        linear_coefs=[factor for factor, _ in pairs],
        linear_vars=[column for _, column in pairs],
    )
    rows.add((least, body, None))


def at_most(rows: Any, small: Any, large: Any) -> None:
    """Add ``small <= large``, also where both turn out to be numbers."""
    difference = small - large
    if not isinstance(difference, int | float):
        rows.add((None, difference, 0))
    elif difference > 0:  # cannot hold: no value of ``never`` is at least 1
        model = rows.model()
        if not hasattr(model, "never"):
            model.never = pyo.Var(bounds=(0, 0))
        rows.add(model.never >= 1)


def column_values(model: pyo.ConcreteModel) -> Values:
    """Values of all columns of a model, by family and index."""
    named: Values = {}
    for column in model.component_data_objects(pyo.Var):
        family = column.parent_component().local_name
        named.setdefault(family, {})[column.index()] = column.value
    return named
