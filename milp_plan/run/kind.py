"""The interface of a kind of problem: all that runs, studies and commands know about it.

It lies here and not in ``core``: it names readers, bounds, strategies and pictures, which lie
above. A kind is a folder of :mod:`milp_plan.kinds` whose module ``kind`` defines ``KIND``; it
imports what is heavy inside methods, since each kind is loaded to find out which one reads a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from milp_plan.core import Counts, Units, UnsupportedProblemError, Verdict
from milp_plan.core.amounts import DASH, size_text, time_text
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.core.quantity import decimal, units_of

from .change import Change
from .settings import WHY_UNUSED

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


TIMED = "times computed anew: options, places and orders are those of the plan"


class Restart(NamedTuple):
    """A plan that may do as a start, and what was done to it, in a sentence."""

    plan: Any
    said: str


@dataclass(frozen=True)
class Measure:
    """What the numbers of an objective count.

    Parameters
    ----------
    objective
        Its name.
    units
        Of the problem; a plain word for what is neither time nor size.
    what
        Which of the units: ``"time"`` or ``"size"``.
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
        """Ticks, or what is counted as bytes, per unit; 1 for costs."""
        if isinstance(self.units, str):
            return 1
        return self.units.size_scale if self.what == "size" else self.units.time_scale

    @property
    def grain(self) -> str:
        """What an exact value is a number of: ``"ticks"``, ``"bytes"``, or the plain word."""
        if isinstance(self.units, str):
            return self.units
        return "bytes" if self.what == "size" else "ticks"

    def amount(self, ticks: int | None) -> Fraction | None:
        """Return an amount in units, exactly; ``None`` for none."""
        return None if ticks is None else Fraction(ticks, self.per_unit)

    def decimal(self, ticks: Fraction | int | None) -> str | None:
        """Write an amount in units, exactly where it ends within 30 digits; ``None`` for none."""
        return None if ticks is None else decimal(Fraction(ticks) / self.per_unit)

    def text(self, ticks: Fraction | int | None) -> str:
        """Write an amount for people, with its unit."""
        if isinstance(self.units, str):
            return DASH if ticks is None else f"{ticks:,}"
        write = size_text if self.what == "size" else time_text
        return write(self.units, ticks)


@dataclass(frozen=True)
class Format(Generic[P]):
    """A file format of problems.

    Parameters
    ----------
    name, title
        Short name for command lines, and what it is in a few words.
    can_read
        Whether a document is of this format, from its content.
    read
        Returns the problem as the changes want it, by their names; raises ``InputError``.
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
    """A format that a plan is written in for other programs.

    Parameters
    ----------
    title
        What it is in a few words.
    is_one
        Whether a document is of this format.
    write
        Returns the text, from problem, plan and the instance file; raises ``InputError``.
    needs_valid
        Why only a plan that keeps every law will do; empty where any will.
    remarks
        Says what the format cannot hold and the user has to see to, a sentence each.
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
        Short name, and what is planned in a few words.
    marker
        Member ``format`` of its native files: a file that has it is of no other kind, which then
        need not be loaded.
    plan_marker
        The same of its plans; ``None`` where :meth:`is_plan` looks at something else.
    handles
        Module and name of the class of its problems, ``"milp_plan.core.problem:PlanningProblem"``.
    plans
        The same of the class of its plans.
    changes
        What may be asked of an instance as it is read.
    threads
        Where nobody says how many.
    sizes, things
        First words of the components of verdicts that are sizes, and of those that count things;
        the others are times.
    partial
        Whether a plan need not name all that the problem has.
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
        """Names of :class:`~.settings.Settings` that none of its ways uses; they are refused."""
        used = frozenset[str]().union(*(strategy.uses for strategy in self.strategies()))
        if "formulation" in used:
            used |= {"solver"}
        return tuple(name for name in WHY_UNUSED if name not in used)

    @property
    def loops(self) -> tuple[LoopPart, ...]:
        """Compiled loops that nearly every run needs: compiled while a file is read."""
        return ()

    @property
    def threads(self) -> int:
        """Threads of a run that nobody says a number for."""
        return 1

    def owns(self, item: object) -> bool:
        """Whether something is a problem of this kind."""
        return any(f"{c.__module__}:{c.__qualname__}" == self.handles for c in type(item).__mro__)

    def answers(self, item: object) -> bool:
        """Whether something is a plan of this kind."""
        return any(f"{c.__module__}:{c.__qualname__}" == self.plans for c in type(item).__mro__)

    # -- files -------------------------------------------------------------------------------------

    @abstractmethod
    def formats(self) -> tuple[Format[P], ...]:
        """Formats of its problems, in the order they are tried."""

    @abstractmethod
    def read_plan(self, file: Path, problem: P, instance_file: Path) -> S:
        """Read a plan of a problem that was read from the instance file.

        Raises
        ------
        InputError
            The file is no plan file, or its plan is for another instance.
        """

    def is_plan(self, document: Document) -> bool:
        """Whether a document looks like a plan's file: by its marker, unless a kind knows more."""
        return self.plan_marker is not None and document.marker == self.plan_marker

    def other_content(self, _document: Document) -> str | None:
        """Say what a document of this kind holds that is neither problem nor plan.

        Returns
        -------
        str or None
            The words of :class:`milp_plan.cli.outputs.Content`; ``None`` for any other document.
        """
        return None

    @abstractmethod
    def plan_text(self, plan: S) -> bytes:
        """Text of a plan's file."""

    def exports(self) -> Mapping[str, Export[P, S]]:
        """Formats that plans are written in for other programs, by name."""
        return {}

    # -- what a problem and its plans are ----------------------------------------------------------

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
        """What values and bounds of a problem count."""

    @abstractmethod
    def scope(self, problem: P) -> Scope:
        """What a plan decides, what is fixed, and what is not offered.

        Asked through :func:`milp_plan.run.scope.scope_of`, which adds what the file says.
        """

    @abstractmethod
    def about(self, problem: P) -> dict[str, Any]:
        """Return sizes, law and limits of a problem as plain data, for records and tables.

        The first of it is a number: how many parts the problem has, by their name.
        """

    def facts(self, problem: P) -> dict[str, Any]:
        """More of it, for ``info`` alone."""
        return {}

    def rows(self, problem: P) -> list[list[str]]:
        """:meth:`about` for people: label and text of each line."""
        return [[name.replace("_", " "), str(told)] for name, told in self.about(problem).items()]

    def figures(self, problem: P, value: int | None, bound: int | None) -> dict[str, float | None]:
        """Value and bound as people of the field quote them, by name; members of answers."""
        return {}

    def explain(self, problem: P, plan: S, verdict: Verdict) -> str:
        """Explain a valid plan's value, or list violations with amounts, in words."""
        if not verdict.ok:
            units = units_of(problem)
            return "\n".join(violation.text(units) for violation in verdict.violations)
        parts = sorted(verdict.components.items(), key=lambda part: -part[1])
        return "\n".join(
            f"{name}: {self.component_text(problem, name, amount)}" for name, amount in parts
        )

    def counts(self, problem: P, component: str) -> Counts:
        """Return what a component of a verdict counts."""
        word = component.split(" ", maxsplit=1)[0]
        if word in self.sizes:
            return Counts.SIZE
        untimed = isinstance(self.measure(problem).units, str)
        return Counts.THINGS if untimed or word in self.things else Counts.TIME

    def component_text(self, problem: P, component: str, amount: Fraction | int | None) -> str:
        """Write a component of a verdict for people, with its unit."""
        if amount is None:
            return DASH
        return self.counts(problem, component).text(amount, units_of(problem))

    def details(self, problem: P, plan: S, verdict: Verdict) -> dict[str, Any]:
        """Plain data beside :meth:`explain`."""
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
        of: Any = problem
        value = self.measure(problem).text(self.verify(problem, plan).value)
        planner = getattr(plan, "planner", "")
        objective = self.measure(problem).objective.replace("_", " ")
        return f"{of.name}: {objective} {value}" + (f", planned by {planner}" if planner else "")

    def panels(self, problem: P, plan: S) -> Sequence[Panel]:
        """Return what pictures and reports draw of a plan, valid or not.

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
        """Heads and rows of the tables that a run's summary prints beside its facts."""
        yield from ()

    def story(self, problem: P, plan: S, verdict: Verdict) -> list[list[str]]:
        """Table of a plan for people, headings first; empty where there is nothing to add."""
        return []

    @abstractmethod
    def plan_rows(self, problem: P | None, plan: S) -> Iterator[dict[str, Any]]:
        """Rows of a plan as a table, with the same columns each: what it decides, in order.

        Times are ticks and sizes are bytes. Without the problem, columns that only it knows are
        left out.
        """

    # -- why, and what if --------------------------------------------------------------------------

    @abstractmethod
    def reasons(self) -> Reasons[P, S]:
        """Its parts and limits, and why a plan's value is what it is."""

    def models(self) -> list[dict[str, Any]]:
        """Models that problems of this kind are made of by name, for ``milp-plan list models``."""
        return []

    # -- plans from elsewhere ----------------------------------------------------------------------

    def named(self, problem: P) -> Sequence[str] | None:
        """Names of what a plan has to decide; ``None`` where plans name nothing."""
        return self.reasons().parts(problem)

    def named_by(self, plan: S) -> Sequence[str] | None:
        """The names of these that a plan has; ``None`` where it has none."""
        return None

    def restarts(self, problem: P, plan: S) -> Iterator[Restart]:
        """Plans of the problem that decide what a plan from elsewhere does, the nearest first.

        The plan names what the problem has. What is given may be invalid: the checker looks.
        """
        of: Any = problem
        old: Any = self.reasons().carried(plan)
        yield Restart(replace(old, problem=of.name), "its value is computed anew")

    # -- planning ----------------------------------------------------------------------------------

    def unplaced(self, problem: P) -> str | None:
        """Return which part nothing can run; called before any strategy."""
        return None

    @abstractmethod
    def obstacle(self, problem: P, budget: Budget) -> str | None:
        """Return a proof in words that no plan exists; ``None`` when none was found."""

    @abstractmethod
    def bounds(self, problem: P, budget: Budget, incumbent: int | None) -> Iterator[Bound]:
        """Lower bounds on the objective, simple ones first."""

    @abstractmethod
    def strategies(self) -> Sequence[type[Strategy[P, S]]]:
        """Strategies for its problems; the first that applies is taken."""

    def strategies_for(self, problem: P) -> Sequence[type[Strategy[P, S]]]:
        """Return :meth:`ways`, but some that do not apply to a problem: those are not loaded."""
        return self.strategies()

    def search_round(self, ledger: Ledger[P, S], *, construct: bool) -> None:
        """Search from the ledger's plan within its budget: what a worker of a cluster does.

        Raises
        ------
        UnsupportedProblemError
            No problem of this kind is searched on a cluster.
        """
        raise UnsupportedProblemError(f"no {self.name!r} problem is searched on a cluster")

    def heuristics(self) -> Mapping[str, Callable[[P, int], S | None]]:
        """Planners that run alone: name to a function of problem and seed."""
        return {}
