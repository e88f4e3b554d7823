"""The checker of serving plans: every rule of ``docs/laws.md``, from the deployment alone."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Counts, Verdict, Violation

from .costs import Figures, ServingCosts
from .problem import Objective, ServingPlan, ServingProblem


def verify(problem: ServingProblem, plan: ServingPlan, costs: ServingCosts) -> Verdict:
    """Check a plan against every law and recompute its value; never raises.

    Returns
    -------
    Verdict
        Value: as of :class:`.costs.Figures`; ``None`` if the deployment cannot run. Components:
        times of the first and each further token, and the memory of each pipeline stage.
    """
    name, deployment = str(problem.objective), plan.deployment
    broken = list(misattributed(problem, plan))
    reason = problem.why_not(deployment)
    if reason is not None:
        return Verdict((*broken, Violation("degrees", (), reason)), name, None)
    figures, peaks = costs.figures(deployment), costs.memory(deployment)
    for stage, use in enumerate(peaks):
        limit = problem.limit_bytes(deployment, stage)
        if use.total > limit:
            text = f"a device of pipeline stage {stage} needs more memory than it has"
            subjects = (f"stage {stage}",)
            broken.append(Violation("memory", subjects, text, use.total, limit, Counts.SIZE))
    broken += late(problem, figures)
    broken += overclaimed(problem, plan, figures.value, f"a {name} value", _counts(problem))
    parts = {"first_token": figures.first_token_ns or 0, "token": figures.token_ns or 0}
    parts |= {f"peak_memory stage {stage}": use.total for stage, use in enumerate(peaks)}
    return Verdict(tuple(broken), name, figures.value, parts)


def late(problem: ServingProblem, figures: Figures) -> Iterator[Violation]:
    """Yield the limits on times that are broken."""
    for what, limit, time in (
        ("the first token", problem.first_token_ns, figures.first_token_ns),
        ("a further token", problem.token_ns, figures.token_ns),
    ):
        if limit is not None and time is not None and time > limit:
            text = f"{what} takes longer than its limit"
            yield Violation("time", (what,), text, time, limit, Counts.TIME)


def _counts(problem: ServingProblem) -> Counts:
    return Counts.TIME if problem.objective is Objective.LATENCY else Counts.THINGS
