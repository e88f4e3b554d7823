"""Explains plans: reasons for a value, effects of changes, or why there is no plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from milp_plan.core import Verdict
from milp_plan.core.shown import Shown
from milp_plan.run import Outcome, Settings, kind_of
from milp_plan.run.conflict import Infeasibility, why_infeasible
from milp_plan.run.outcome import headline
from milp_plan.run.reasons.base import Why
from milp_plan.run.reasons.words import effect_lines, infeasibility_lines, why_lines
from milp_plan.run.scope import scope_of
from milp_plan.run.what_if import Effect, ask, questions

from .given import a_display, a_plan, a_problem, texts
from .progress import chosen, to_stderr
from .quantities import seconds
from .verbs import solve


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """An explanation of a plan; its representation is lines of text.

    Parameters
    ----------
    problem, plan, verdict
        The problem, its plan and verdict; ``None`` without a plan.
    why
        Critical chain, usage, limits and blocks; ``None`` without a valid plan.
    effects
        Answers to the questions, each from planning again.
    infeasibility
        A smallest conflicting set and what would be enough, where it is proved that no plan exists.
    lines
        The explanation as lines of text.
    """

    problem: Any
    plan: Any
    verdict: Verdict | None
    why: Why | None
    effects: tuple[Effect, ...]
    infeasibility: Infeasibility | None
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Explanation of {self.problem.name}: {len(self.lines)} lines>"


def explain(
    problem: Any,
    plan: Any = None,
    *,
    what_if: Iterable[str] = (),
    time_limit: Any = 10.0,
    display: bool | Literal["auto"] = "auto",
) -> Explanation:
    """Explain a plan's value, its violations, or why there is no plan.

    Parameters
    ----------
    problem
        What the plan is for; or an outcome, which has both. Without a plan the problem is planned
        first.
    plan
        A plan of any origin, valid or not.
    what_if
        Questions as on the command line, each planned again from this plan: ``"memory+1GiB"``,
        ``"devices+1"``, ``"link"``, ``"move:b=gpu1"``, or ``"usual"``.
    time_limit
        Seconds for each question, for a plan where there is none, and for what is at odds.
    display
        Whether to show progress, as for :func:`milp_plan.solve`.

    Raises
    ------
    InputError, UnsupportedProblemError
        A question is none, or means nothing for the problem.

    Examples
    --------
    >>> import milp_plan as mp
    >>> outcome = mp.solve(mp.read("instances/gang-beats-single.json"), time_limit=20)
    >>> explanation = mp.explain(outcome, what_if=["move:m1=d0"])
    >>> [(link.name, link.stop) for link in explanation.why.chain]
    [('m1', 55), ('m2', 110)]
    >>> explanation.effects[0].change > 0
    True
    """
    limit = seconds(time_limit, "explain, time_limit")
    if isinstance(problem, Outcome):
        outcome: Outcome[Any, Any] | None = problem
    else:
        problem = a_problem(problem, "explain, problem")
        outcome = None
        if plan is None:
            outcome = solve(problem, time_limit=limit, display=display)
    if outcome is not None:
        problem, plan = outcome.problem, outcome.plan if plan is None else plan
    changes = texts(what_if, "explain, what_if")
    display = a_display(display, "explain, display")
    if plan is None:
        assert outcome is not None
        return _without_plan(outcome, limit)
    plan = a_plan(problem, plan, "explain, plan")
    verdict = kind_of(problem).verify(problem, plan)
    lines = kind_of(problem).explain(problem, plan, verdict).splitlines()
    lines.append(f"scope: {scope_of(problem)}")
    if not verdict.ok:
        return Explanation(problem, plan, verdict, None, (), None, tuple(lines))
    why = kind_of(problem).reasons().why(problem, plan, verdict)
    lines += why_lines(problem, why, chain=not any("critical chain" in line for line in lines))
    effects = []
    for question in questions(problem, changes, why) if changes else ():
        with chosen(question.problem, display, to_stderr) as show:
            settings = Settings(time_limit_s=limit)
            effects.append(ask(question, plan, verdict.value, settings, show))
    lines += effect_lines(problem, effects, verdict.value)
    return Explanation(problem, plan, verdict, why, tuple(effects), None, tuple(lines))


def _without_plan(outcome: Outcome[Any, Any], limit: float) -> Explanation:
    """Return the explanation of an infeasible problem, as far as that is proved."""
    problem, because = outcome.problem, outcome.infeasible_reason
    conflict, lines = None, [headline(outcome), f"scope: {outcome.scope}"]
    if because is not None:
        conflict = why_infeasible(problem, because, limit)
        lines += infeasibility_lines(problem, conflict)
    return Explanation(problem, None, None, None, (), conflict, tuple(lines))
