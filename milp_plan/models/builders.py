"""What builders of models share: being asked, constraints of terms, values of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from milp_plan.core import FormulationError, Placement
from milp_plan.lp import CompiledModel

from .protocol import Guide, Scale, Values

if TYPE_CHECKING:
    import pyomo.environ as pyo

T = TypeVar("T")


@dataclass(frozen=True)
class NoOptions:
    """A formulation without options."""


class BuilderFormulation:
    """Half of a formulation: a builder for each question writes the model and reads its answers.

    Without options, and without one that leaves out plans, unless a subclass says otherwise.

    Parameters
    ----------
    builder
        Called with problem, options and guide, once per guide. Has ``scale``, ``build()``,
        ``decode(values)`` and ``encode(plan)``.
    """

    Options: type = NoOptions

    def __init__(self, builder: Callable[[Any, Any, Guide], Any]) -> None:
        self.builder = builder

    def restricts(self, options: Any) -> bool:  # noqa: ARG002
        """Return whether better plans than all others may be left out: no."""
        return False

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


def add_le(rows: Any, small: Any, large: Any) -> None:
    """Add ``small <= large``, also where both turn out to be numbers."""
    import pyomo.environ as pyo  # takes long to load

    difference = small - large
    if not isinstance(difference, int | float):
        rows.add((None, difference, 0))
    elif difference > 0:  # cannot hold: no value of ``never`` is at least 1
        model = rows.model()
        if not hasattr(model, "never"):
            model.never = pyo.Var(bounds=(0, 0))
        rows.add(model.never >= 1)


def require_supported(found: T | str, name: str) -> T:
    """Return how a problem was read, once it is known to be one of the formulation's.

    Raises
    ------
    FormulationError
        It was read as a reason in words; ``name`` is the problem's.
    """
    if isinstance(found, str):
        raise FormulationError(f"{name}: {found}")
    return found


def coarser(grain: int, amount: int, most: int) -> float:
    """Return the grain of all amounts, doubled until an amount is at most this many of it."""
    unit = grain
    while amount > most * unit:
        unit *= 2
    return float(unit)


def spread_levels(numbers: Iterable[int], count: int) -> list[int]:
    """At most ``count`` distinct levels, spread over the sorted numbers, smallest first."""
    distinct = sorted(set(numbers))
    step = max(1, -(-len(distinct) // count))
    return distinct[::step]


def label(placement: Placement) -> str:
    """Name of a placement in variable indices."""
    return f"{placement.option} on {'+'.join(placement.devices)}"


def column_values(model: pyo.ConcreteModel) -> Values:
    """Values of all variables of a model, by family and index."""
    import pyomo.environ as pyo

    named: Values = {}
    for column in model.component_data_objects(pyo.Var):
        family = column.parent_component().local_name
        named.setdefault(family, {})[column.index()] = column.value
    return named
