"""What a formulation is: a card, typed options, and four methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from milp_plan.core import Objective, Plan, PlanningProblem
from milp_plan.core.sharding import ShardingObjective
from milp_plan.lp import CompiledModel, Values


@dataclass(frozen=True)
class Card:
    """What a formulation says about itself.

    Parameters
    ----------
    name
        The stem of its file.
    title
        One line.
    source
        Paper and equations, or ``"this project"``.
    objectives
        Objectives it can minimise.
    exact
        Whether its optimum is the problem's optimum; a relaxation or restriction says ``False``.
    neighbourhoods
        Whether it can search near a plan (:class:`Neighbourhood`).
    """

    name: str
    title: str
    source: str
    objectives: tuple[Objective | ShardingObjective, ...]
    exact: bool
    neighbourhoods: bool = False


@dataclass(frozen=True)
class Neighbourhood:
    """A part of the problem to search while the rest stays as a known plan has it.

    Operators that are not free keep their placement, and keep their order on every resource.
    A colocation group can only move when all its members are free.

    Parameters
    ----------
    plan
        A valid plan.
    free
        Operators that may change.
    """

    plan: Plan
    free: frozenset[str]


@dataclass(frozen=True)
class Guide:
    """What is known before the model is built, and where to look.

    Parameters
    ----------
    cutoff
        Value of a known plan, ticks or bytes: better or equal plans are looked for.
    bound
        Proven lower bound on the problem.
    neighbourhood
        Look only near this plan; only for formulations whose card offers it.
    memory
        ``False`` leaves out rows about memory over time: the caller checks each plan itself.
    """

    cutoff: int | None = None
    bound: int | None = None
    neighbourhood: Neighbourhood | None = None
    memory: bool = True


@dataclass(frozen=True)
class Scale:
    """How numbers of a model become ticks or bytes.

    Parameters
    ----------
    unit
        Ticks or bytes per unit of the model's objective.
    grain
        Ticks or bytes of which every optimal value is a multiple; 1 if nothing is known.
    slack
        Units by which the model's optimum may lie above the problem's, because of margins that
        keep it numerically sound; bounds are lowered by it.
    """

    unit: float
    grain: int = 1
    slack: float = 0.0


@runtime_checkable
class Formulation(Protocol):
    """One mixed-integer formulation of a planning problem.

    ``Options`` is a frozen dataclass: each switch typed, with a default, and its one-line help in
    ``field(metadata={"help": ...})``.
    """

    card: Card
    Options: type

    def unsupported(self, problem: PlanningProblem, options: Any) -> str | None:
        """Return a reason in words why this problem is not for this formulation, or ``None``."""
        ...

    def build(
        self, problem: PlanningProblem, options: Any, guide: Guide
    ) -> Any:  # ConcreteModel or CompiledModel
        """Write the model; :meth:`scale` says what its objective counts."""
        ...

    def scale(self, problem: PlanningProblem, options: Any, guide: Guide) -> Scale:
        """Say how the model's objective translates into ticks or bytes."""
        ...

    def decode(self, problem: PlanningProblem, options: Any, guide: Guide, values: Values) -> Plan:
        """Turn a solution into a plan, exactly: decisions are rounded, times are recomputed."""
        ...

    def encode(
        self, problem: PlanningProblem, options: Any, model: Any, plan: Plan
    ) -> Values | None:
        """Turn a valid plan into a complete start for ``model``, or ``None`` if it cannot be."""
        ...


__all__ = ["Card", "CompiledModel", "Formulation", "Guide", "Neighbourhood", "Scale", "Values"]
