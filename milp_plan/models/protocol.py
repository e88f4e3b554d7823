"""What a formulation is: a card, the problems it handles, typed options, and six methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar, runtime_checkable

from milp_plan.core import Plan
from milp_plan.lp import CompiledModel, Values

B = TypeVar("B")
P_contra = TypeVar("P_contra", contravariant=True)
S = TypeVar("S")


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
        Whether its optimum is the problem's optimum, unless an option says otherwise
        (:meth:`Formulation.restricts`); a relaxation or restriction says ``False``.
    neighbourhoods
        Whether it can search near a plan (:class:`Neighbourhood`).
    memory_saving
        Whether operators may run again and values may wait on hosts.
    surrogate
        Whether the model minimises something else than the problem's objective: then values are
        not compared, and bounds prove nothing.
    relaxes
        Whether the model leaves out rules, and no plan: its bounds hold, but its plans may break a
        law or be worse than the solver says. It is not exact. Its formulation may have a method
        ``refined(problem, options, guide, plan)``: of a plan that breaks a law it returns the guide
        of the next question, with ``lazy`` constraints that the plan breaks, or ``None``.
    """

    name: str
    title: str
    source: str
    objectives: tuple[StrEnum, ...]
    exact: bool
    neighbourhoods: bool = False
    memory_saving: bool = False
    surrogate: bool = False
    relaxes: bool = False


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
        ``False`` leaves out constraints about memory over time: the caller checks each plan itself.
    lazy
        Constraints to write beside those that the formulation always writes, in its own words;
        ``None`` for none. See :attr:`Card.relaxes`.
    """

    cutoff: int | None = None
    bound: int | None = None
    neighbourhood: Neighbourhood | None = None
    memory: bool = True
    lazy: Any = None
    _made: dict[Any, tuple[Any, Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def keep(self, make: Callable[[Any, Any, Guide], B], problem: Any, options: Any) -> B:
        """Return ``make(problem, options, self)``, which is made once per guide.

        So building, scale and decoding of one question share what the first of them has made, and
        it goes when the question does.
        """
        stored = self._made.get((make, options))
        if stored is None or stored[0] is not problem:
            stored = self._made[make, options] = (problem, make(problem, options, self))
        made: B = stored[1]
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Guide, (self.cutoff, self.bound, self.neighbourhood, self.memory, self.lazy)


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
class Formulation(Protocol[P_contra, S]):
    """One mixed-integer formulation of problems of a type P, whose plans have a type S.

    ``handles`` is the class of problems it is for, as in :mod:`milp_plan.core`. ``Options`` is a
    frozen dataclass: each option typed, with a default, and its one-line help in
    ``field(metadata={"help": ..., "least": 0})``; ``least`` may be left out.
    """

    card: Card
    handles: type
    Options: type

    def restricts(self, options: Any) -> bool:
        """Whether the model may leave out plans that are better than all others.

        Then neither its bounds nor that it has no solution prove anything about the problem.
        """
        ...

    def unsupported(self, problem: P_contra, options: Any) -> str | None:
        """Return a reason in words why this problem is not for this formulation, or ``None``."""
        ...

    def build(
        self, problem: P_contra, options: Any, guide: Guide
    ) -> Any:  # ConcreteModel or CompiledModel
        """Write the model; :meth:`scale` says what its objective counts."""
        ...

    def scale(self, problem: P_contra, options: Any, guide: Guide) -> Scale:
        """Say how the model's objective translates into ticks or bytes."""
        ...

    def decode(self, problem: P_contra, options: Any, guide: Guide, values: Values) -> S | None:
        """Turn a solution into a plan, exactly: decisions are rounded, times are recomputed.

        ``None`` where a solution stands for no plan, but for all that the model leaves out.
        """
        ...

    def encode(self, problem: P_contra, options: Any, model: Any, plan: S) -> Values | None:
        """Turn a valid plan into a complete start for ``model``, or ``None`` if it cannot be.

        ``FormulationError`` says why it cannot: the run goes on without a start and says so.
        """
        ...


__all__ = ["Card", "CompiledModel", "Formulation", "Guide", "Neighbourhood", "Scale", "Values"]
