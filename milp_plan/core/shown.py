"""Text, notebook, table and picture views of problems, plans and outcomes.

Views depend on the kind of problem, which this layer does not know. The module that makes them is
registered as :attr:`Shown.presenter`, and is loaded when something is shown for the first time.
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
    """A plan; views are more detailed if its problem is known."""

    __slots__ = ()

    def to_frame(self, problem: Any = None) -> pandas.DataFrame:
        """Return a table with a row for each decision of the plan.

        Parameters
        ----------
        problem
            The plan's problem; known if :func:`milp_plan.solve` made the plan or
            :func:`milp_plan.read_plan` read it. Without it, columns that need it are left out.
        """
        problem = problem_of(self) if problem is None else problem
        frame: pandas.DataFrame = Shown.presenter().frame(problem, self)
        return frame

    def draw(self, path: str | Path | None = None, *, problem: Any = None) -> Any:
        """Return its picture (``matplotlib.figure.Figure``); write it if a path is given.

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
    """Store a plan's problem with the plan; it is not one of its fields."""
    if plan is not None:
        object.__setattr__(plan, "_problem", problem)
    return plan


def problem_of(plan: Any) -> Any:
    """Return the problem stored with a plan, or ``None``."""
    return getattr(plan, "_problem", None)
