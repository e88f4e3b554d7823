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
    """The result of a run. Why it stopped and which plan there is are two answers.

    Values and bounds are exact ticks, bytes or costs; ``value_in_unit`` and ``bound_in_unit`` are
    the same in :attr:`unit`, as floats.

    Parameters
    ----------
    kind, problem
        What was planned.
    plan, verdict
        The plan is checked on this problem; ``None`` when there is none.
    value, bound, bound_name, gap
        Recomputed objective; best proven bound on the problem and its proof's name; what lies
        between them (:mod:`milp_plan.core.gap`).
    stop
        Why the run stopped.
    proved
        Value and bound are equal: no plan is better.
    disputed_because
        Why the checker disagrees with a solver's claim; empty if it does not.
    infeasible_because
        A proof in words that no plan exists.
    unproved_because
        Why what the formulation says proves nothing; empty if it does, or was not asked.
    baselines
        Value of each heuristic, ``None`` where it found no plan.
    bounds
        Every bound that was the best once.
    defects
        Failures during the run, in words.
    planner
        Who made the plan.
    scope
        What was decided, what was fixed, and what was not offered: what value, bound and proof
        are about.
    record
        Everything above and more, as plain data.
    disputed_model
        What was solved where the checker disagrees with a solver's claim about a model.
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
    disputed_because: str
    infeasible_because: str | None
    unproved_because: str
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
        """Whether the checker disagrees with a solver's claim."""
        return bool(self.disputed_because)

    @property
    def measure(self) -> Measure:
        """What value and bound count."""
        return self.kind.measure(self.problem)

    @property
    def unit(self) -> str:
        """Unit of the figures for people: ``"ns"``, ``"s"``, ``"bytes"``, ``"cost"``, ..."""
        return self.measure.unit

    @property
    def value_in_unit(self) -> float | None:
        """The value in units; ``None`` without a plan."""
        return None if self.value is None else self.value / self.measure.per_unit

    @property
    def bound_in_unit(self) -> float | None:
        """The bound in units; ``None`` without one."""
        return None if self.bound is None else self.bound / self.measure.per_unit

    def within(self, scope: Scope) -> Outcome[P, S]:
        """Return the outcome as an answer of another scope, in its record too."""
        return replace(self, scope=scope, record={**self.record, "scope": str(scope)})

    def __repr__(self) -> str:
        return f"<Outcome {headline(self)}>"

    def to_frame(self) -> pandas.DataFrame:
        """Return the plan as a table, a row for everything it decides.

        Raises
        ------
        MissingFacetError
            There is no plan.
        """
        return self._known_plan().to_frame(self.problem)  # type: ignore[no-any-return]

    def draw(self, path: str | Path | None = None) -> Any:
        """Return the plan's picture (``matplotlib.figure.Figure``); write it where a path is given.

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
    """Write what was found in a line."""
    name, measure = outcome.problem.name, outcome.measure
    if outcome.value is None:
        if outcome.infeasible_because is not None:
            return f"{name}: no plan {_narrowed(outcome)}: {outcome.infeasible_because}"
        return f"{name}: no plan found"
    return f"{name}: {measure.objective} {measure.text(outcome.value)}{proof(outcome)}"


def _narrowed(outcome: Outcome[Any, Any]) -> str:
    """Say what has no plan: nothing at all, or the cut of a pipeline that was given."""
    cut = getattr(outcome.problem, "provenance", {}).get(CUT)
    return "exists" if cut is None or "cuts" in outcome.record else f"with the cut {cut}"


def proof(outcome: Outcome[Any, Any]) -> str:
    """Say how good a plan is known to be, after a comma; nothing where that is not known."""
    if outcome.proved:
        return ", proved optimal"
    if outcome.stop is Stop.PROVED:
        return f", optimal within {100 * outcome.record['gap_asked']:g} %"
    return ""
