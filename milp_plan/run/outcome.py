"""The result of a run, the same for every kind of problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from milp_plan.backends import Stop
from milp_plan.core import MissingFacetError, Verdict
from milp_plan.core.bound import Bound
from milp_plan.core.shown import Shown

from .kind import Kind, Measure
from .scope import CUT, Scope

if TYPE_CHECKING:
    import pandas

    from milp_plan.lp import CompiledModel

P = TypeVar("P")
S = TypeVar("S")


@dataclass(frozen=True, repr=False)
class Outcome(Shown, Generic[P, S]):
    """The result of a run.

    Values and bounds are exact ticks, bytes or costs; ``value_in_unit`` and ``bound_in_unit`` are
    the same in :attr:`unit`, as floats.

    Parameters
    ----------
    kind, problem
        The problem and its kind.
    plan, verdict
        The plan, and the checker's verdict on it; ``None`` without a plan.
    value, bound, bound_name, gap
        Recomputed objective; best proven bound on the problem and its name; the gap between them
        (:mod:`milp_plan.core.gap`).
    stop
        Why the run stopped, which says nothing about the plan.
    proved
        Whether value and bound are equal: no plan is better.
    disputed_reason
        Why the checker disputes a solver's claim; empty if it does not.
    infeasible_reason
        A proof in words that no plan exists.
    unproved_reason
        Why the formulation's answers prove nothing; empty if they do, or if it was not solved.
    baselines
        Value of each heuristic, ``None`` where it found no plan.
    bounds
        Every bound that was the best at some time.
    defects
        Failures during the run, in words.
    planner
        Name of the plan's planner.
    seconds
        Time of the run.
    scope
        What was decided, what was fixed, and what was not offered; value, bound and proof hold
        for this scope.
    record
        All of this and more, as plain data.
    disputed_model
        The model whose answer the checker disputes, if there is one.
    """

    kind: Kind[P, S]
    problem: P
    plan: S | None
    verdict: Verdict | None
    value: int | None
    bound: int | None
    bound_name: str | None
    gap: float | None
    stop: Stop
    proved: bool
    disputed_reason: str
    infeasible_reason: str | None
    unproved_reason: str
    baselines: Mapping[str, int | None]
    bounds: tuple[Bound, ...]
    defects: tuple[str, ...]
    planner: str
    seconds: float
    scope: Scope
    record: dict[str, Any] = field(repr=False)
    disputed_model: CompiledModel | None = field(default=None, repr=False)

    @property
    def disputed(self) -> bool:
        """Whether the checker disputes a solver's claim."""
        return bool(self.disputed_reason)

    @property
    def measure(self) -> Measure:
        """Name and unit of the objective."""
        return self.kind.measure(self.problem)

    @property
    def unit(self) -> str:
        """Display unit: ``"ns"``, ``"s"``, ``"bytes"``, ``"cost"``, ..."""
        return self.measure.unit

    @property
    def value_in_unit(self) -> float | None:
        """The value in the display unit; ``None`` without a plan."""
        return None if self.value is None else self.value / self.measure.per_unit

    @property
    def bound_in_unit(self) -> float | None:
        """The bound in the display unit; ``None`` without one."""
        return None if self.bound is None else self.bound / self.measure.per_unit

    def within(self, scope: Scope) -> Outcome[P, S]:
        """Return the outcome with another scope, also in its record."""
        return replace(self, scope=scope, record={**self.record, "scope": str(scope)})

    def __repr__(self) -> str:
        return f"<Outcome {headline(self)}>"

    def to_frame(self) -> pandas.DataFrame:
        """Return the plan as a table, with a row for each decision.

        Raises
        ------
        MissingFacetError
            There is no plan.
        """
        return self._known_plan().to_frame(self.problem)  # type: ignore[no-any-return]

    def draw(self, path: str | Path | None = None) -> Any:
        """Return the plan's picture (``matplotlib.figure.Figure``); write it if a path is given.

        Raises
        ------
        MissingFacetError
            There is no plan.
        BackendUnavailableError
            matplotlib is not installed.
        """
        return self._known_plan().draw(path, problem=self.problem)

    def _known_plan(self) -> Any:
        if self.plan is None:
            raise MissingFacetError(headline(self))
        return self.plan


def headline(outcome: Outcome[Any, Any]) -> str:
    """Return the result in one line."""
    name, measure = outcome.problem.name, outcome.measure
    if outcome.value is None:
        if outcome.infeasible_reason is not None:
            return f"{name}: no plan {_narrowed(outcome)}: {outcome.infeasible_reason}"
        return f"{name}: no plan found"
    return f"{name}: {measure.objective} {measure.text(outcome.value)}{proof(outcome)}"


def _narrowed(outcome: Outcome[Any, Any]) -> str:
    """Return the end of "no plan ...": it does not exist at all, or not with the given cut."""
    cut = getattr(outcome.problem, "provenance", {}).get(CUT)
    return "exists" if cut is None or "cuts" in outcome.record else f"with the cut {cut}"


def proof(outcome: Outcome[Any, Any]) -> str:
    """Return a comma and how good the plan is proved to be; empty where nothing is proved."""
    if outcome.proved:
        return ", proved optimal"
    if outcome.stop is Stop.PROVED:
        return f", optimal within {100 * outcome.record['gap_asked']:g} %"
    return ""
