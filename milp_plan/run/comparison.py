"""Two plans of one problem, or of variants of it: what differs, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from milp_plan.core import Counts, Finding, InputError, Units, Verdict
from milp_plan.core.amounts import time_text
from milp_plan.core.quantity import units_of
from milp_plan.core.shown import Shown

from .kinds import AnyKind, kind_of
from .reasons.base import Move

Amount = Fraction | int | None
"""As the first problem counts."""

LIMITS = ("memory", "host", "time", "capacity", "devices")
"""Rules that a plan for more than there is breaks, though every part of it makes sense."""


@dataclass(frozen=True)
class Side:
    """A plan with its problem and what the checker says of it.

    Parameters
    ----------
    problem, plan, verdict
        Of any kind; the verdict is about this plan and this problem.
    bound
        What no plan of the problem can beat, if that is known.
    """

    problem: Any
    plan: Any
    verdict: Verdict
    bound: int | None = None


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What differs between two plans; shows itself as lines of text.

    Parameters
    ----------
    before, after
        The plans.
    change
        Value of the second less that of the first, as the first problem counts; ``None`` where one
        has no value.
    moves
        What is treated differently, in groups; empty where nothing is.
    components
        Parts of the recomputation that differ: what they were, and what they are.
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
        """Return both pictures beside each other, on one scale; write them where a path is given.

        Raises
        ------
        UnsupportedProblemError
            There is no picture of this kind of problem.
        BackendUnavailableError
            matplotlib is not installed.
        """
        from milp_plan.draw import write_figure
        from milp_plan.draw.beside import beside

        kind = kind_of(self.before.problem)
        sides = (self.before, self.after)
        figure = beside([partial(kind.draw, side.problem, side.plan) for side in sides], titles)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def compare(before: Side, after: Side) -> Comparison:
    """Say what differs between two plans; of one that makes no sense only values and components.

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
    """Return what one problem counts as bytes per count of another whose ticks are the same.

    Raises
    ------
    InputError
        Their ticks are not, or nothing is known of their bytes.
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
    """Whether a plan is whole: at most it needs more of something than there is."""
    return verdict.value is not None and all(v.rule in LIMITS for v in verdict.violations)


def _unlike(found: str, expected: str) -> Finding:
    remedy = "name plans of one problem, or of variants of it"
    return Finding("instances", found, expected, remedy)


def difference_line(found: Comparison) -> str:
    """Say in one line what two plans are worth."""
    problem = found.before.problem
    measure = kind_of(problem).measure(problem)
    values = [measure.text(side.verdict.value) for side in (found.before, found.after)]
    if found.change is None:
        told = "a plan has no value"
    elif found.change == 0:
        told = "equal"
    else:
        word = "better" if found.change < 0 else "worse"
        told = f"{word} by {measure.text(max(found.change, -found.change))}"
    return f"{problem.name}: {measure.objective} {values[0]} -> {values[1]}: {told}"
