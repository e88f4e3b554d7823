"""The interface of a kind of problem: everything that runs, studies and commands use of it.

It is here and not in ``core`` because it refers to readers, bounds, strategies and pictures, which
are layers above ``core``. A kind is a folder of :mod:`milp_plan.kinds` whose module ``kind``
defines ``KIND``. That module imports heavy modules inside methods, since every kind is loaded to
find out which one reads a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from milp_plan.core import Counts, Units, UnsupportedProblemError, Verdict
from milp_plan.core.amounts import DASH, json_number, size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.quantity import decimal, units_of

from .change import Change
from .settings import UNUSED_REASONS

if TYPE_CHECKING:
    from milp_plan.draw.panels import Panel
    from milp_plan.io.files import Document

    from .ledger import Ledger
    from .loop_parts import LoopPart
    from .reasons.base import Reasons
    from .scope import Scope
    from .strategy import Strategy

P = TypeVar("P")
S = TypeVar("S")


TIMED = "times recomputed: options, places and orders are those of the plan"


class Restart(NamedTuple):
    """A plan that may serve as a start, and what was changed in it, in a sentence."""

    plan: Any
    note: str


@dataclass(frozen=True)
class Measure:
    """Name and unit of an objective.

    Parameters
    ----------
    objective
        Name of the objective.
    units
        Units of the problem; a plain word for an objective that is neither time nor size.
    what
        Which of the units it has: ``"time"`` or ``"size"``.
    """

    objective: str
    units: Units | str
    what: Literal["time", "size"] = "time"

    @property
    def unit(self) -> str:
        """Display unit: ``"ns"``, ``"s"``, ``"bytes"``, ``"unspecified"``, ``"cost"``."""
        if isinstance(self.units, str):
            return self.units
        return self.units.size if self.what == "size" else self.units.time

    @property
    def per_unit(self) -> int:
        """Ticks or bytes per unit; 1 for costs."""
        if isinstance(self.units, str):
            return 1
        return self.units.size_scale if self.what == "size" else self.units.time_scale

    @property
    def grain(self) -> str:
        """Unit of exact values: ``"ticks"``, ``"bytes"``, or the plain word."""
        if isinstance(self.units, str):
            return self.units
        return "bytes" if self.what == "size" else "ticks"

    def amount(self, ticks: int | None) -> Fraction | None:
        """Return an amount in display units, exactly; ``None`` for ``None``."""
        return None if ticks is None else Fraction(ticks, self.per_unit)

    def decimal(self, ticks: Fraction | int | None) -> str | None:
        """Return an amount in display units as text, exactly where it ends within 30 digits.

        ``None`` for ``None``.
        """
        return None if ticks is None else decimal(Fraction(ticks) / self.per_unit)

    def text(self, ticks: Fraction | int | None) -> str:
        """Return an amount as text with its unit."""
        if isinstance(self.units, str):
            return DASH if ticks is None else f"{json_number(ticks):,}"
        write = size_text if self.what == "size" else time_text
        return write(self.units, ticks)


@dataclass(frozen=True)
class Format(Generic[P]):
    """A file format of problems.

    Parameters
    ----------
    name, title
        Short name for command lines, and a title of a few words.
    can_read
        Returns whether a document is of this format, from its content.
    read
        Returns the problem with changes by their names; raises ``InputError``.
    write
        Returns the text of a problem; ``None`` for formats that are only read.
    """

    name: str
    title: str
    can_read: Callable[[Document], bool]
    read: Callable[[Document, Mapping[str, Any]], P]
    write: Callable[[P], bytes] | None = None


@dataclass(frozen=True)
class Export(Generic[P, S]):
    """A format in which plans are written for other programs.

    Parameters
    ----------
    title
        Title of a few words.
    is_one
        Returns whether a document is of this format.
    write
        Returns the text, from problem, plan and the instance file; raises ``InputError``.
    needs_valid
        Why only valid plans can be written; empty where any plan can.
    remarks
        Returns sentences on what the format cannot express and users have to do themselves.
    """

    title: str
    is_one: Callable[[Document], bool]
    write: Callable[[P, S, Path], bytes]
    needs_valid: str = ""
    remarks: Callable[[P, S], Iterable[str]] | None = None


class Kind(ABC, Generic[P, S]):
    """A kind of problem ``P`` with plans ``S``.

    Attributes
    ----------
    name, title
        Short name, and a title of a few words.
    marker
        Member ``format`` of its native files. A file with this marker belongs to this kind, so
        other kinds need not be loaded.
    plan_marker
        Marker of its plan files; ``None`` where :meth:`is_plan` recognises them otherwise.
    handles
        Module and name of the class of its problems, ``"milp_plan.core.problem:PlanningProblem"``.
    plans
        Module and name of the class of its plans.
    changes
        Options that change a problem as it is read.
    threads
        Default number of threads of a run.
    sizes, things
        First words of the components of verdicts that are sizes, and of those that are counts;
        the others are times.
    partial
        Whether a plan may leave out parts of the problem.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    marker: ClassVar[str | None] = None
    plan_marker: ClassVar[str | None] = None
    handles: ClassVar[str]
    plans: ClassVar[str]
    changes: ClassVar[tuple[Change, ...]] = ()
    sizes: ClassVar[tuple[str, ...]] = ("peak_memory",)
    things: ClassVar[tuple[str, ...]] = ()
    partial: ClassVar[bool] = False

    @property
    def ignores(self) -> tuple[str, ...]:
        """Names of :class:`~.settings.Settings` that no strategy uses; they are refused."""
        used = frozenset[str]().union(*(strategy.uses for strategy in self.strategies()))
        if "formulation" in used:
            used |= {"solver"}
        return tuple(name for name in UNUSED_REASONS if name not in used)

    @property
    def loops(self) -> tuple[LoopPart, ...]:
        """Compiled loops that nearly every run needs; they are compiled while a file is read."""
        return ()

    @property
    def threads(self) -> int:
        """Default number of threads of a run."""
        return 1

    def owns(self, item: object) -> bool:
        """Whether an object is a problem of this kind."""
        return any(f"{c.__module__}:{c.__qualname__}" == self.handles for c in type(item).__mro__)

    def owns_plan(self, item: object) -> bool:
        """Whether an object is a plan of this kind."""
        return any(f"{c.__module__}:{c.__qualname__}" == self.plans for c in type(item).__mro__)

    # -- files -------------------------------------------------------------------------------------

    @abstractmethod
    def formats(self) -> tuple[Format[P], ...]:
        """Return the formats of its problems, in the order in which they are tried."""

    @abstractmethod
    def read_plan(self, file: Path, problem: P, instance_file: Path) -> S:
        """Read a plan of a problem that was read from the instance file.

        Raises
        ------
        InputError
            The file is no plan file, or its plan is for another instance.
        """

    def is_plan(self, document: Document) -> bool:
        """Whether a document looks like a plan file; by default, whether it has the marker."""
        return self.plan_marker is not None and document.marker == self.plan_marker

    def other_content(self, _document: Document) -> str | None:
        """Return what a document of this kind contains that is neither problem nor plan.

        Returns
        -------
        str or None
            A value of :class:`milp_plan.cli.outputs.Content`; ``None`` for any other document.
        """
        return None

    @abstractmethod
    def plan_text(self, plan: S) -> bytes:
        """Return the text of a plan's file."""

    def exports(self) -> Mapping[str, Export[P, S]]:
        """Return the formats in which plans are written for other programs, by name."""
        return {}

    # -- problems and plans ------------------------------------------------------------------------

    @abstractmethod
    def verify(self, problem: P, plan: S) -> Verdict:
        """Check a plan against every law and recompute its value; never raises."""

    def claimed(self, problem: P, plan: S, value: int, planner: str) -> S:
        """Return the plan with its value, its planner, and what it repeats of its problem."""
        of: Any = problem
        old: Any = plan
        names = (name for name in ("fingerprint", "parent", "limits") if hasattr(old, name))
        repeated = {name: getattr(of, name) for name in names}
        made: S = replace(old, **repeated, problem=of.name, value=value, planner=planner)
        return made

    @abstractmethod
    def measure(self, problem: P) -> Measure:
        """Return name and unit of a problem's objective."""

    @abstractmethod
    def scope(self, problem: P) -> Scope:
        """Return what a plan decides, what is fixed, and what is not offered.

        Called by :func:`milp_plan.run.scope.scope_of`, which adds what the file says.
        """

    @abstractmethod
    def summary(self, problem: P) -> dict[str, Any]:
        """Return sizes, law and limits of a problem as plain data, for records and tables.

        The first entry is the number of parts, under their name.
        """

    def info(self, problem: P) -> dict[str, Any]:
        """Return further plain data on a problem, shown by ``info`` only."""
        return {}

    def rows(self, problem: P) -> list[list[str]]:
        """Return :meth:`summary` as rows of label and text."""
        data = self.summary(problem)
        return [[name.replace("_", " "), str(entry)] for name, entry in data.items()]

    def figures(self, problem: P, value: int | None, bound: int | None) -> dict[str, float | None]:
        """Return value and bound in customary units of the field, by name; members of answers."""
        return {}

    def explain(self, problem: P, plan: S, verdict: Verdict) -> str:
        """Return in words why a valid plan has its value, or the violations of an invalid one."""
        if not verdict.ok:
            units = units_of(problem)
            return "\n".join(violation.text(units) for violation in verdict.violations)
        parts = sorted(verdict.components.items(), key=lambda part: -part[1])
        return "\n".join(
            f"{name}: {self.component_text(problem, name, amount)}" for name, amount in parts
        )

    def counts(self, problem: P, component: str) -> Counts:
        """Return whether a component of a verdict counts time, sizes or things."""
        word = component.split(" ", maxsplit=1)[0]
        if word in self.sizes:
            return Counts.SIZE
        untimed = isinstance(self.measure(problem).units, str)
        return Counts.THINGS if untimed or word in self.things else Counts.TIME

    def component_text(self, problem: P, component: str, amount: Fraction | int | None) -> str:
        """Return a component of a verdict as text with its unit."""
        if amount is None:
            return DASH
        return self.counts(problem, component).text(amount, units_of(problem))

    def explain_data(self, problem: P, plan: S, verdict: Verdict) -> dict[str, Any]:
        """Return plain data that goes with :meth:`explain`."""
        return {"violations": [asdict(violation) for violation in verdict.violations]}

    def draw(self, problem: P, plan: S) -> Any:
        """Return a figure of a plan, valid or not (``matplotlib.figure.Figure``).

        Raises
        ------
        UnsupportedProblemError
            There is no picture of this kind.
        MissingFacetError, InputError
            As :meth:`panels`.
        """
        from milp_plan.draw.figures import panels_figure

        return panels_figure([(self.headline(problem, plan), self.panels(problem, plan))])

    def headline(self, problem: P, plan: S) -> str:
        """Return the title of a plan's picture: problem, value and planner."""
        item: Any = problem
        value = self.measure(problem).text(self.verify(problem, plan).value)
        planner = getattr(plan, "planner", "")
        objective = self.measure(problem).objective.replace("_", " ")
        return f"{item.name}: {objective} {value}" + (f", planned by {planner}" if planner else "")

    def panels(self, problem: P, plan: S) -> Sequence[Panel]:
        """Return the panels of a plan, valid or not, for pictures and reports.

        Raises
        ------
        UnsupportedProblemError
            There is no picture of this kind.
        MissingFacetError, InputError
            The plan cannot be drawn: it is incomplete, or names what the problem does not have.
        """
        raise UnsupportedProblemError(f"plans of the kind {self.name!r} have no picture")

    def record_tables(
        self, _record: Mapping[str, Any], _measure: Measure
    ) -> Iterator[tuple[Sequence[str], list[list[str]]]]:
        """Yield headings and rows of further tables of a run's summary."""
        yield from ()

    def plan_summary_table(self, problem: P, plan: S, verdict: Verdict) -> list[list[str]]:
        """Return a table that summarises a plan, headings first; empty where none is useful."""
        return []

    @abstractmethod
    def plan_rows(self, problem: P | None, plan: S) -> Iterator[dict[str, Any]]:
        """Yield the plan's decisions, in order, as rows with the same columns.

        Times are ticks and sizes are bytes. Without the problem, columns that need it are left
        out.
        """

    # -- why, and what if --------------------------------------------------------------------------

    @abstractmethod
    def reasons(self) -> Reasons[P, S]:
        """Return the interface to parts and limits, and to the reasons for a plan's value."""

    def models(self) -> list[dict[str, Any]]:
        """Models that problems of this kind are made of by name, for ``milp-plan list models``."""
        return []

    # -- plans from elsewhere ----------------------------------------------------------------------

    def part_names(self, problem: P) -> Sequence[str] | None:
        """Return the names of the parts that a plan decides; ``None`` where plans name none."""
        return self.reasons().parts(problem)

    def names_in_plan(self, plan: S) -> Sequence[str] | None:
        """Return the names of the parts in a plan; ``None`` where plans name none."""
        return None

    def restarts(self, problem: P, plan: S) -> Iterator[Restart]:
        """Yield plans of the problem with the decisions of a foreign plan, the nearest first.

        All names of the foreign plan exist in the problem. The plans may be invalid; the caller
        checks them.
        """
        item: Any = problem
        old: Any = self.reasons().carried(plan)
        yield Restart(replace(old, problem=item.name), "its value is recomputed")

    # -- planning ----------------------------------------------------------------------------------

    def unplaced(self, problem: P) -> str | None:
        """Return which part no device can run; ``None`` if every part can run somewhere.

        Called before any strategy.
        """
        return None

    @abstractmethod
    def obstacle(self, problem: P, budget: Budget) -> str | None:
        """Return a proof in words that no plan exists; ``None`` if none was found."""

    @abstractmethod
    def bounds(self, problem: P, budget: Budget, incumbent: int | None) -> Iterator[Bound]:
        """Yield lower bounds on the objective, simple ones first."""

    @abstractmethod
    def strategies(self) -> Sequence[type[Strategy[P, S]]]:
        """Return the strategies for its problems; the first that applies is used."""

    def strategies_for(self, problem: P) -> Sequence[type[Strategy[P, S]]]:
        """Return :meth:`strategies`, without loading some that do not apply to a problem."""
        return self.strategies()

    def search_round(self, ledger: Ledger[P, S], *, construct: bool) -> None:
        """Search from the ledger's plan within its budget; called by a worker of a Dask cluster.

        Raises
        ------
        UnsupportedProblemError
            Problems of this kind are not searched on a cluster.
        """
        raise UnsupportedProblemError(f"no {self.name!r} problem is searched on a cluster")

    def heuristics(self) -> Mapping[str, Callable[[P, int], S | None]]:
        """Return planners that can run alone: names and functions of problem and seed."""
        return {}
