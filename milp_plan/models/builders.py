"""What builders of models share: being asked, rows of terms, values of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from milp_plan.lp import CompiledModel

from .protocol import Guide, Scale, Values

Term = tuple[float, Any]
"""Factor and column."""


class BuilderFormulation:
    """Half of a formulation: a builder for each question writes the model and reads its answers.

    Parameters
    ----------
    builder
        Called with problem, options and guide, once per guide. Has ``scale``, ``build()``,
        ``decode(values)`` and ``encode(plan)``.
    """

    def __init__(self, builder: Callable[[Any, Any, Guide], Any]) -> None:
        self.builder = builder

    def build(self, problem: Any, options: Any, guide: Guide) -> Any:
        """Write the model; a Pyomo model knows its builder."""
        builder = guide.keep(self.builder, problem, options)
        model = builder.build()
        if not isinstance(model, CompiledModel):
            model.builder = builder
        return model

    def scale(self, problem: Any, options: Any, guide: Guide) -> Scale:
        """Say how the model's objective translates, as the builder does."""
        scale: Scale = guide.keep(self.builder, problem, options).scale
        return scale

    def decode(self, problem: Any, options: Any, guide: Guide, values: Values) -> Any:
        """Turn a solution into a plan, as the builder does."""
        return guide.keep(self.builder, problem, options).decode(values)

    def encode(self, problem: Any, options: Any, model: Any, plan: Any) -> Values | None:  # noqa: ARG002
        """Turn a valid plan into a complete start, or ``None``, as the model's builder does."""
        values: Values | None = model.builder.encode(plan)
        return values


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
