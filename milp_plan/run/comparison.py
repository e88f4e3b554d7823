"""Compares two plans of one problem, or of variants of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from milp_plan.core import Counts, Finding, InputError, Units, Verdict
from milp_plan.core.amounts import time_text
from milp_plan.core.quantity import units_of
from milp_plan.core.shown import Shown

from .kinds import AnyKind, kind_of
from .reasons.base import Move

_MAX_TITLE_LENGTH = 40
"""Maximum number of characters of a side's title; its end is shown."""

Amount = Fraction | int | None
"""An amount in ticks or bytes of the first problem."""

LIMITS = ("memory", "host", "time", "capacity", "devices")
"""Rules on limits: a plan that only breaks these is complete and can be compared."""


@dataclass(frozen=True)
class Side:
    """A plan with its problem and verdict.

    Parameters
    ----------
    problem, plan, verdict
        Problem and plan of any kind, and the checker's verdict.
    bound
        A lower bound on the problem, if one is known.
    """

    problem: Any
    plan: Any
    verdict: Verdict
    bound: int | None = None


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The differences between two plans; its representation is lines of text.

    Parameters
    ----------
    before, after
        The plans.
    change
        Value of the second minus that of the first, in ticks or bytes of the first problem;
        ``None`` where one has no value.
    moves
        Groups of parts that the plans treat differently; empty where there are none.
    components
        Components of the verdicts that differ, before and after.
    """

    before: Side
    after: Side
    change: Fraction | int | None
    moves: tuple[Move, ...]
    components: dict[str, tuple[Amount, Amount]]

    def __repr__(self) -> str:
        return f"<Comparison {difference_line(self)}>"

    def draw(
        self, path: str | Path | None = None, *, titles: Sequence[str] = ("before", "after")
    ) -> Any:
        """Return both pictures next to each other, on one scale; write them if a path is given.

        Raises
        ------
        UnsupportedProblemError
            There is no picture of this kind of problem.
        BackendUnavailableError
            matplotlib is not installed.
        """
        from milp_plan.draw.canvas import write_figure
        from milp_plan.draw.figures import panels_figure

        kind = kind_of(self.before.problem)
        columns = []
        for side, title in zip((self.before, self.after), titles, strict=True):
            long = len(title) > _MAX_TITLE_LENGTH
            short = f"…{title[-_MAX_TITLE_LENGTH:]}" if long else title
            headline = kind.headline(side.problem, side.plan)
            columns.append((f"{short}\n{headline}", kind.panels(side.problem, side.plan)))
        figure = panels_figure(columns)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def compare(before: Side, after: Side) -> Comparison:
    """Return the differences between two plans; only values and components of incomplete ones.

    Raises
    ------
    InputError
        They are not plans of one kind of problem, with the same parts and the same objective.
    """
    kind, other = kind_of(before.problem), kind_of(after.problem)
    if kind is not other:
        raise InputError([_unlike(f"a {other.name} problem", f"a {kind.name} problem")])
    objectives = [kind.measure(side.problem).objective for side in (before, after)]
    if objectives[0] != objectives[1]:
        expected, found = (f"the objective {objective}" for objective in objectives)
        raise InputError([_unlike(found, expected)])
    ratio = _ratio(kind, before.problem, after.problem)
    reasons = kind.reasons()
    if set(reasons.parts(before.problem)) != set(reasons.parts(after.problem)):
        raise InputError([_unlike(f"other {reasons.noun}", f"the same {reasons.noun}")])
    one, two = before.verdict, after.verdict
    change = None
    if one.value is not None and two.value is not None:
        sized = kind.measure(before.problem).what == "size"
        change = (two.value * ratio if sized else two.value) - one.value
    second = {
        name: amount * ratio if kind.counts(before.problem, name) is Counts.SIZE else amount
        for name, amount in two.components.items()
    }
    names = dict.fromkeys((*one.components, *second))
    pairs = {name: (one.components.get(name), second.get(name)) for name in names}
    moves: tuple[Move, ...] = ()
    if _readable(one) and _readable(two):
        moves = reasons.moves(before.problem, before.plan, after.problem, after.plan)
    return Comparison(
        before,
        after,
        change,
        moves,
        {name: pair for name, pair in pairs.items() if pair[0] != pair[1]},
    )


def _ratio(kind: AnyKind, one: Any, two: Any) -> Fraction | int:
    """Return the ratio of the byte counts of two problems with equal ticks.

    Raises
    ------
    InputError
        Their ticks differ, or their byte counts cannot be converted.
    """
    known, others = units_of(one), units_of(two)
    if isinstance(kind.measure(one).units, Units) and known.ticks_of(others) != 1:
        texts = [f"ticks of {time_text(units, 1)}" for units in (others, known)]
        raise InputError([_unlike(*texts)])
    ratio = known.counts_of(others)
    if ratio is None:
        raise InputError([_unlike(f"sizes in {others.size}", f"sizes in {known.size}")])
    return ratio.numerator if ratio.denominator == 1 else ratio


def _readable(verdict: Verdict) -> bool:
    """Return whether a plan is complete; it may exceed limits."""
    return verdict.value is not None and all(v.rule in LIMITS for v in verdict.violations)


def _unlike(found: str, expected: str) -> Finding:
    remedy = "name plans of one problem, or of variants of it"
    return Finding("instances", found, expected, remedy)


def difference_line(comparison: Comparison) -> str:
    """Return the values of two plans, and their difference, in one line."""
    problem, change = comparison.before.problem, comparison.change
    measure = kind_of(problem).measure(problem)
    values = [measure.text(side.verdict.value) for side in (comparison.before, comparison.after)]
    if change is None:
        text = "a plan has no value"
    elif change == 0:
        text = "equal"
    else:
        word = "better" if change < 0 else "worse"
        text = f"{word} by {measure.text(max(change, -change))}"
    return f"{problem.name}: {measure.objective} {values[0]} -> {values[1]}: {text}"
