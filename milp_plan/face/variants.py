"""Comparisons of two plans, and sweeps of one problem over many limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from milp_plan.core import Finding, InputError
from milp_plan.core.budget import LARGEST_SETTING
from milp_plan.core.shown import Shown, problem_of, remember
from milp_plan.run import Outcome, Settings, kind_of
from milp_plan.run.change import steps
from milp_plan.run.comparison import Comparison, Side, compare
from milp_plan.run.settings import ProgressHook
from milp_plan.run.solving import refuse_unused
from milp_plan.study.store import Store
from milp_plan.study.variants import MOST_DEVICES, Axis, Point, Sweep, axes_of

from .given import a_display, a_folder, a_plan, a_problem
from .progress import chosen, to_stderr
from .quantities import count, number, quoted, refuse, seconds, share

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Variants(Shown):
    """A sweep of a problem over many limits; its representation is a table.

    Parameters
    ----------
    problem
        The original problem.
    points
        Each variant with its ``settings``, ``problem``, ``value`` and ``bound``, and in ``found``
        its plan, verdict and why the search stopped; ``found`` is ``None`` for one that was not
        planned.
    front
        Points with a plan that no other beats with at most as much of everything.
    interrupted
        Whether Ctrl-C ended it.
    """

    problem: Any
    points: tuple[Point, ...]
    front: tuple[Point, ...]
    interrupted: bool
    sweep: Sweep

    def __repr__(self) -> str:
        return f"<Variants of {self.problem.name}: {len(self.points)}, {len(self.front)} on front>"

    def to_frame(self) -> pandas.DataFrame:
        """Return a table with a row for each variant; values and bounds are exact."""
        import pandas

        rows = [
            {
                **{name: float(step) for name, step in point.settings.items()},
                "value": point.value,
                "bound": point.bound,
                "proved": point.found is not None and point.found.proved,
                "stop": None if point.found is None else str(point.found.stop),
                "infeasible_because": None
                if point.found is None
                else point.found.infeasible_reason,
                "front": point in self.front,
            }
            for point in self.points
        ]
        frame = pandas.DataFrame.from_records(rows)
        for name in ("value", "bound"):  # what is not known stays None, and large ones exact
            frame[name] = pandas.Series([row[name] for row in rows], dtype=object)
        return frame

    def draw(self, path: str | Path | None = None) -> Any:
        """Return the picture of values against limits; write it if a path is given.

        Raises
        ------
        BackendUnavailableError
            matplotlib is not installed.
        """
        from milp_plan.draw.canvas import write_figure
        from milp_plan.report.variants import sweep_figure

        figure = sweep_figure(self.sweep)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def diff(before: Any, after: Any, *, problem: Any = None, variant: Any = None) -> Comparison:
    """Compare two plans of a problem, or of variants of it.

    Parameters
    ----------
    before, after
        Outcomes of :func:`milp_plan.solve`, or plans.
    problem
        The problem of the plans; outcomes know it, and plans that were planned or read here.
    variant
        The problem of the second plan, if it is another one.

    Returns
    -------
    Comparison
        With ``change`` of the value, ``moves`` (what is treated differently, and what that costs)
        and ``components``; it shows itself, and ``draw()`` draws both pictures next to each other.

    Raises
    ------
    InputError
        They are not plans of one kind of problem with the same parts and the same objective, or a
        plan's problem is not known.

    Examples
    --------
    >>> import milp_plan as mp
    >>> outcome = mp.solve(mp.read("instances/gang-beats-single.json"), time_limit=20)
    >>> moved = mp.explain(outcome, what_if="move:m1=d0").effects[0].result
    >>> found = mp.diff(outcome, moved.plan, problem=outcome.problem)
    >>> found.change
    55
    >>> print(found)  # doctest: +ELLIPSIS
    gang-beats-single: makespan 110 ns -> 165 ns: worse by 55 ns
    ...
    """
    first = _side("before", before, problem)
    return compare(first, _side("after", after, problem if variant is None else variant))


def _side(name: str, given: Any, problem: Any) -> Side:
    """Return a plan with its problem and a verdict on it."""
    bound = given.bound if isinstance(given, Outcome) else None
    plan = given.plan if isinstance(given, Outcome) else given
    if problem is None:
        owner = given if isinstance(given, Outcome) else a_plan(None, plan, f"diff, {name}")
        problem = owner.problem if isinstance(owner, Outcome) else problem_of(owner)
    if plan is None:
        refuse(f"diff, {name}", "no plan", "an outcome with a plan, or a plan", "plan it first")
    if problem is None:
        found = "a plan that does not know its problem"
        refuse(f"diff, {name}", found, "its problem", "say diff(..., problem=...)")
    problem = a_problem(problem, "diff, problem")
    plan = a_plan(problem, plan, f"diff, {name}")
    return Side(problem, plan, kind_of(problem).verify(problem, plan), bound)


def sweep(
    problem: Any,
    *,
    memory: Any = (),
    devices: Any = (),
    bandwidth: Any = (),
    time_limit: Any = 60.0,
    store: str | Path | None = None,
    display: bool | Literal["auto"] = "auto",
    seed: int = 0,
    threads: int | None = None,
    gap: float = 0.0,
) -> Variants:
    """Plan a problem with other memory, devices and bandwidth.

    Each variant starts from the plans of its neighbours, and never ends with a worse plan than a
    neighbour's that is valid for it. Ctrl-C keeps what is there.

    Parameters
    ----------
    problem
        A problem of any kind; a :class:`milp_plan.Model` is built first.
    memory, bandwidth
        Factors on what there is: a number, several, or a text as on the command line,
        ``"0.5:1.2:0.1"`` or ``"0.5,1,2"``.
    devices
        Numbers of devices.
    time_limit
        Seconds for each variant, or a text such as ``"5min"``.
    store
        Folder of answers: what is there is not planned again.
    display
        Whether to show progress, as for :func:`milp_plan.solve`.
    seed, threads, gap
        As in :func:`milp_plan.solve`.

    Raises
    ------
    InputError
        A factor or a number is none; or nothing is varied.
    UnsupportedProblemError
        The problem knows nothing of what is varied.

    Examples
    --------
    >>> import milp_plan as mp
    >>> problem = mp.read("instances/gang-beats-single.json")
    >>> found = mp.sweep(problem, devices=[1, 2, 3], time_limit=20)
    >>> [point.value for point in found.points]
    [200, 110, 110]
    >>> [int(point.settings["devices"]) for point in found.front]
    [1, 2]
    """
    problem = a_problem(problem, "sweep, problem")
    display = a_display(display, "sweep, display")
    folder = a_folder(store, "sweep, store")
    settings = Settings(
        time_limit_s=seconds(time_limit, "sweep, time_limit"),
        gap=share(gap, "sweep, gap"),
        seed=count(seed, "sweep, seed", 0, LARGEST_SETTING),
        threads=None if threads is None else count(threads, "sweep, threads", 1, LARGEST_SETTING),
    )
    axes = _axes(memory, devices, bandwidth)
    refuse_unused(kind_of(problem), problem, settings)
    done = Sweep(problem, axes, settings, None if folder is None else Store(folder))

    def show(point: Point, _number: int) -> AbstractContextManager[ProgressHook]:
        return chosen(point.problem, display, to_stderr)

    done.run(show)
    for point in done.points:
        if point.found is not None:
            remember(point.found.plan, point.problem)
    return Variants(problem, tuple(done.points), tuple(done.front()), done.interrupted, done)


def _axes(memory: Any, devices: Any, bandwidth: Any) -> tuple[Axis, ...]:
    axes = axes_of(
        _steps(memory, "memory"), _steps(devices, "devices"), _steps(bandwidth, "bandwidth")
    )
    if not axes:
        refuse("sweep", "nothing to vary", "memory, devices or bandwidth", "name one of them")
    broken = [step for axis in axes if axis.name == "devices" for step in axis.steps]
    if wrong := [step for step in broken if step.denominator != 1]:
        refuse("sweep, devices", str(float(wrong[0])), "whole numbers")
    if beyond := [step for step in broken if step > MOST_DEVICES]:
        refuse("sweep, devices", str(beyond[0]), f"at most {MOST_DEVICES:,} devices", "name fewer")
    return axes


def _steps(given: Any, name: str) -> list[Fraction]:
    """Return factors or numbers, exactly."""
    where, expected = f"sweep, {name}", 'numbers above 0, or a text such as "0.5:1.2:0.1"'
    if isinstance(given, str):
        try:
            return steps(given)
        except ValueError as error:
            raise InputError([Finding(where, quoted(given), expected, str(error))]) from None
    plain = isinstance(given, Iterable) and not isinstance(given, bytes | Mapping)
    listed = given if plain else [given]
    values = [number(entry, where, expected) for entry in listed if given is not None]
    if 0 in values:
        refuse(where, "0", expected)
    return values
