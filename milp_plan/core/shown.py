"""Text, notebook, table and picture views of problems, plans and outcomes.

How, depends on the kind of problem, which this room does not know. The module that does is
registered as :attr:`Shown.presenter`, and loaded when something is shown and no sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .errors import MissingFacetError

if TYPE_CHECKING:
    import pandas

_Plan = TypeVar("_Plan")


class Shown:
    """An object with a short text, an HTML view and a table.

    Attributes
    ----------
    presenter
        Returns the module that writes texts, tables and pictures of every kind.
    """

    __slots__ = ()

    presenter: ClassVar[Callable[[], Any]]

    def __str__(self) -> str:
        return str(Shown.presenter().text(self))

    def __rich__(self) -> Any:
        return Shown.presenter().table(self)

    def _repr_html_(self) -> str:
        return str(Shown.presenter().html(self))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))


class ShownPlan(Shown):
    """A plan; more can be shown where its problem is known."""

    __slots__ = ()

    def to_frame(self, problem: Any = None) -> pandas.DataFrame:
        """Return a table with a row for everything that the plan decides.

        Parameters
        ----------
        problem
            What it is a plan of; known where :func:`milp_plan.solve` made it or
            :func:`milp_plan.read_plan` read it. Without it, columns are left out that only the
            problem knows.
        """
        problem = problem_of(self) if problem is None else problem
        frame: pandas.DataFrame = Shown.presenter().frame(problem, self)
        return frame

    def draw(self, path: str | Path | None = None, *, problem: Any = None) -> Any:
        """Return its picture (``matplotlib.figure.Figure``); write it where a path is given.

        Raises
        ------
        MissingFacetError
            The problem is neither given nor known.
        BackendUnavailableError
            matplotlib is not installed.
        """
        problem = problem_of(self) if problem is None else problem
        if problem is None:
            raise MissingFacetError(
                "this plan does not know its problem: use plan.draw(problem=...) or "
                "milp_plan.draw(problem, plan)"
            )
        return Shown.presenter().draw(problem, self, path)


def remember(plan: _Plan, problem: Any) -> _Plan:
    """Store a plan's problem with it, beside its fields; it is no part of the plan."""
    if plan is not None:
        object.__setattr__(plan, "_problem", problem)
    return plan


def problem_of(plan: Any) -> Any:
    """Return the problem that a plan knows, or ``None``."""
    return getattr(plan, "_problem", None)
