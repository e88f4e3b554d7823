"""``explain``: reasons for a plan's value, effects of changes, or why there is no plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from milp_plan.core import Verdict
from milp_plan.io import answer_wire as wire
from milp_plan.io import reason_wire
from milp_plan.run.scope import scope_of

from . import interrupts
from .answers import answer_each, code_of_outcome, head, say_scope, verdict_members, whole
from .check import verified
from .inputs import PATH, Item, varied
from .limits import SECONDS, refuse_idle
from .output import display, say

if TYPE_CHECKING:
    from milp_plan.run import Outcome
    from milp_plan.run.conflict import Infeasibility
    from milp_plan.run.reasons.base import Why
    from milp_plan.run.what_if import Effect

REASONS_S = 10.0
"""Maximum seconds for conflicting sets and relaxations in ``solve``."""


@click.command()
@click.argument("file", type=PATH)
@click.argument("plan_file", metavar="[PLAN]", type=PATH, required=False)
@varied
@click.option(
    "--what-if",
    "asked",
    multiple=True,
    metavar="QUESTION",
    help="Plan again with one thing changed, from this plan: memory+1GiB, memory-512MiB, "
    "devices+1, link (one more next to the busiest), link:NAME, move:PART=PLACE; or usual, for the "
    "first of these. Repeatable.",
)
@click.option(
    "--move",
    "moves",
    multiple=True,
    metavar="PART=PLACE",
    help="What it costs to have an operator on a device (with a strategy, by a sender): the same "
    "as --what-if move:PART=PLACE. Repeatable.",
)
@click.option(
    "--time-limit",
    type=SECONDS,
    default=10.0,
    show_default=True,
    help="Seconds for each question, and for a plan where none is named.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    *,
    file: Path,
    plan_file: Path | None,
    changes: dict[str, Any],
    asked: tuple[str, ...],
    moves: tuple[str, ...],
    time_limit: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say what determines the value of a valid plan, or what breaks and by how much.

    Without PLAN, FILE is planned first. Where no plan exists, the answer names the operators and
    limits that conflict, and what would be enough.

    Exits with 7 when a rule is broken, with 4 when it is proved that no plan exists.
    """
    if plan_file is not None and not (asked or moves):
        refuse_idle({"time_limit": "nothing is planned; ask --what-if or --move, or leave it out"})
    request = _Request((*asked, *(f"move:{text}" for text in moves)), time_limit, quiet)

    def work(item: Item, text: bool) -> wire.Explain:
        if plan_file is not None:
            plan, verdict = verified(item, plan_file)
            return _explained(item, plan, verdict, request, text=text, plan_file=str(plan_file))
        return _planned(item, request, text=text)

    ctx.exit(answer_each((file,), changes, wire.Explain, work, as_json=as_json))


@dataclass(frozen=True)
class _Request:
    """Questions about a plan, and the time limit of each answer."""

    texts: tuple[str, ...]
    time_limit: float
    quiet: bool


def _planned(item: Item, request: _Request, *, text: bool) -> wire.Explain:
    """Plan a problem, and explain its plan, or why it has none."""
    from milp_plan.run import Settings, solve
    from milp_plan.run.outcome import headline

    with display(item.problem, quiet=request.quiet) as show:
        settings = Settings(time_limit_s=request.time_limit)
        outcome = solve(item.problem, settings, show, began=item.began)
    if text:
        say(headline(outcome))
        if outcome.plan is None:
            say_scope(outcome.scope)
    if outcome.plan is not None and outcome.verdict is not None:
        bound = outcome.bound
        return _explained(item, outcome.plan, outcome.verdict, request, text=text, bound=bound)
    conflict, stopped = infeasibility(outcome, request.time_limit)
    if text:
        say_infeasibility(outcome.problem, conflict)
    return wire.Explain(
        **head(item),
        exit_code=int(interrupts.code() if stopped else code_of_outcome(outcome)),
        infeasible_because=outcome.infeasible_reason,
        infeasibility=infeasibility_wire(conflict),
    )


def _explained(
    item: Item, plan: Any, verdict: Verdict, request: _Request, *, text: bool, **members: Any
) -> wire.Explain:
    """Explain a plan, and answer questions about it."""
    from milp_plan.run.reasons.words import effect_lines, why_lines

    kind, problem = item.kind, item.problem
    assert kind is not None
    words = kind.explain(problem, plan, verdict)
    answer = head(item) | verdict_members(item, verdict) | members
    answer |= {"explanation": words, "details": kind.explain_data(problem, plan, verdict)}
    if text:
        say(words)
        say_scope(scope_of(problem))
    if not verdict.ok:
        return wire.Explain(**answer)
    why = kind.reasons().why(problem, plan, verdict)
    if text:
        for line in why_lines(problem, why, chain="critical chain" not in words):
            say(line)
    effects, stopped = _asked(item, plan, verdict, why, request)
    if text:
        for line in effect_lines(problem, effects, verdict.value):
            say(line)
    if stopped:
        answer["exit_code"] = int(interrupts.code())
    what_if = [_effect_wire(effect) for effect in effects]
    return wire.Explain(**answer, why=to_wire(why, reason_wire.Why), what_if=what_if)


def _asked(
    item: Item, plan: Any, verdict: Verdict, why: Why, request: _Request
) -> tuple[list[Effect], bool]:
    """Return the answers to questions, and whether an interruption left some out."""
    from milp_plan.backends import Stop
    from milp_plan.run import Settings
    from milp_plan.run.what_if import ask, questions

    effects = []
    for question in questions(item.problem, request.texts, why) if request.texts else ():
        with display(question.problem, quiet=request.quiet) as show:
            settings = Settings(time_limit_s=request.time_limit)
            effect = ask(question, plan, verdict.value, settings, show)
        effects.append(effect)
        if effect.result.stop is Stop.INTERRUPTED:
            return effects, True
    return effects, False


def _effect_wire(effect: Effect) -> reason_wire.Effect:
    found, measure, change = effect.result, effect.measure, effect.change
    return reason_wire.Effect(
        question=effect.question.text,
        value=found.value,
        value_in_unit=measure.decimal(found.value),
        bound=found.bound,
        bound_in_unit=measure.decimal(found.bound),
        change=whole(change),
        change_in_unit=effect.original_measure.decimal(change),
        ticks_per_unit=measure.per_unit,
        proved=found.proved,
        stop=str(found.stop),
        infeasible_because=found.infeasible_reason,
        seconds=round(found.seconds, 3),
    )


def to_wire(item: Any, kind: type[Any]) -> Any:
    """Return data of a run as its wire type: the same members."""
    return msgspec.convert(item, kind, from_attributes=True, strict=True)


def infeasibility(
    outcome: Outcome[Any, Any], time_limit_s: float
) -> tuple[Infeasibility | None, bool]:
    """Return the explanation of an infeasible problem, and whether Ctrl-C ended the search."""
    from milp_plan.run.conflict import why_infeasible

    because = outcome.infeasible_reason
    if because is None or outcome.plan is not None or time_limit_s <= 0:
        return None, False
    try:
        return why_infeasible(outcome.problem, because, time_limit_s), False
    except KeyboardInterrupt:  # the proof itself stands
        return None, True


def infeasibility_wire(conflict: Infeasibility | None) -> reason_wire.Infeasibility | None:
    """Return the explanation of an infeasible problem as its wire type."""
    explanation: reason_wire.Infeasibility | None
    explanation = None if conflict is None else to_wire(conflict, reason_wire.Infeasibility)
    return explanation


def say_infeasibility(problem: Any, conflict: Infeasibility | None) -> None:
    """Write the explanation of an infeasible problem."""
    if conflict is not None:
        from milp_plan.run.reasons.words import infeasibility_lines

        for line in infeasibility_lines(problem, conflict):
            say(f"  {line}")
