"""Reasons, effects and conflicts as lines of text with units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from milp_plan.core import Counts, Units
from milp_plan.core.amounts import DASH
from milp_plan.core.quantity import units_of

from ..comparison import Amount, Comparison
from ..conflict import Conflict, Infeasibility, Relaxation
from ..kind import Measure
from ..kinds import kind_of
from ..what_if import Effect
from .base import Block, Link, Move, Usage, Why

MAX_LISTED = 12
"""Maximum number of names, links and rows that are listed."""

MAX_EQUAL_LIMITS = 3
"""Maximum number of equal limits that are listed; more of them are summarised."""

COSTS = ("operator", "edge")
"""Usages that are terms of a sum, as in sharding, and not busy times."""

_CAUSES = {
    "value": "needs the output of {}",
    "device": "its device is busy with {}",
    "channel": "its channel is busy with {}",
    "memory": "waits for memory",
    "release": "is not released earlier",
    "unknown": "waits for no known reason",
    "start": "starts at once",
}


def some(names: Sequence[str]) -> str:
    """Return the first names as a list in words, with the number of the others."""
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def why_lines(problem: Any, why: Why, *, chain: bool = True) -> Iterator[str]:
    """Yield lines on the reasons for a plan's value.

    Parameters
    ----------
    problem, why
        The problem and the reasons.
    chain
        Whether to list the critical chain.
    """
    units = units_of(problem)
    if why.usage:
        busiest = why.usage[0]
        works = busiest.counts is Counts.TIME and busiest.what not in COSTS
        word = "busiest" if works else "largest"
        yield f"{word}: {_usage(units, busiest)}"
        rest = why.usage[1:MAX_LISTED]
        if rest:
            yield f"  then: {'; '.join(_usage(units, entry) for entry in rest[:4])}"
    if chain and why.chain:
        yield from _chain(units, why.chain)
    yield from _blocks(units, why.blocks)
    if why.limits:
        yield "limits"
        for entry in why.limits[:MAX_LISTED]:
            yield f"  {_usage(units, entry)}"
        if len(why.limits) > MAX_LISTED:
            yield f"  and {len(why.limits) - MAX_LISTED:,} that are less full"
    yield _binding(why)
    if why.remedies:
        measure = kind_of(problem).measure(problem)
        yield "what would make it better, and by how much at most"
        for remedy in why.remedies:
            most = "" if remedy.at_most is None else f"{measure.text(remedy.at_most)}: "
            yield f"  {most}{remedy.text}"


def _binding(why: Why) -> str:
    if why.binding:
        return f"binding: {some(why.binding)}"
    if why.limits:
        return "binding: no limit is used up; --what-if shows whether one excludes better plans"
    return "binding: no limit is set"


def _usage(units: Units, entry: Usage) -> str:
    amount = entry.counts.text(entry.amount, units)
    if entry.whole is None:
        return f"{entry.name} {amount}"
    whole = entry.counts.text(entry.whole, units)
    share = "" if entry.share is None else f" ({100 * entry.share:.0f} %)"
    return f"{entry.name} {amount} of {whole}{share}"


def _chain(units: Units, links: Sequence[Link]) -> Iterator[str]:
    count = len(links)
    cut = f", the last {MAX_LISTED}" if count > MAX_LISTED else ""
    yield f"critical chain: {count} task{'' if count == 1 else 's'}{cut}"
    for link in links[-MAX_LISTED:]:
        times = " to ".join(Counts.TIME.text(ticks, units) for ticks in (link.start, link.stop))
        place = f" on {'+'.join(link.resources)}" if link.resources else ""
        waited = f" after {Counts.TIME.text(link.waited, units)}" if link.waited else ""
        cause = _CAUSES[link.cause].format(link.behind)
        yield f"  {times}: {link.name}{place}: {cause}{waited}"


def _blocks(units: Units, blocks: Sequence[Block]) -> Iterator[str]:
    for sort in dict.fromkeys(block.sort for block in blocks):
        rows = [block for block in blocks if block.sort == sort]
        rows.sort(key=lambda block: -(block.on_chain or 0))
        rows.sort(key=lambda block: -(block.on_chain or block.amount))
        yield f"by {sort}"
        for block in rows[:MAX_LISTED]:
            amount = block.counts.text(block.amount, units)
            chain = ""
            if block.on_chain:
                chain = f", {block.counts.text(block.on_chain, units)} of it on the critical chain"
            parts = f"{block.parts:,} part{'' if block.parts == 1 else 's'}"
            yield f"  {block.name}: {parts}, {amount}{chain}: {some(block.places)}"
        if len(rows) > MAX_LISTED:
            yield f"  and {len(rows) - MAX_LISTED:,} more"


def effect_lines(problem: Any, effects: Iterable[Effect], before: int | None) -> Iterator[str]:
    """Yield lines on the effects of changes."""
    effects = tuple(effects)
    if effects:
        measure = kind_of(problem).measure(problem)
        yield f"what if (the plan as it is: {measure.text(before)})"
    for effect in effects:
        yield f"  {effect.question.text}: {_effect(effect)}"


def _effect(effect: Effect) -> str:
    result, change, measure = effect.result, effect.change, effect.measure
    if result.infeasible_reason is not None:
        return f"no plan exists: {result.infeasible_reason}"
    if result.value is None:
        return f"no plan found in {result.seconds:.1f} s"
    proof = ", proved optimal" if result.proved else f", bound {measure.text(result.bound)}"
    value = f"{measure.text(result.value)}{proof}"
    if change is None:
        return value
    if change < 0:
        return f"{value}: better by {effect.original_measure.text(-change)}"
    if change > 0 and not effect.question.is_relaxation:
        return f"{value}: worse by {effect.original_measure.text(change)}"
    if result.proved:
        return f"{value}: no better"
    return f"{value}: no better plan found in {result.seconds:.1f} s"


def infeasibility_lines(problem: Any, infeasibility: Infeasibility) -> Iterator[str]:
    """Yield lines on the conflicting set and the relaxations of an infeasible problem."""
    units = units_of(problem)
    if infeasibility.conflict is not None:
        yield from _conflict(units, infeasibility.conflict)
    measure = kind_of(problem).measure(problem)
    for least in sorted(infeasibility.relaxations, key=lambda entry: entry.percent):
        yield from _relaxation(units, measure, least)
    if infeasibility.helpless:
        names = ", ".join(infeasibility.helpless)
        yield f"with more of one of these alone no plan was found: {names}"


def _conflict(units: Units, conflict: Conflict) -> Iterator[str]:
    word = "a smallest conflicting set" if conflict.smallest else "a conflicting set"
    alike: dict[tuple[str, int | None, Counts], list[str]] = {}
    for entry in conflict.limits:
        alike.setdefault((entry.what, entry.amount, entry.counts), []).append(entry.name)
    limits = []
    for (what, amount, counts), names in alike.items():
        text = counts.text(amount or 0, units)
        if len(names) > MAX_EQUAL_LIMITS:
            limits.append(f"{what} {text} on each of {len(names)} ({names[0]}, ..., {names[-1]})")
        else:
            limits += [f"{name} {text}" for name in names]
    if conflict.parts:
        yield f"{word}: {conflict.noun} {some(conflict.parts)}"
    if limits:
        head = "  with" if conflict.parts else f"{word}:"
        yield f"{head} {some(limits)}"
    yield f"  proof: {conflict.because}"
    if conflict.smallest:
        yield "  without any one of these a checked plan of the rest exists"
    else:
        yield f"  not known whether these can be left out: {some(conflict.open)}"


def _relaxation(units: Units, measure: Measure, least: Relaxation) -> Iterator[str]:
    alike = {(entry.amount, entry.enough, entry.counts) for entry in least.raised}
    if len(alike) == 1:
        ((amount, enough, counts),) = alike
        each = " each" if len(least.raised) > 1 else ""
        text = f"{counts.text(enough, units)}{each} instead of {counts.text(amount, units)}"
    else:
        text = f"{least.percent / 100:g} times as much on each"
    yield f"enough: {least.what} {text}; a checked plan of {measure.text(least.value)} exists then"
    if least.least:
        yield f"  with {least.percent - 1} % of what there is it is proved that none does"
    else:
        below = f"with {least.proved_below} % of what there is it is proved that none does"
        yield f"  {below}; between that and {least.percent} % no plan was found in the time"


def difference_lines(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield lines on violations of two plans, and on parts that they treat differently.

    Parameters
    ----------
    comparison
        The comparison of the plans.
    names
        Names of the two plans.
    """
    sides = (comparison.before, comparison.after)
    for side, name in zip(sides, names, strict=True):
        if not side.verdict.ok:
            broken = side.verdict.violations
            yield f"  {name}: not valid, {len(broken)} violations, the first: {broken[0].message}"
    problem = comparison.before.problem
    yield from move_lines(problem, comparison.moves, kind_of(problem).reasons().noun)
    if all(side.verdict.ok for side in sides) and not comparison.moves:
        yield "nothing is treated differently"


def component_rows(comparison: Comparison) -> list[list[str]]:
    """Return rows of verdict components that differ: name, before, after, change."""
    problem = comparison.before.problem
    kind = kind_of(problem)

    def text(name: str, amount: Amount) -> str:
        return kind.component_text(problem, name, amount)

    return [
        [name, text(name, one), text(name, two), _change(problem, name, one, two)]
        for name, (one, two) in comparison.components.items()
    ]


def _change(problem: Any, name: str, one: Amount, two: Amount) -> str:
    if one is None or two is None:
        return DASH
    sign = "-" if two < one else ""
    return sign + kind_of(problem).component_text(problem, name, max(two - one, one - two))


def move_lines(problem: Any, moves: Sequence[Move], noun: str) -> Iterator[str]:
    """Yield lines on the parts that two plans treat differently."""
    units = units_of(problem)
    for move in moves:
        costs = [
            f"{name} {'+' if ticks >= 0 else '-'}{move.counts.text(abs(ticks), units)}"
            for name, ticks in move.cost.items()
            if ticks
        ]
        suffix = f" ({', '.join(costs)})" if costs else ""
        count = len(move.parts)
        yield f"{move.what}: {move.before} -> {move.after}: {count:,} {noun}{suffix}"
        yield f"  {some(move.parts)}"
